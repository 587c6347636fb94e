"""What the configuration of a judge or of a model of embeddings says, whatever names it uses. No torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.secrets import Secrets, has_reference, resolve_env
from valor_gpu.judge.addresses import is_of_deployment
from valor_gpu.judge.azure import KEY_VARIABLE, azure_key
from valor_gpu.judge.endpoint import OPENAI_URL, HeldKey, Key, key_value
from valor_gpu.judge.entra import ENTRA_KEYS, EntraToken, entra_token

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
_OF_CONNECTION = ("organization", "extra_headers")
JUDGE_KEYS = ("temperature", "max_tokens", "seed", "top_logprobs", "extra", "response_format", "max_reply_bytes",
              *_OF_CONNECTION)  # fmt: skip
EMBEDDER_KEYS = ("batch", "dimensions", "retries", "timeout", *_OF_CONNECTION)
"""What the configuration of a judge, and of a model of embeddings, may have beside what names and opens it."""
_REACHED_BY = ("api_key", "api_key_env", *ENTRA_KEYS)
VALUE_KEYS = ("api_key", "azure_ad_token", "azure_ad_token_provider")
"""What no file or stored run may have: secrets by value, and objects."""
CONFIG_KEYS = (*(name for names in _NAMES.values() for name in names), *ENTRA_KEYS, *JUDGE_KEYS)
"""Everything that the configuration of a judge may have."""


class Said:
    """What a configuration says, whatever names it uses.

    Args:
        config: a mapping, or an object with attributes.
        name: of the argument, for messages.
        parameters: names of what else it may hold.
        secrets: gets the keys.
    """

    def __init__(self, config: Any, name: str, parameters: tuple[str, ...], secrets: Secrets) -> None:
        self._name, self._secrets = name, secrets
        known = [*(each for names in _NAMES.values() for each in names), *ENTRA_KEYS, *parameters]
        values = _values(config, name, known, parameters)
        self.parameters = {each: values[each] for each in parameters if each in values}
        self._is_there = values.keys()
        self._texts = {what: self._one(values, what, names) for what, names in _NAMES.items()}
        self.version, self._key, self._variable = (self._texts[each] for each in ("version", "key", "variable"))
        self.address, self._model = self._texts["address"], self._texts["model"]
        self.is_azure = self._is_azure(values)
        self._token = self._entra({each: values[each] for each in ENTRA_KEYS if each in values})

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
        if is_of_deployment(self.address) or ("azure_endpoint" in values and "base_url" not in values):
            return True
        if "base_url" in values or "model" in values:
            return False
        return any(each in values for each in _AZURE_ONLY) or self.version is not None

    def _entra(self, given: Mapping[str, Any]) -> EntraToken | None:
        """Where tokens of Entra ID come from, which go to Azure alone; None where keys are used."""
        if isinstance(text := given.get("azure_ad_token"), str):
            name = f"{self._name}['azure_ad_token']"
            given = {**given, "azure_ad_token": self._resolved(name, "key", text.strip()) or None}
        token = entra_token(**given, name=self._name)
        if token is None:
            return None
        variable = given.get("azure_ad_token_env")
        if variable is not None and not os.environ.get(variable):
            raise InputError(
                f"{self._name} needs a token, but the environment variable {variable} is not set: set it, or name"
                " another by 'azure_ad_token_env'"
            )
        if self._key is not None or self._variable is not None:
            named = "api_key" if self._key is not None else "api_key_env"
            others = " and ".join(repr(each) for each, value in given.items() if value is not None)
            raise InputError(f"{self._name} must have {named!r} or {others} but has both")
        if not self.is_azure and self.address is None:
            raise InputError(
                f"{self._name} must have 'azure_endpoint' and 'azure_deployment', or a 'base_url', with a token of"
                f" Entra ID, since {OPENAI_URL} takes none"
            )
        return token

    def named(self, usual: str) -> str:
        """The name that the address goes by in the configuration, for messages."""
        return next((each for each in _NAMES["address"] if each in self._is_there), usual)

    @property
    def model(self) -> str | None:
        """Model or deployment; None where it is not said, or by the address alone."""
        if self._model is None and not is_of_deployment(self.address) and self.address is not None:
            return self.needed_model
        return self._model

    @property
    def needed_model(self) -> str:
        """Model or deployment, which must be said."""
        if self._model is None:
            needed = "'azure_deployment' or 'deployment_id'" if self.is_azure else "'model'"
            raise InputError(f"{self._name} must name the model by {needed} but does not")
        return self._model

    def azure_key(self) -> Key:
        """The key or the tokens for Azure."""
        if self._token is not None or self._key is not None or self._variable is not None:
            return self.key(None)
        found = azure_key(KEY_VARIABLE)
        if found == KEY_VARIABLE and not os.environ.get(KEY_VARIABLE):
            raise InputError(
                f"{self._name} needs an API key, but the environment variable {KEY_VARIABLE} is not set: set it, name"
                " another by 'api_key_env', or give 'credential': 'default' to sign in by Entra ID"
            )
        return found

    def key(self, variable: str | None) -> Key:
        """The key that is held, or the variable that has it; ``variable`` where neither is said; or the tokens."""
        if self._token is not None:
            return self._token
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
        if hasattr(config, "api_key") and not values.keys() & set(_REACHED_BY):
            values["api_key"] = None
    for each in values:
        if each not in known:
            shown = each if isinstance(each, str) else type(each).__name__
            raise InputError(
                f"{name} must not have {shown!r:.80}{near_names(each, known)}; it may have {', '.join(known)}"
            )
    is_reached = any(values.get(each) is not None for each in _REACHED_BY)
    may_be_none = {
        *optional,
        "api_version",
        "credential",
        "azure_ad_token_provider",
        *(_REACHED_BY if is_reached else ()),
    }
    for each, value in values.items():
        if value is None and each not in may_be_none:
            hint = ": is the environment variable set that it comes from?"
            named = {"api_key": "api_key_env", "azure_ad_token": "azure_ad_token_env"}.get(each)
            hint += f" Its name can be given by {named!r}" if named else ""
            raise InputError(f"{name}[{each!r}] must be a text but is None{hint}")
    return {each: value for each, value in values.items() if value is not None or each in optional}
