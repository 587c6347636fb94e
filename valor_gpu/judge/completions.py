"""What the ``openai`` client gives and raises, in the words of the protocol."""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from valor_gpu.judge.protocol import JudgeError, Reply, Status, Usage

_MODERATED = re.compile(r"content_filter|content_policy|ResponsibleAIPolicyViolation|content management policy")


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that a reply's headers ask to wait; None when they do not.

    Args:
        headers: names in lower case: ``retry-after-ms``, else ``retry-after`` in seconds or as an HTTP date.
        now: seconds since 1970, for dates; None for the clock.

    Source: RFC 9110, section 10.2.3.

    Example:
        >>> retry_after({"retry-after": "1.5"}), retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=50.0)
        (1.5, 10.0)
    """
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is not None and re.fullmatch(r"\s*\d+(\.\d*)?\s*", value):
            return float(value) * scale
    try:
        date = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def failure_of(error: Exception, key_variable: str | None) -> JudgeError:
    """The kind of failure that an exception of the client is, without the key that some servers quote."""
    package = importlib.import_module("openai")
    if isinstance(error, package.APITimeoutError):
        return JudgeError(Status.TIMEOUT, "the connection timed out")
    if isinstance(error, package.APIConnectionError):
        return JudgeError(Status.CONNECTION_ERROR, f"no connection: {type(error.__cause__ or error).__name__}")
    if isinstance(error, package.APIStatusError):
        return _status_failure(error.status_code, error, os.environ.get(key_variable or ""))
    return JudgeError(Status.SERVER_ERROR, f"the reply was no chat completion: {type(error).__name__}: {error}"[:500])


def _status_failure(code: int, error: Any, key: str | None) -> JudgeError:
    text = str(error.message)
    message = f"HTTP {code}: {text.replace(key, '***') if key else text}"[:2000]
    wait = retry_after(error.response.headers)
    if code == 429:
        used_up = "insufficient_quota" in (error.code, error.type) or "insufficient_quota" in message
        return JudgeError(Status.QUOTA if used_up else Status.RATE_LIMITED, message, wait)
    if code == 408:
        return JudgeError(Status.TIMEOUT, message, wait)
    if code >= 500 or code in (409, 425):
        return JudgeError(Status.SERVER_ERROR, message, wait)
    if code == 401:
        return JudgeError(Status.UNAUTHORIZED, "HTTP 401: the server refused the API key")  # its text may quote the key
    if error.code == "content_filter" or (code in (400, 403) and _MODERATED.search(message)):
        return JudgeError(Status.CONTENT_FILTER, message)
    # Some gateways answer 422 while they are busy; a few retries, as azure-ai-evaluation does.
    return JudgeError(Status.BAD_REQUEST, message, wait, max_retries=3 if code == 422 else None)


def reply_of(completion: Any, model: str) -> Reply:
    """The reply that a chat completion is; raises :class:`JudgeError` when it is none."""
    choices = getattr(completion, "choices", None)
    if not choices or getattr(choices[0], "message", None) is None:
        raise JudgeError(Status.SERVER_ERROR, "the reply was no chat completion: it has no choices")
    choice = choices[0]
    refusal = getattr(choice.message, "refusal", None)
    text = refusal or choice.message.content or ""
    finish = "refusal" if refusal else (choice.finish_reason or "stop")
    return Reply(text, _usage(completion.usage), _logprobs(choice), finish, getattr(completion, "model", None) or model)


def _usage(usage: Any) -> Usage:
    if usage is None:
        return Usage()
    cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None)
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, cached or 0)


def _logprobs(choice: Any) -> tuple[dict[str, float], ...] | None:
    tokens = getattr(getattr(choice, "logprobs", None), "content", None)
    if not tokens:
        return None
    return tuple(
        {token.token: token.logprob} | {top.token: top.logprob for top in token.top_logprobs or ()} for token in tokens
    )
