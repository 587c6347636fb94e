"""Comparisons as Markdown for a pull request, and their joined rows as csv. No torch, no pandas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from valor_gpu.evaluation.results.changed_rows import ChangedRows
from valor_gpu.evaluation.results.compared_runs import Comparison
from valor_gpu.evaluation.results.exports import cell_of
from valor_gpu.evaluation.results.row_values import Ints
from valor_gpu.gates.decisions import Decision
from valor_gpu.gates.markdown import LIMIT, markdown_summary
from valor_gpu.store import StoredRow

_HEADER = ("metric", "run", "baseline", "difference", "interval", "p", "verdict")
_CHUNK = 500
"""Rows of a part of the csv."""


def comparison_markdown(found: Comparison, decisions: Sequence[Decision] = ()) -> str:
    """Returns the numbers of two runs as Markdown of GitHub: the text of ``valor-gpu eval compare --markdown``.

    Args:
        found: the comparison.
        decisions: of gates, which come first.
    """
    return _markdown(found, decisions, "the metrics", LIMIT)


def group_markdown(found: Sequence[Comparison]) -> str:
    """Returns several runs beside one baseline as Markdown: the text of each, one after the other.

    Args:
        found: as of :func:`~valor_gpu.evaluation.compare_group`, whose p-values are adjusted over all of them.
    """
    over = "the metrics" if len(found) == 1 else "the metrics of all runs"
    return "\n".join(_markdown(each, (), over, LIMIT // len(found)) for each in found)


def _markdown(found: Comparison, decisions: Sequence[Decision], over: str, limit: int) -> str:
    rows = []
    for each in found.metrics.values():
        numbers = [_shown(value) for value in (each.run, each.baseline)]
        bounds = "" if each.interval is None else " to ".join(_shown(end, "+") for end in each.interval)
        tests = [_shown(each.difference, "+"), bounds, _shown(each.p_adjusted), each.verdict]
        rows.append([each.summary_name, *numbers, *tests])
    title = f"{found.run.name} and {found.baseline.name}"
    notes = [f"{found.n:,} rows in both; p-values are adjusted over {over} (Holm)", *found.warnings]
    return markdown_summary(title, decisions, _HEADER, rows, notes, noun="metrics", limit=limit)


def _shown(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.4g}"


def joined_csv(found: Sequence[Comparison], names: Sequence[str]) -> Iterator[str]:
    """Yields the rows that a baseline shares with any run as csv, in parts.

    The columns are ``key``, then for the baseline and each run ``row`` (its number there) and each metric, and for each
    run ``difference`` of each metric, run less baseline. Each column begins with the name of its run. What is missing
    is empty. Bytes and texts are as in :func:`~valor_gpu.evaluation.results.exports.export_csv`.

    Args:
        found: with one baseline.
        names: of the baseline and of the runs, such as ``A``, ``B``.
    """
    rows = ChangedRows(found)
    yield "\ufeff" + _lines([_columns(found, names)])
    base = replace(found[0]._sides[1], questions=rows.questions)
    values = [base.values(metric) for metric in _metrics(found)]
    for start in range(0, len(rows.questions), _CHUNK):
        chosen = range(start, min(start + _CHUNK, len(rows.questions)))
        stored = base.first_rows(rows.questions[start : chosen.stop].tolist())
        firsts = [each._sides[0].first_rows(_questions(each, rows.places[k, start : chosen.stop]))
                  for k, each in enumerate(found)]  # fmt: skip
        yield _lines(
            [
                [*_place(stored.get(int(rows.questions[row]))), *(each[row] for each in values),
                 *_cells(found, rows, row, firsts)]
                for row in chosen
            ]
        )  # fmt: skip


def _place(row: StoredRow | None) -> tuple[object, object]:
    """Key and number of a row; empty for one that was purged meanwhile."""
    return ("", None) if row is None else (row.key, row.number)


def _questions(found: Comparison, places: Ints) -> list[int]:
    """Numbers of the data rows in a run at some places among the joined rows."""
    questions: list[int] = found._sides[0].questions[places[places >= 0]].tolist()
    return questions


def _columns(found: Sequence[Comparison], names: Sequence[str]) -> list[str]:
    metrics = _metrics(found)
    columns = ["key", f"{names[0]}.row", *(f"{names[0]}.{metric}" for metric in metrics)]
    for each, name in zip(found, names[1:]):
        columns += [f"{name}.row", *(f"{name}.{metric}" for metric in each.metrics)]
        columns += [f"{name}.difference.{metric}" for metric in each.metrics]
    return columns


def _metrics(found: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(name for each in found for name in each.metrics))


def _cells(
    found: Sequence[Comparison], rows: ChangedRows, row: int, firsts: Sequence[Mapping[int, StoredRow]]
) -> Iterator[object]:
    """Cells of the runs: number, scores and differences of each."""
    places = [int(place) for place in rows.places[:, row]]
    for each, place, stored in zip(found, places, firsts):
        pairs = list(each._pairs.values())
        if place < 0:
            yield from [None] * (2 * len(pairs) + 1)
            continue
        yield _place(stored.get(int(each._sides[0].questions[place])))[1]
        yield from (float(pair.run[place]) for pair in pairs)
        yield from (float(pair.run[place] - pair.baseline[place]) for pair in pairs)


def _lines(rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerows([_cell(cell) for cell in row] for row in rows)
    return file.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, np.floating):
        value = float(value)
    return "" if value is None or value != value else cell_of(value)  # NaN is no number
