"""A judge from ``llm_api_params``, as valor_core takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError

_KEYS = ("client", "api_url", "api_key_env", "retries", "data")
_MODELS = {"openai": "gpt-3.5-turbo", "mistral": "mistral-small-latest"}  # the defaults of valor_core
_MOST_TOKENS = 4096  # of a reply: verdicts with their analyses are long


def retries_of(params: Mapping[str, Any] | None) -> int:
    """Times that a question is put again after a reply that cannot be read; 0 unless given.

    Raises:
        InputError: a key that is not known, or a number that cannot be.
    """
    params = params or {}
    if "api_key" in params:  # its value must not show
        raise InputError(
            "llm_api_params must name the environment variable of the key as 'api_key_env' but holds an 'api_key'"
        )
    for key in params:
        check_choice("llm_api_params", key, _KEYS)
    retries = params.get("retries", 0)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise InputError(f"llm_api_params['retries'] must be an int of at least 0 but got {retries!r}")
    data = params.get("data") or {}
    check_type("llm_api_params['data']", data, Mapping)
    if retries and data.get("seed") is not None:
        raise InputError("llm_api_params must have no retries with a seed: the same reply would come again")
    return retries


def judge_of(params: Mapping[str, Any] | None, judge: Any = None) -> Any:
    """The judge that is given, or the one that ``params`` describe.

    Args:
        params: ``client`` (``openai`` or ``mistral``) or ``api_url`` of a compatible server; ``api_key_env``, the NAME
            of the environment variable with the key; ``retries``; ``data`` with ``model``, ``seed`` and, except for
            mistral, whatever else the request shall have.
        judge: a judge or a callable; ``params`` then hold nothing but ``retries``.

    Raises:
        InputError: none, two, or one that cannot be.

    Example:
        >>> judge_of({"api_url": "http://127.0.0.1:8000/v1", "data": {"model": "qwen"}})
        OpenAIJudge('qwen', base_url='http://127.0.0.1:8000/v1')
    """
    retries_of(params)
    named = {key: value for key, value in (params or {}).items() if key != "retries" and value is not None}
    if judge is not None:
        if named:
            raise InputError(f"judge must be given without {', '.join(named)} in llm_api_params")
        return judge
    if ("client" in named) == ("api_url" in named):
        raise InputError("a judge is needed: give judge=, or llm_api_params with either 'client' or 'api_url'")
    data = dict(named.get("data", {}))
    return _mistral(named, data) if named.get("client") == "mistral" else _openai(named, data)


def _openai(named: Mapping[str, Any], data: dict[str, Any]) -> Any:
    from valor_gpu.judge import OpenAIJudge

    client = named.get("client")
    if client is not None:
        check_choice("llm_api_params['client']", client, tuple(_MODELS))
    model = data.pop("model", _MODELS["openai"] if client else None)
    if model is None:
        raise InputError("llm_api_params['data'] must have a 'model' for an api_url but has none")
    known = {key: data.pop(key) for key in ("seed", "temperature", "max_tokens") if key in data}
    choices = {"max_tokens": _MOST_TOKENS, **known}
    url = named.get("api_url")
    return OpenAIJudge(model, base_url=url, api_key_env=named.get("api_key_env"), extra=data, **choices)


def _mistral(named: Mapping[str, Any], data: dict[str, Any]) -> Any:
    from valor_gpu.judge import OpenAIJudge

    for key in data:
        check_choice("llm_api_params['data']", key, ("model", "seed"))
    variable = named.get("api_key_env", "MISTRAL_API_KEY")
    return OpenAIJudge.mistral(data.get("model", _MODELS["mistral"]), api_key_env=variable, seed=data.get("seed"))
