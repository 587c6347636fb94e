"""Rows through a run: a window of them is under way, and nothing of them stays in memory. No torch.

The caller's thread reads rows, stores them and computes scores in portions; a loop in a thread of its own has what
waits for others (:mod:`valor_gpu.evaluation.engine.stages`).
"""

from __future__ import annotations

import queue
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from valor_gpu.evaluation.engine.live import Live
from valor_gpu.evaluation.engine.parts import Parts
from valor_gpu.evaluation.engine.plan import Plan
from valor_gpu.evaluation.engine.scoring import (
    LONGEST_PORTION,
    portions,
    score_computed,
    size_of,
    with_baseline,
)
from valor_gpu.evaluation.engine.stages import ANSWERED, FAILED, HELD, RowFailed, Stages
from valor_gpu.evaluation.engine.traces import Tracer, vector_traces
from valor_gpu.evaluation.engine.work import OK, PORTION, Work
from valor_gpu.judge.calls import recorded_vectors
from valor_gpu.judge.held_loop import notices_of
from valor_gpu.judge.progress import Progress, ProgressBar, asked_of
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.judge.stream import TICK
from valor_gpu.judge.threads import WAKE, LoopThread, cancellations, interrupts_here

_LONGEST_WAIT = 1.0  # seconds that rows wait for a full portion: until then they do not count as done


class Pipeline:
    """Takes the rows of a run to their scores.

    Args:
        plan: of the run.
        live: keeps rows and scores of the run.
        scheduler: asks the judge; None without judged metrics.

    Attributes:
        stopped: why the run ended before its rows did; empty when it did not.
    """

    def __init__(self, plan: Plan, live: Live, scheduler: Scheduler | None) -> None:
        self._plan, self._live, self._scheduler = plan, live, scheduler
        self._raises = plan.config.on_error == "raise"
        self._parts = Parts(each["name"] for each in plan.config.evaluators)
        self._tracer = Tracer(plan.services.secrets, None, plan.config.keep_prompts)
        self._waiting: list[Work] = []  # rows whose scores are to be computed
        self._size, self._since = 0, time.monotonic()
        self._done = self._failed = 0
        self._shown = time.monotonic()
        self.stopped = ""
        bar = ProgressBar() if plan.progress is True else None
        self._bar, self._show = bar, bar or (plan.progress if callable(plan.progress) else None)

    def work(self, works: Iterator[Work]) -> None:
        """Takes rows through the run until there are no more, or the run is stopped.

        Raises:
            RowFailed: a row failed and ``on_error`` is ``raise``.
            KeyboardInterrupt: Ctrl-C; what had come by then is stored.
        """
        try:
            if not self._plan.answers and self._scheduler is None:
                for portion in portions(works):
                    self._store(portion)
                    self._compute(portion)
                    self._count(len(portion))
            else:
                self._stream(works)
        finally:
            if self._bar is not None:
                self._bar.close()

    def _store(self, works: Iterable[Work]) -> None:
        works = list(works)
        self._live.keep_rows(works)
        for work in works:
            self._failed += work.status != OK
            if self._raises and work.status != OK:
                raise RowFailed(work, work.status, work.error)

    def _compute(self, works: list[Work]) -> None:
        good = [work for work in works if work.status == OK]
        if self._plan.fills_baseline or self._plan.computed:
            with_baseline(self._plan, [work for work in good if work.fields is None])
        with recorded_vectors() as requests:
            scores = score_computed(self._plan, good, self._parts)
        traces = vector_traces(self._tracer, self._plan, good, scores, requests)
        bases = self._tracer.new_bases()
        self._live.keep_scores(scores, 0, [*bases, *traces])
        self._tracer.use(bases)
        for score in scores if self._raises else ():
            if score.value is None and score.status not in ("missing_field", "undefined"):
                work = next(work for work in good if work.number == score.row)
                raise RowFailed(work, f"{score.evaluator}: {score.status}", score.reason)

    def _stream(self, works: Iterator[Work]) -> None:
        events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        stages = Stages(self._plan, self._live, self._scheduler, events.put)
        self._live.watch(stages)
        with LoopThread(stages) as thread:
            try:
                self._feed(works, stages, thread, events)
                self._flush()
            finally:
                if not sys.is_finalizing():
                    thread.end(stages.cancel())
                self.stopped = stages.stopped

    def _feed(
        self, works: Iterator[Work], stages: Stages, thread: LoopThread, events: queue.SimpleQueue[tuple[str, Any]]
    ) -> None:
        room, more, before = stages.room, True, cancellations()
        while more or room.under_way:
            with interrupts_here():
                if (now := cancellations()) != before and now[0] is before[0]:
                    raise KeyboardInterrupt
                if stages.stopped:
                    more = False
                if more and (free := room.batch()):
                    batch = list(islice(works, free))
                    more = bool(batch)
                    started = self._begin(batch)
                    room.under_way += len(started)
                    thread.loop.call_soon_threadsafe(stages.start, started)
                    continue
                if not room.under_way:
                    break
                try:
                    what, found = events.get(timeout=WAKE)
                except queue.Empty:
                    what, found = HELD, None
            if what == FAILED:
                raise found
            if what == ANSWERED:
                self._failed += found.status != OK
                self._wait_for_scores([found])
            elif what == HELD:
                self._look(stages)
            else:
                room.under_way -= 1
                self._count(1, stages)
            self._flush_if_due()
            before = cancellations()
        self._look(stages)

    def _begin(self, batch: list[Work]) -> list[Work]:
        """Stores rows that have their answer, and gives those that a stage has to see."""
        answered = [work for work in batch if work.answered]
        self._store(answered)
        good = [work for work in answered if work.status == OK]
        with_baseline(self._plan, good)
        self._wait_for_scores(good)
        asks = [work for work in batch if not work.answered or (work.status == OK and self._is_open(work))]
        self._count(len(batch) - len(asks))
        return asks

    def _is_open(self, work: Work) -> bool:
        """Returns whether a judgement of the row is missing."""
        repeats = range(self._plan.config.repeats)
        return any((each.name, repeat) not in work.done for each in self._plan.judged for repeat in repeats)

    def _wait_for_scores(self, works: list[Work]) -> None:
        """Takes rows whose scores are to be computed, and computes them when they make a portion."""
        if not self._plan.computed:
            return
        self._waiting += works
        self._size += sum(map(size_of, works))
        self._flush_if_due()

    def _flush_if_due(self) -> None:
        late = bool(self._waiting) and time.monotonic() - self._since > _LONGEST_WAIT
        if late or len(self._waiting) >= PORTION or self._size >= LONGEST_PORTION:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._size, self._since = self._waiting, [], 0, time.monotonic()
        for portion in portions(waiting):
            self._compute(portion)

    def _count(self, rows: int, stages: Stages | None = None) -> None:
        self._done += rows
        if rows:
            self._show_progress(stages)

    def _look(self, stages: Stages) -> None:
        """Says what holds the run up while no row ends."""
        for notice in notices_of(self._plan.services.target):
            warnings.warn(notice, stacklevel=8)
        for asked in stages.askers():
            while asked.retries.notices:
                warnings.warn(self._plan.services.secrets.message(asked.retries.notices.popleft()), stacklevel=8)
            if (asked.retries.waiting or self._bar is not None) and time.monotonic() - self._shown >= TICK:
                self._show_progress(stages)

    def _show_progress(self, stages: Stages | None) -> None:
        if self._show is None:
            return
        self._shown = time.monotonic()
        counts = {"failed": 0, "cached": 0} if stages is None else stages.counts
        failed = self._failed + counts["failed"]
        asked = self._scheduler or next(iter([] if stages is None else stages.askers()), None)
        pace = self._live.pace(self._plan.total, self._done)
        self._show(Progress(self._done, self._plan.total, failed, counts["cached"], *asked_of(asked), **pace))
