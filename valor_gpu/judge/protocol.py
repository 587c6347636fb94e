"""Protocol of judges: replies, errors, and the judgement of a question. No torch, no network."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar, runtime_checkable

from valor_gpu.errors import InputTypeError, ValorError
from valor_gpu.judge.held_loop import LoopUse, Steps
from valor_gpu.judge.returned import reply_text

T = TypeVar("T")
Message = Mapping[str, Any]
"""``role`` and ``content``, as in the chat-completions protocol."""
Messages = Sequence[Message]
Schema = Mapping[str, Any]
"""A JSON schema of the reply."""


_TOKEN_LIMITS = ("max_completion_tokens", "max_tokens", "max_new_tokens")


class Status(str, Enum):
    """How a question ended. All but ``OK`` are failures: the value is then None, never 0."""

    OK = "ok"
    PARSE_ERROR = "parse_error"  # a reply that holds no usable value, also after the repair
    TRUNCATED = "truncated"  # finish_reason "length"
    CONTENT_FILTER = "content_filter"
    REFUSED = "refused"
    NOT_APPLICABLE = "not_applicable"  # the row lacks an input, or the judge says that it cannot be scored
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    QUOTA = "quota"  # the account is used up: waiting does not help
    SERVER_ERROR = "server_error"
    CONNECTION_ERROR = "connection_error"
    BAD_REQUEST = "bad_request"
    UNAUTHORIZED = "unauthorized"
    JUDGE_ERROR = "judge_error"  # a callable judge raised
    METRIC_ERROR = "metric_error"  # the metric's own code raised, or returned something that is no value
    CANCELLED = "cancelled"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Usage:
    """Counts of tokens.

    Attributes:
        prompt: tokens of the messages, at least 0.
        completion: tokens of the replies, at least 0; hidden reasoning counts.
        cached: how many of ``prompt`` the server took from its own cache.

    Example:
        >>> Usage(100, 20) + Usage(50, 10, 40)
        Usage(prompt=150, completion=30, cached=40)
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion, self.cached + other.cached)

    @property
    def total(self) -> int:
        """Tokens of messages and replies."""
        return self.prompt + self.completion


@dataclass(frozen=True)
class Reply:
    """Answer of a judge.

    Attributes:
        text: the reply; the refusal's text when ``finish_reason`` is ``refusal``.
        usage: tokens, zeros where the judge does not tell.
        logprobs: for each token of the reply the natural logarithms of the probabilities of the likeliest tokens;
            None where the judge does not tell.
        finish_reason: ``stop``, ``length``, ``content_filter``, ``refusal`` or what the server says.
        model: the model that answered.
        dropped: names of the parameters that this request was sent without because the server rejects them.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    logprobs: tuple[Mapping[str, float], ...] | None = None
    finish_reason: str = "stop"
    model: str = ""
    dropped: tuple[str, ...] = ()


@runtime_checkable
class Judge(Protocol):
    """Anything that answers messages.

    A judge may also have ``async ready()``, awaited before a request is counted, ``unready()``, called when that
    request is then not sent after all, ``async aclose()``, awaited at the end of a run, ``concurrency``, the number
    of requests in flight that suits it, and ``dropped(schema)``, the names of the parameters that a request with this
    schema would now be sent without because the server rejects them. They are part of the cache key, as is
    :attr:`Reply.dropped`.

    Attributes:
        identity: what decides the replies (kind, model, address, parameters) as JSON values without secrets; it is
            part of the cache key. None: replies are not cached.

    Raises:
        JudgeError: from the call, for all that can go wrong with it.
    """

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """What decides the replies, without secrets."""
        ...

    async def __call__(self, messages: Messages, schema: Schema | None) -> Reply:
        """Answer ``messages``, if possible with a JSON object that follows ``schema``."""
        ...


class JudgeError(ValorError):
    """A judge gave no reply.

    Args:
        status: the kind of failure.
        message: what happened, without secrets.
        retry_after: seconds that the server asks to wait. 0, a negative number (a date in the past) and NaN count as
            None: the server asks for nothing.
        max_retries: how often this failure is worth a retry; None for the limit of the run.
        retry_now: the judge has adapted itself to the server and wants the question again at once.
        shared_cause: what makes this request fail and, as far as the judge can tell, every other one too, whatever
            the row holds: an argument that the client does not know, a header or key that cannot be sent. The same
            cause five times in a row stops the run. None: the failure belongs to this request.
        suspect: what may make every request fail. It stops the run when five requests in a row failed by it and none
            was answered before. None: nothing.
        hint: question that leads to the remedy of the suspect.
    """

    def __init__(
        self,
        status: Status,
        message: str,
        retry_after: float | None = None,
        max_retries: int | None = None,
        retry_now: bool = False,
        shared_cause: str | None = None,
        suspect: str | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after if retry_after is not None and retry_after > 0.0 else None
        self.max_retries = max_retries
        self.retry_now = retry_now
        self.shared_cause = shared_cause
        self.suspect, self.hint = suspect, hint


@dataclass(frozen=True)
class Judgement:
    """Judgement of one question, or of one row by one metric.

    Attributes:
        value: the number, or for a question what its ``parse`` returned; None unless ``status`` is ok.
        status: how it ended.
        reply: the last reply, also of a failure; None when there was none.
        attempts: requests that were made, retries and repair included.
        usage: tokens spent now: zeros when the reply was known already (``reply.usage`` has what it once took).
        cached: whether all replies were known already, from the cache or from equal questions of the run.
        seconds: from the first attempt to the end, waiting included.
        error: why it failed, empty when it did not.
        details: of a row, what the metric gave beside its number: the object with a ``__float__`` that its ``score``
            returned, or the ``details`` of the :class:`NotApplicable` that it raised; None where there is neither.
    """

    value: Any
    status: Status
    reply: Reply | None = None
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    cached: bool = False
    seconds: float = 0.0
    error: str = ""
    details: Any = None

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.status is Status.OK


def describe(error: BaseException) -> str:
    """Type and text of an exception, also of one whose text cannot be made.

    Example:
        >>> describe(ValueError("no number"))
        'ValueError: no number'
    """
    return f"{type(error).__name__}: {text_of(error)}"


def text_of(error: BaseException) -> str:
    """Text of an exception, also of one whose text cannot be made.

    Example:
        >>> text_of(ValueError("no number"))
        'no number'
    """
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "its text cannot be made"


def token_limit(identity: Mapping[str, Any] | None) -> str:
    """The limit of a judge that cut a reply off, and the argument that raises it.

    Args:
        identity: of the judge.

    Example:
        >>> token_limit({"kind": "openai", "model": "m", "parameters": {"max_tokens": 256}})
        "max_tokens=256, thoughts included: raise it (in evaluate()'s model_config, where that makes the judge)"
    """
    given, asked = identity or {}, (identity or {}).get("parameters")
    known = {**given, **asked} if isinstance(asked, Mapping) else given
    name = next((name for name in _TOKEN_LIMITS if known.get(name) is not None), None)
    if name == "max_new_tokens":
        return f"{name}={known[name]}, thoughts included: raise it"
    where = "in evaluate()'s model_config, where that makes the judge"
    if name is None:
        return f"the limit of its tokens, thoughts included: set a larger max_tokens ({where})"
    return f"{name}={known[name]}, thoughts included: raise it ({where})"


def in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Runs ``function`` in a daemon thread of its own: one that hangs holds up neither the loop nor the exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if future.done():  # timed out or cancelled meanwhile
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as caught:
            # A future takes no StopIteration, and what is no Exception would end the loop.
            passes = isinstance(caught, Exception) and not isinstance(caught, StopIteration)
            error = caught if passes else RuntimeError(f"the thread ended by {describe(caught)}")
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, daemon=True, name="valor_gpu judge").start()
    return future


def is_coroutine(function: Callable[..., Any]) -> bool:
    """Whether a function, or the ``__call__`` of an object, is a coroutine function."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class CallableJudge:
    """A function as a judge.

    Args:
        function: takes the messages, gives the text or a :class:`Reply`; a coroutine function, or a plain one, which
            then runs in threads. A message, or another object with a text as ``content``, is that text; a number, a
            dict, a dataclass and a pydantic model are their JSON text.
        name: names the function and its version in the cache; without it (and without an attribute ``model_name``
            of the function) nothing is cached, since nobody could tell when the function changes.

    Raises:
        InputTypeError: ``function`` cannot be called.

    Example:
        >>> CallableJudge(lambda messages: "4", name="always four").identity
        {'kind': 'callable', 'name': 'always four'}
    """

    def __init__(self, function: Callable[[Any], Any], name: str | None = None) -> None:
        if not callable(function):
            raise InputTypeError(f"judge must be a Judge or a callable but got {type(function).__name__}")
        self._function = function
        self._is_async = is_coroutine(function)
        self._name = name if name is not None else getattr(function, "model_name", None)
        self.loop_use = LoopUse(f"the judge {getattr(function, '__name__', type(function).__name__)}")

    def __repr__(self) -> str:
        return f"CallableJudge({self._name or self._function!r})"

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """The name, if there is one."""
        return None if self._name is None else {"kind": "callable", "name": str(self._name)}

    async def __call__(self, messages: Messages, schema: Schema | None = None) -> Reply:
        """Calls the function; what it raises becomes a :class:`JudgeError` that is not retried."""
        copies = [dict(message) for message in messages]
        try:
            found = self._function(copies) if self._is_async else await in_thread(lambda: self._function(copies))
            if inspect.isawaitable(found):
                found = await Steps(found, self.loop_use)
        except JudgeError:
            raise
        except Exception as error:
            message = f"the judge raised {describe(error)}"
            raise JudgeError(Status.JUDGE_ERROR, message, max_retries=0) from error
        if isinstance(found, Reply):
            return found
        text = reply_text(found)
        if text is None:
            what = "str or Reply, a number, a dict of JSON or an object with its text as content"
            message = f"the judge must return {what} but returned {type(found).__name__}"
            raise JudgeError(Status.JUDGE_ERROR, message, max_retries=0)
        return Reply(text, model=str(self._name or ""))


def as_judge(judge: Any) -> Judge:
    """``judge`` itself when it has an ``identity``, else the callable wrapped.

    Raises:
        InputTypeError: it is neither.

    Example:
        >>> as_judge(lambda messages: "yes").identity is None
        True
    """
    return judge if hasattr(judge, "identity") and callable(judge) else CallableJudge(judge)
