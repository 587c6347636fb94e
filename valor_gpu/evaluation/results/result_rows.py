"""Rows of a result: the columns of the data, what the target answered, and what every metric says. Streamed.

Example:
    >>> import tempfile
    >>> from valor_gpu.store import Store, StoredRow, StoredScore
    >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
    ...     run = store.create_run("capitals", {})
    ...     added = run.add_rows([StoredRow(1, "fr", {"question": "France?"}, {"answer": "Paris"})])
    ...     added = run.add_scores([StoredScore(1, "f1_score", 0, 1.0, reason="equal")])
    ...     row = next(result_rows(run))
    >>> row["f1_score"], row["f1_score_reason"], row["_key"]
    (1.0, 'equal', 'fr')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.evaluation.results.thresholds import Threshold, read_thresholds
from valor_gpu.judge.metrics.severity import severity_level
from valor_gpu.stats.means import exact_mean
from valor_gpu.store.records import OK, StoredRow, StoredScore
from valor_gpu.store.runs import Run
from valor_gpu.store.texts import Kept, kept_rows

_RESERVED = ("_seconds", "_cost", "_usage")  # that the target spent, beside what it returned
_KEPT_APART = ("turns", "counts")
ABOUT = ("evaluation_per_turn", "passed", "_number", "_key", "_status", "_error", *_RESERVED)


@dataclass(frozen=True)
class Column:
    """How a metric is written.

    Attributes:
        name: of the metric.
        is_severity: the level stands under the name, the number under ``<name>_score``.
        is_judged: a reason is expected, so that its key is there even where it is empty.
        threshold: or None.
    """

    name: str
    is_severity: bool
    is_judged: bool
    threshold: Threshold | None


def result_rows(run: Run, thresholds: Mapping[str, float | str] | None = None) -> Iterator[dict[str, Any]]:
    """Yields the rows of a run in their order, a page at a time in memory.

    The keys are the columns of the data, then the target's outputs (one with the name of a column takes its place, the
    column is then ``data.<name>``), then for each evaluator

    - ``<metric>``: the number, of a row judged repeatedly the mean; None where there is none. For severities the level,
      with the number under ``<metric>_score``;
    - ``<metric>_reason``: the judge's, or why there is no number; ``<metric>_status`` where there is none;
    - ``<metric>_repeats``, with ``value``, ``status`` and ``reason`` of each repeat where there are several;
    - ``<metric>_details``: what the evaluator says beside its number;

    then ``evaluation_per_turn`` of conversations (metric to its turns), ``passed`` (metric with a threshold to whether
    the row passes; None without a number), ``_number``, ``_key``, and where the row has no answer ``_status`` and
    ``_error``; of a target ``_seconds``, ``_cost``, ``_usage``. Columns of the data that have the name of a metric's
    key are ``data.<name>``, too; a metric's key that is taken is ``metric.<name>``. An evaluator that has not
    scored a row has no keys in it.

    Args:
        run: of a store.
        thresholds: instead of those of the run.

    Raises:
        InputError: thresholds for what is no evaluator of the run.
    """
    columns = result_columns(run, thresholds)
    return (shown_row(row, scores, columns) for row, scores in kept_rows(run))


def result_columns(run: Run, thresholds: Mapping[str, float | str] | None = None) -> list[Column]:
    """How the metrics of a run are written, in their order; arguments and errors of :func:`result_rows`."""
    infos = evaluator_infos(run)
    limits = read_thresholds(run.config.get("thresholds") if thresholds is None else thresholds, infos)
    return [
        Column(each["name"], each["kind"] == "safety", bool(each.get("needs_judge")), limits.get(each["name"]))
        for each in infos
    ]


def shown_row(row: Kept, scores: Iterable[Kept], columns: Sequence[Column]) -> dict[str, Any]:
    """A row with its scores as :func:`result_rows` gives it.

    Args:
        row: as the store keeps it.
        scores: of the row, by evaluator and repeat, as the store keeps them.
        columns: of the run.
    """
    found: dict[str, list[StoredScore]] = {}
    for score in map(StoredScore.kept, scores):
        found.setdefault(score.evaluator, []).append(score)
    return _shown(StoredRow.kept(row), found, columns)


def _shown(row: StoredRow, scores: Mapping[str, Sequence[StoredScore]], columns: Sequence[Column]) -> dict[str, Any]:
    outputs = {name: value for name, value in row.outputs.items() if name not in _RESERVED}
    metrics, turns, passed = _metrics(scores, columns)
    more: dict[str, Any] = {"evaluation_per_turn": turns} if turns else {}
    more |= {"passed": passed} if passed else {}
    more |= {"_number": row.number, "_key": row.key}
    more |= {"_status": row.status, "_error": row.error} if row.status != OK else {}
    more |= {name: row.outputs[name] for name in _RESERVED if row.outputs.get(name) is not None}
    answered = _renamed(outputs, "target.", metrics.keys() | more.keys())
    given = _renamed(row.inputs, "data.", answered.keys() | metrics.keys() | more.keys())
    return {**given, **answered, **metrics, **more}


def _renamed(values: Mapping[str, Any], prefix: str, taken: Set[str]) -> dict[str, Any]:
    """The values with a prefix before the names that are taken, again where that is a name, too."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        free = name
        while free in taken or (free != name and free in values):
            free = prefix + free
        found[free] = value
    return found


def _metrics(
    scores: Mapping[str, Sequence[StoredScore]], columns: Sequence[Column]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, bool | None]]:
    found: dict[str, Any] = {}
    turns: dict[str, Any] = {}
    passed: dict[str, bool | None] = {}
    for column in columns:
        repeats = scores.get(column.name)
        if not repeats:
            continue
        value = mean_of_repeats(repeats)
        for name, cell in _cells(column, repeats, value).items():  # another metric may have the name "<metric>_reason"
            found[f"metric.{name}" if name in found or name in ABOUT else name] = cell
        first = _first(repeats)
        if first.details and first.details.get("turns") is not None:
            turns[column.name] = first.details["turns"]
        if column.threshold is not None:
            passed[column.name] = None if value is None else bool(column.threshold.passes(value))
    return found, turns, passed


def _cells(column: Column, repeats: Sequence[StoredScore], value: float | None) -> dict[str, Any]:
    name, first = column.name, _first(repeats)
    found: dict[str, Any] = {name: value}
    if column.is_severity:
        found = {name: None if value is None else severity_level(value), f"{name}_score": value}
    if first.reason or column.is_judged:
        found[f"{name}_reason"] = first.reason
    if value is None:
        found[f"{name}_status"] = first.status
    if first.level and not column.is_severity:
        found[f"{name}_level"] = first.level
    if len(repeats) > 1:
        found[f"{name}_repeats"] = [
            {"value": each.value, "status": each.status, "reason": each.reason} for each in repeats
        ]
    details = {key: item for key, item in (first.details or {}).items() if key not in _KEPT_APART}
    return {**found, f"{name}_details": details} if details else found


def _first(repeats: Sequence[StoredScore]) -> StoredScore:
    """The first repeat with a value, else the first."""
    return next((each for each in repeats if each.value is not None), repeats[0])


def mean_of_repeats(repeats: Sequence[StoredScore]) -> float | None:
    """Mean of the values that are there; None without any."""
    values = [each.value for each in repeats if each.value is not None]
    return exact_mean(values) if values else None
