"""A judge from ``llm_api_params``, as valor_core takes them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from valor_gpu.checks import check_choice, check_int, check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.metrics.prompts import OwnPrompts
from valor_gpu.valor.mock_judge import MockJudge
from valor_gpu.valor.text_choices import check_keys

_KEYS = ("client", "api_url", "api_key_env", "retries", "data")
_MODELS = {"openai": "gpt-3.5-turbo", "mistral": "mistral-small-latest"}  # the defaults of valor_core
_CLIENTS = (*_MODELS, "mock")
# What api.openai.com takes besides model and messages. Other servers take more, which only they know.
_OPENAI_DATA = ("model", "seed", "temperature", "max_tokens", "max_completion_tokens", "top_p", "frequency_penalty",
                "presence_penalty", "logit_bias", "reasoning_effort", "verbosity", "service_tier", "stop", "store",
                "metadata", "user", "safety_identifier", "prompt_cache_key", "top_logprobs")  # fmt: skip
_MISTRAL_DATA = ("model", "seed")
_MOST_TOKENS = 4096  # of a reply: verdicts with their analyses are long


def retries_of(params: Mapping[str, Any] | None) -> int:
    """Times that a question is put again after a reply that cannot be read; 0 unless given.

    Raises:
        InputError: a key that is not known, or a number that cannot be.
    """
    check_type("llm_api_params", params, (Mapping, type(None)))
    params = params or {}
    if "api_key" in params:  # its value must not show
        raise InputError(
            "llm_api_params must name the environment variable of the key as 'api_key_env' but holds an 'api_key'"
        )
    check_keys("llm_api_params", params, _KEYS)
    retries: int = params.get("retries", 0)
    check_int("llm_api_params['retries']", retries)
    if retries and _data(params).get("seed") is not None:
        raise InputError("llm_api_params must have no retries with a seed: the same reply would come again")
    return retries


def _data(params: Mapping[str, Any]) -> dict[str, Any]:
    data = params.get("data")
    check_type("llm_api_params['data']", data, (Mapping, type(None)))
    return dict(data or {})


def judge_of(params: Mapping[str, Any] | None, judge: Any = None, prompts: OwnPrompts = None) -> Any:
    """The judge that is given, or the one that ``params`` describe.

    Args:
        params: ``client`` (``openai``, ``mistral`` or ``mock``) or ``api_url`` of a compatible server;
            ``api_key_env``, the NAME of the environment variable with the key; ``retries``; ``data`` with ``model``,
            ``seed`` and further parameters of the request: for ``openai`` those of its protocol, for an ``api_url``
            whatever the server takes. ``retries`` within ``data`` is ignored with a warning; valor_core ignores it.
        judge: a judge or a callable; ``params`` then hold nothing but ``retries``.
        prompts: the user's own, which ``mock`` has to know.

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
    data = _data(named)
    if "retries" in data:
        warnings.warn("retries in llm_api_params['data'] is ignored: it belongs beside 'data'", stacklevel=4)
        del data["retries"]
    client = named.get("client")
    if client is not None:
        check_choice("llm_api_params['client']", client, _CLIENTS)
        check_keys("llm_api_params['data']", data, _OPENAI_DATA if client == "openai" else _MISTRAL_DATA)
    if client == "mock":
        return MockJudge(prompts)
    return _mistral(named, data) if client == "mistral" else _openai(named, data)


def _openai(named: Mapping[str, Any], data: dict[str, Any]) -> Any:
    from valor_gpu.judge import OpenAIJudge

    client = named.get("client")
    model = data.pop("model", _MODELS["openai"] if client else None)
    if model is None:
        raise InputError("llm_api_params['data'] must have a 'model' for an api_url but has none")
    known = {key: data.pop(key) for key in ("seed", "temperature", "max_tokens", "top_logprobs") if key in data}
    choices = {"max_tokens": _MOST_TOKENS, **known}
    url = named.get("api_url")
    return OpenAIJudge(model, base_url=url, api_key_env=named.get("api_key_env"), extra=data, **choices)


def _mistral(named: Mapping[str, Any], data: dict[str, Any]) -> Any:
    from valor_gpu.judge import OpenAIJudge

    variable = named.get("api_key_env", "MISTRAL_API_KEY")
    return OpenAIJudge.mistral(data.get("model", _MODELS["mistral"]), api_key_env=variable, seed=data.get("seed"))
