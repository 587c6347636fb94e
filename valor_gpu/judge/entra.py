"""Tokens of Microsoft Entra ID, which take the place of a key at Azure OpenAI. No torch.

A token lasts about an hour, so that a run may outlive it. An :class:`EntraToken` asks for the next one before the last
has expired, in a thread of its own, once for all requests that wait. ``azure-identity`` is imported for the credential
``"default"`` alone; every other credential is an object that the user has made.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import inspect
import os
import re
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.protocol import JudgeError, Status, describe
from valor_gpu.judge.threads import result_of

T = TypeVar("T")
SCOPE = "https://cognitiveservices.azure.com/.default"
"""What a credential is asked for; source: https://learn.microsoft.com/azure/ai-services/openai/how-to/managed-identity."""
DEFAULT = "default"
"""Names ``azure.identity.DefaultAzureCredential`` where a text must do: in files, registries, commands."""
ROLE = "Cognitive Services OpenAI User"
_EARLY = 300.0  # seconds before a token expires from which the next one is asked for, as azure-core does
_UNDATED = 60.0  # seconds that a token is kept whose end is unknown; azure-identity's provider renews 300 s early
_LONGEST = 300.0  # seconds that a caller without an event loop waits for a token: somebody may have to sign in
_JWT = re.compile(r"eyJ[\w-]{8,}(\.[\w-]+)*")  # how a token begins, which an error may quote
_LOST = ("ServiceRequestError", "ServiceResponseError")  # of azure-core: the service of tokens cannot be reached


class EntraToken:
    """The token that goes into the header ``Authorization: Bearer``; neither shown, stored nor pickled.

    Made by :func:`entra_token`.

    Args:
        ask: returns the token, or an object with ``token`` and ``expires_on`` (seconds since 1970), or an awaitable of
            either; None for a token that nothing renews.
        said: how the token was given, without it: what a stored run has.
        value: the token, where it is known already.
    """

    def __init__(self, ask: Callable[[], Any] | None, said: Mapping[str, Any], value: str | None = None) -> None:
        self.said, self.value = dict(said), value
        self._ask, self._until = ask, float("inf") if ask is None else 0.0
        self._lock, self._process = threading.Lock(), os.getpid()
        self._pending: concurrent.futures.Future[str | tuple[Status, str]] | None = None
        self._watchers: list[Callable[[str | None], object]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"EntraToken({', '.join(f'{name}={value!r}' for name, value in self.said.items() if name in _NAMED)})"

    def __reduce__(self) -> Any:
        named = {name: value for name, value in self.said.items() if name in _NAMED}
        if "key_by_value" in self.said or not named:
            raise InputError(
                "a token or credential given by value stays in its process: name the variable by azure_ad_token_env, or"
                " give credential='default'"
            )
        return _made_again, (named,)

    def watch(self, see: Callable[[str | None], object]) -> None:
        """Calls ``see`` with every token, to mask it, say; with the one that is there at once."""
        self._watchers.append(see)
        see(self.value)

    async def asked_async(self, ask: Callable[[str], Awaitable[T | JudgeError]]) -> T | JudgeError:
        """The outcome of a request with a token; with another one where the server rejects the first.

        Args:
            ask: sends the request with a token.

        Returns:
            A failure also where there is no token.
        """
        token: str | None = None
        for _ in range(2):
            found = await asyncio.wrap_future(self._future(rejected=token))
            if isinstance(found, tuple) or found == token:
                return _without(found)
            outcome, token = await ask(found), found
            if not _is_rejection(outcome):
                break
        return _explained(outcome)

    def asked(self, ask: Callable[[str], T | JudgeError]) -> T | JudgeError:
        """The same as :meth:`asked_async` for callers without an event loop."""
        token: str | None = None
        for _ in range(2):
            found = self._waited(rejected=token)
            if isinstance(found, tuple) or found == token:
                return _without(found)
            outcome, token = ask(found), found
            if not _is_rejection(outcome):
                break
        return _explained(outcome)

    def _waited(self, rejected: str | None) -> str | tuple[Status, str]:
        try:
            return result_of(self._future(rejected), _LONGEST)
        except concurrent.futures.TimeoutError:
            return Status.TIMEOUT, f"no token of Entra ID within {_LONGEST:g} s"

    def _future(self, rejected: str | None) -> concurrent.futures.Future[str | tuple[Status, str]]:
        if self._process != os.getpid():  # a fork lacks the thread that fetches, and must not share its loop
            self._process, self._lock, self._pending, self._loop = os.getpid(), threading.Lock(), None, None
        with self._lock:
            if self._pending is not None:
                return self._pending
            future: concurrent.futures.Future[str | tuple[Status, str]] = concurrent.futures.Future()
            future.set_running_or_notify_cancel()  # so that the end of one request does not cancel it for the others
            if self.value is not None and self._ask is None and rejected == self.value:
                future.set_result((Status.UNAUTHORIZED, f"HTTP 401: the server rejected the token; {_HINT}"))
            elif self.value is not None and rejected != self.value and time.time() < self._until:
                future.set_result(self.value)
            else:
                self._pending = future
                threading.Thread(target=self._fetch, args=(future,), daemon=True, name="valor_gpu token").start()
            return future

    def _fetch(self, future: concurrent.futures.Future[str | tuple[Status, str]]) -> None:
        """Asks for a token. Whatever goes wrong is the result: a thread that dies would leave the requests waiting."""
        token, until, found = None, 0.0, (Status.UNAUTHORIZED, "")
        try:
            token, until = _token_of(self._awaited(self._ask() if self._ask is not None else None))
            for see in self._watchers:  # before a request can have it
                see(token)
        except JudgeError as error:
            found = error.status, str(error)
        except BaseException as error:
            found = _status_of(error), _JWT.sub("***", f"no token of Entra ID: {describe(error)}")[:2000]
        with self._lock:
            if token is not None:
                self.value, self._until = token, until
            self._pending = None
        future.set_result(found if token is None else token)

    def _awaited(self, given: Any) -> Any:
        """The value of an awaitable: all are run in one event loop, to which connections of credentials belong."""
        if not inspect.isawaitable(given):
            return given
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            weakref.finalize(self, self._loop.close)

        async def wait() -> Any:
            return await given

        return self._loop.run_until_complete(wait())


_NAMED = ("azure_ad_token_env", "credential")
_REJECTED = (
    f"HTTP 401: the server rejected the token of Entra ID: has it expired, or lacks its identity the role {ROLE!r} at"
    " the resource?"
)
_HINT = (
    "a token lasts about an hour: give 'azure_ad_token_provider' or 'credential', which renew it, or a token that has"
    " not expired"
)


def entra_token(
    *, azure_ad_token: Any = None, azure_ad_token_env: Any = None, azure_ad_token_provider: Any = None,
    credential: Any = None, name: str = "",
) -> EntraToken | None:  # fmt: skip
    """Returns where a client gets its tokens; None without any of the arguments.

    Args:
        azure_ad_token: a token, which nothing renews.
        azure_ad_token_env: the NAME of the environment variable with a token, which is read again when it is rejected.
        azure_ad_token_provider: a function that returns a token or an awaitable of it, such as
            ``azure.identity.get_bearer_token_provider`` makes; asked at most once a minute.
        credential: an object with ``get_token(*scopes)``, plain or ``async``; ``"default"`` or True for
            ``azure.identity.DefaultAzureCredential``.
        name: of the argument that has them, for messages.

    Raises:
        InputError: two of them, or none that can be.
        MissingExtraError: ``"default"`` without the package azure-identity.

    Example:
        >>> entra_token(azure_ad_token_env="MY_TOKEN")
        EntraToken(azure_ad_token_env='MY_TOKEN')
    """
    given = {
        "azure_ad_token": azure_ad_token, "azure_ad_token_env": azure_ad_token_env,
        "azure_ad_token_provider": azure_ad_token_provider, "credential": credential,
    }  # fmt: skip
    there = [each for each, value in given.items() if value is not None and value is not False]
    if len(there) > 1:
        raise InputError(f"{name or 'a judge'} must have one of {' and '.join(map(repr, there))} but has both")
    if not there:
        return None
    return _MAKERS[there[0]](given[there[0]], f"{name}[{there[0]!r}]" if name else there[0])


def _of_text(token: Any, name: str) -> EntraToken:
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
        raise InputError(f"{name} must be a token, printable ASCII without spaces, but is not")
    return EntraToken(None, {"key_by_value": True, "credential": "a token"}, token)


def _of_variable(variable: Any, name: str) -> EntraToken:
    if not (isinstance(variable, str) and re.fullmatch(r"[A-Za-z_]\w*", variable, re.ASCII)):
        raise InputError(f"{name} must be the name of an environment variable but is no such name")

    def ask() -> str:
        if not os.environ.get(variable):
            raise JudgeError(
                Status.UNAUTHORIZED, f"the environment variable {variable} must hold a token but is not set"
            )
        return os.environ[variable]

    return EntraToken(ask, {"azure_ad_token_env": variable}, os.environ.get(variable))


def _of_provider(provider: Any, name: str) -> EntraToken:
    if not callable(provider):
        raise InputError(f"{name} must be a function that returns a token but is of type {type(provider).__name__}")
    return EntraToken(provider, {"key_by_value": True, "credential": "a function"})


def _of_credential(credential: Any, name: str) -> EntraToken:
    if credential is True or credential == DEFAULT:
        return _default()
    if isinstance(credential, str) or not callable(getattr(credential, "get_token", None)):
        shown = "another text" if isinstance(credential, str) else f"of type {type(credential).__name__}"
        raise InputError(
            f"{name} must be 'default' or an object with get_token(*scopes), of azure-identity, but is {shown}"
        )
    if isinstance(credential, type):
        raise InputError(
            f"{name} must be an object but is the class {credential.__name__}: write {credential.__name__}()"
        )
    said = {"key_by_value": True, "credential": type(credential).__name__}
    return EntraToken(lambda: credential.get_token(SCOPE), said)


def _default() -> EntraToken:
    try:
        identity = importlib.import_module("azure.identity")
    except ImportError:
        raise MissingExtraError("azure-identity", "azure", "credential='default'") from None
    made: list[Any] = []  # by the first request: making one looks for the ways to sign in

    def ask() -> Any:
        if not made:
            made.append(identity.DefaultAzureCredential())
        return made[0].get_token(SCOPE)

    return EntraToken(ask, {"credential": DEFAULT})


def _made_again(named: Mapping[str, Any]) -> EntraToken | None:
    return entra_token(**named)


_MAKERS: dict[str, Callable[[Any, str], EntraToken]] = {
    "azure_ad_token": _of_text, "azure_ad_token_env": _of_variable, "azure_ad_token_provider": _of_provider,
    "credential": _of_credential,
}  # fmt: skip
ENTRA_KEYS = tuple(_MAKERS)
"""Names under which a configuration has a token, or what gives one."""


def _token_of(found: Any) -> tuple[str, float]:
    """A token, and until when it is used: seconds since 1970."""
    token, expires = (found, None) if isinstance(found, str) else (
        getattr(found, "token", None), getattr(found, "expires_on", None)
    )  # fmt: skip
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
        shown = "a text that no header can carry" if isinstance(token, str) else type(found).__name__
        needed = "a credential or azure_ad_token_provider must give a token, a text without spaces"
        raise JudgeError(Status.UNAUTHORIZED, f"no token of Entra ID: {needed}, but gave {shown}")
    if isinstance(expires, (int, float)) and not isinstance(expires, bool):
        return token, float(expires) - _EARLY
    return token, time.time() + _UNDATED


def _status_of(error: BaseException) -> Status:
    """The kind of a failure to get a token: what may pass is tried again, all else stops the run."""
    code = getattr(error, "status_code", None)
    if isinstance(code, int) and (code in (408, 429) or code >= 500):
        return Status.SERVER_ERROR
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, (OSError, concurrent.futures.TimeoutError)) or names & set(_LOST):
        return Status.CONNECTION_ERROR
    return Status.UNAUTHORIZED


def _is_rejection(outcome: object) -> bool:
    return isinstance(outcome, JudgeError) and outcome.status is Status.UNAUTHORIZED


def _explained(outcome: T | JudgeError) -> T | JudgeError:
    return JudgeError(Status.UNAUTHORIZED, _REJECTED) if _is_rejection(outcome) else outcome


def _without(found: str | tuple[Status, str]) -> JudgeError:
    """The failure to get a token, or one that differs from the token that was rejected."""
    return JudgeError(*found) if isinstance(found, tuple) else JudgeError(Status.UNAUTHORIZED, _REJECTED)
