"""Rows judged as they come: a window of rows is under way, and each row is handed on when it has been judged."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import queue
import sys
import warnings
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager
from typing import Any

from valor_gpu.argument_docs import arguments_of
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.metric import LLMMetric
from valor_gpu.judge.rows import JudgedRow, RowsUnderWay, check_metrics, check_repeats
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.judge.threads import WAKE, LoopThread, cancellations, interrupts_here

_END: Any = object()
TICK = 1.0  # seconds between looks at a run in which no row ends


class _Source:
    """The rows of a run, up to their end or the error in their way."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = enumerate(rows)
        self._error: Exception | None = None

    def pull(self) -> tuple[Any, Any]:
        """Number and row of the next one; ``_END`` and None when there is none."""
        try:
            return next(self._rows, (_END, None))
        except Exception as error:  # the rows before it are judged first
            self._error = error
            return _END, None

    def check(self) -> None:
        """Raises the error, if there was one."""
        if self._error is not None:
            raise self._error


class _Notices:
    """Warnings of a run, each given once, in the thread of the caller."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._dropped = self._failed = False

    def show(self) -> None:
        """Warns of parameters that were dropped, of a cache that failed, and of a server that does not answer."""
        while self._scheduler.retries.notices:
            _warn(self._scheduler.retries.notices.popleft())
        if self._scheduler.dropped and not self._dropped:
            self._dropped = True
            names = ", ".join(self._scheduler.dropped)
            _warn(f"the judge's server rejects {names}: requests are sent without, and `dropped` of the run says so")
        if (error := self._scheduler.replies.error) is not None and not self._failed:
            self._failed = True
            _warn(f"the cache failed, replies may not be kept or found: {error}")


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=5)


@contextmanager
def open_scheduler(
    judge: Any,
    limits: Limits | None,
    cache: JudgeCache | str | os.PathLike[str] | None,
    seed: int | None,
    scheduler: Scheduler | None,
) -> Iterator[Scheduler]:
    """The scheduler given, or one of these arguments; a cache given by its path is closed at the end."""
    if scheduler is not None:
        yield scheduler
    elif cache is None or isinstance(cache, JudgeCache):
        yield Scheduler(judge, limits, cache, seed)
    else:
        with JudgeCache(cache) as file:
            yield Scheduler(judge, limits, file, seed)


def stream_judge(
    rows: Iterable[Any],
    metrics: Iterable[LLMMetric],
    judge: Any = None,
    *,
    limits: Limits | None = None,
    cache: JudgeCache | str | os.PathLike[str] | None = None,
    repeats: int = 1,
    seed: int | None = None,
    scheduler: Scheduler | None = None,
) -> Generator[JudgedRow, None, None]:
    """Judges rows as they come and yields each when it has been judged, which need not be their order.

    Rows are pulled in the caller's thread, never more than a window of twice ``concurrency`` ahead of the results
    that the caller has taken; requests go on while the caller works. So neither rows nor results pile up. Rows that
    wait for another try after a failure are not counted in the window, up to 1000 of them.

    An error that the iterator of the rows raises is raised here when the rows before it have been judged and yielded.

    Ctrl-C while it waits: the rows under way are yielded with the status ``cancelled``, then KeyboardInterrupt is
    raised. Leaving the loop early cancels what is under way.

    Args:
        rows: what the metrics take, also without end.
        metrics: numbers to compute of every row; their names must differ.
        judge: a :class:`Judge`, or a callable from messages to text.
        limits: how it may be asked, by all metrics together.
        cache: keeps replies; a run that was killed goes on where it was. A path, or an open one.
        repeats: times that every question is asked, at least 1.
        seed: of the random waits.
        scheduler: used instead of one made from ``judge``, ``limits``, ``cache`` and ``seed``; it has the run's
            ``usage``, ``attempts``, ``stopped`` and ``dropped``.

    Raises:
        InputError: arguments that cannot be used, or a scheduler that serves another run.

    Example:
        >>> from valor_gpu.judge import Question, question_metric
        >>> def ask_for(row):
        ...     return Question([{"role": "user", "content": f"How long is {row!r}?"}], int)
        >>> length = question_metric("length", ask_for, 0, 100)
        >>> rows = ("a" * number for number in range(3))
        >>> judge = lambda messages: str(len(messages[0]["content"]) - len("How long is ''?"))
        >>> sorted((one.index, one.judgements["length"][0].value) for one in stream_judge(rows, [length], judge))
        [(0, 0.0), (1, 1.0), (2, 2.0)]
    """
    checked, repeats = check_metrics(metrics), check_repeats(repeats)
    cleanup = contextlib.ExitStack()
    opened = cleanup.enter_context(open_scheduler(judge, limits, cache, seed, scheduler))
    return plain_stream(opened, rows, checked, repeats, cleanup)


def plain_stream(
    scheduler: Scheduler,
    rows: Iterable[Any],
    metrics: Sequence[LLMMetric],
    repeats: int,
    cleanup: contextlib.ExitStack,
    idle: Callable[[], object] = lambda: None,
) -> Generator[JudgedRow, None, None]:
    """:func:`stream_judge` of checked arguments; ``idle`` is called now and then while no row comes."""
    finished: queue.SimpleQueue[JudgedRow | BaseException | None] = queue.SimpleQueue()  # None: there may be room
    pulled, source, notices = 0, _Source(rows), _Notices(scheduler)
    got: list[JudgedRow | BaseException | None] = []  # a row that has come and was not handed on
    before = cancellations()
    with cleanup, LoopThread(scheduler) as thread:
        started = RowsUnderWay(scheduler, metrics, repeats, finished.put, lambda: finished.put(None))
        room, more = started.room, True
        try:
            while more or room.under_way:
                with interrupts_here():
                    if (now := cancellations()) != before and now[0] is before[0]:
                        raise KeyboardInterrupt
                    # Two rows for each result: the window fills, and slow rows do not hold up results for long.
                    if more and room.free() > 0 and (finished.empty() or pulled < 2):
                        pulled += 1
                        more = _start(*source.pull(), started, thread)
                        continue
                    try:
                        got.extend(map(finished.get, (True,), (WAKE,)))  # one step, which no interrupt parts
                    except queue.Empty:
                        got = [None]
                found, pulled = got[0], 0
                notices.show()
                if found is None:
                    got = []
                    idle()
                    continue
                judged, before = _row_of(found), cancellations()
                room.under_way -= 1
                got = []
                yield judged
            source.check()
        except KeyboardInterrupt:
            with interrupts_here():
                thread.end(started.cancel())
            yield from _left(got, finished)
            raise
        finally:
            if not sys.is_finalizing():
                thread.end(started.cancel())


def _start(index: Any, row: Any, started: RowsUnderWay, thread: LoopThread) -> bool:
    """Starts a row; False when there was none."""
    if index is _END:
        return False
    thread.loop.call_soon_threadsafe(started.start, index, row)
    started.room.under_way += 1
    return True


def _left(
    got: list[JudgedRow | BaseException | None], finished: queue.SimpleQueue[JudgedRow | BaseException | None]
) -> Iterator[JudgedRow]:
    """The rows that have come and were not handed on."""
    while got or not finished.empty():
        if (left := got.pop() if got else finished.get()) is not None:
            yield _row_of(left)


def _row_of(judged: JudgedRow | BaseException) -> JudgedRow:
    if isinstance(judged, BaseException):
        raise judged
    return judged


@arguments_of(stream_judge)
def stream_judge_async(
    rows: Iterable[Any] | AsyncIterable[Any],
    metrics: Iterable[LLMMetric],
    judge: Any = None,
    *,
    limits: Limits | None = None,
    cache: JudgeCache | str | os.PathLike[str] | None = None,
    repeats: int = 1,
    seed: int | None = None,
    scheduler: Scheduler | None = None,
) -> AsyncGenerator[JudgedRow, None]:
    """:func:`stream_judge` in the running event loop, for ``async for``.

    Cancelling the task that iterates: the rows under way are yielded with the status ``cancelled``, then
    CancelledError is raised. Whoever leaves the loop early closes the generator with ``contextlib.aclosing``.

    Args:
        rows: a synchronous or asynchronous iterable. A synchronous one is pulled in the event loop and must not block.

    Raises:
        InputError: arguments that cannot be used, or a scheduler that serves another run.

    Example:
        >>> from valor_gpu.judge import Question, question_metric
        >>> rating = question_metric("rating", lambda row: Question([{"role": "user", "content": row}], int), 1, 5)
        >>> async def main():
        ...     return [one.index async for one in stream_judge_async(["a"], [rating], lambda messages: "4")]
        >>> asyncio.run(main())
        [0]
    """
    checked, repeats = check_metrics(metrics), check_repeats(repeats)
    cleanup = contextlib.ExitStack()
    opened = cleanup.enter_context(open_scheduler(judge, limits, cache, seed, scheduler))
    return async_stream(opened, rows, checked, repeats, cleanup)


async def async_stream(
    scheduler: Scheduler,
    rows: Iterable[Any] | AsyncIterable[Any],
    metrics: Sequence[LLMMetric],
    repeats: int,
    cleanup: contextlib.ExitStack,
    idle: Callable[[], object] = lambda: None,
) -> AsyncGenerator[JudgedRow, None]:
    """:func:`stream_judge_async` of checked arguments; ``idle`` is called now and then while no row comes."""
    finished: asyncio.Queue[JudgedRow | BaseException | None] = asyncio.Queue()
    notices, changed = _Notices(scheduler), asyncio.Event()
    with cleanup:
        async with scheduler:
            started = RowsUnderWay(scheduler, metrics, repeats, finished.put_nowait, changed.set)
            feeder = asyncio.ensure_future(_feed(rows, started, changed))
            feeder.add_done_callback(lambda _: finished.put_nowait(None))
            ticker = asyncio.ensure_future(_tick(finished))
            try:
                while not feeder.done() or started.room.under_way:
                    judged = await finished.get()
                    notices.show()
                    if judged is None:
                        changed.set()  # a silence ends without a word
                        idle()
                        continue
                    yield _row_of(judged)
                    started.room.under_way -= 1
                    changed.set()
                feeder.result()  # an error of the rows is raised when those before it have been judged
            except asyncio.CancelledError:
                await started.cancel()
                while not finished.empty():
                    if (judged := finished.get_nowait()) is not None:
                        yield _row_of(judged)
                raise
            finally:
                feeder.cancel()
                ticker.cancel()
                await asyncio.gather(feeder, ticker, return_exceptions=True)
                await started.cancel()


async def _tick(finished: asyncio.Queue[JudgedRow | BaseException | None]) -> None:
    while True:
        await asyncio.sleep(TICK)
        finished.put_nowait(None)


async def _feed(rows: Iterable[Any] | AsyncIterable[Any], started: RowsUnderWay, changed: asyncio.Event) -> None:
    """Starts the rows, each when there is room for it."""
    ahead = rows.__aiter__() if isinstance(rows, AsyncIterable) else iter(rows)
    for index in itertools.count():
        while started.room.free() <= 0:
            changed.clear()
            await changed.wait()
        try:
            row = await ahead.__anext__() if isinstance(ahead, AsyncIterator) else next(ahead)
        except (StopIteration, StopAsyncIteration):
            return
        started.room.under_way += 1
        started.start(index, row)
