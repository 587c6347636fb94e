"""Rows x metrics x repeats -> judgements in order, with one scheduler for all."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

from valor_gpu.errors import InputError
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.metric import FailedJudgement, LLMMetric, Question, check_metric, check_question, check_value
from valor_gpu.judge.parse import NotApplicable, ParseError
from valor_gpu.judge.protocol import Judgement, Status, Usage
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.judge.statistics import Prices, Summary, row_mean, summarize


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        done: judgements made.
        total: judgements to make.
        failed: those of ``done`` without a value.
        cached: those of ``done`` that came from the cache.
        attempts: requests so far.
        usage: tokens so far.
        concurrency: requests that may be in flight now; it falls when the server says 429.
    """

    done: int
    total: int
    failed: int
    cached: int
    attempts: int
    usage: Usage
    concurrency: int


@dataclass(frozen=True)
class JudgeRun:
    """Results of a judge run.

    Attributes:
        judgements: metric name to a list by row of lists by repeat.
        summaries: metric name to what they say together.
        usage: tokens spent now, by all metrics.
        cost: of ``usage``; None without prices.
        seconds: the run took.
        peak: most requests that were in flight together.
    """

    judgements: Mapping[str, list[list[Judgement]]]
    summaries: Mapping[str, Summary]
    usage: Usage
    cost: float | None
    seconds: float
    peak: int

    def scores(self, metric: str) -> list[float]:
        """A number a row: the mean of its scored repeats, NaN when there is none."""
        return [row_mean(row) for row in self.judgements[metric]]

    def row_usage(self, row: int) -> Usage:
        """Tokens spent now for one row, by all metrics."""
        return sum((one.usage for rows in self.judgements.values() for one in rows[row]), Usage())


@dataclass
class _Tally:
    """Counts of a run and who wants to see them."""

    total: int
    scheduler: Scheduler
    show: Callable[[Progress], object] | None
    done: int = 0
    failed: int = 0
    cached: int = 0

    def add(self, judgement: Judgement) -> None:
        self.done += 1
        self.failed += not judgement.ok
        self.cached += judgement.cached
        if self.show is not None:
            asked = self.scheduler
            concurrency = int(asked.gate.limit)
            self.show(
                Progress(self.done, self.total, self.failed, self.cached, asked.attempts, asked.usage, concurrency)
            )


@dataclass
class _Asker:
    """Asks for one judgement, whose steps it adds up."""

    scheduler: Scheduler
    repeat: int
    steps: list[Judgement] = field(default_factory=list)

    async def __call__(self, question: Question) -> Any:
        judgement = await self.scheduler.ask(check_question(question), self.repeat)
        self.steps.append(judgement)
        if not judgement.ok:
            raise FailedJudgement(judgement)
        return judgement.value

    async def judge(self, metric: LLMMetric, row: Any) -> Judgement:
        """The judgement of a row: the number, or the failure of the step that failed."""
        try:
            value = check_value(await metric.score(row, self), metric)
            return self._whole(Judgement(value, Status.OK, self._last_reply()))
        except FailedJudgement as failure:
            return self._whole(failure.judgement)
        except NotApplicable as error:
            return self._whole(Judgement(None, Status.NOT_APPLICABLE, self._last_reply(), error=str(error)))
        except ParseError as error:
            return self._whole(Judgement(None, Status.METRIC_ERROR, self._last_reply(), error=str(error)))
        except Exception as error:
            message = f"the metric raised {type(error).__name__}: {error}"
            return self._whole(Judgement(None, Status.METRIC_ERROR, self._last_reply(), error=message))

    def _last_reply(self) -> Any:
        return self.steps[-1].reply if self.steps else None

    def _whole(self, end: Judgement) -> Judgement:
        return replace(
            end,
            attempts=sum(step.attempts for step in self.steps),
            usage=sum((step.usage for step in self.steps), Usage()),
            cached=bool(self.steps) and all(step.cached for step in self.steps),
            seconds=math.fsum(step.seconds for step in self.steps),
        )


def run_judge(
    rows: Sequence[Any],
    metrics: Sequence[LLMMetric],
    judge: Any,
    *,
    limits: Limits | None = None,
    cache: JudgeCache | str | None = None,
    repeats: int = 1,
    clusters: Sequence[Hashable] | None = None,
    prices: Prices | None = None,
    progress: Callable[[Progress], object] | bool = False,
    seed: int | None = None,
    scheduler: Scheduler | None = None,
) -> JudgeRun:
    """Judge every row by every metric.

    A failure is a judgement with a status, and never ends the run or moves another row. Failures that every request
    would share (a refused key, an account that is used up) end the asking: all that is left gets their status.

    Args:
        rows: what the metrics take.
        metrics: what is computed of every row; their names must differ.
        judge: a :class:`Judge`, or a callable from messages to text.
        limits: how it may be asked, by all metrics together.
        cache: keeps replies; a run that was killed goes on where it was. A path, or an open one.
        repeats: times that every question is asked; with two or more the judge's own variance is known.
        clusters: one id a row, for standard errors of rows that are not independent.
        prices: of tokens, for the cost.
        progress: called after every judgement; True shows a bar on stderr.
        seed: of the random waits.
        scheduler: used instead of one made from ``judge``, ``limits``, ``cache`` and ``seed``.

    Raises:
        InputError: arguments that cannot be, or a metric that returns something else than it must.

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
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise InputError(f"repeats must be an int of at least 1 but got {repeats!r}")
    if clusters is not None and len(clusters) != len(rows):
        raise InputError(f"clusters must hold one id a row, {len(rows)}, but has {len(clusters)}")
    by_name = {check_metric(metric).name: metric for metric in metrics}
    if len(by_name) < len(metrics):
        raise InputError(f"metrics must differ by name but got {', '.join(metric.name for metric in metrics)}")
    opened = cache if isinstance(cache, JudgeCache) or cache is None else JudgeCache(cache)
    asked = scheduler or Scheduler(judge, limits, opened, seed)
    try:
        found, seconds = _judge_all(rows, by_name, asked, repeats, progress)
    finally:
        if opened is not None and opened is not cache:
            opened.close()
    summaries = {
        name: summarize(found[name], metric.low, metric.high, clusters, prices) for name, metric in by_name.items()
    }
    usage = sum((summary.usage for summary in summaries.values()), Usage())
    cost = None if prices is None else prices.cost(usage)
    return JudgeRun(found, summaries, usage, cost, seconds, asked.gate.peak)


def _judge_all(
    rows: Sequence[Any],
    metrics: Mapping[str, LLMMetric],
    scheduler: Scheduler,
    repeats: int,
    progress: Callable[[Progress], object] | bool,
) -> tuple[dict[str, list[list[Judgement]]], float]:
    nothing = Judgement(None, Status.CANCELLED)
    found = {name: [[nothing] * repeats for _ in rows] for name in metrics}
    bar = ProgressBar() if progress is True else None
    show = progress if callable(progress) else bar
    tally = _Tally(len(rows) * len(metrics) * repeats, scheduler, show)

    async def judge_one(name: str, at: int, repeat: int) -> None:
        judgement = await _Asker(scheduler, repeat).judge(metrics[name], rows[at])
        found[name][at][repeat] = judgement
        tally.add(judgement)

    def jobs() -> Iterator[Callable[[], Awaitable[None]]]:
        for at in range(len(rows)):
            for name in metrics:
                for repeat in range(repeats):
                    yield lambda name=name, at=at, repeat=repeat: judge_one(name, at, repeat)  # type: ignore[misc]

    try:
        seconds = scheduler.run(lambda: scheduler.each(jobs()))
    finally:
        if bar is not None:
            bar.close()
    return found, seconds


class ProgressBar:
    """One line on a terminal, written over and over: judgements, failures, requests, tokens.

    Args:
        stream: where to; None for stderr.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> ProgressBar(out)(Progress(3, 4, 1, 0, 5, Usage(100, 20), 8))
        >>> out.getvalue().strip()
        '[##################      ] 3/4, 1 failed, 0 cached, 5 requests, 120 tokens, 8 at a time'
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._width = 0
        self._shown = -1

    def __call__(self, progress: Progress) -> None:
        """Show ``progress``, at most some thousand times a run."""
        step = progress.done * 1000 // max(progress.total, 1)
        if step == self._shown:
            return
        self._shown = step
        filled = 24 * progress.done // max(progress.total, 1)
        text = f"[{'#' * filled:<24}] {progress.done}/{progress.total}, {progress.failed} failed, "
        text += f"{progress.cached} cached, {progress.attempts} requests, {progress.usage.total} tokens, "
        text += f"{progress.concurrency} at a time"
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def close(self) -> None:
        """End the line."""
        if self._width:
            self._stream.write("\n")
