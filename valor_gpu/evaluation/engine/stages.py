"""The stages of a run that wait for others: the target that answers, and the judge. No torch.

They are tasks of one event loop. What they get is in the store before it counts: an answer before its row is judged, a
judgement before another one can be sent in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from valor_gpu.errors import ValorError
from valor_gpu.evaluation.engine.live import Live
from valor_gpu.evaluation.engine.metrics import RunEvaluator
from valor_gpu.evaluation.engine.plan import Plan
from valor_gpu.evaluation.engine.scoring import size_of, with_baseline
from valor_gpu.evaluation.engine.settings import CONCURRENCY
from valor_gpu.evaluation.engine.sums import EXPECTED
from valor_gpu.evaluation.engine.traces import Tracer
from valor_gpu.evaluation.engine.work import OK, Work
from valor_gpu.evaluation.evaluators.judged import judged_outcome
from valor_gpu.evaluation.results.latency import REQUEST_SECONDS
from valor_gpu.judge.calls import Record, recorded
from valor_gpu.judge.limits import FATAL
from valor_gpu.judge.protocol import Judgement, Status, Usage
from valor_gpu.judge.room import MOST_HELD, PLACE, Place, Room, Slot
from valor_gpu.judge.rows import judge_one
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.judge.threads import PATIENCE
from valor_gpu.store import StoredScore, StoredTrace
from valor_gpu.store.traces import TraceBase

ANSWERED, DONE, FAILED, HELD = "answered", "done", "failed", "held"


class RowFailed(ValorError):
    """A row has no answer or no score, in a run with ``on_error="raise"``.

    Args:
        work: the row.
        what: evaluator and status, or the status of the row.
        reason: in words.

    Attributes:
        number: of the row.
        key: of the row.
        result: of the run as far as it came; None before it is known.
    """

    def __init__(self, work: Work, what: str, reason: str) -> None:
        super().__init__(f"row {work.number} ({work.key}): {what}: {reason}")
        self.number, self.key = work.number, work.key
        self.result: Any = None


class Stages:
    """Target and judge of the rows under way; an async context manager.

    Args:
        plan: of the run.
        live: keeps rows and scores.
        scheduler: asks the judge; None without one.
        events: called with (what, row): ``answered`` when an answer is stored, ``done`` when the loop has nothing more
            to do for the row; with (``held``, None) when a row waits for another try and leaves room for others; with
            (``failed``, exception) when the run cannot go on. From the loop's thread.

    Attributes:
        room: for rows. Whoever starts rows counts them as under way, and no more when they are done.
        stopped: why nothing more is sent; empty while it is.
        cost: spent so far, with what was spent before; 0 without prices.
        answering: calls under way of a target that no scheduler asks.
        at_once: most of these calls; 0 for other targets.
        counts: scores made, those without a value, and those by replies that were known already.
    """

    def __init__(
        self,
        plan: Plan,
        live: Live,
        scheduler: Scheduler | None,
        events: Callable[[tuple[str, Any]], object],
    ) -> None:
        self._plan, self._live, self._scheduler, self._events = plan, live, scheduler, events
        self._raises = plan.config.on_error == "raise"
        self._size = plan.limits.concurrency or CONCURRENCY
        self.stopped, self.cost, self.answering = "", live.cost or 0.0, 0
        self.at_once = self._size if plan.answers and not hasattr(plan.services.target, "scheduler") else 0
        self.counts = {"done": 0, "failed": 0, "cached": 0}
        self._tracer = Tracer(plan.services.secrets, plan.services.judge, plan.config.keep_prompts)
        self._pending: list[tuple[StoredScore, StoredTrace]] = []
        self._pending_cached = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._checked = not (plan.answers and not plan.services.outputs)
        asked = len(plan.judged) * plan.config.repeats
        judging = math.ceil(4 * scheduler.concurrency / max(1, asked)) if scheduler is not None and asked else 0
        window = max(2, judging + (2 * self._size if plan.answers else 0))
        self.room = Room(window, self._most_held, lambda: events((HELD, None)))

    async def __aenter__(self) -> Stages:
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(self._size)
        if self._scheduler is not None:
            await self._scheduler.__aenter__()
        self._spend(0.0)  # a resumed run may have spent it all
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if (target := self._plan.services.target) is not None:
                with contextlib.suppress(Exception):  # the results are there
                    await asyncio.wait_for(target.close(), PATIENCE)
        finally:
            if self._scheduler is not None:
                await self._scheduler.__aexit__(None, None, None)

    def start(self, works: Sequence[Work]) -> None:
        """Starts rows. Called in the event loop."""
        for work in works:
            task = asyncio.ensure_future(self._row(work, Place(self.room, size_of(work))))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def stop(self, reason: str) -> None:
        """Sends nothing more; what is under way is waited for."""
        self.stopped = self.stopped or reason
        if self._scheduler is not None:
            self._scheduler.stop(Status.CANCELLED, reason)

    async def cancel(self) -> None:
        """Ends what is under way; what has come is stored."""
        if self._tasks:
            self.stop("the run was cancelled")
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=PATIENCE)
        self._flush()

    def _most_held(self) -> int:
        """Rows that may wait beside those of the window; few while the judge's server, or the target's, is silent."""
        return min((asker.retries.most_held() for asker in self.askers()), default=MOST_HELD)

    def askers(self) -> list[Scheduler]:
        """Returns the schedulers of judge and target, as far as these are asked."""
        askers = (self._scheduler, getattr(self._plan.services.target, "scheduler", None))
        return [asker for asker in askers if asker is not None]

    async def _row(self, work: Work, place: Place) -> None:
        PLACE.set(place)
        try:
            if not work.answered:
                place.slot = Slot(self._slots)
                try:
                    await self._answer(work, place.slot)
                finally:
                    place.slot.leave()
                    place.slot = None
            if work.answered and work.status == OK and self._scheduler is not None:
                await self._judge(work, self._scheduler)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # raised again where the run was called, exits included
            self._events((FAILED, error))
        finally:
            self._events((DONE, work))

    async def _answer(self, work: Work, slot: Slot) -> None:
        """Asks the target, and stores what it says before its slot is free."""
        target = self._plan.services.target
        await slot.take()
        if self.stopped or target is None:
            return
        self.answering += self.at_once > 0
        try:
            with recorded() as record:
                answer = await target.answer(work.inputs)
        finally:
            self.answering -= self.at_once > 0
        usage = answer.usage
        spent = {
            "_seconds": answer.seconds,
            "_cost": answer.cost,
            "_usage": None if usage is None else _usage_of(usage),
        }
        work.outputs = {**answer.outputs, **spent}
        work.status, work.error = answer.status, answer.error
        if answer.status == OK and not self._checked:
            self._plan.mapping.check_outputs(answer.outputs)
            self._checked = True
        trace = self._tracer.of_answer(record, work.number, answer.status == OK)
        bases = self._tracer.new_bases()
        self._live.keep_rows([work], [*bases, trace])
        self._tracer.use(bases)
        work.answered = True
        slot.leave()
        self._spend(answer.cost)
        self._events((ANSWERED, work))
        if self._raises and work.status != OK:
            raise RowFailed(work, work.status, work.error)

    async def _judge(self, work: Work, scheduler: Scheduler) -> None:
        if work.fields is None:
            with_baseline(self._plan, [work])
        repeats = range(self._plan.config.repeats)
        asked = [
            self._judgement(work, each, repeat, scheduler)
            for each in self._plan.judged
            for repeat in repeats
            if (each.name, repeat) not in work.done
        ]
        await asyncio.gather(*asked)
        self._flush()

    async def _judgement(self, work: Work, each: RunEvaluator, repeat: int, scheduler: Scheduler) -> None:
        with recorded() as record:
            judgement = await judge_one(scheduler, work.fields, each.tool, repeat)  # type: ignore[arg-type]
        if _was_not_asked(judgement, scheduler):
            self._look_at(scheduler)
            return
        score = self._score(work.number, each, repeat, judgement, record)
        self.counts["done"] += 1
        self.counts["failed"] += score.value is None
        self.counts["cached"] += judgement.cached
        if not self._pending:  # what comes in one round of the loop is one transaction
            self._loop.call_soon(self._flush_or_fail)
        self._pending.append((score, self._tracer.of_score(record, work.number, each.name, repeat)))
        self._pending_cached += judgement.cached
        prices = self._plan.prices
        self._spend(None if prices is None else prices.cost(judgement.usage))
        self._look_at(scheduler)
        if self._raises and score.status not in EXPECTED:
            raise RowFailed(work, f"{each.name}: {score.status}", score.reason)

    def _score(self, number: int, each: RunEvaluator, repeat: int, judgement: Judgement, record: Record) -> StoredScore:
        from valor_gpu.evaluation.engine.reread import kept_reply  # here since runs with a judge alone need it

        outcome, mask = judged_outcome(judgement), self._plan.services.secrets
        usage: dict[str, Any] = {
            **_usage_of(judgement.usage),
            "attempts": judgement.attempts,
            "from_cache": judgement.cached,
        }
        if seconds := [round(each, 6) for each in record.seconds()]:
            usage[REQUEST_SECONDS] = seconds
        if outcome.value is None:
            reason, details = mask.message(outcome.reason), mask.mask_json(outcome.details)
        else:
            reply = kept_reply(each.tool, judgement.reply.text) if judgement.reply is not None else {}
            details = mask.mask_data({**(outcome.details or {}), **reply} or outcome.details)
            reason = mask.mask_data(outcome.reason)
        found = (number, each.name, repeat, outcome.value, outcome.status, reason, outcome.level)
        return StoredScore(*found, details, usage, judgement.seconds)

    def _look_at(self, scheduler: Scheduler) -> None:
        """Stops the run where the judge can be asked no more."""
        if scheduler.stopped is not None:
            self.stopped = self.stopped or scheduler.stopped.error

    def _spend(self, cost: float | None) -> None:
        most = self._plan.config.max_cost
        self.cost += cost or 0.0
        if most is not None and self.cost >= most and not self.stopped:
            self.stop(f"max_cost: {self.cost:.6g} of {most:g} are spent")

    def _flush_or_fail(self) -> None:
        try:
            self._flush()
        except Exception as error:
            self._events((FAILED, error))

    def _flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            cached, self._pending_cached = self._pending_cached, 0
            bases = self._tracer.new_bases()
            traces: list[StoredTrace | TraceBase] = [*bases, *(trace for _, trace in pending)]
            self._live.keep_scores([score for score, _ in pending], cached, traces)
            self._tracer.use(bases)


def _usage_of(usage: Usage) -> dict[str, int]:
    return {"prompt": usage.prompt, "completion": usage.completion, "cached": usage.cached}


def _was_not_asked(judgement: Judgement, scheduler: Scheduler) -> bool:
    """Returns whether a resumed run asks again: the judgement was cancelled, or came when nothing was sent any more."""
    if judgement.status is Status.CANCELLED:
        return True
    stopped = scheduler.stopped is not None and judgement.status is scheduler.stopped.status
    return stopped and judgement.attempts == 0 and judgement.status in FATAL | {Status.CANCELLED, judgement.status}
