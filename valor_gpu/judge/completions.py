"""Replies and failures of chat-completions servers as the protocol has them. No field is trusted unchecked."""

from __future__ import annotations

import importlib
import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from valor_gpu.judge.bodies import BodyError, declared_types, json_of
from valor_gpu.judge.endpoint import CUT, Key, key_value
from valor_gpu.judge.limits import UNPROVEN_RETRIES
from valor_gpu.judge.protocol import JudgeError, Reply, Status, Usage
from valor_gpu.judge.requests import escaped
from valor_gpu.judge.tls import connection_failure

_MODERATED = frozenset(("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"))
_UNSUPPORTED = frozenset(("unsupported_parameter", "unsupported_value", "unknown_parameter"))
_EXTRA_FIELD = frozenset(("extra_forbidden", "value_error.extra"))  # of servers that validate by pydantic
_LONGEST_WISH = 366 * 86400.0  # seconds of a Retry-After that can be meant
_MOST_TOKENS = 10**9  # that one reply can have taken


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that a reply's headers ask to wait; None when they do not, or ask for what cannot be meant.

    Args:
        headers: names in lower case: ``retry-after-ms``, else ``retry-after`` in seconds or as an HTTP date. A date
            in the past, and a wait of more than a year, count as no header.
        now: seconds since 1970, for dates; None for the clock.

    Source: RFC 9110, section 10.2.3.

    Example:
        >>> retry_after({"retry-after": "1.5"}), retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=50.0)
        (1.5, 10.0)
    """
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        if re.fullmatch(r"[0-9]+(\.[0-9]*)?", value := headers.get(name, "").strip()):
            seconds = float(value) * scale
            return seconds if seconds <= _LONGEST_WISH else None
    try:
        date = parsedate_to_datetime(headers["retry-after"])
        seconds = (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp()
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        return None
    wait = seconds - (time.time() if now is None else now)
    return wait if 0.0 < wait <= _LONGEST_WISH else None


def failure_of(error: Exception, key: Key) -> JudgeError:
    """Translates an exception of the client into a failure, without the key that some servers quote.

    Raise it outside of the ``except`` block: as its context the original would come along, and with it the request
    and its headers.
    """
    package = importlib.import_module("openai")
    if isinstance(error, package.APITimeoutError):
        return JudgeError(Status.TIMEOUT, "the connection timed out")
    if isinstance(error, package.APIConnectionError):
        return connection_failure(error.__cause__ or error, str(error.request.url))
    if isinstance(error, package.APIStatusError):
        return _status_failure(error.status_code, error, key_value(key))
    # All else is raised before a request leaves: by an argument, a header, the client itself.
    cause = f"the request cannot be made: {type(error).__name__}"
    message = _masked(f"{cause}: {error}", key_value(key))
    return JudgeError(Status.BAD_REQUEST, message, max_retries=0, shared_cause=cause)


_CLOSED = ("RemoteProtocolError", "ReadError")
"""Errors of the HTTP client where a server takes a connection and closes it, as one does that wants TLS."""


def unproven(failure: JudgeError, address: str) -> JudgeError:
    """What a failure means of a server that has answered nothing yet: without a connection the address may be wrong.

    Example:
        >>> str(unproven(JudgeError(Status.CONNECTION_ERROR, "no connection"), "http://127.0.0.1:9/v1"))
        'no connection (127.0.0.1:9 has answered nothing yet: is the address right, and does the server run?)'
    """
    if failure.status is not Status.CONNECTION_ERROR or failure.max_retries == 0:
        return failure
    wants_tls = str(failure).endswith(_CLOSED) and urlsplit(address).scheme == "http"
    advice = f"is the address right{', does it begin with https://' if wants_tls else ''}, and does the server run?"
    advice = f"{urlsplit(address).netloc} has answered nothing yet: {advice}"
    return JudgeError(failure.status, f"{failure} ({advice})", max_retries=UNPROVEN_RETRIES)


_SHORTEST_KEY = 8  # characters; a shorter one is a word for a server without keys, such as EMPTY


def masked(text: str, key: Key) -> str:
    """Returns at most 2,000 characters of a text in which the key is shown as ``***``."""
    return _masked(text, key_value(key))


def _masked(text: str, key: str | None) -> str:
    return (text.replace(key, "***") if key else text)[:2000]


_OF_THE_ROW = frozenset(
    ("context_length_exceeded", "string_above_max_length", "invalid_image", "exceed_context_size_error")
)
"""Codes of requests that are rejected for the texts that they hold."""
_OF_LARGE_ROWS = (413, 414, 431)
_ABOUT_THE_ROW = re.compile(
    r"context[ _-]?(size|length|window)|too (long|large|many tokens)|maximum (input|sequence|prompt) length"
    r"|flagged|moderat|safety|jailbreak|(content|prompt|input)\W[^.]{0,40}(polic|filter|risk|prohibit|unsafe|harmful)",
    re.IGNORECASE,
)
"""How servers without codes say that a request is rejected for its texts."""
_REMEDIES = {
    403: "may the key, or its role, use this model, and does a firewall let the request through?",
    404: "are the address, the name of the model or deployment, and api_version right?",
}
_REJECTED = (
    "does the server reject a parameter? One that says so in words alone needs temperature=None, seed=None or "
    'response_format="text"'
)
_REQUEST_ID = re.compile(r"request[ _-]?id\W{0,4}[\w.-]{1,100}", re.IGNORECASE)


def suspect_of(code: int, message: str) -> str:
    """Returns what may be wrong with every request: requests that are too long, say, differ by their messages.

    Example:
        >>> suspect_of(404, "HTTP 404: no such page"), suspect_of(400, "HTTP 400: no top_p (request id: 7f3a)")
        ('HTTP 404', 'HTTP 400: no top_p ()')
    """
    return f"HTTP {code}" if code in _REMEDIES else _REQUEST_ID.sub("", message)


def _status_failure(code: int, error: Any, key: str | None) -> JudgeError:
    message = _masked(f"HTTP {code}: {error.message}", key)
    wait = retry_after(error.response.headers)
    kinds = _kinds(error.body)
    if code == 429:
        return JudgeError(Status.QUOTA if "insufficient_quota" in kinds else Status.RATE_LIMITED, message, wait)
    if code == 408:
        return JudgeError(Status.TIMEOUT, message, wait)
    if code >= 500 or code in (409, 425):
        return JudgeError(Status.SERVER_ERROR, message, wait)
    if code == 401:
        return JudgeError(
            Status.UNAUTHORIZED, "HTTP 401: the server rejected the API key"
        )  # its text may quote the key
    if kinds & _MODERATED:
        return JudgeError(Status.CONTENT_FILTER, message)
    name = _parameter(error.body)
    # What is wrong with the messages is wrong with one row.
    is_shared = name not in (None, "messages") and kinds & (_UNSUPPORTED | {"model_not_found"})
    shared = _masked(f"the parameter {name}", key) if is_shared else None
    # Some gateways answer 422 while they are busy; a few retries, as azure-ai-evaluation does.
    retries = 3 if code == 422 and not unsupported_parameters(error) else None
    says_row = code != 404 and name in (None, "messages") and _ABOUT_THE_ROW.search(message)
    is_of_row = kinds & _OF_THE_ROW or code in _OF_LARGE_ROWS or says_row
    suspect = None if is_of_row else suspect_of(code, message)
    hint = _REMEDIES.get(code, _REJECTED)
    return JudgeError(Status.BAD_REQUEST, message, wait, retries, shared_cause=shared, suspect=suspect, hint=hint)


def unsupported_parameters(error: Exception) -> frozenset[str]:
    """Names of the request's parameters that a failure's own fields call unsupported.

    Its text is not looked at: it may quote what was asked. ``response_format`` counts whenever it is named as the
    culprit; others only by a code that says unsupported, not by one for a value out of range.
    """
    body = getattr(error, "body", None)
    name = _parameter(body)
    names = {name} if name == "response_format" or (name and _kinds(body) & _UNSUPPORTED) else set()
    for kind, place in _details(body):
        if place and (kind in _EXTRA_FIELD or place[0] == "response_format"):
            names.add(str(place[0]))
    return frozenset(name for name in names if name is not None)


def _parameter(body: Any) -> str | None:
    """The name in a failure's field ``param``, without the path to a part of it."""
    param = body.get("param") if isinstance(body, dict) else None
    return re.split(r"[.\[]", param)[0] if isinstance(param, str) and param else None


def _kinds(body: Any) -> frozenset[str]:
    """The codes and the type that a failure's fields hold."""
    if not isinstance(body, dict):
        return frozenset()
    inner = body.get("innererror")  # of Azure
    kinds = [body.get("code"), body.get("type"), inner.get("code") if isinstance(inner, dict) else None]
    return frozenset(kind for kind in kinds if isinstance(kind, str))


def _details(body: Any) -> Iterator[tuple[str, list[Any]]]:
    """Kind and place of every complaint of a server that validates by pydantic."""
    for holder in (body, body.get("message") if isinstance(body, dict) else None):
        details = holder.get("detail") if isinstance(holder, dict) else None
        for one in details if isinstance(details, list) else ():
            place = one.get("loc") if isinstance(one, dict) else None
            if isinstance(place, list):
                yield str(one.get("type")), place[1:] if place[:1] == ["body"] else place


def reply_of(response: Any, model: str, dropped: tuple[str, ...] = (), key: Key = None) -> Reply:
    """Reads the reply out of a response.

    A field that is not what it must be costs that field alone: usage is then unknown, ``model`` the one asked for.

    Args:
        response: status 200, with ``content``, ``headers`` and ``extensions``.
        model: that was asked.
        dropped: names of parameters that were left out.
        key: of the judge, which a server may send back; it is then shown as ``***``.

    Raises:
        JudgeError: ``truncated`` when the reply was too long to be read, ``server_error`` when it is none.
    """
    if response.extensions.get(CUT):
        cut = f"the reply was cut off after {len(response.content):,} bytes: it is longer than max_reply_bytes"
        raise JudgeError(Status.TRUNCATED, f"{cut}; raise it")
    completion = _completion(response, key)
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _no_completion(f"it has no choices with a message: {_WRONG_PLACE}")
    refusal, finish = message.get("refusal"), choice.get("finish_reason")
    if isinstance(refusal, str) and refusal:
        text, reason = refusal, "refusal"
    else:
        text = _text(message.get("content"))
        reason = "stop" if finish is None else finish if isinstance(finish, str) else "unknown"
    answered_by = completion.get("model")
    name = escaped(answered_by)[:200] if isinstance(answered_by, str) and answered_by else model
    if (secret := key_value(key)) and len(secret) >= _SHORTEST_KEY:
        text, name = text.replace(secret, "***"), name.replace(secret, "***")
    return Reply(text, _usage(completion.get("usage")), _logprobs(choice.get("logprobs")), reason, name, dropped)


def _completion(response: Any, key: Key) -> dict[str, Any]:
    """The JSON object of a reply; empty when its value is another."""
    try:
        value = json_of(response)
    except BodyError as error:
        reason = masked(str(error), key)
        if declared_types(response)[0].media_type == "text/event-stream":
            reason += "; it is a stream of events, which was not asked for"
        elif not response.content.lstrip().startswith(b"{"):  # a page, say
            reason += f": {_WRONG_PLACE}"
    else:
        return value if isinstance(value, dict) else {}
    raise _no_completion(reason)


_WRONG_PLACE = "does the address end as it should (often in /v1)?"


def _no_completion(reason: str) -> JudgeError:
    cause = "the reply was no chat completion"
    return JudgeError(
        Status.SERVER_ERROR,
        f"{cause}: {reason}",
        max_retries=UNPROVEN_RETRIES,
        suspect=cause,
    )


def _text(content: Any) -> str:
    """The text of a message, whose parts are joined when it is a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part for part in parts]
    if not all(isinstance(text, (str, dict)) for text in texts):
        raise JudgeError(Status.SERVER_ERROR, "the reply was no chat completion: its content is no text")
    return "".join(text for text in texts if isinstance(text, str))  # a dict is another kind of part: thinking, say


def _usage(usage: Any) -> Usage:
    """The tokens that a reply says it took; none at all when a number is odd."""
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = [0 if one is None else one for one in (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)]
    if any(type(one) is not int or not 0 <= one <= _MOST_TOKENS for one in counts) or counts[2] > counts[0]:
        return Usage()
    return Usage(*counts)


def _logprobs(logprobs: Any) -> tuple[dict[str, float], ...] | None:
    """Log-probabilities by token for each position; None when one is odd."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None
    positions = []
    for one in tokens:
        top = one.get("top_logprobs") if isinstance(one, dict) else None
        pairs = [one, *(top if isinstance(top, list) else ())]
        if not all(isinstance(pair, dict) and _is_pair(pair.get("token"), pair.get("logprob")) for pair in pairs):
            return None
        positions.append({pair["token"]: float(pair["logprob"]) for pair in pairs})
    return tuple(positions)


def _is_pair(token: Any, logprob: Any) -> bool:
    if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, (int, float)):
        return False
    # Rounding takes the logarithm of a probability of 1 slightly above 0.
    return logprob == -math.inf or -1e300 < logprob <= 1e-3
