"""Records of what a judge or target was asked and what came back, for traces of a run. No torch, no network.

Within :func:`recorded`, every question that a scheduler is asked becomes a :class:`Call` of the record. Elsewhere
nothing is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.judge.protocol import JudgeError, Judgement, Message, Messages, Reply, Status, Usage


@dataclass
class Request:
    """Describes a request of a call.

    Attributes:
        messages: those behind the messages of the call, as a repair adds them.
        begun: reading of ``time.perf_counter`` when it was sent.
        seconds: until its reply or failure; None while it is under way.
        reply: of the server.
        status: how it ended; ``parse_error`` for a reply that could not be read.
        error: in words.
        waited: seconds from its failure to the next request.
    """

    messages: tuple[Message, ...] = ()
    begun: float = field(default_factory=time.perf_counter)
    seconds: float | None = None
    reply: Reply | None = None
    status: str = str(Status.CANCELLED)
    error: str = ""
    waited: float = 0.0


class Call:
    """Records a question, its requests and its end.

    Attributes:
        messages: of the question; empty for a function.
        arguments: of a function; None for messages.
        returned: by a function, where ``has_returned``.
        requests: in the order in which they were sent.
        end: the judgement; None while it is under way, and after a cancellation.
    """

    def __init__(self, messages: Messages = (), arguments: Mapping[str, Any] | None = None) -> None:
        self.messages, self.arguments = tuple(messages), arguments
        self.returned: Any = None
        self.has_returned = False
        self.requests: list[Request] = []
        self.end: Judgement | None = None

    def sent(self, messages: Messages) -> None:
        """Records that a request leaves."""
        same = len(self.messages)
        self.requests.append(Request(tuple(messages[same:])))

    def replied(self, reply: Reply) -> None:
        """Records the reply to the request that left last."""
        self._close(Status.OK, "")
        self.requests[-1].reply = reply

    def failed(self, error: JudgeError) -> None:
        """Records a failure, unless it came before a request left."""
        if self.requests and self.requests[-1].seconds is None:
            self._close(error.status, str(error))

    def unreadable(self, judgement: Judgement) -> None:
        """Records that the last reply gave no value, and why."""
        if self.requests:
            self.requests[-1].status, self.requests[-1].error = str(judgement.status), judgement.error

    def waited(self, seconds: float) -> None:
        """Records the wait behind a failure."""
        if self.requests:
            self.requests[-1].waited += seconds

    def gave(self, returned: Any) -> None:
        """Records what a function returned."""
        self.returned, self.has_returned = returned, True

    def ended(self, judgement: Judgement) -> Judgement:
        """Records the judgement of the question, and returns it."""
        self.end = judgement
        return judgement

    def _close(self, status: Status, error: str) -> None:
        request = self.requests[-1]
        request.seconds = time.perf_counter() - request.begun
        request.status, request.error = str(status), error


class _Unrecorded(Call):
    """Records nothing, and costs nothing."""

    def sent(self, messages: Messages) -> None:
        pass

    def replied(self, reply: Reply) -> None:
        pass

    def failed(self, error: JudgeError) -> None:
        pass

    def unreadable(self, judgement: Judgement) -> None:
        pass

    def waited(self, seconds: float) -> None:
        pass

    def gave(self, returned: Any) -> None:
        pass

    def ended(self, judgement: Judgement) -> Judgement:
        return judgement


UNRECORDED: Call = _Unrecorded()
"""The call of a question that is not recorded."""


@dataclass
class Record:
    """Lists the calls of one score, or of one answer.

    Attributes:
        calls: in the order in which they began.
        target: kind, address, headers and the like of the target that was asked; empty for a score.
    """

    calls: list[Call] = field(default_factory=list)
    target: dict[str, Any] = field(default_factory=dict)

    def seconds(self) -> list[float]:
        """Returns the seconds of every request that got a reply."""
        requests = [each for call in self.calls for each in call.requests]
        return [each.seconds for each in requests if each.reply is not None and each.seconds is not None]


_RECORD: ContextVar[Record | None] = ContextVar("valor_gpu_record", default=None)


@contextmanager
def recorded() -> Iterator[Record]:
    """Records the calls of the running task, and of those that it starts, within ``with``.

    Example:
        >>> with recorded() as record:
        ...     begin_call([{"role": "user", "content": "How good?"}]).sent([{"role": "user", "content": "How good?"}])
        >>> len(record.calls), len(record.calls[0].requests), begin_call([]) is UNRECORDED
        (1, 1, True)
    """
    token = _RECORD.set(Record())
    try:
        record = _RECORD.get()
        assert record is not None
        yield record
    finally:
        _RECORD.reset(token)


def begin_call(messages: Messages = (), arguments: Mapping[str, Any] | None = None) -> Call:
    """Returns a new call of the record; one that records nothing where there is no record."""
    record = _RECORD.get()
    if record is None:
        return UNRECORDED
    call = Call(messages, arguments)
    record.calls.append(call)
    return call


@dataclass(frozen=True)
class VectorRequest:
    """Describes a request for the embeddings of texts.

    Attributes:
        texts: that it asked for.
        status: how it ended.
        error: in words.
        seconds: that it took, with the tries that its client made.
        retries: tries behind the first.
        model: that the server named.
        usage: tokens of all texts of the request.
        size: numbers of a vector; 0 without vectors.
    """

    texts: tuple[str, ...]
    status: str
    error: str
    seconds: float
    retries: int = 0
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    size: int = 0


_VECTORS: ContextVar[list[VectorRequest] | None] = ContextVar("valor_gpu_vectors", default=None)


@contextmanager
def recorded_vectors() -> Iterator[list[VectorRequest]]:
    """Records the requests for embeddings within ``with``.

    Example:
        >>> with recorded_vectors() as requests:
        ...     add_vectors(VectorRequest(("a text",), "ok", "", 0.1))
        >>> len(requests)
        1
    """
    requests: list[VectorRequest] = []
    token = _VECTORS.set(requests)
    try:
        yield requests
    finally:
        _VECTORS.reset(token)


def add_vectors(request: VectorRequest) -> None:
    """Adds a request for embeddings to the record, if any."""
    if (requests := _VECTORS.get()) is not None:
        requests.append(request)


def describe_target(**facts: Any) -> None:
    """Adds facts of the target to the record, if any."""
    if (record := _RECORD.get()) is not None:
        record.target.update(facts)
