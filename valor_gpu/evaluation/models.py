"""Judges and embedders out of the configurations of Azure's guides, of OpenAI's client and of later releases. No torch.

Example:
    >>> secrets = Secrets()
    >>> config = {"api_type": "azure", "api_base": "https://name.openai.azure.com", "deployment_id": "gpt",
    ...           "api_version": "2023-05-15", "api_key": "a-key-by-value"}
    >>> judge_from_config(config, secrets=secrets)
    AzureOpenAIJudge('gpt', base_url='https://name.openai.azure.com')
    >>> secrets.mask("wrong key: a-key-by-value")
    'wrong key: ***'
"""  # fmt: skip

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.secrets import Secrets, has_reference, resolve_env
from valor_gpu.judge.endpoint import HeldKey, Key, check_address, key_value
from valor_gpu.judge.openai import AzureOpenAIJudge, OpenAIJudge
from valor_gpu.judge.protocol import Judge, as_judge
from valor_gpu.judge.statistics import Prices
from valor_gpu.text.embedding import OpenAIEmbedder

_NAMES = {
    "address": ("azure_endpoint", "base_url", "api_base", "endpoint"),
    "model": ("azure_deployment", "model", "deployment_id", "deployment", "deployment_name", "model_name"),
    "type": ("api_type", "type"),
    "version": ("api_version",),
    "key": ("api_key",),
    "variable": ("api_key_env",),
}
"""What a configuration says, to the names that it has in one of them."""
_AZURE = ("azure", "azure_openai", "azureopenai")
_OPENAI = ("openai", "open_ai", "openai_compatible")
_AZURE_ONLY = ("azure_endpoint", "azure_deployment", "deployment_id", "deployment", "deployment_name")
_JUDGE = ("temperature", "max_tokens", "seed", "top_logprobs", "extra", "response_format", "max_reply_bytes")
CONFIG_KEYS = (*(name for names in _NAMES.values() for name in names), *_JUDGE)
"""Everything that the configuration of a judge may have."""
_EMBEDDER = ("batch", "dimensions", "retries", "timeout")


def judge_from_config(model_config: Any, *, secrets: Secrets, name: str = "model_config") -> Judge:
    """Makes a judge.

    Args:
        model_config: a mapping, or an object with attributes, of ``model`` and ``base_url`` (OpenAI and compatible
            servers), of ``azure_endpoint``, ``azure_deployment`` and ``api_version``, or of the old names
            ``api_base``, ``deployment_id``, ``api_type``, ``api_version``. With ``api_key_env``, the NAME of the
            environment variable with the key; or with ``api_key``, the key, which is held in memory alone. Further
            ``temperature``, ``max_tokens``, ``seed``, ``top_logprobs``, ``extra``, ``response_format`` and
            ``max_reply_bytes`` as in :class:`~valor_gpu.judge.OpenAIJudge`. Texts may hold ``${env:NAME}``. Or a
            judge, or a function from messages to text.
        secrets: gets the key.
        name: of the argument, for messages.

    Raises:
        InputError: a name that there is not, a value that is None, a variable that is not set, nothing that names a
            model.

    Example:
        >>> judge_from_config({"model": "qwen", "base_url": "http://127.0.0.1:8000/v1"}, secrets=Secrets())
        OpenAIJudge('qwen', base_url='http://127.0.0.1:8000/v1')
    """
    if hasattr(model_config, "identity") or (callable(model_config) and not isinstance(model_config, Mapping)):
        judge = as_judge(model_config)
        secrets.add(key_value(getattr(judge, "api_key_env", None)))
        return judge
    said = _Said(model_config, name, _JUDGE, secrets)
    if said.is_azure:
        endpoint = {"endpoint": said.address, "api_version": said.version}
        return AzureOpenAIJudge(said.model, **endpoint, api_key_env=said.key("AZURE_OPENAI_API_KEY"), **said.parameters)
    made = OpenAIJudge(said.model, base_url=said.address, api_key_env=said.key(None), **said.parameters)
    said.check_key(made.api_key_env)
    return made


def embed_from_config(embedding_config: Any, *, secrets: Secrets, name: str = "embedding_config") -> Callable[..., Any]:
    """Makes a function from texts to their vectors.

    Args:
        embedding_config: as of :func:`judge_from_config`, with ``batch``, ``dimensions``, ``retries`` and ``timeout``
            as in :class:`~valor_gpu.text.OpenAIEmbedder`; or such a function.
        secrets: gets the key.
        name: of the argument, for messages.

    Raises:
        InputError: as of :func:`judge_from_config`.

    Example:
        >>> embed_from_config({"model": "bge", "base_url": "http://127.0.0.1:8000/v1"}, secrets=Secrets())
        OpenAIEmbedder('bge', base_url='http://127.0.0.1:8000/v1')
    """
    if callable(embedding_config) and not isinstance(embedding_config, Mapping):
        secrets.add(key_value(getattr(embedding_config, "api_key_env", None)))
        given: Callable[..., Any] = embedding_config
        return given
    said = _Said(embedding_config, name, _EMBEDDER, secrets)
    if said.is_azure:
        return _AzureEmbedder(said)
    made = OpenAIEmbedder(said.model, said.address, said.key(None), **said.parameters)
    said.check_key(made.api_key_env)
    return made


def identity_of(embed: Any) -> dict[str, Any] | None:
    """What decides the vectors of an embedder; its name alone for a function, None without one.

    Without secrets: of a key the name of its variable, where that is not the usual one.

    Example:
        >>> identity_of(OpenAIEmbedder("bge", "http://127.0.0.1:8000/v1"))
        {'kind': 'OpenAIEmbedder', 'model': 'bge', 'base_url': 'http://127.0.0.1:8000/v1', 'dimensions': None}
    """
    if embed is None:
        return None
    if not isinstance(embed, OpenAIEmbedder):
        return {"kind": "function", "name": getattr(embed, "__qualname__", "") or repr(embed)[:200]}
    found = {"kind": type(embed).__name__.lstrip("_"), "model": embed.model, "base_url": embed.base_url}
    named = {"api_key_env": embed.api_key_env} if _is_own_variable(embed.api_key_env) else {}
    return {**found, "dimensions": embed.dimensions, **named}


def _is_own_variable(key: Any) -> bool:
    return isinstance(key, str) and key not in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY")


def prices_of(prices: Any, model: str) -> Prices | None:
    """The prices of a model's tokens, per million.

    Args:
        prices: a :class:`~valor_gpu.judge.Prices`; a mapping with ``prompt``, ``completion`` and perhaps ``cached``;
            such mappings by the name of the model; or None.
        model: its name.

    Returns:
        None where there are none for the model.

    Raises:
        InputError: something else, or no numbers of at least 0.

    Example:
        >>> prices_of({"small": {"prompt": 0.15, "completion": 0.6}}, "small")
        Prices(prompt=0.15, completion=0.6, cached=None)
    """
    if prices is None or isinstance(prices, Prices):
        return prices
    if not isinstance(prices, Mapping):
        raise InputTypeError(f"prices must be a mapping or Prices but got {type(prices).__name__}")
    if all(isinstance(each, (Mapping, Prices)) for each in prices.values()):
        return prices_of(prices[model], model) if model in prices else None
    if not {"prompt", "completion"} <= set(prices) <= {"prompt", "completion", "cached"}:
        raise InputError(
            f"prices must have 'prompt' and 'completion' per million tokens, and may have 'cached', or have them by "
            f"the name of a model, but has {', '.join(map(repr, prices))}"
        )
    for name, value in prices.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (is_number and 0.0 <= value < 1e12) and not (name == "cached" and value is None):
            raise InputError(f"prices[{name!r}] must be a number of at least 0 but got {value!r}")
    return Prices(**prices)


class _Said:
    """What a configuration says, whatever names it uses.

    Args:
        config: a mapping, or an object with attributes.
        name: of the argument, for messages.
        parameters: names of what else it may hold.
        secrets: gets the keys.
    """

    def __init__(self, config: Any, name: str, parameters: tuple[str, ...], secrets: Secrets) -> None:
        self._name, self._secrets = name, secrets
        known = [*(each for names in _NAMES.values() for each in names), *parameters]
        values = _values(config, name, known, parameters)
        self.parameters = {each: values[each] for each in parameters if each in values}
        self._texts = {what: self._one(values, what, names) for what, names in _NAMES.items()}
        self.version, self._key, self._variable = (self._texts[each] for each in ("version", "key", "variable"))
        self.address, self._model = self._texts["address"], self._texts["model"]
        self.is_azure = self._is_azure(values)

    def _one(self, values: Mapping[str, Any], what: str, names: tuple[str, ...]) -> str | None:
        """The text that a configuration has under one of several names."""
        there = {each: values[each] for each in names if each in values}
        for each, value in there.items():
            if not isinstance(value, str) or not value.strip():
                shown = "is empty" if isinstance(value, str) else f"is of type {type(value).__name__}"
                raise InputError(f"{self._name}[{each!r}] must be a text but {shown}")
        texts = [self._resolved(f"{self._name}[{each!r}]", what, text.strip()) for each, text in there.items()]
        if len({text.rstrip("/") for text in texts}) > 1:
            raise InputError(f"{self._name} must say one thing but has {' and '.join(map(repr, there))}, which differ")
        return texts[0] if texts else None

    def _resolved(self, name: str, what: str, text: str) -> str:
        if what == "key" and not has_reference(text):
            self._secrets.add(text)
        return resolve_env(text, self._secrets if what == "key" else None, name)

    def _is_azure(self, values: Mapping[str, Any]) -> bool:
        kind = (self._texts["type"] or "").lower()
        if kind and kind not in (*_AZURE, *_OPENAI):
            raise InputError(f"{self._name} must have the type 'azure' or 'openai' but has {kind!r}")
        if kind:
            return kind in _AZURE
        if "base_url" in values or "model" in values:
            return False
        return any(each in values for each in _AZURE_ONLY) or self.version is not None

    @property
    def model(self) -> str:
        """Model or deployment."""
        if self._model is None:
            needed = "'azure_deployment' or 'deployment_id'" if self.is_azure else "'model'"
            raise InputError(f"{self._name} must name the model by {needed} but does not")
        return self._model

    def key(self, variable: str | None) -> Key:
        """The key that is held, or the variable that has it; ``variable`` where neither is said."""
        if self._key is not None and self._variable is not None:
            raise InputError(f"{self._name} must have 'api_key' or 'api_key_env' but has both")
        if self._key is not None:
            return HeldKey(self._key)
        self.check_key(self._variable or variable)
        return self._variable or variable

    def check_key(self, key: Key) -> None:
        """Raises unless the variable of a key is set, and adds its value to the secrets."""
        if isinstance(key, str) and key.isidentifier() and not os.environ.get(key):
            raise InputError(
                f"{self._name} needs an API key, but the environment variable {key} is not set: set it, or name "
                "another by 'api_key_env'"
            )
        self._secrets.add(key_value(key))


def _values(config: Any, name: str, known: list[str], optional: tuple[str, ...]) -> dict[str, Any]:
    """The configuration as a mapping, without what it leaves open."""
    if isinstance(config, Mapping):
        values = dict(config)
    elif config is None or isinstance(config, (str, bytes, int, float, list, tuple)):
        raise InputTypeError(f"{name} must be a mapping or a judge but got {type(config).__name__}")
    else:
        there = {each: getattr(config, each, None) for each in known}
        values = {each: value for each, value in there.items() if value is not None}
        if hasattr(config, "api_key") and not {"api_key", "api_key_env"} & values.keys():
            values["api_key"] = None
    for each, value in values.items():
        if each not in known:
            shown = each if isinstance(each, str) else type(each).__name__
            raise InputError(
                f"{name} must not have {shown!r:.80}{near_names(each, known)}; it may have {', '.join(known)}"
            )
        if value is None and each not in optional:
            hint = ": is the environment variable set that it comes from?" if each != "api_key" else (
                ": is the environment variable set that it comes from? Its name can be given by 'api_key_env'"
            )  # fmt: skip
            raise InputError(f"{name}[{each!r}] must be a text but is None{hint}")
    return values


class _AzureEmbedder(OpenAIEmbedder):
    """Embeddings of a deployment of Azure OpenAI."""

    def __init__(self, said: _Said) -> None:
        key = said.key("AZURE_OPENAI_API_KEY")
        address = said.address or os.environ.get("AZURE_OPENAI_ENDPOINT")
        version = said.version or os.environ.get("OPENAI_API_VERSION")
        if not address:
            raise InputError("azure_endpoint must be an address but neither it nor AZURE_OPENAI_ENDPOINT is set")
        if not version:
            raise InputError("api_version must be a date but neither it nor OPENAI_API_VERSION is set")
        super().__init__(said.model, check_address("azure_endpoint", address), key, **said.parameters)
        self.api_version = version

    def _made(self, package: Any, **options: Any) -> Any:
        return package.AzureOpenAI(azure_endpoint=self.base_url, api_version=self.api_version, **options)
