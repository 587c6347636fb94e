"""Failures of a finished run that are asked for again, and how a try of them ends. No torch.

A try never leaves a finished run worse than it was. Scores with a value stay, and a failure stays until a new answer is
stored in its place. A try that ends early (the judge is gone, the cost is spent, the process was killed) leaves the run
finished when no score lacks an entry, and the reason is kept beside it. The run is stopped only where the target gave a
new answer whose scores are not there yet: then there is something to go on with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import LeaseError, StoreError
from valor_gpu.evaluation.engine.parts import settle_parts
from valor_gpu.evaluation.engine.work import ASKED_AGAIN, INVALID_ROW
from valor_gpu.evaluation.results.parts import with_parts
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store import Run
from valor_gpu.store.columns import Columns
from valor_gpu.store.groups import failed_totals
from valor_gpu.store.tries import note_try

FINISHED, STOPPED = "finished", "stopped"
KILLED = "The process of the run is gone."
PATIENCE = 0.5
"""Seconds that the end of a killed try waits for another process that writes."""


@dataclass(frozen=True)
class Tries:
    """Failures of a run, and which of them may end otherwise when they are asked for again.

    Attributes:
        rows: without an answer, for which the target is asked again.
        scores: without a value, for which the judge or the evaluator is asked again.
        hopeless: status to the number of failures that would end as they did.
    """

    rows: int
    scores: int
    hopeless: Mapping[str, int]

    @property
    def n(self) -> int:
        """Failures that are asked for again."""
        return self.rows + self.scores


def tries_of(run: Run) -> Tries:
    """Counts the failures of a run that :func:`~valor_gpu.evaluation.resume.resume_run` asks for again.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(1, "a", {}), StoredRow(2, "b", {})])
        ...     _ = run.add_scores([StoredScore(1, "gpt_fluency", 0, None, "timeout", "no reply in 60 s")])
        ...     _ = run.add_scores([StoredScore(2, "gpt_fluency", 0, None, "parse_error", "no rating")])
        ...     tries_of(run)
        Tries(rows=0, scores=1, hopeless={'parse_error': 1})
    """
    has_target = bool(run.config.get("target"))
    rows = scores = 0
    hopeless: dict[str, int] = {}
    for (evaluator, status), n in failed_totals(run).items():
        if not evaluator and has_target and status != INVALID_ROW:
            rows += n
        elif evaluator and status in ASKED_AGAIN:
            scores += n
        else:
            hopeless[status] = hopeless.get(status, 0) + n
    return Tries(rows, scores, hopeless)


def was_finished(summary: Mapping[str, Any] | None) -> bool:
    """Whether the summary is of a run that had finished, as opposed to one that was stopped or failed."""
    return summary is not None and "stopped" in summary and summary["stopped"] is None


def is_complete(run: Run) -> bool:
    """Whether every row with an answer has an entry, a value or a failure, for each score of the run.

    Args:
        run: whose evaluators of several numbers are settled, see
            :func:`~valor_gpu.evaluation.engine.parts.settle_parts`.
    """
    infos = run.config.get("evaluators") or ()
    judged = [str(each["name"]) for each in infos if each.get("needs_judge")]
    stored = Columns(run).evaluators()
    computed = [str(each["name"]) for each in with_parts(infos, stored) if str(each["name"]) not in judged]
    repeats = int(run.config.get("repeats") or 1)
    return all(next(run.missing(*each), None) is None for each in ((judged, repeats), (computed, 1)))


def end_of_try(run: Run, state: str, reason: str) -> tuple[str, str]:
    """The state in which a run that had finished before ends, and why it is not finished, where it is not.

    Args:
        run: leased by the caller, and settled.
        state: "stopped" or "failed".
        reason: why the try ended early.
    """
    if is_complete(run):
        note_try(run, reason)
        return FINISHED, ""
    return state, reason


def end_killed_try(run: Run) -> None:
    """Ends a try whose process was killed. Nothing happens to other runs, nor to one that a process works on.

    Where the store cannot be written (read-only, full, or locked for longer than :data:`PATIENCE`), the try is left to
    whoever looks next.
    """
    before = run.finished_summary
    if before is None or not was_finished(before):
        return
    with contextlib.suppress(LeaseError, StoreError):
        with run._database.write(patience=PATIENCE):  # whoever looks must not wait for it as long as a run does
            pass
        _end(run, before)


def _end(run: Run, before: Mapping[str, Any]) -> None:
    with run.lease():
        settle_parts(run, run.config.get("evaluators") or ())
        state, reason = end_of_try(run, STOPPED, KILLED)
        summary = run_summary(run, seconds=before.get("seconds") or 0.0)
        run.finish(state, {**summary, "stopped": reason or None})
