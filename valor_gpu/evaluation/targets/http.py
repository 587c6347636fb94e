"""HTTP endpoints as targets: the fields of a row are posted as JSON, the answer is read out of the reply. No torch."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from valor_gpu._version import __version__
from valor_gpu.checks import check_int, check_type, keys_once, near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows._source_rows import plain_row
from valor_gpu.evaluation.rows.fields import ANSWER
from valor_gpu.evaluation.secrets import Secrets, has_reference, is_secret_name, resolve_env
from valor_gpu.evaluation.targets.answers import content_type_of, text_in, value_in
from valor_gpu.evaluation.targets.asked import RETRIES, Asked, AskedReply, AskedTarget
from valor_gpu.evaluation.targets.base import TargetAnswer, answer_of
from valor_gpu.evaluation.targets.paths import filled, path_of, references_in, value_at
from valor_gpu.judge.addresses import check_address
from valor_gpu.judge.bodies import BodyError, ContentType
from valor_gpu.judge.calls import describe_target
from valor_gpu.judge.completions import retry_after, suspect_of, unproven
from valor_gpu.judge.endpoint import CUT, async_http, is_loopback, openai_package
from valor_gpu.judge.json_text import ParseError
from valor_gpu.judge.protocol import JudgeError, Messages, Reply, Status
from valor_gpu.judge.tls import connection_failure

KEYS = ("url", "name", "headers", "body", "answer", "outputs", "content_type", "retries", "max_bytes", "allow_http")
_MAX_BYTES = 10_000_000
_SHOWN = 500  # characters of an error's body
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?")
_OWN = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")
_ERROR = frozenset(("error", "errors", "detail"))
_OF_ERROR = _ERROR | {"code", "status", "type", "message", "details", "success", "ok", "request_id", "timestamp"}
_EVERY_ROW = (401, 405, 407)  # what one request is told so is told to all
_HINTS = {
    400: "does the target take a body of this form?",
    403: "do the headers let the request through?",
    404: "is the address right?",
}


class HttpTarget(AskedTarget):
    """An endpoint that takes a POST of JSON.

    Args:
        given: ``url``; ``headers``, a mapping; ``body``, JSON whose texts may hold ``${column}``, without it all
            columns as one object; ``answer``, the path of the answer in the reply, or ``outputs``, name to path,
            without them the reply's own object or text; ``content_type`` of the replies, in place of the one that
            they declare; ``retries``, 5; ``max_bytes`` of a reply, 10 million; ``allow_http`` for keys that may travel
            unencrypted; ``name``. Texts of ``url``, ``headers`` and ``body`` may hold ``${env:NAME}``.

    Raises:
        InputError: a key that there is not, an address or header that cannot be, a variable that is not set.
        MissingExtraError: without the ``openai`` package, whose HTTP client is used.
    """

    tells_cost = False

    def __init__(
        self,
        given: Mapping[str, Any],
        secrets: Secrets,
        timeout: float | None,
        parameters: Mapping[str, Any] | None = None,
        max_concurrency: int = 8,
    ) -> None:
        for key in given:
            if key not in KEYS:
                raise InputError(
                    f"target must not have {key!r:.80}{near_names(key, KEYS)}; it may have {', '.join(KEYS)}"
                )
        for key in ("url", "name"):
            check_type(f"target[{key!r}]", given.get(key, ""), str)
        self._given_as = plain_row("target", given)
        self.url = _address(given["url"], secrets)
        name = given.get("name") or (urlsplit(self.url).hostname or "") + urlsplit(self.url).path
        super().__init__(name, secrets, timeout, parameters, max_concurrency, given.get("retries", RETRIES))
        self._max_bytes = given.get("max_bytes", _MAX_BYTES)
        check_int("target['max_bytes']", self._max_bytes, 1)
        self._content_type = content_type_of(given.get("content_type"))
        self._headers = _headers(given.get("headers") or {}, secrets)
        self._check_scheme(given)
        self._body = _template(given.get("body"), secrets)
        self._paths = _paths(given)
        self.outputs = tuple(self._paths)
        if self._body is not None:
            self.accepts = self.requires = frozenset(references_in(self._body))
            for parameter in self.parameters:
                if parameter not in self.accepts:
                    raise InputError(f"target must show the parameter {parameter!r} in its body but does not")
        self._log_filter = _LogFilter(secrets)
        self._answered = False  # whether the server ever has
        openai_package("an HTTP target")

    def _check_scheme(self, given: Mapping[str, Any]) -> None:
        secret = any(is_secret_name(name) for name in self._headers) or has_reference(json.dumps(self._given_as))
        if secret and not is_loopback(self.url) and urlsplit(self.url).scheme == "http" and not given.get("allow_http"):
            raise InputError(
                "target must have an https:// address, or 'allow_http': True, to send keys to another machine"
            )

    def _described(self) -> dict[str, Any]:
        """What was given, with secrets masked; ``masked`` says whether there were any by value."""
        shown = self._secrets.mask_json({**self._given_as, "parameters": self.parameters})
        masked = shown != {**self._given_as, "parameters": self.parameters}
        return {"kind": "http", **shown, "name": self.name, "masked": masked}

    def _judge(self) -> Asked:
        from http.cookiejar import DefaultCookiePolicy  # here since runs with such a target alone need it

        package = openai_package("an HTTP target")
        client = async_http(package, self.url, self._max_bytes)
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # rows must know nothing of each other
        self._log_filter.add_to(client)
        return Asked(lambda messages: self._post(client, messages), self.attempt_timeout, client)

    async def close(self) -> None:
        """Closes connections."""
        await super().close()
        self._log_filter.remove()

    async def _answer(self, arguments: dict[str, Any]) -> TargetAnswer:
        body = arguments if self._body is None else filled(self._body, arguments)
        describe_target(kind="http", method="POST", url=self.url, headers=dict(self._headers))
        message = {"role": "user", "content": json.dumps(body, ensure_ascii=True, allow_nan=False)}
        return self._given(await self._ask([message], self._read))

    async def _post(self, client: Any, messages: Messages) -> Reply:
        try:
            response = await client.post(self.url, content=messages[0]["content"], headers=self._headers, timeout=None)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            failure = _lost(error, self.url)
            failure = failure if self._answered else unproven(failure, self.url)
        else:
            self._answered = True
            failed = self._failure(response)
            if failed is None:
                return self._received(response)
            failure = failed
        raise failure  # outside of the except block: the client's exception has the headers

    def _received(self, response: Any) -> Received:
        try:
            text, declared = text_in(response, self._content_type)
        except BodyError as error:
            return Received("", problem=f"the reply cannot be read: {error}")
        return Received(text, declared=declared)

    def _failure(self, response: Any) -> JudgeError | None:
        """Why a response is no reply."""
        code = response.status_code
        if 200 <= code < 300:
            if not response.extensions.get(CUT):
                return None
            cut = f"the reply was longer than {self._max_bytes:,} bytes: raise target['max_bytes']"
            return JudgeError(Status.TRUNCATED, cut)
        if 300 <= code < 400:
            return JudgeError(Status.BAD_REQUEST, f"HTTP {code}: redirects are not followed: give the address itself")
        shown = self._secrets.message(response.content.decode(errors="replace"), _SHOWN)
        message, wait = f"HTTP {code}: {shown}", retry_after(response.headers)
        if code == 429:
            return JudgeError(Status.RATE_LIMITED, message, wait)
        if code >= 500 or code in (408, 409, 425):
            return JudgeError(Status.SERVER_ERROR, message, wait)
        shared = f"HTTP {code}" if code in _EVERY_ROW else None
        suspect, hint = suspect_of(code, message), _HINTS.get(code, _HINTS[400])
        return JudgeError(Status.BAD_REQUEST, message, None, 0, shared_cause=shared, suspect=suspect, hint=hint)

    def _read(self, reply: Received) -> Mapping[str, Any]:
        """The outputs that a reply has."""
        if reply.problem:
            raise ParseError(reply.problem)
        try:
            value = value_in(reply.text, reply.declared, self._content_type is not None, bool(self._paths))
        except BodyError as error:
            shown = self._secrets.message(reply.text, 100)
            raise ParseError(f"the reply must be JSON but is {shown!r}: {error}") from None
        if self._paths:
            found = {name: value_at(value, path) for name, path in self._paths.items()}
            if ANSWER in found and found[ANSWER] is None:
                raise ParseError("the reply has null in the place of the answer")
        elif isinstance(value, (str, list, dict)):
            if _is_error(value):
                shown = self._secrets.message(json.dumps(self._secrets.mask_json(value)), _SHOWN)
                raise ParseError(f"the reply must have an answer but is an error: {shown}")
            found = dict(answer_of(value).outputs)
        else:
            raise ParseError(
                f"the reply must be an object or a text but is {type(value).__name__}: name the answer's path"
            )
        return plain_row("the reply", found)


def _is_error(value: Any) -> bool:
    """Whether an object says nothing but that there was an error, whatever the code of its response."""
    said = {name.casefold(): one for name, one in value.items()} if isinstance(value, dict) else {}
    return said.keys() <= _OF_ERROR and any(said.get(name) for name in _ERROR)


@dataclass(frozen=True)
class Received(AskedReply):
    """The body of a reply as text.

    Attributes:
        declared: the content type that it was decoded by.
        problem: why it could not be decoded.
    """

    declared: ContentType = field(default_factory=ContentType)
    problem: str = ""


class _LogFilter(logging.Filter):
    """Masks what the HTTP client writes to the log: addresses with their queries, and headers."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        self._loggers: list[logging.Logger] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record pass, masked."""
        record.msg, record.args = self._secrets.mask(record.getMessage()), ()
        return True

    def add_to(self, client: Any) -> None:
        """Filters the loggers of a client's packages, whatever they are called."""
        self.remove()
        modules = (each.__module__ for each in type(client).__mro__ if each.__name__ == "AsyncClient")
        package = next(modules, "httpx").partition(".")[0]
        core = package.replace("httpx", "httpcore")
        names = [package, *(f"{core}.{part}" for part in ("connection", "http11", "http2", "proxy", "socks"))]
        self._loggers = [logging.getLogger(name) for name in names]
        for logger in self._loggers:
            logger.addFilter(self)

    def remove(self) -> None:
        """Takes the filter from the loggers."""
        for logger in self._loggers:
            logger.removeFilter(self)
        self._loggers = []


def _lost(error: Exception, address: str) -> JudgeError:
    """The failure of a request without a response; names alone, since texts may hold what was sent."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "TransportError" in names:
        return connection_failure(error, address)
    return JudgeError(Status.BAD_REQUEST, f"the request cannot be made: {type(error).__name__}", max_retries=0)


def _address(url: str, secrets: Secrets) -> str:
    """The address with the values of variables in it."""
    base, mark, query = url.partition("?")
    base = check_address("target", resolve_env(base, secrets, "target['url']"))
    query = resolve_env(query, secrets, "target['url']", in_query=True)
    if re.search(r"[^\x21-\x7e]|#", query):
        raise InputError("target must have a query of printable ASCII without spaces and fragment but has another")
    for name, value in parse_qsl(query):
        if is_secret_name(name):
            secrets.add(value)
    path = urlsplit(base).path
    return base + ("/" if url.partition("?")[0].endswith("/") and path else "") + mark + query


def _headers(given: Any, secrets: Secrets) -> dict[str, str]:
    """Headers with the values of variables in them, and what JSON needs."""
    check_type("target['headers']", given, Mapping)
    found = {"content-type": "application/json", "accept": "application/json, text/plain, */*"}
    found["user-agent"] = f"valor_gpu/{__version__}"
    for name, text in given.items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name) or name.lower() in _OWN:
            raise InputError(f"target['headers'] must have names of headers but has {secrets.message(repr(name), 100)}")
        place = f"target['headers'][{name!r}]"
        if text is None:
            raise InputError(f"{place} must be a text but is None: is the environment variable set that it comes from?")
        check_type(place, text, str)
        value = resolve_env(text, secrets, place)
        if is_secret_name(name):
            secrets.add(value)
        if not _VALUE.fullmatch(value):
            raise InputError(f"{place} must be printable ASCII without spaces around it but is not")
        found[name.lower()] = value
    return found


def _template(body: Any, secrets: Secrets) -> Any:
    """The body with the values of variables in it; None where there is none."""
    if body is None:
        return None
    if isinstance(body, str):
        try:
            body = json.loads(body, object_pairs_hook=keys_once)
        except (ValueError, RecursionError) as error:
            raise InputError(f"target['body'] must be JSON: {error}") from None
    if not isinstance(body, (Mapping, list, str)):
        raise InputError(f"target['body'] must be an object, a list or a text of JSON but got {type(body).__name__}")
    return _with_variables(plain_row("target", {"body": body})["body"], secrets)


def _with_variables(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return resolve_env(value, secrets, "target['body']")
    if isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(each, str) and is_secret_name(name) and not list(references_in(each)):
                secrets.add(resolve_env(each, secrets, "target['body']"))
        return {name: _with_variables(each, secrets) for name, each in value.items()}
    return [_with_variables(each, secrets) for each in value] if isinstance(value, list) else value


def _paths(given: Mapping[str, Any]) -> dict[str, Any]:
    outputs = given.get("outputs") or {}
    check_type("target['outputs']", outputs, Mapping)
    if "answer" in given and ANSWER in outputs:
        raise InputError("target must have the path of the answer in 'answer' or in 'outputs' but has both")
    named = {**({ANSWER: given["answer"]} if given.get("answer") is not None else {}), **outputs}
    return {name: path_of(f"target[{name!r}]", text) for name, text in named.items()}
