"""How far a run is: running sums that its process keeps in the store. Standard library alone."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_choice
from valor_gpu.store.checksums import check, fetched, placed, sealed
from valor_gpu.store.totals import check_count_of
from valor_gpu.store.values import packed_json, unpacked_mapping

if TYPE_CHECKING:
    from valor_gpu.store.runs import Run

PHASES = ("starting", "asking", "computing", "waiting", "ending")
"""``starting`` reads what a resumed run has. ``asking`` asks a judge or a target. ``computing`` asks nobody.

``waiting`` has requests without an answer for some seconds. ``ending`` writes the summary and the index of words.
"""

_SELECT = "SELECT content, changed, checksum FROM progress WHERE run = ?"


@dataclass(frozen=True)
class RunProgress:
    """How far a run is at a moment. All numbers are of the whole run, with the parts before it was resumed.

    Attributes:
        at: seconds since 1970 when it was written. A process that lives writes about once a second.
        phase: one of :data:`PHASES`.
        total_rows: rows to come and done; None where the number is not known.
        done_rows: rows with an answer and all scores, and rows that failed.
        failed_rows: status to number of the stored rows without an answer.
        total_scores: scores to come and done; None where ``total_rows`` is not known. Parts of an evaluator that
            returns several numbers count as one.
        done_scores: stored scores, with a value or without.
        failed_scores: status to number of the stored scores without a value.
        cached: scores of this part of the run by replies that were known already.
        seconds: that the run has taken, earlier parts included.
        rate: rows a second, of about the last 30 seconds; None before a row is done.
        eta: seconds to the end at this rate; None where rate or total are not known.
        in_flight: requests of judge and target that wait for an answer.
        concurrency: most of them at once, now; it falls when a server says 429.
        waiting: requests that wait for another try.
        retries: status to number of the requests of this part that failed and were to be sent again.
        problem: message of the latest failure, without secrets; empty when there was none.
        problem_at: seconds since 1970 of it; None when there was none.
        attempts: requests of judge and target, earlier parts included as far as scores have them.
        tokens: ``prompt``, ``completion`` and ``cached``, of judge and target, likewise.
        cost: so far; None where no price is known.
        replaced: part of attempts, tokens and cost that was spent on failures which were replaced: ``n``, ``attempts``,
            ``usage``, ``cost`` and ``costs``; empty where older versions wrote it.
        latency: of the answered calls of ``judge`` and ``target``, in seconds: ``n``, ``p50``, ``p95`` and ``max``,
            exact; None without a call.
        currency: of the cost, a word for people; may be empty.
        evaluators: name to sums of its scores: ``n`` rows with a value, ``sum`` of their means over repeats,
            ``n_scores`` with a value, ``least`` and ``most`` value (None without any), ``failed`` (status to number),
            ``n_passed`` rows (for severities those that are no defects; None without a threshold), ``levels`` (level to
            number; None for metrics without levels) and ``bins``: ``edges`` and ``counts`` as of
            :meth:`~valor_gpu.store.Run.histogram`, ``below`` and ``above`` the scale, ``zeros`` and ``ones`` on a scale
            from 0 to 1; None without a scale, for severities and for pooled metrics.
    """

    at: float = 0.0
    phase: str = "starting"
    total_rows: int | None = None
    done_rows: int = 0
    failed_rows: Mapping[str, int] = field(default_factory=dict)
    total_scores: int | None = None
    done_scores: int = 0
    failed_scores: Mapping[str, int] = field(default_factory=dict)
    cached: int = 0
    seconds: float = 0.0
    rate: float | None = None
    eta: float | None = None
    in_flight: int = 0
    concurrency: int = 0
    waiting: int = 0
    retries: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    problem_at: float | None = None
    attempts: int = 0
    tokens: Mapping[str, int] = field(default_factory=lambda: {"prompt": 0, "completion": 0, "cached": 0})
    cost: float | None = None
    replaced: Mapping[str, Any] = field(default_factory=dict)
    latency: Mapping[str, Any] = field(default_factory=dict)
    currency: str = ""
    evaluators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as JSON."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> RunProgress:
        """Returns the progress that :meth:`to_dict` gave; names that this version does not know are left out."""
        return cls(**{each.name: kept[each.name] for each in fields(cls) if each.name in kept})


def keep(run: Run, progress: RunProgress, patience: float | None = None) -> None:
    """Keeps how far a run is, in place of what was kept before.

    Args:
        run: leased by this process, or by none.
        progress: of the run.
        patience: seconds to wait for another process that writes; None for as long as other writings wait.

    Raises:
        LeaseError: another process works on the run.
        StoreError: the store cannot be written, or another process writes for longer than ``patience``.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     keep(run, RunProgress(phase="asking", total_rows=500, done_rows=120))
        ...     progress_of(run).done_rows, progress_of(store.create_run("other", {}))
        (120, None)
    """
    check_choice("phase", progress.phase, PHASES)
    content = packed_json("progress", progress.to_dict())
    with run._write(patience) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO progress (run, content, changed, checksum) VALUES (?, ?, ?, ?)",
            sealed((run._number, content, time.time())),
        )


def progress_of(run: Run) -> RunProgress | None:
    """Returns how far a run is; None where it never began, or an older version ran it."""
    with run._database.read() as connection:
        return read_progress(connection, run._number)


def read_progress(connection: sqlite3.Connection, run: int) -> RunProgress | None:
    """Returns the progress of the run with a number, within a transaction of the caller."""
    check_count_of(connection, "progress", run)
    for content, changed, kept in fetched(connection, _SELECT, (run,)):
        place = "progress of run "
        check((run, content, changed), kept, place, run)
        with placed(place, run):
            return RunProgress.from_dict(unpacked_mapping(content))
    return None
