"""What scores amount to, by SQL over the table of scores."""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.checks import check_number
from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import damage, fetched, placed
from valor_gpu.store.connections import add_function
from valor_gpu.store.records import CHECKED_ROW, whole_rows
from valor_gpu.store.totals import check_rows, check_scores, check_values
from valor_gpu.store.values import packed, unpacked, unpacked_json

# Outer loop: rows with the cell by which they are grouped, so that its JSON is read once a row; "LIMIT -1" keeps
# SQLite from merging it into the join, where it would be read for every score. The index is named, since SQLite would
# take the one that has all columns, and read all scores for every row. Repeats of a row are averaged first.
_SUMMARY = """
    SELECT cell, evaluator, count(mean), avg(mean), min(low), max(high), sum(n), count(*), sum(unlike),
        sum(n_all), total(mean * n) FROM (
        SELECT cells.cell AS cell, evaluator, avg(value) AS mean, min(value) AS low, max(value) AS high,
            count(value) AS n, sum(value IS NOT again) AS unlike, count(*) AS n_all
        FROM (SELECT number, {cell} AS cell FROM rows WHERE run = :run ORDER BY number LIMIT -1) AS cells
        CROSS JOIN scores INDEXED BY sqlite_autoindex_scores_1
            ON scores.run = :run AND scores.row = cells.number
        GROUP BY cells.number, evaluator)
    GROUP BY cell, evaluator"""
_FAILED = """
    SELECT {cell} AS cell, evaluator, scores.status, count(*)
    FROM scores INDEXED BY scores_failed WHERE scores.run = :run AND scores.value IS NULL
    GROUP BY cell, evaluator, scores.status"""
_WRONG = """SELECT count(*) FROM scores WHERE run = ? AND evaluator = ? AND again IS NOT NULL
    AND value IS NOT again"""


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


_PAGE = 1000  # rows that are in memory while their cells are read


class _Cells:
    """A cell of each row as ASCII JSON, ``"null"`` where it is missing: 12 bytes a row.

    SQLite's own JSON functions end texts at the first NUL, and take no BLOB.

    Args:
        connection: within a transaction.
        run: number of the run.
        column: of the inputs.
    """

    def __init__(self, connection: sqlite3.Connection, run: int, column: str) -> None:
        self._numbers, self._codes = array("q"), array("l")
        known: dict[str, int] = {}
        after, sql = 0, f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND number > ? ORDER BY number LIMIT {_PAGE}"
        while page := whole_rows(fetched(connection, sql, (run, after)), run):
            after = page[-1][0]
            for number, _, inputs, *_ in page:
                cell = json.dumps(unpacked_json(inputs).get(column), sort_keys=True)
                self._numbers.append(number)
                self._codes.append(known.setdefault(cell, len(known)))
        self.values = list(known)

    def of(self, number: int) -> str:
        """Returns the cell of a row: an SQL function."""
        at = bisect_left(self._numbers, number)
        if at == len(self._numbers) or self._numbers[at] != number:
            raise DamageError(f"row {number} of a run", "scores are of it, but it is not among the rows")
        return self.values[self._codes[at]]


def summarise(connection: sqlite3.Connection, run: int) -> dict[str, EvaluatorSummary]:
    """Returns the summary of every evaluator of a run."""
    return next((summaries for _, summaries in _summaries(connection, run, "''", "''")), {})


def summarise_slices(
    connection: sqlite3.Connection, run: int, column: str, most: int
) -> list[tuple[Any, dict[str, EvaluatorSummary]]]:
    """Returns value and summaries for every value of an input column, in the order of their JSON."""
    check_rows(connection, run)
    cells = _Cells(connection, run, column)
    if len(cells.values) > most:
        raise InputError(f"column must have at most {most} values to slice by but {column!r} has {len(cells.values)}")
    add_function(connection, "cell_of", 1, cells.of)
    slices = _summaries(connection, run, "cell_of(number)", "cell_of(scores.row)")
    with placed("cells of rows of run ", run):
        return [(unpacked_json(cell), summaries) for cell, summaries in slices]


def _summaries(
    connection: sqlite3.Connection, run: int, cell: str, failed_cell: str
) -> list[tuple[str, dict[str, EvaluatorSummary]]]:
    failed: dict[tuple[str, str], dict[str, int]] = {}
    values = {"run": run}
    check_scores(connection, run)
    for where, name, status, n in fetched(connection, _FAILED.format(cell=failed_cell), values):
        with placed("statuses of scores in run ", run):
            failed.setdefault((where, unpacked(name)), {})[unpacked(status)] = n
    found: dict[str, dict[str, EvaluatorSummary]] = {}
    counts: dict[str, list[float]] = {}
    for where, kept, n, mean, low, high, n_scores, n_rows, unlike, n_all, amount in fetched(
        connection, _SUMMARY.format(cell=cell), values
    ):
        with placed("names of evaluators of run ", run):
            name = unpacked(kept)
        wrong = connection.execute(_WRONG, (run, kept)).fetchone()[0] if unlike else 0  # older versions kept one alone
        if wrong:
            raise damage(f"scores by {name!r} in run ", f"{wrong} of their values are not what was written", run)
        causes = failed.get((where, name), {})
        found.setdefault(where, {})[name] = EvaluatorSummary(n, mean, low, high, n_scores, causes, n_rows - n)
        counted = counts.setdefault(name, [0, 0, 0, 0.0, 0.0])
        size = n_scores * max(-(low or 0.0), high or 0.0)
        new = (n_all, n_scores, sum(causes.values()), amount, size)
        counts[name] = [one + other for one, other in zip(counted, new)]
    _check_counts(connection, run, counts)
    return list(found.items())


def _check_counts(connection: sqlite3.Connection, run: int, counts: dict[str, list[float]]) -> None:
    """Compares scores, values and their sum with those of the index of values: the other one may lead to other scores.

    Both add in their own order, so sums differ by rounding.
    """
    sql = """SELECT count(*), count(value), total(value) FROM scores INDEXED BY scores_value
        WHERE run = ? AND evaluator = ?"""
    check_values(connection, run, least=True)
    for name, (n, valued, failed, amount, size) in counts.items():
        n_then, valued_then, amount_then = connection.execute(sql, (run, packed(name))).fetchone()
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
