"""The most frequent errors of a run, in words: what is said where no number is, or fewer than there are rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.pages.texts import visible
from valor_gpu.store.groups import (
    LONGEST,
    MOST_CAUSES,
    FailureGroup,
    failed_rows,
    failed_scores,
    failed_totals,
    wording,
)
from valor_gpu.store.runs import Run
from valor_gpu.store.saved import VISION

SHOWN = 3
"""Errors that are named."""
_NAMES = 5


@dataclass(frozen=True)
class CommonError:
    """Failures of one status, of rows or of the metrics that most often fail by the same cause.

    Args:
        evaluators: whose scores failed; empty where the rows themselves have no answer.
        status: of the rows or scores.
        n: how many rows or scores.
        n_alike: how many of them have the reason, but for what it quotes of a row.
        reason: the most frequent, its first 200 characters.
    """

    evaluators: tuple[str, ...]
    status: str
    n: int
    n_alike: int
    reason: str

    def __str__(self) -> str:
        of = f"scores of {listed(self.evaluators)}" if self.evaluators else "rows without an answer"
        head = f"{self.n:,} {self.status}, {of}"
        if not self.reason:
            return head
        alike = "" if self.n_alike == self.n else f" ({self.n_alike:,} of them with this cause)"
        cut = "…" if len(self.reason) == LONGEST else ""
        return f"{head}{alike}: {' '.join(visible(self.reason).split())}{cut}"


def common_errors(run: Run, evaluators: Collection[str] | None = None) -> list[CommonError]:
    """Groups the failures of a run by metric and status, the most frequent first.

    Args:
        run: of a store.
        evaluators: only the scores of these, and no rows; None for all.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(row, str(row), {}) for row in (1, 2)])
        ...     failed = (0, None, "bad_request", "HTTP 404: no such model")
        ...     _ = run.add_scores([StoredScore(row, "fluency", *failed) for row in (1, 2)])
        ...     print(*common_errors(run))
        2 bad_request, scores of fluency: HTTP 404: no such model
    """
    if run.config.get("kind") in VISION:
        return []
    causes: dict[tuple[str, str], FailureGroup] = {}
    for each in (*failed_rows(run, MOST_CAUSES)[0], *failed_scores(run, MOST_CAUSES)[0]):
        causes.setdefault((each.evaluator, each.status), each)  # the most frequent is the first
    return _joined(
        _error(name, status, n, causes.get((name, status)))
        for (name, status), n in failed_totals(run).items()
        if evaluators is None or name in evaluators
    )


def _error(evaluator: str, status: str, n: int, cause: FailureGroup | None) -> CommonError:
    """An error of one metric or of rows; without a cause where too many others were told apart."""
    alike, reason = (n, "") if cause is None else (cause.n, cause.reason)
    return CommonError((evaluator,) if evaluator else (), status, n, alike, reason)


def _joined(errors: Iterable[CommonError]) -> list[CommonError]:
    """The errors, with those of one status and cause in several metrics as one."""
    found: dict[tuple[bool, str, str], CommonError] = {}
    for each in errors:
        key = bool(each.evaluators), each.status, wording(each.reason)
        if (known := found.get(key)) is not None:
            names = (*known.evaluators, *each.evaluators)
            each = CommonError(names, each.status, known.n + each.n, known.n_alike + each.n_alike, known.reason)
        found[key] = each
    return sorted(found.values(), key=lambda each: (-each.n, each.evaluators, each.status))


def error_lines(run: Run) -> list[str]:
    """A line for each of the most frequent errors of a run, and how many kinds there are besides."""
    found = common_errors(run)
    more = len(found) - SHOWN
    lines = [str(each) for each in found[:SHOWN]]
    return [*lines, f"and {more:,} more {'kinds' if more > 1 else 'kind'} of errors"] if more > 0 else lines


def without_scores(run: Run, summary: Mapping[str, Any]) -> str:
    """Says that a run has no answer, or which of its metrics have no number, and why; empty where all have one.

    Args:
        run: that has ended.
        summary: of the run.
    """
    rows = summary["rows"]
    if not rows["n"]:
        return ""
    no_row = f"no row of run {run.id} ({rows['n']:,} {'row' if rows['n'] == 1 else 'rows'})"
    if not rows["ok"]:
        return _with_errors(f"{no_row} has an answer", common_errors(run))
    values = {name: each["value" if each["pooled"] else "mean"] for name, each in summary["evaluators"].items()}
    lacking = [name for name, value in values.items() if value is None]
    if not lacking:
        return ""
    return _with_errors(f"{no_row} has a score of {listed(lacking)}", common_errors(run, lacking))


def _with_errors(said: str, errors: Sequence[CommonError]) -> str:
    return "; ".join([said, *(str(each) for each in errors[:SHOWN])])


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, at most five of them.

    Example:
        >>> listed(["bleu", "fluency", "meteor"])
        'bleu, fluency and meteor'
    """
    shown, more = list(names[:_NAMES]), len(names) - _NAMES
    shown += [f"{more:,} more"] if more > 0 else []
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)
