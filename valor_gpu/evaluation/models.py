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

from collections.abc import Callable, Mapping
from typing import Any

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.connections import CONFIG_KEYS, EMBEDDER_KEYS, JUDGE_KEYS, Said
from valor_gpu.evaluation.secrets import Secrets, has_reference, is_secret_name, resolve_env
from valor_gpu.judge.addresses import EMBEDDINGS, AzureAddress, azure_address
from valor_gpu.judge.azure import AzureOpenAIJudge, azure_client
from valor_gpu.judge.endpoint import Key, key_value
from valor_gpu.judge.entra import EntraToken
from valor_gpu.judge.headers import ExtraHeaders
from valor_gpu.judge.openai import OpenAIJudge
from valor_gpu.judge.protocol import Judge, as_judge
from valor_gpu.judge.statistics import Prices
from valor_gpu.text.served_embedding import OpenAIEmbedder

__all__ = ["CONFIG_KEYS", "connection_facts", "embed_from_config", "identity_of", "judge_from_config", "prices_of"]


def judge_from_config(model_config: Any, *, secrets: Secrets, name: str = "model_config") -> Judge:
    """Makes a judge.

    Args:
        model_config: a mapping, or an object with attributes, of ``model`` and ``base_url`` (OpenAI and compatible
            servers), of ``azure_endpoint``, ``azure_deployment`` and ``api_version``, or of the old names
            ``api_base``, ``deployment_id``, ``api_type``, ``api_version``. With ``api_key_env``, the NAME of the
            environment variable with the key; or with ``api_key``, the key, which is held in memory alone; or at Azure
            with ``credential``, ``azure_ad_token``, ``azure_ad_token_env`` or ``azure_ad_token_provider`` as in
            :class:`~valor_gpu.judge.AzureOpenAIJudge`. Further ``temperature``, ``max_tokens``, ``seed``,
            ``top_logprobs``, ``extra``, ``response_format``, ``max_reply_bytes``, ``organization`` and
            ``extra_headers`` as in :class:`~valor_gpu.judge.OpenAIJudge`. Texts may hold ``${env:NAME}``. Or a judge,
            or a function from messages to text.
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
        _add_secrets(secrets, judge)
        return judge
    said = Said(model_config, name, JUDGE_KEYS, secrets)
    made: OpenAIJudge
    if said.is_azure:
        address = azure_address(said.address, said.model, said.version, name=said.named("azure_endpoint"))
        endpoint = {"endpoint": address.endpoint, "api_version": address.version}
        made = AzureOpenAIJudge(address.deployment, **endpoint, api_key_env=said.azure_key(), **said.parameters)
    else:
        made = OpenAIJudge(said.needed_model, base_url=said.address, api_key_env=said.key(None), **said.parameters)
        said.check_key(made.api_key_env)
    _add_secrets(secrets, made)
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
        _add_secrets(secrets, embedding_config)
        given: Callable[..., Any] = embedding_config
        return given
    said = Said(embedding_config, name, EMBEDDER_KEYS, secrets)
    made: OpenAIEmbedder
    if said.is_azure:
        address = azure_address(said.address, said.model, said.version, EMBEDDINGS, said.named("azure_endpoint"))
        made = _AzureEmbedder(address, said.azure_key(), **said.parameters)
    else:
        made = OpenAIEmbedder(said.needed_model, said.address, said.key(None), **said.parameters)
        said.check_key(made.api_key_env)
    _add_secrets(secrets, made)
    return made


def _add_secrets(secrets: Secrets, asked: Any) -> None:
    """Adds what a judge or embedder authenticates by, and the tokens that it will get."""
    key = getattr(asked, "api_key_env", None)
    if isinstance(key, EntraToken):
        key.watch(secrets.add)
    else:
        secrets.add(key_value(key))
    headers = getattr(asked, "extra_headers", None)
    for name, value in headers.given.items() if isinstance(headers, ExtraHeaders) else ():
        if is_secret_name(name) or has_reference(value):
            secrets.add(resolve_env(value, secrets, f"extra_headers[{name!r}]"))


def connection_facts(asked: Any) -> dict[str, Any]:
    """How a judge or embedder is reached, without secrets: what a stored run needs to reach it again.

    Returns:
        The name of the variable of a key or token, ``credential``, ``organization``, ``extra_headers``;
        ``key_by_value`` where a secret was given that no file has.

    Example:
        >>> connection_facts(OpenAIEmbedder("bge", "http://127.0.0.1:8000/v1", "MY_KEY"))
        {'api_key_env': 'MY_KEY'}
    """
    key, found = getattr(asked, "api_key_env", None), {}
    if isinstance(key, EntraToken):
        found = dict(key.said)
    elif key is not None:
        found = {"api_key_env": key} if isinstance(key, str) else {"key_by_value": True}
    if isinstance(organization := getattr(asked, "organization", None), str):
        found["organization"] = organization
    headers = getattr(asked, "extra_headers", None)
    if isinstance(headers, ExtraHeaders) and headers.given:
        found["extra_headers"] = Secrets().mask_json(headers.given)
        found |= {"key_by_value": True} if found["extra_headers"] != headers.given else {}
    return found


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
    found: dict[str, Any] = {"kind": type(embed).__name__.lstrip("_"), "model": embed.model, "base_url": embed.base_url}
    if isinstance(embed, _AzureEmbedder):
        found["api_version"] = embed.api_version
    facts = connection_facts(embed)
    if facts.get("api_key_env") in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
        del facts["api_key_env"]
    return {**found, "dimensions": embed.dimensions, **facts}


_LONGEST_CURRENCY = 16  # characters


def prices_of(prices: Any, model: str) -> Prices | None:
    """The prices of a model's tokens, per million.

    Args:
        prices: a :class:`~valor_gpu.judge.Prices`; a mapping with ``prompt``, ``completion`` and perhaps ``cached``
            and ``currency`` (a text for people); such mappings by the name of the model; or None.
        model: its name.

    Returns:
        None where there are none for the model.

    Raises:
        InputError: something else, or no numbers of at least 0.

    Example:
        >>> prices_of({"small": {"prompt": 0.15, "completion": 0.6}}, "small")
        Prices(prompt=0.15, completion=0.6, cached=None, currency='')
    """
    if prices is None or isinstance(prices, Prices):
        return prices
    if not isinstance(prices, Mapping):
        raise InputTypeError(f"prices must be a mapping or Prices but got {type(prices).__name__}")
    if all(isinstance(each, (Mapping, Prices)) for each in prices.values()):
        return prices_of(prices[model], model) if model in prices else None
    if not {"prompt", "completion"} <= set(prices) <= {"prompt", "completion", "cached", "currency"}:
        raise InputError(
            f"prices must have 'prompt' and 'completion' per million tokens, and may have 'cached' and 'currency', or "
            f"have them by the name of a model, but has {', '.join(map(repr, prices))}"
        )
    currency = prices.get("currency", "")
    if not isinstance(currency, str) or len(currency) > _LONGEST_CURRENCY or not currency.isprintable():
        raise InputError(
            f"prices['currency'] must be a text of at most {_LONGEST_CURRENCY} characters, such as 'USD', but got"
            f" {currency!r:.80}"
        )
    for name, value in prices.items():
        if name == "currency":
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (is_number and 0.0 <= value < 1e12) and not (name == "cached" and value is None):
            raise InputError(f"prices[{name!r}] must be a number of at least 0 but got {value!r}")
    return Prices(**prices)


class _AzureEmbedder(OpenAIEmbedder):
    """Embeddings of a deployment of Azure OpenAI."""

    def __init__(self, address: AzureAddress, key: Key, **parameters: Any) -> None:
        super().__init__(address.deployment, address.endpoint, key, **parameters)
        self._address, self.api_version = address, address.version

    def _made(self, package: Any, **options: Any) -> Any:
        return azure_client((package.OpenAI, package.AzureOpenAI), self._address, self.api_key_env, **options)
