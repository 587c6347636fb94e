"""Judges of Azure OpenAI, by key or by a token of Entra ID."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.judge.addresses import AzureAddress, azure_address
from valor_gpu.judge.endpoint import Key, check_destination, check_variable, read_key
from valor_gpu.judge.entra import EntraToken, entra_token
from valor_gpu.judge.openai import OpenAIJudge, check_name

KEY_VARIABLE, TOKEN_VARIABLE = "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"
"""Environment variables with a key or token where none is named, as in the ``openai`` package."""


class AzureOpenAIJudge(OpenAIJudge):
    """A deployment of Azure OpenAI.

    Args:
        deployment: its name; None where ``endpoint`` has it.
        endpoint: ``https://NAME.openai.azure.com``; the same with ``/openai/v1`` for Azure's newer interface; or the
            address of a request as Azure's page shows it, ``.../openai/deployments/NAME/chat/completions?api-version=
            DATE``, which is taken apart. None for the environment variable AZURE_OPENAI_ENDPOINT.
        api_version: None for that of the address, else of the environment variable OPENAI_API_VERSION, else
            2024-10-21. The newer interface needs none.
        api_key_env: the NAME of the environment variable with the key. While AZURE_OPENAI_API_KEY is not set, a token
            in AZURE_OPENAI_AD_TOKEN takes its place.
        credential: in place of a key an object with ``get_token(*scopes)``, plain or ``async``, as azure-identity has
            them; ``"default"`` for its ``DefaultAzureCredential`` (extra ``azure``). Tokens are renewed before they
            expire.
        azure_ad_token: in place of a key a token, which nothing renews; held as a key by value is.
        azure_ad_token_env: the NAME of the environment variable with a token.
        azure_ad_token_provider: a function that returns a token or an awaitable of it; asked at most once a minute.
        parameters: ``temperature``, ``max_tokens``, ``seed``, ``top_logprobs``, ``extra``, ``response_format``,
            ``max_reply_bytes``, ``organization`` and ``extra_headers`` as in :class:`OpenAIJudge`.

    Raises:
        InputError: no endpoint or deployment, an address that says something else than the arguments, or two of key,
            token, provider and credential.
        MissingExtraError: ``credential="default"`` without the package azure-identity.

    Example:
        >>> AzureOpenAIJudge("gpt", endpoint="https://name.openai.azure.com")
        AzureOpenAIJudge('gpt', base_url='https://name.openai.azure.com')
    """

    _name = "AzureOpenAIJudge"

    def __init__(
        self,
        deployment: str | None = None,
        *,
        endpoint: str | None = None,
        api_version: str | None = None,
        api_key_env: Key = KEY_VARIABLE,
        credential: Any = None,
        azure_ad_token: str | None = None,
        azure_ad_token_env: str | None = None,
        azure_ad_token_provider: Any = None,
        **parameters: Any,
    ) -> None:
        for name, value in (("deployment", deployment), ("api_version", api_version)):
            if value is not None:
                check_name(name, value)
        token = entra_token(
            azure_ad_token=azure_ad_token,
            azure_ad_token_env=azure_ad_token_env,
            azure_ad_token_provider=azure_ad_token_provider,
            credential=credential,
        )
        if token is not None and api_key_env not in (None, KEY_VARIABLE):
            raise InputError("api_key_env must not go with a token or credential, which takes its place")
        self._address = azure_address(endpoint, deployment, api_version)
        self.api_version = self._address.version
        key = azure_key(api_key_env) if token is None else token
        super().__init__(self._address.deployment, base_url=self._address.endpoint, api_key_env=key, **parameters)
        if "api-key" in self.extra_headers.names():
            raise InputError("extra_headers must not have 'api-key', which the client sets itself: use api_key_env")

    def _endpoint(self, address: str | None, api_key_env: Key) -> tuple[str, Key]:
        check_destination("endpoint", str(address), api_key_env)
        return str(address), check_variable(api_key_env)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Deployment, address, version and the parameters asked for."""
        return {**super().identity, "kind": "azure", "api_version": self.api_version}

    def _client(self, package: Any) -> Any:
        kinds = package.AsyncOpenAI, package.AsyncAzureOpenAI
        return azure_client(kinds, self._address, self.api_key_env, **self._of_client(package))


def azure_key(variable: Key) -> Key:
    """The variable of a key, or tokens of AZURE_OPENAI_AD_TOKEN where that is set and AZURE_OPENAI_API_KEY is not."""
    if variable == KEY_VARIABLE and not os.environ.get(KEY_VARIABLE) and os.environ.get(TOKEN_VARIABLE):
        return entra_token(azure_ad_token_env=TOKEN_VARIABLE)
    return variable


def azure_client(kinds: tuple[Any, Any], address: AzureAddress, key: Key, **options: Any) -> Any:
    """Makes a client of the ``openai`` package for a deployment.

    Args:
        kinds: the classes of the package for OpenAI's interface and for that of deployments.
        address: of the deployment.
        key: what is sent; a token goes with each request.
        options: of either client.
    """
    plain, of_deployments = kinds
    secret = read_key(key)
    if address.is_v1:
        query = {"default_query": {"api-version": address.version}} if address.version else {}
        return plain(api_key=secret, base_url=address.endpoint, **query, **options)
    held = {"azure_ad_token" if isinstance(key, EntraToken) else "api_key": secret}
    return of_deployments(**held, azure_endpoint=address.endpoint, api_version=address.version, **options)
