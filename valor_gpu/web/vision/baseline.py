"""Saved results beside a baseline: numbers of the whole and of classes. They have no test: each is one number a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.pages import numbers
from valor_gpu.report.titles import title, words_of
from valor_gpu.store import Run
from valor_gpu.store.saved import VISION
from valor_gpu.web.vision.tables import rate_column

_METRICS, _CLASSES = 40, 20

Cells = list[tuple[str, str | None]]


def is_vision(run: Run) -> bool:
    """Whether a run is a saved result of vision."""
    return run.config.get("kind") in VISION


def vision_numbers(runs: Sequence[Run]) -> dict[str, Any] | None:
    """Tables of the numbers that saved results share.

    Args:
        runs: the baseline first.

    Returns:
        ``metrics`` and ``classes``: lines of a name, the baseline's number, and of each other run number and
        difference; ``column``: the number of the classes; ``n_classes``: how many differ. None unless all are results.
    """
    if not all(map(is_vision, runs)):
        return None
    summaries = [run.finished_summary or {} for run in runs]
    metrics = [each.get("metrics") or {} for each in summaries]
    shared = [name for name in metrics[0] if any(name in each for each in metrics[1:])]
    tables = [each.get("classes") or {} for each in summaries]
    column = rate_column(tables[0])
    columns = [each.get(column) or {} for each in tables] if column else []
    changed = _most_changed(columns)
    return {
        "metrics": [_line(title(name)[0], name, metrics) for name in shared[:_METRICS]],
        "column": words_of(title(column)[0]) if column else "",
        "classes": [_line(short(name), name, columns) for name in changed[:_CLASSES]],
        "n_classes": len(changed),
    }


def _most_changed(columns: Sequence[Mapping[str, float | None]]) -> list[str]:
    """Names of classes whose number differs, the largest difference first."""
    change = {name: max((abs(d) for d in _differences(name, columns)), default=0.0) for name in (columns or [{}])[0]}
    return sorted((name for name, value in change.items() if value), key=lambda name: -change[name])


def _differences(name: str, columns: Sequence[Mapping[str, float | None]]) -> list[float]:
    base = columns[0].get(name)
    others = [each.get(name) for each in columns[1:]]
    return [] if base is None else [value - base for value in others if value is not None]


def _line(words: str, name: str, columns: Sequence[Mapping[str, float | None]]) -> tuple[str, str, Cells]:
    base = columns[0].get(name)
    cells: Cells = []
    for column in columns[1:]:
        value = column.get(name)
        known = value is not None and base is not None
        cells.append((numbers.number(value, 3), numbers.difference(value - base, 3) if known else None))  # type: ignore[operator]
    return words, numbers.number(base, 3), cells
