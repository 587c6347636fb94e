"""How far a run is, in words: what its page and the list of runs say while it goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from valor_gpu.evaluation.report.bounds import short, words
from valor_gpu.evaluation.report.facts import cost_in_words
from valor_gpu.evaluation.results.latency import latency_in_words
from valor_gpu.pages import numbers
from valor_gpu.store.progress import RunProgress

SILENT = 10.0
"""Seconds without a word of the process after which a page says so; it writes once a second."""
_PHASES = {
    "starting": "Reading the data",
    "asking": "Asking",
    "computing": "Computing",
    "waiting": "Waiting for answers",
    "ending": "Writing the summary",
}


@dataclass(frozen=True)
class ProgressWords:
    """What is said of a run that goes on; every attribute but ``done`` and ``total`` is text.

    Attributes:
        done: rows.
        total: rows; None where that is not known.
        percent: empty without a total; 100% only when all rows are done.
        rows: how many of how many.
        left: the time left.
        phase: what the process does.
        facts: name and text of further numbers.
        failed: what has no answer or no score.
        waiting: requests that are to be sent again, and why; empty without any.
        retried: requests that were sent again so far, by cause; empty without any.
        silent: that the process has said nothing for a while; empty otherwise.
        said: all of it in one sentence, for those who hear the page.
    """

    done: int
    total: int | None
    percent: str
    rows: str
    left: str
    phase: str
    facts: list[tuple[str, str]]
    failed: str
    waiting: str
    retried: str
    silent: str
    said: str


def progress_words(progress: RunProgress, now: float | None = None, asked: str = "") -> ProgressWords:
    """Says how far a run is.

    Args:
        progress: of the run.
        now: seconds since 1970; the present by default.
        asked: who answers, such as ``the judge``.

    Example:
        >>> said = progress_words(RunProgress(at=9.0, phase="asking", total_rows=500, done_rows=120, eta=130.0), 10.0)
        >>> said.percent, said.rows, said.left
        ('24%', '120 of 500 rows', 'about 2 min left')
    """
    now = time.time() if now is None else now
    done, total = progress.done_rows, progress.total_rows
    percent = "" if not total else f"{min(math.floor(100 * done / total), 100)}%"
    rows = numbers.rows(done) if total is None else f"{done:,} of {numbers.rows(total)}"
    left = _left(progress)
    failed = _failed(progress)
    parts = (f"{percent} done" if percent else "", rows, f"{failed} failed" if failed else "", left)
    said = ", ".join(part for part in parts if part) + "."
    waiting, silent = _waiting(progress, now), _silent(progress, now)
    phase = _PHASES.get(progress.phase, "")
    if progress.phase == "asking" and asked:
        phase += f" {asked}"
    return ProgressWords(
        done, total, percent, rows, left, phase, list(_facts(progress).items()), failed,
        waiting, _retried(progress), silent, " ".join(part for part in (said, waiting, silent) if part),
    )  # fmt: skip


def _left(progress: RunProgress) -> str:
    if progress.phase in ("starting", "ending"):
        return ""
    if progress.eta is None or not math.isfinite(progress.eta):
        return "time left not known"
    return f"about {numbers.duration(progress.eta, rough=True)} left"


def _facts(progress: RunProgress) -> dict[str, str]:
    found = {"Elapsed": numbers.duration(progress.seconds)}
    rate = progress.rate
    found["Speed"] = numbers.NOTHING if rate is None else _rate(rate)
    if progress.attempts or progress.in_flight or progress.concurrency:
        most = f"{progress.in_flight:,} in flight of at most {progress.concurrency:,}, " if progress.concurrency else ""
        found["Requests"] = f"{most}{progress.attempts:,} so far"
    if progress.total_scores:  # none is asked for where the target alone is run
        found["Scores"] = f"{progress.done_scores:,} of {progress.total_scores:,}"
        if progress.cached:
            found["Scores"] += f", {progress.cached:,} from the cache"
    tokens = {name: n for name, n in progress.tokens.items() if n}
    if tokens:
        found["Tokens"] = ", ".join(f"{numbers.amount(n)} {name}" for name, n in tokens.items())
        found["Cost so far"] = cost_in_words(progress.cost, progress.currency, progress.replaced)
    if calls := latency_in_words(progress.latency):
        found["Time of a call"] = "; ".join(calls)
    return found


def _rate(rate: float) -> str:
    """Rows a second, or a minute where they are slow.

    Example:
        >>> _rate(1234.5), _rate(3.14), _rate(0.05)
        ('1,234 rows/s', '3.1 rows/s', '3.0 rows/min')
    """
    if rate < 0.5:
        return f"{numbers.number(60 * rate, 1)} rows/min"
    return f"{numbers.number(rate, 1 if rate < 100 else 0)} rows/s"


def _failed(progress: RunProgress) -> str:
    parts = []
    for counts, what in ((progress.failed_rows, "row"), (progress.failed_scores, "score")):
        if n := sum(counts.values()):
            causes = words(next(iter(counts))) if len(counts) == 1 else _by_cause(counts)
            parts.append(f"{n:,} {what}{'' if n == 1 else 's'} ({causes})")
    return ", ".join(parts)


def _by_cause(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda each: -each[1])
    return ", ".join(f"{n:,} {words(status)}" for status, n in ordered if n)


def _waiting(progress: RunProgress, now: float) -> str:
    if not progress.waiting:
        return ""
    one = progress.waiting == 1
    found = f"{progress.waiting:,} request{' waits' if one else 's wait'} for a retry"
    if not progress.problem:
        return found + "."
    cause = short(progress.problem, 300).rstrip(".")
    if progress.problem_at is None:
        return f"{found}: {cause}."
    return f"{found}: {cause}, last {_ago(now - progress.problem_at)}."


def _retried(progress: RunProgress) -> str:
    n = sum(progress.retries.values())
    if not n:
        return ""
    return f"{n:,} {'retry' if n == 1 else 'retries'} so far: {_by_cause(progress.retries)}."


def _silent(progress: RunProgress, now: float) -> str:
    silence = now - progress.at
    if -SILENT < silence < SILENT:
        return ""
    came = _ago(silence) if silence > 0 else "before the clock of this machine was set back"
    return f"Last news {came}: the process may be stuck."


def _ago(seconds: float) -> str:
    if seconds < 0.5:
        return "just now"
    return f"{numbers.duration(round(seconds)).replace('.0 s', ' s')} ago"
