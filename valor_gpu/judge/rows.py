"""Judgements of rows by metrics, as tasks of an event loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.metric import FailedJudgement, LLMMetric, Question, check_metric, check_question, check_value
from valor_gpu.judge.parse import NotApplicable, ParseError
from valor_gpu.judge.protocol import Judgement, Reply, Status, Usage, describe, text_of
from valor_gpu.judge.room import PLACE, Place, Room
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.judge.threads import PATIENCE


@dataclass(frozen=True)
class JudgedRow:
    """Judgements of one row.

    Attributes:
        index: number of the row, counted from 0 in the order of the rows.
        row: the row itself.
        judgements: metric name to the judgements of the row's repeats.
    """

    index: int
    row: Any
    judgements: Mapping[str, tuple[Judgement, ...]]


@dataclass
class _Asker:
    """Asks the questions of one judgement and adds up what they took."""

    scheduler: Scheduler
    repeat: int
    steps: list[Judgement] = field(default_factory=list)
    last: Question | None = None

    async def __call__(self, question: Question) -> Any:
        self.last = check_question(question)
        judgement = await self.scheduler.ask(question, self.repeat)
        self.steps.append(judgement)
        if not judgement.ok:
            raise FailedJudgement(judgement)
        return judgement.value

    def reject(self) -> None:
        """Forgets a reply that alone decided a value that cannot be."""
        if len(self.steps) == 1 and self.last is not None and (reply := self.steps[0].reply) is not None:
            self.scheduler.replies.forget(self.scheduler.key(self.last, self.repeat, reply.dropped))

    def reply(self) -> Reply | None:
        """The last reply."""
        return self.steps[-1].reply if self.steps else None

    def whole(self, end: Judgement) -> Judgement:
        """``end`` with what all steps took."""
        return replace(
            end,
            attempts=sum(step.attempts for step in self.steps),
            usage=sum((step.usage for step in self.steps), Usage()),
            cached=bool(self.steps) and all(step.cached for step in self.steps),
            seconds=math.fsum(step.seconds for step in self.steps),
        )


async def judge_one(scheduler: Scheduler, row: Any, metric: LLMMetric, repeat: int = 0) -> Judgement:
    """One judgement of a row by one metric: the number, or why there is none.

    Within ``async with scheduler``, in its event loop. A task that is cancelled gets the status ``cancelled``.

    Args:
        scheduler: asks the judge.
        row: what the metric takes.
        metric: gives the number.
        repeat: 0, 1, ... of a row that is judged several times.

    Raises:
        MissingExtraError: the judge's package is not installed.
    """
    asker = _Asker(scheduler, repeat)
    try:
        scored = await metric.score(row, asker)
        details = None if isinstance(scored, (int, float)) else scored
        end = Judgement(check_value(scored, metric), Status.OK, asker.reply(), details=details)
    except FailedJudgement as failure:
        end = failure.judgement
    except NotApplicable as error:
        details = getattr(error, "details", None)
        end = Judgement(None, Status.NOT_APPLICABLE, asker.reply(), error=text_of(error), details=details)
    except ParseError as error:  # of check_value
        asker.reject()
        end = Judgement(None, Status.METRIC_ERROR, asker.reply(), error=text_of(error))
    except asyncio.CancelledError:
        end = Judgement(None, Status.CANCELLED, asker.reply(), error="the run was cancelled")
    except InputError as error:
        end = Judgement(None, Status.METRIC_ERROR, asker.reply(), error=text_of(error))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # whatever the metric's own code does with this row, exits and panics included
        if isinstance(error, MissingExtraError) and not asker.steps:  # the judge's package: no row can be judged
            raise
        message = f"the metric raised {describe(error)}"
        end = Judgement(None, Status.METRIC_ERROR, asker.reply(), error=message)
    return asker.whole(end)


class RowsUnderWay:
    """Rows under way in an event loop.

    Args:
        scheduler: asks the judge.
        metrics: of every row.
        repeats: judgements of a row by a metric.
        done: called with each row that is judged, or with what ended the run.
        changed: called when there may be room for another row, since one waits for another try.

    Attributes:
        count: rows started.
        room: for rows. Whoever starts a row counts it as under way, and no more when its result is taken.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        metrics: Sequence[LLMMetric],
        repeats: int,
        done: Callable[[JudgedRow | BaseException], object],
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self._scheduler, self._metrics, self._repeats, self._done = scheduler, metrics, repeats, done
        self.count = 0  # rows started
        self._tasks: set[asyncio.Task[Judgement]] = set()
        # Twice the requests in flight: one that ends finds the next one ready.
        window = max(2, math.ceil(2 * scheduler.concurrency / max(1, len(metrics) * repeats)))
        self.room = Room(window, lambda: scheduler.retries.most_held(), changed)

    def start(self, index: int, row: Any) -> None:
        """Starts the judgements of a row. Called in the event loop."""
        self.count += 1
        found: dict[str, dict[int, Judgement]] = {metric.name: {} for metric in self._metrics}
        if not found:
            self._done(JudgedRow(index, row, {}))
        PLACE.set(Place(self.room))  # of the tasks that are made here
        for metric in self._metrics:
            for repeat in range(self._repeats):
                task = asyncio.ensure_future(judge_one(self._scheduler, row, metric, repeat))
                self._tasks.add(task)
                task.add_done_callback(partial(self._ended, index, row, found, metric.name, repeat))

    def _ended(
        self,
        index: int,
        row: Any,
        found: dict[str, dict[int, Judgement]],
        name: str,
        repeat: int,
        task: asyncio.Task[Judgement],
    ) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # before its first step
            return
        if (error := task.exception()) is not None:  # raised again where the run was called
            self._done(error)
            return
        found[name][repeat] = task.result()
        if sum(map(len, found.values())) == len(self._metrics) * self._repeats:
            judgements = {
                each: tuple(by_repeat[at] for at in range(self._repeats)) for each, by_repeat in found.items()
            }
            self._done(JudgedRow(index, row, judgements))

    async def cancel(self) -> None:
        """Cancels what is under way, if anything; its rows are handed on with the status ``cancelled``."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            self._scheduler.stop(Status.CANCELLED, "the run was cancelled")
            await asyncio.wait(self._tasks, timeout=PATIENCE)


def check_metrics(metrics: Iterable[LLMMetric]) -> list[LLMMetric]:
    """Returns ``metrics`` as a list.

    Raises:
        InputError: one of them is no :class:`LLMMetric`, or two have the same name.
    """
    checked = [check_metric(metric) for metric in metrics]
    names = [metric.name for metric in checked]
    if len(set(names)) < len(names):
        raise InputError(f"metrics must differ by name but got {', '.join(names)}")
    return checked


def check_repeats(repeats: int) -> int:
    """Returns ``repeats``.

    Raises:
        InputError: it is no int of at least 1.
    """
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise InputError(f"repeats must be an int of at least 1 but got {repeats!r}")
    return repeats
