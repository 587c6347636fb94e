"""What scores amount to, by SQL over the table of scores."""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.checks import check_number
from valor_gpu.errors import InputError
from valor_gpu.store.checksums import damage, fetched, placed
from valor_gpu.store.connections import add_function
from valor_gpu.store.records import CHECKED_ROW, checked_row
from valor_gpu.store.totals import check_scores, check_values
from valor_gpu.store.values import packed, unpacked, unpacked_json, unpacked_mapping

# Outer loop: rows with the cell by which they are grouped, so that its JSON is read once a row; "LIMIT -1" keeps
# SQLite from merging it into the join, where it would be read for every score. The index is named, since SQLite would
# take the one that has all columns, and read all scores for every row. Repeats of a row are averaged first.
_SUMMARY = """
    SELECT cell, evaluator, count(mean), avg(mean), min(low), max(high), sum(n), count(*), sum(wrong),
        sum(n_all), total(amount) FROM (
        SELECT cells.cell AS cell, evaluator, avg(value) AS mean, min(value) AS low, max(value) AS high,
            count(value) AS n, total(again IS NOT NULL AND value IS NOT again) AS wrong, count(*) AS n_all,
            total(value) AS amount
        FROM (SELECT number, {cell} AS cell FROM rows WHERE run = :run ORDER BY number LIMIT -1) AS cells
        CROSS JOIN scores INDEXED BY sqlite_autoindex_scores_1
            ON scores.run = :run AND scores.row = cells.number
        GROUP BY cells.number, evaluator)
    GROUP BY cell, evaluator"""
_FAILED = """
    SELECT {cell} AS cell, evaluator, scores.status, count(*)
    FROM scores INDEXED BY scores_failed {join} WHERE scores.run = :run AND scores.value IS NULL
    GROUP BY cell, evaluator, scores.status"""
_JOIN = "CROSS JOIN rows ON rows.run = scores.run AND rows.number = scores.row"


@dataclass(frozen=True)
class EvaluatorSummary:
    """What the scores of one evaluator amount to.

    Args:
        n: rows with a value.
        mean: over these rows, of the mean over the repeats of a row; None where there is none.
        low: the lowest value, or None.
        high: the highest value, or None.
        n_scores: scores with a value; more than ``n`` where rows were judged repeatedly.
        n_failed: how many scores have no value, by status.
        n_unscored: rows that were judged and have no value in any repeat.
    """

    n: int
    mean: float | None
    low: float | None
    high: float | None
    n_scores: int
    n_failed: dict[str, int] = field(default_factory=dict)
    n_unscored: int = 0


@dataclass(frozen=True)
class Histogram:
    """How many scores lie between edges.

    Args:
        edges: increasing, one more than there are bins.
        counts: scores in each bin, its lower edge within it; the last bin has its upper edge, too.
        below: scores below the first edge.
        above: scores above the last edge.
        failed: scores without a value.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    below: int
    above: int
    failed: int


def _checked_cell(column: str | bytes, run: int, *kept: Any) -> str:
    """Returns :func:`json_cell` of a row that has its checksum: an SQL function of the columns that are read."""
    number, _, inputs, *_ = checked_row(kept, run)
    with placed(f"row {number} of run ", run):
        return json_cell(column, inputs)


def json_cell(column: str | bytes, inputs: str | bytes) -> str:
    """Returns a column of JSON inputs as ASCII JSON, ``"null"`` where it is missing: an SQL function.

    SQLite's own JSON functions end texts at the first NUL, and take no BLOB.
    """
    cell = unpacked_mapping(inputs).get(unpacked(column))
    return json.dumps(cell, sort_keys=True)


def summarise(connection: sqlite3.Connection, run: int) -> dict[str, EvaluatorSummary]:
    """Returns the summary of every evaluator of a run."""
    return next((summaries for _, summaries in _summaries(connection, {"run": run}, "''", "''", "")), {})


def summarise_slices(
    connection: sqlite3.Connection, run: int, column: str, most: int
) -> list[tuple[Any, dict[str, EvaluatorSummary]]]:
    """Returns value and summaries for every value of an input column, in the order of their JSON."""
    add_function(connection, "checked_cell", 9, _checked_cell)
    add_function(connection, "json_cell", 2, json_cell)
    values = {"run": run, "column": packed(column)}
    count = f"SELECT count(DISTINCT checked_cell(:column, :run, {CHECKED_ROW})) FROM rows WHERE run = :run"
    n = connection.execute(count, values).fetchone()[0]
    if n > most:
        raise InputError(f"column must have at most {most} values to slice by but {column!r} has {n}")
    cells = "json_cell(:column, inputs)", "json_cell(:column, rows.inputs)"
    slices = _summaries(connection, values, *cells, _JOIN)
    with placed("cells of rows of run ", run):
        return [(unpacked_json(cell), summaries) for cell, summaries in slices]


def _summaries(
    connection: sqlite3.Connection, values: dict[str, Any], cell: str, failed_cell: str, join: str
) -> list[tuple[str, dict[str, EvaluatorSummary]]]:
    failed: dict[tuple[str, str], dict[str, int]] = {}
    run = values["run"]
    check_scores(connection, run)
    for where, name, status, n in fetched(connection, _FAILED.format(cell=failed_cell, join=join), values):
        with placed("statuses of scores in run ", run):
            failed.setdefault((where, unpacked(name)), {})[unpacked(status)] = n
    found: dict[str, dict[str, EvaluatorSummary]] = {}
    counts: dict[str, list[float]] = {}
    for where, kept, n, mean, low, high, n_scores, n_rows, wrong, n_all, amount in fetched(
        connection, _SUMMARY.format(cell=cell), values
    ):
        with placed("names of evaluators of run ", run):
            name = unpacked(kept)
        if wrong:
            raise damage(f"scores by {name!r} in run ", f"{wrong:.0f} of their values are not what was written", run)
        causes = failed.get((where, name), {})
        found.setdefault(where, {})[name] = EvaluatorSummary(n, mean, low, high, n_scores, causes, n_rows - n)
        counted = counts.setdefault(name, [0, 0, 0, 0.0])
        new = (n_all, n_scores, sum(causes.values()), amount)
        counts[name] = [one + other for one, other in zip(counted, new)]
    _check_counts(connection, run, counts)
    return list(found.items())


def _check_counts(connection: sqlite3.Connection, run: int, counts: dict[str, list[float]]) -> None:
    """Compares scores, values and their sum with those of the index of values: the other one may lead to other scores.

    Both add in their own order, so sums differ by rounding.
    """
    sql = """SELECT count(*), count(value), total(value), total(abs(value)) FROM scores INDEXED BY scores_value
        WHERE run = ? AND evaluator = ?"""
    check_values(connection, run, least=True)
    for name, (n, valued, failed, amount) in counts.items():
        n_then, valued_then, amount_then, size = connection.execute(sql, (run, packed(name))).fetchone()
        if (n, valued) != (n_then, valued_then) or n != valued + failed or abs(amount - amount_then) > 1e-9 * size:
            told = f"two indexes have {n:.0f} and {n_then} of them, {valued:.0f} and {valued_then} with a value"
            raise damage(f"scores by {name!r} in run ", f"{told}, or other values", run)


def histogram(connection: sqlite3.Connection, run: int, evaluator: str, edges: Sequence[float]) -> Histogram:
    """Counts scores between edges, each bin by a range of the index of values."""
    for edge in edges:
        check_number("edges", edge, -1.7976931348623157e308, 1.7976931348623157e308)
    check_values(connection, run, evaluator)
    bounds = [float(edge) for edge in edges]
    if len(bounds) < 2 or any(left >= right for left, right in itertools.pairwise(bounds)):
        raise InputError(f"edges must be at least two increasing numbers but got {list(edges)}")
    sql = "SELECT count(*) FROM scores WHERE run = ? AND evaluator = ? AND value >= ? AND value < ?"

    def count(low: float, high: float) -> int:
        return int(connection.execute(sql, (run, packed(evaluator), low, high)).fetchone()[0])

    beyond = math.nextafter(bounds[-1], math.inf)
    counts = [count(low, high) for low, high in zip(bounds, [*bounds[1:-1], beyond])]
    failed = "SELECT count(*) FROM scores WHERE run = ? AND evaluator = ? AND value IS NULL"
    return Histogram(
        tuple(bounds),
        tuple(counts),
        count(-math.inf, bounds[0]),
        count(beyond, math.inf),
        int(connection.execute(failed, (run, packed(evaluator))).fetchone()[0]),
    )
