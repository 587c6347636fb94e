"""Runs: rows x metrics x repeats -> judgements in order, with their aggregate statistics."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterable, Callable, Generator, Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from valor_gpu._headline import headline
from valor_gpu.argument_docs import arguments_of
from valor_gpu.errors import InputError, ValorError
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.metric import LLMMetric
from valor_gpu.judge.progress import Pace, Progress, ProgressBar, asked_of, time_left
from valor_gpu.judge.protocol import Judgement, Status, Usage, describe
from valor_gpu.judge.rows import JudgedRow, check_metrics, check_repeats
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.judge.statistics import Prices, Summary, check_clusters, row_mean, summarize
from valor_gpu.judge.stream import TICK, async_stream, open_scheduler, plain_stream, stream_judge


@dataclass(frozen=True)
class JudgeRun:
    """Results of a judge run.

    Attributes:
        judgements: metric name to a list by row of lists by repeat.
        summaries: metric name to the aggregate statistics of its judgements.
        usage: tokens spent now, by all metrics.
        cost: of ``usage``; None without prices.
        seconds: duration of the run.
        peak: most requests that were in flight together.
        stopped: why the run stopped asking before its end; None when it did not.
        dropped: names of the parameters that requests were sent without because the server rejects them; the replies
            (``judgement.reply.dropped``) say which requests.
        cache_error: the first failure of the cache, which costs the keeping of replies; None when there was none.
    """

    judgements: Mapping[str, list[list[Judgement]]]
    summaries: Mapping[str, Summary]
    usage: Usage
    cost: float | None
    seconds: float
    peak: int
    stopped: str | None
    dropped: tuple[str, ...]
    cache_error: str | None

    def __repr__(self) -> str:
        means = {name: summary.mean for name, summary in self.summaries.items()}
        rows = max(map(len, self.judgements.values()), default=0)
        failed = sum(sum(summary.n_failed.values()) for summary in self.summaries.values())
        return headline(type(self).__name__, "", means, {"rows": rows, "failed": failed})

    def scores(self, metric: str) -> list[float]:
        """Number of each row: the mean of its scored repeats, NaN when there is none."""
        return [row_mean(row) for row in self.judgements[metric]]

    def row_usage(self, row: int) -> Usage:
        """Tokens spent now for one row, by all metrics."""
        return sum((one.usage for rows in self.judgements.values() for one in rows[row]), Usage())


class JudgeInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped a run.

    Attributes:
        run: results of what was judged; the rest has the status ``cancelled``.
    """

    def __init__(self, run: JudgeRun) -> None:
        super().__init__()
        self.run = run


class JudgeAborted(ValorError):
    """The rows' iterator or the progress function raised an error, which is the ``__cause__``.

    Attributes:
        run: results of what was judged; the rest has the status ``cancelled``.
    """

    def __init__(self, run: JudgeRun, cause: str) -> None:
        super().__init__(f"the run ended early, what was judged is in `run` of this error: {cause}")
        self.run = run


class JudgeCancelled(ValorError):
    """The task of a run was cancelled: the ``__cause__`` of its ``asyncio.CancelledError``.

    It is no CancelledError itself, since ``asyncio.timeout`` and task groups know that class alone as a cancellation.
    Look at it within the task: Python 3.10 shows a new CancelledError without the cause to those who await the task.

    Attributes:
        run: results of what was judged; the rest has the status ``cancelled``.
    """

    def __init__(self, run: JudgeRun) -> None:
        super().__init__("the run was cancelled; what was judged is in `run` of this error")
        self.run = run


class _Collected:
    """Judgements of a run as they come, and the results made of them."""

    def __init__(
        self,
        rows: Any,
        metrics: Sequence[LLMMetric],
        scheduler: Scheduler,
        repeats: int,
        clusters: Sequence[Hashable] | None,
        prices: Prices | None,
        progress: Callable[[Progress], object] | bool,
    ) -> None:
        self._count = len(rows) if isinstance(rows, Sized) else None
        if clusters is not None and self._count is None:
            raise InputError("clusters must be given with rows of a known number but rows are an iterator")
        clusters = check_clusters(clusters, self._count or 0)
        self._metrics, self._scheduler, self._repeats = metrics, scheduler, repeats
        self._clusters, self._prices = clusters, prices
        self._bar = ProgressBar() if progress is True else None
        self._show = progress if callable(progress) else self._bar
        self._rows: dict[int, Mapping[str, tuple[Judgement, ...]]] = {}
        self._done = self._failed = self._cached = 0
        self._begun = self._shown = perf_counter()
        self._pace = Pace()
        self._pace.rate(0)

    def add(self, judged: JudgedRow) -> None:
        """Takes the judgements of a row and shows the progress."""
        self._rows[judged.index] = judged.judgements
        if self._show is None:
            return
        for repeats in judged.judgements.values():
            self._done += len(repeats)
            self._failed += sum(not one.ok for one in repeats)
            self._cached += sum(one.cached for one in repeats)
        self._show_progress()

    def idle(self) -> None:
        """Shows the progress while no row comes, since requests that wait for another try may hold the run up."""
        is_due = self._scheduler.retries.waiting or self._bar is not None
        if is_due and perf_counter() - self._shown >= TICK:
            self._show_progress()

    def _show_progress(self) -> None:
        if self._show is None:
            return
        self._shown = perf_counter()
        total = None if self._count is None else self._count * len(self._metrics) * self._repeats
        asked, pace = asked_of(self._scheduler), self._paced(total)
        self._show(Progress(self._done, total, self._failed, self._cached, *asked, **pace))

    def _paced(self, total: int | None) -> dict[str, Any]:
        """What a line says of the pace of the run."""
        asked, rate = self._scheduler, self._pace.rate(self._done)
        return {
            "in_flight": asked.in_flight,
            "seconds": perf_counter() - self._begun,
            "rate": rate,
            "eta": time_left(total, self._done, rate),
            "cost": None if self._prices is None else self._prices.cost(asked.usage),
            "currency": "" if self._prices is None else self._prices.currency,
            "retries": dict(asked.retries.sent_again),
        }

    def add_rest(self, stream: Generator[JudgedRow, None, None]) -> None:
        """Interrupts a stream, unless it was that which was interrupted, and takes the rows that it then hands on."""
        with contextlib.suppress(KeyboardInterrupt, StopIteration):
            judged = stream.throw(KeyboardInterrupt)
            while True:
                self._rows[judged.index] = judged.judgements
                judged = next(stream)

    def aborted(self, error: Exception) -> Exception:
        """The error to raise for one that ended the run: it has what was judged, when anything was."""
        return JudgeAborted(self.run(), describe(error)) if self._rows else error

    def close(self) -> None:
        """Ends the line of the progress bar."""
        if self._bar is not None:
            self._bar.close()

    def run(self, ended: bool = False) -> JudgeRun:
        """Results; rows without judgements are cancelled ones, unless the rows have ended."""
        # Of a collection that gives more or fewer rows than its length says, those that came count.
        if self._count is None or (ended and self._clusters is None):
            count = 1 + max(self._rows, default=-1)
        else:
            count = self._count
        missing = [Judgement(None, Status.CANCELLED, error="the run was cancelled")] * self._repeats
        judgements = {
            metric.name: [list(self._rows[at][metric.name]) if at in self._rows else missing for at in range(count)]
            for metric in self._metrics
        }
        summaries = {
            metric.name: summarize(judgements[metric.name], metric.low, metric.high, self._clusters, self._prices)
            for metric in self._metrics
        }
        usage = sum((summary.usage for summary in summaries.values()), Usage())
        cost = None if self._prices is None else self._prices.cost(usage)
        asked = self._scheduler
        stopped = None if asked.stopped is None else asked.stopped.error
        extras = (stopped, tuple(asked.dropped), asked.replies.error)
        return JudgeRun(judgements, summaries, usage, cost, perf_counter() - self._begun, asked.gate.peak, *extras)


@arguments_of(stream_judge)
def run_judge(
    rows: Iterable[Any],
    metrics: Iterable[LLMMetric],
    judge: Any = None,
    *,
    limits: Limits | None = None,
    cache: JudgeCache | str | os.PathLike[str] | None = None,
    repeats: int = 1,
    clusters: Sequence[Hashable] | None = None,
    prices: Prices | None = None,
    progress: Callable[[Progress], object] | bool = False,
    seed: int | None = None,
    scheduler: Scheduler | None = None,
) -> JudgeRun:
    """Computes every metric of every row.

    Whatever happens to a row, in the judge, in a parser or in the metric's own code, becomes the status of its
    judgement; it never ends the run or moves another row. Failures that every request would share (a rejected key, an
    account that is used up, five requests in a row that fail by a cause outside their rows) stop the asking: all that
    is left gets their status, and ``stopped`` of the results says why.

    Equal questions of a run are asked once, as far as the first reply is still in memory or in the cache.

    Args:
        rows: what the metrics take; an iterator is pulled as results come, see :func:`stream_judge`.
        cache: keeps replies; a run that was killed goes on where it was. A path, or an open one. A cache that fails
            during the run costs the keeping, never the results: there is one warning, and ``cache_error``.
        repeats: times that every question is asked; with two or more the judge's own variance is known.
        clusters: one id per row, for standard errors of rows that are not independent.
        prices: of tokens, for the cost.
        progress: called in this thread after every row, and each second while requests wait for another try; True
            shows a bar on stderr.
        scheduler: used instead of one made from ``judge``, ``limits``, ``cache`` and ``seed``. It serves one run at a
            time.

    Raises:
        InputError: arguments that cannot be used, or a scheduler that serves another run.
        MissingExtraError: the judge needs a package that is not installed.
        JudgeAborted: the rows' iterator or ``progress`` raised an error; ``error.run`` has what was judged before. When
            nothing was, their error itself is raised.
        JudgeInterrupted: Ctrl-C, also within a running event loop; ``error.run`` has what was judged.

    Example:
        >>> from valor_gpu.judge import Question, question_metric
        >>> def ask_for(row):
        ...     return Question([{"role": "user", "content": f"From 1 to 5, how good is: {row}"}], int)
        >>> def judge(messages):
        ...     return "4" if messages[0]["content"].endswith("a") else "no idea"
        >>> run = run_judge(["a", "b"], [question_metric("quality", ask_for, 1, 5)], judge)
        >>> run.scores("quality"), dict(run.summaries["quality"].n_failed)
        ([4.0, nan], {'parse_error': 1})
    """
    checked, repeats = check_metrics(metrics), check_repeats(repeats)
    with open_scheduler(judge, limits, cache, seed, scheduler) as opened:
        collected = _Collected(rows, checked, opened, repeats, clusters, prices, progress)
        stream = plain_stream(opened, rows, checked, repeats, contextlib.ExitStack(), collected.idle)
        try:
            for judged in stream:
                collected.add(judged)
        except KeyboardInterrupt:
            collected.add_rest(stream)
            raise JudgeInterrupted(collected.run()) from None
        except Exception as error:
            collected.add_rest(stream)
            raise collected.aborted(error) from error
        finally:
            collected.close()
        return collected.run(ended=True)


async def run_judge_async(
    rows: Iterable[Any] | AsyncIterable[Any],
    metrics: Iterable[LLMMetric],
    judge: Any = None,
    *,
    limits: Limits | None = None,
    cache: JudgeCache | str | os.PathLike[str] | None = None,
    repeats: int = 1,
    clusters: Sequence[Hashable] | None = None,
    prices: Prices | None = None,
    progress: Callable[[Progress], object] | bool = False,
    seed: int | None = None,
    scheduler: Scheduler | None = None,
) -> JudgeRun:
    """:func:`run_judge` in the running event loop, which goes on meanwhile.

    Args:
        rows: a synchronous or asynchronous iterable. A synchronous one is pulled in the event loop and must not block.
        metrics: numbers to compute of every row; their names must differ.
        judge: a :class:`Judge`, or a callable from messages to text.
        limits: how it may be asked, by all metrics together.
        cache: keeps replies. A path, or an open one.
        repeats: times that every question is asked.
        clusters: one id per row, for standard errors of rows that are not independent.
        prices: of tokens, for the cost.
        progress: called after every row, and each second while requests wait for another try; True shows a bar on
            stderr.
        seed: of the random waits.
        scheduler: used instead of one made from ``judge``, ``limits``, ``cache`` and ``seed``.

    Raises:
        InputError: arguments that cannot be used, or a scheduler that serves another run.
        MissingExtraError: the judge needs a package that is not installed.
        JudgeAborted: the rows' iterator or ``progress`` raised an error; ``error.run`` has what was judged before. When
            nothing was, their error itself is raised.
        asyncio.CancelledError: the task was cancelled. Its ``__cause__`` is a :class:`JudgeCancelled`, whose ``run``
            has what was judged.

    Example:
        >>> from valor_gpu.judge import Question, question_metric
        >>> rating = question_metric("rating", lambda row: Question([{"role": "user", "content": row}], int), 1, 5)
        >>> asyncio.run(run_judge_async(["a", "b"], [rating], lambda messages: "4")).scores("rating")
        [4.0, 4.0]
    """
    checked, repeats = check_metrics(metrics), check_repeats(repeats)
    with open_scheduler(judge, limits, cache, seed, scheduler) as opened:
        collected = _Collected(rows, checked, opened, repeats, clusters, prices, progress)
        stream = async_stream(opened, rows, checked, repeats, contextlib.ExitStack(), collected.idle)
        try:
            async with contextlib.aclosing(stream):
                async for judged in stream:
                    collected.add(judged)
        except asyncio.CancelledError as cancelled:
            raise cancelled from JudgeCancelled(collected.run())
        except Exception as error:
            raise collected.aborted(error) from error
        finally:
            collected.close()
        return collected.run(ended=True)
