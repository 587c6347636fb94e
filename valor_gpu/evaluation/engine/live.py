"""How far a run is, written into the store about once a second by the process of the run. No torch."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from valor_gpu.errors import InputError, LeaseError, StoreError
from valor_gpu.evaluation.engine.plan import Plan
from valor_gpu.evaluation.engine.scoring import keep_rows, keep_scores
from valor_gpu.evaluation.engine.sums import RunningSums
from valor_gpu.evaluation.engine.work import ASKED_AGAIN, INVALID_ROW, OK, Work
from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.judge.progress import Pace, time_left
from valor_gpu.judge.protocol import Usage
from valor_gpu.store import Run, StoredRow, StoredScore, StoredTrace
from valor_gpu.store.columns import Columns
from valor_gpu.store.progress import RunProgress, keep, progress_of
from valor_gpu.store.replaced import replaced_usage
from valor_gpu.store.traces import TraceBase

if TYPE_CHECKING:
    from valor_gpu.judge.scheduler import Scheduler

TICK = 1.0
"""Seconds between two writings."""
SILENT = 5.0
"""Seconds without an answer after which a run that has asked waits."""
_LAST_PATIENCE = 5.0  # seconds that the last writing waits for another process
_LONGEST_PROBLEM = 500  # characters

Cell = tuple[str, int]


class Asking(Protocol):
    """Stages of a run that ask a judge and a target.

    Attributes:
        answering: calls under way of a target that no scheduler asks.
        at_once: most of these calls.
    """

    answering: int
    at_once: int

    def askers(self) -> list[Scheduler]:
        """Returns the schedulers of judge and target."""
        ...


class Live:
    """Keeps rows and scores of a run and counts them; a context manager in which a thread writes how far the run is.

    Args:
        plan: of the run.
        run: leased by the caller.

    Attributes:
        cached: scores by replies that were known already.
    """

    def __init__(self, plan: Plan, run: Run) -> None:
        self._plan, self._run = plan, run
        self._lock = threading.RLock()  # whoever has it may store, so that sums and store agree whenever it is free
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, name=f"progress of {run.id}", daemon=True)
        self._begun = time.monotonic()
        before = progress_of(run) or RunProgress()
        self.seconds_before = max(before.seconds, (run.finished_summary or {}).get("seconds") or 0.0)
        self._last = replace(before, in_flight=0, waiting=0, rate=None, eta=None)
        self._phase = "starting"
        self._sums: RunningSums | None = None
        self._cells = frozenset(
            (each.name, repeat)
            for each in plan.evaluators
            for repeat in range(plan.config.repeats if each.judged else 1)
        )
        self._left: dict[int, set[Cell]] = {}  # scores that the rows under way lack
        self._done = self._attempts_before = self._other_scores = 0
        self._stages: Asking | None = None
        self._askers: list[Scheduler] = []
        self._pace = Pace()
        self._moved, self._moved_at = (0, 0, 0), self._begun
        self.cached = 0

    def __enter__(self) -> Live:
        self._write()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """Seconds that the run has taken, earlier parts included."""
        return time.monotonic() - self._begun + self.seconds_before

    def begin(self) -> None:
        """Counts what the store has, and says that the run works on more."""
        with self._lock:
            self._sums, self._done = self._read()
            self._attempts_before = self._sums.attempts
            names = {name for name, _ in self._cells}
            self._other_scores = self._sums.count_of_others(names)
            self._moved_at = time.monotonic()
            self._pace.rate(self._done)
        self.phase("asking" if self._plan.answers or self._plan.judged else "computing")

    def phase(self, name: str) -> None:
        """Says what the run does now, and writes that at once."""
        self._phase = name
        self._write()

    def end(self, has_moved: bool) -> None:
        """Writes how far the run has come, for the last time.

        Args:
            has_moved: whether scores have got other names, so that they are counted anew.
        """
        with self._lock:
            if has_moved and self._sums is not None:
                self._sums, _ = self._read()
            self._left.clear()
        self._ended.set()
        self._write(_LAST_PATIENCE)

    def watch(self, stages: Asking) -> None:
        """Takes the numbers of requests from stages that run."""
        self._stages = stages

    def _read(self) -> tuple[RunningSums, int]:
        """Sums over what the store has, and how many of its rows have nothing to come in this part of the run."""
        run, plan = self._run, self._plan
        columns = Columns(run)
        infos = evaluator_infos(run, columns)
        thresholds = read_thresholds(run.config.get("thresholds"), infos)
        sums = RunningSums(run.config.get("evaluators") or (), infos, thresholds, plan.config.repeats)
        sums.add_replaced(replaced_usage(run))
        complete = set()
        for page in columns.score_pages():
            sums.add_stored(page, ASKED_AGAIN)
            complete |= {number for number, left in self._lacking(sums, page) if not left}
        done = 0
        for row in columns.rows(outputs=run.config.get("target") is not None):
            sums.add_rows([StoredRow(row.number, row.key, {}, row.outputs, row.status)], are_new=False)
            if row.status == OK:
                done += row.number in complete or not self._cells
            else:
                done += not (plan.source is not None or (plan.answers and row.status != INVALID_ROW))
        return sums, done

    def _lacking(self, sums: RunningSums, scores: Sequence[StoredScore]) -> Iterator[tuple[int, set[Cell]]]:
        """Number of every row of stored scores, and the scores that it lacks."""
        left: dict[int, set[Cell]] = {}
        for score in scores:
            cells = left.setdefault(score.row, set(self._cells))
            if score.value is not None or score.status not in ASKED_AGAIN:
                cells.discard((sums.parent(score.evaluator), score.repeat))
        yield from left.items()

    def keep_rows(self, works: Iterable[Work], traces: Sequence[StoredTrace | TraceBase] = ()) -> None:
        """Keeps the rows that are not in the store, and opens all of them for their scores."""
        works = list(works)
        with self._lock:
            were_stored = {work.number for work in works if work.stored}
            rows = keep_rows(self._run, works, traces)
            if self._sums is not None:
                self._sums.add_rows(rows)
                for work in works:
                    self._open(self._sums, work, work.number in were_stored)

    def _open(self, sums: RunningSums, work: Work, was_stored: bool) -> None:
        left = set(self._cells) if work.status == OK else set()
        if left and work.done:
            left -= {(sums.parent(name), repeat) for name, repeat in work.done}
        if left:
            self._left[work.number] = left
        elif work.status != OK or not was_stored:  # others were done before
            self._done += 1

    def keep_scores(
        self, scores: Sequence[StoredScore], cached: int = 0, traces: Sequence[StoredTrace | TraceBase] = ()
    ) -> None:
        """Keeps scores with their traces in one transaction, and counts them.

        Args:
            scores: of stored rows.
            cached: those of them by replies that were known already.
            traces: of the scores.
        """
        if not scores:
            return
        with self._lock:
            kept = keep_scores(self._run, scores, traces)
            self.cached += cached
            if self._sums is None:
                return
            self._sums.add_scores(kept)
            for score in kept:
                left = self._left.get(score.row)
                if left is not None:
                    left.discard((self._sums.parent(score.evaluator), score.repeat))
                    if not left:
                        del self._left[score.row]
                        self._done += 1

    @property
    def cost(self) -> float | None:
        """Cost of the run, earlier parts included; None where no price is known."""
        sums, prices = self._sums, self._plan.prices
        if sums is None:
            return None
        asked = prices is not None and (bool(self._plan.judged) or any(sums.tokens.values()))
        judged = prices.cost(Usage(**sums.tokens)) if prices is not None and asked else None
        known = [each for each in (judged, sums.target_cost) if each is not None]
        return sum(known) if known else None

    def progress(self) -> RunProgress:
        """Returns how far the run is."""
        with self._lock:
            if self._sums is None:
                found = replace(self._last, phase=self._phase, at=time.time(), seconds=self.seconds)
            else:
                found = self._progress_of(self._sums)
            self._last = found
            return found

    def _progress_of(self, sums: RunningSums) -> RunProgress:
        asked, failed_rows = self._asked(), sums.failed_rows()
        total = self._total(sums)
        scores = None if total is None else (total - sum(failed_rows.values())) * len(self._cells) + self._other_scores
        problem, problem_at = self._problem(sums)
        rate = self._pace.rate(self._done)
        return RunProgress(
            at=time.time(),
            phase=self._phase_now(sums, asked["in_flight"] + asked["waiting"]),
            total_rows=total,
            done_rows=self._done,
            failed_rows=failed_rows,
            total_scores=scores,
            done_scores=sums.done_scores,
            failed_scores=sums.failed_scores(),
            cached=self.cached,
            seconds=self.seconds,
            rate=rate,
            eta=None if self._ended.is_set() else self._time_left(total, self._done, rate),
            retries=self._retries(),
            problem=problem,
            problem_at=problem_at,
            attempts=self._attempts_before + sum(each.attempts for each in self._askers),
            tokens={name: n + sums.target_tokens[name] for name, n in sums.tokens.items()},
            cost=self.cost,
            currency=self._currency,
            latency={"judge": sums.calls.summary(), "target": sums.target_calls.summary()},
            replaced=sums.replaced.summary(self._plan.prices),
            evaluators=sums.evaluators(),
            **asked,
        )

    def _total(self, sums: RunningSums) -> int | None:
        """Rows to come and done; of stored rows that get more scores all that are stored."""
        if self._plan.source is None and not self._plan.answers:
            return sum(sums.rows.values())
        return self._plan.total

    def _asked(self) -> dict[str, int]:
        """Requests of judge and target now."""
        stages = self._stages
        if stages is None:
            return {"in_flight": 0, "waiting": 0, "concurrency": 0}
        for asker in stages.askers():
            if all(asker is not each for each in self._askers):
                self._askers.append(asker)
        if self._ended.is_set():
            return {"in_flight": 0, "waiting": 0, "concurrency": 0}
        return {
            "in_flight": sum(each.in_flight for each in self._askers) + stages.answering,
            "waiting": sum(each.retries.waiting for each in self._askers),
            "concurrency": sum(int(each.gate.limit) for each in self._askers) + stages.at_once,
        }

    def _retries(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for asker in self._askers:
            for status, n in dict(asker.retries.sent_again).items():
                found[status] = found.get(status, 0) + n
        return found

    def _problem(self, sums: RunningSums) -> tuple[str, float | None]:
        """The latest failure, without secrets; while requests wait to be sent again, the latest that made them wait."""
        waiting = [each.retries for each in self._askers if each.retries.waiting]
        found = [(each.problem_at, each.problem) for each in waiting or [each.retries for each in self._askers]]
        if not waiting:
            found.append((sums.problem_at, sums.problem))
        at, text = max(((at, text) for at, text in found if at is not None), default=(None, ""))
        short = text if len(text) <= _LONGEST_PROBLEM else text[: _LONGEST_PROBLEM - 3] + "..."
        return self._plan.services.secrets.message(short), at

    def pace(self, total: int | None, done: int) -> dict[str, Any]:
        """Returns what a line says of the pace of a run, as arguments of :class:`~valor_gpu.judge.Progress`.

        Args:
            total: rows to come and done; None where the number is not known.
            done: rows.
        """
        with self._lock:
            rate = self._pace.rate(self._done)
            return {
                "in_flight": self._asked()["in_flight"],
                "seconds": self.seconds,
                "rate": rate,
                "eta": self._time_left(total, done, rate),
                "cost": self.cost,
                "currency": self._currency,
                "retries": self._retries(),
                "unit": "rows",
            }

    def _time_left(self, total: int | None, done: int, rate: float | None) -> float | None:
        """Seconds to the end; None also where nobody answers, since the rate is that of the time before."""
        is_silent = any(each.retries.waiting and each.retries.is_silent() for each in self._askers)
        return None if is_silent else time_left(total, done, rate)

    @property
    def _currency(self) -> str:
        return "" if self._plan.prices is None else self._plan.prices.currency

    def _phase_now(self, sums: RunningSums, requests: int) -> str:
        """The phase; ``waiting`` where requests have had no answer for some seconds."""
        moved = sums.done_scores, sum(sums.rows.values()), sum(each.retries.replies for each in self._askers)
        if moved != self._moved:
            self._moved, self._moved_at = moved, time.monotonic()
        is_silent = self._phase == "asking" and requests > 0 and time.monotonic() - self._moved_at >= SILENT
        return "waiting" if is_silent else self._phase

    def _write(self, patience: float = 0.0) -> None:
        """Writes how far the run is. Where the store is locked or the run is lost, this is left out."""
        with self._lock, contextlib.suppress(StoreError, LeaseError, InputError):
            keep(self._run, self.progress(), patience)

    def _tick(self) -> None:
        while not self._ended.wait(TICK):
            self._write()
