"""The way to a server of the OpenAI protocols: address, key, client, and a bound on what comes back. No torch.

Shared by judges and embedders. The ``openai`` package is imported when a client is made.
"""

from __future__ import annotations

import importlib
import ipaddress
import os
import re
from typing import Any
from urllib.parse import urlsplit

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.addresses import CHAT, openai_address
from valor_gpu.judge.bodies import UNREADABLE, declared_types, readable, unpacked
from valor_gpu.judge.entra import EntraToken
from valor_gpu.judge.protocol import JudgeError, Status
from valor_gpu.judge.tls import UntrustedServer, connection_failure, trusted

OPENAI_URL = "https://api.openai.com/v1"
CUT = "valor_gpu.cut"
"""Key in the extensions of a response whose body was longer than the client takes."""
_CODED = ("content-encoding", "content-length", "transfer-encoding")  # headers of a body as it travelled


class HeldKey:
    """A key that was given by its value: held by the object that asks, and neither shown, stored nor pickled.

    Args:
        value: the key.

    Raises:
        InputError: no text, or one that no header can carry; it is not shown.

    Example:
        >>> HeldKey("a-key")
        HeldKey(***)
    """

    def __init__(self, value: str) -> None:
        if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]+", value):
            raise InputError("api_key must be printable ASCII without spaces but is not")
        self.value = value

    def __repr__(self) -> str:
        return "HeldKey(***)"

    def __reduce__(self) -> Any:
        raise InputError("a key given by value stays in its process: name its environment variable by api_key_env")


Key = str | HeldKey | EntraToken | None
"""The name of an environment variable, a key that is held, tokens of Entra ID, or none."""


def endpoint_of(base_url: str | None, api_key_env: Key, operation: str = CHAT) -> tuple[str, Key]:
    """Returns the address that a client shall use and the name of the variable with its key.

    Args:
        base_url: address up to ``/v1``; None for the environment variable OPENAI_BASE_URL, else OpenAI's own.
        api_key_env: the NAME of the environment variable with the key; None for OPENAI_API_KEY at OpenAI's own
            address, and for no key elsewhere.
        operation: ``CHAT`` or ``EMBEDDINGS``, with which the address may end.

    Raises:
        InputError: an address or a name that cannot be.

    Example:
        >>> endpoint_of("http://127.0.0.1:8000/v1/", None)
        ('http://127.0.0.1:8000/v1', None)
    """
    address = openai_address("base_url", base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL, operation)
    check_destination("base_url", address, api_key_env)
    return address, check_variable(api_key_env or ("OPENAI_API_KEY" if _is_openai(address) else None))


def check_variable(name: Key) -> Key:
    """Returns the name of an environment variable, a key or tokens that are held, or None.

    Raises:
        InputError: it is no such name: a key, say, which is not shown.
    """
    if name is None or isinstance(name, (HeldKey, EntraToken)):
        return name
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)):
        raise InputError("api_key_env must be the name of an environment variable but is no such name")
    return name


def key_value(key: Key) -> str | None:
    """The key or token itself, for masking it; None where there is none."""
    return key.value if isinstance(key, (HeldKey, EntraToken)) else os.environ.get(key or "")


def read_key(variable: Key) -> str:
    """Returns the key that is held, or that an environment variable holds, or a stand-in for servers that want none.

    Raises:
        JudgeError: ``unauthorized`` without a key, ``bad_request`` with one that no header can carry.
    """
    if isinstance(variable, HeldKey):
        return variable.value
    if variable is None or isinstance(variable, EntraToken):
        return "none"  # the client wants one; servers without keys ignore it, and tokens go with each request
    if not os.environ.get(variable):
        message = f"the environment variable {variable} must hold the API key but is not set"
        raise JudgeError(Status.UNAUTHORIZED, message)
    if not re.fullmatch(r"[\x21-\x7e]+", os.environ[variable]):
        what = "a line end" if re.search(r"[\r\n]", os.environ[variable]) else "a space or another sign"
        cause = f"the environment variable {variable} must hold printable ASCII without spaces but holds {what}"
        raise JudgeError(Status.BAD_REQUEST, cause, max_retries=0, shared_cause=cause)
    return os.environ[variable]


def _is_openai(address: str) -> bool:
    return urlsplit(address).hostname == urlsplit(OPENAI_URL).hostname


def check_destination(name: str, address: str, key: Key) -> None:
    """Raises unless a token of Entra ID may be sent to an address: not OpenAI's, encrypted or within this machine.

    Raises:
        InputError: it may not.
    """
    if not isinstance(key, EntraToken):
        return
    if _is_openai(address):
        raise InputError(f"{name} must be of Azure OpenAI for a token of Entra ID to be sent there but is OpenAI's own")
    if urlsplit(address).scheme == "http" and not is_loopback(address):
        raise InputError(
            f"{name} must begin with https:// for a token of Entra ID to be sent there but got {address!r}"
        )


def bearer(token: str) -> dict[str, str]:
    """The header that has a token."""
    return {"Authorization": f"Bearer {token}"}


def check_headers(client: Any) -> None:
    """Raises an error unless the headers that a client sends with every request can be sent.

    Raises:
        JudgeError: ``bad_request`` naming the header: one that the client takes from the environment, say.
    """
    for name, value in client.default_headers.items():
        if isinstance(value, str) and not re.fullmatch(r"([\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?)?", value):
            cause = f"the header {name} must be printable ASCII without spaces around it but is not"
            raise JudgeError(Status.BAD_REQUEST, cause, max_retries=0, shared_cause=cause)


def is_loopback(address: str) -> bool:
    """Returns True for an address of this machine.

    Example:
        >>> is_loopback("http://127.0.0.1:8000/v1"), is_loopback("https://host/v1")
        (True, False)
    """
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def openai_package(purpose: str) -> Any:
    """Imports the ``openai`` package.

    Raises:
        MissingExtraError: it is not installed; ``purpose`` says what needs it.
    """
    try:
        return importlib.import_module("openai")
    except ImportError:
        raise MissingExtraError("openai", "llm", purpose) from None


def async_http(package: Any, address: str, max_bytes: int) -> Any:
    """Makes an asynchronous HTTP client that reads at most ``max_bytes`` of a reply and then closes the connection.

    It follows no redirects and takes no proxy for addresses of this machine. A reply that was cut off has ``CUT`` in
    its extensions. Certificates are those of SSL_CERT_FILE or SSL_CERT_DIR, else the system's.

    Raises:
        JudgeError: such a variable names no certificates.
    """
    return _client_of(_BoundedAsync, package.DefaultAsyncHttpxClient, address, max_bytes)


def sync_http(package: Any, address: str, max_bytes: int) -> Any:
    """Makes a synchronous HTTP client that does the same as that of :func:`async_http`.

    A server without TLS, or whose certificate is rejected, is an :class:`UntrustedServer`.
    """
    return _client_of(_Bounded, package.DefaultHttpxClient, address, max_bytes)


def _client_of(bound: type, base: Any, address: str, max_bytes: int) -> Any:
    # The base is made here since the openai package decides which HTTP package it comes from.
    kind = type(bound.__name__, (bound, base), {"max_bytes": max_bytes})
    # Compressed, a small reply could grow without bound when it is decoded.
    headers = {"accept-encoding": "identity"}
    local = is_loopback(address)
    # A client for http:// on this machine reads no certificates, and trusts no https:// server.
    verify = trusted(local and urlsplit(address).scheme == "http")
    return kind(follow_redirects=False, trust_env=not local, verify=verify, headers=headers)


class _BoundedAsync:
    """Over an asynchronous client: replies are read here, up to a limit."""

    max_bytes: int

    async def send(self, request: Any, **options: Any) -> Any:
        response = await super().send(request, **{**options, "stream": True})  # type: ignore[misc]
        parts, size = [], 0
        try:
            async for part in response.aiter_raw():
                parts.append(part)
                size += len(part)
                if size > self.max_bytes:
                    break
        finally:
            await response.aclose()
        return _read(response, b"".join(parts), self.max_bytes)


class _Bounded:
    """Over a synchronous client: replies are read here, up to a limit."""

    max_bytes: int

    def send(self, request: Any, **options: Any) -> Any:
        try:
            response = super().send(request, **{**options, "stream": True})  # type: ignore[misc]
        except Exception as error:
            failure = connection_failure(error, str(request.url))
            if failure.max_retries == 0:
                raise UntrustedServer(failure) from None
            raise
        parts, size = [], 0
        try:
            for part in response.iter_raw():
                parts.append(part)
                size += len(part)
                if size > self.max_bytes:
                    break
        finally:
            response.close()
        return _read(response, b"".join(parts), self.max_bytes)


def _read(response: Any, body: bytes, max_bytes: int) -> Any:
    """A response that holds its body, unpacked, of at most ``max_bytes``."""
    cut = len(body) > max_bytes
    body, problem = unpacked(body, response.headers.get("content-encoding", ""), max_bytes, cut)
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _CODED]
    extensions = {CUT: True} if cut or len(body) > max_bytes else {UNREADABLE: problem} if problem else {}
    body = body[:max_bytes]
    if response.status_code >= 300:
        # The openai package reads errors itself, and fails where their charset is a codec that gives no text.
        declared = declared_types(response)
        body = f"({problem})".encode() if problem else readable(body, declared).encode(errors="replace")
        headers = [(name, value) for name, value in headers if name.lower() != "content-type"]
        headers.append(("content-type", f"{declared[0].media_type or 'text/plain'}; charset=utf-8"))
    return type(response)(
        response.status_code,
        headers=headers,
        content=body,
        request=response.request,
        extensions=extensions,
    )
