"""Columns of a run's scores and rows, without the texts beside them: what statistics are computed from."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from valor_gpu.store.records import OK, StoredScore
from valor_gpu.store.runs import Run
from valor_gpu.store.values import packed, unpacked, unpacked_json

PAGE = 10_000


class Values(NamedTuple):
    """Values of one evaluator in ascending order; scores without a number are left out.

    Attributes:
        rows: numbers of the rows, int64.
        repeats: int64.
        values: float64, finite.
    """

    rows: array[int]
    repeats: array[int]
    values: array[float]


class RowFacts(NamedTuple):
    """What is read of a row.

    Attributes:
        number: of the row.
        key: by which runs are joined.
        status: ``ok``, or why there is no answer.
        inputs: empty unless asked for.
        outputs: empty unless asked for.
    """

    number: int
    key: str
    status: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class Columns:
    """Reads columns of a run, a page at a time.

    Args:
        run: of a store.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     added = run.add_rows([StoredRow(1, "fr", {"question": "France?"})])
        ...     added = run.add_scores([StoredScore(1, "exact_match", 0, 1.0)])
        ...     Columns(run).values("exact_match").values
        array('d', [1.0])
    """

    def __init__(self, run: Run) -> None:
        self._database, self._run = run._database, run._number

    def evaluators(self) -> list[str]:
        """Names of the evaluators that have scores, with a value or without, sorted."""
        names: list[str] = []
        # Each name is one step in the index; "SELECT DISTINCT" would read all scores.
        sql = "SELECT min(evaluator) FROM scores INDEXED BY scores_value WHERE run = ? AND evaluator > ?"
        with self._database.read() as connection:
            last: str | bytes = ""
            while (found := connection.execute(sql, (self._run, last)).fetchone()[0]) is not None:
                names.append(unpacked(found))
                last = found
        return sorted(names)

    def values(self, evaluator: str) -> Values:
        """The values of one evaluator: 24 bytes for each."""
        # SQLite joins the rows of equal values in a fifth of the time in which it hands out one tuple for each score.
        sql = """SELECT value, count(*), group_concat(row), max(repeat) FROM scores INDEXED BY scores_value
            WHERE run = ? AND evaluator = ? AND value IS NOT NULL GROUP BY value"""
        rows, values = [], array("d")
        with self._database.read() as connection:
            for value, n, joined, last in connection.execute(sql, (self._run, packed(evaluator))):
                if last:
                    return self._repeated_values(connection, evaluator)
                rows.append(joined)
                values.extend([value] * n)
        numbers = array("q", json.loads(f"[{','.join(rows)}]"))
        return Values(numbers, array("q", bytes(8 * len(numbers))), values)

    def _repeated_values(self, connection: sqlite3.Connection, evaluator: str) -> Values:
        found = Values(array("q"), array("q"), array("d"))
        # This index holds all three columns, by value; by row the values would be looked up one at a time.
        sql = """SELECT row, repeat, value FROM scores INDEXED BY scores_value
            WHERE run = ? AND evaluator = ? AND value IS NOT NULL"""
        cursor = connection.execute(sql, (self._run, packed(evaluator)))
        while page := cursor.fetchmany(PAGE):
            numbers, repeats, values = zip(*page)
            found.rows.extend(numbers)
            found.repeats.extend(repeats)
            found.values.extend(values)
        return found

    def failures(self, evaluator: str) -> tuple[array[int], list[str]]:
        """Rows and statuses of the scores without a value, by status."""
        rows, statuses = array("q"), []
        known: dict[str, str] = {}
        sql = """SELECT row, status FROM scores INDEXED BY scores_failed
            WHERE run = ? AND evaluator = ? AND value IS NULL"""
        with self._database.read() as connection:
            for row, kept in connection.execute(sql, (self._run, packed(evaluator))):
                rows.append(row)
                status = unpacked(kept)
                statuses.append(known.setdefault(status, status))
        return rows, statuses

    def levels(self, evaluator: str) -> dict[str, int]:
        """How many scores with a value there are of each level; scores without a level are left out."""
        sql = """SELECT level, count(*) FROM scores INDEXED BY scores_value
            WHERE run = ? AND evaluator = ? AND value IS NOT NULL AND level <> '' GROUP BY level"""
        with self._database.read() as connection:
            return {unpacked(level): n for level, n in connection.execute(sql, (self._run, packed(evaluator)))}

    def details(self, evaluator: str) -> Iterator[tuple[int, int, Any]]:
        """Yields row, repeat and details of the scores with a value, by row and repeat."""
        sql = """SELECT row, repeat, details FROM scores INDEXED BY sqlite_autoindex_scores_1
            WHERE run = ? AND evaluator = ? AND value IS NOT NULL AND row BETWEEN ? AND ? ORDER BY row, repeat"""
        for first, last in self._ranges():
            with self._database.read() as connection:
                page = connection.execute(sql, (self._run, packed(evaluator), first, last)).fetchall()
            yield from ((row, repeat, None if kept is None else unpacked_json(kept)) for row, repeat, kept in page)

    def usage(self) -> Iterator[tuple[str, Any, float]]:
        """Yields evaluator, usage (None without) and seconds (0 without) of every score that has one of both."""
        sql = """SELECT evaluator, usage, seconds FROM scores
            WHERE run = ? AND row BETWEEN ? AND ? AND (usage IS NOT NULL OR seconds IS NOT NULL)"""
        for first, last in self._ranges():
            with self._database.read() as connection:
                page = connection.execute(sql, (self._run, first, last)).fetchall()
            for name, kept, seconds in page:
                yield unpacked(name), None if kept is None else unpacked_json(kept), seconds or 0.0

    def score_pages(self) -> Iterator[list[StoredScore]]:
        """Yields the scores of portions of the rows, by row, without their reasons and details."""
        sql = """SELECT row, evaluator, repeat, value, status, level, usage, seconds
            FROM scores INDEXED BY sqlite_autoindex_scores_1 WHERE run = ? AND row BETWEEN ? AND ? ORDER BY row"""
        for first, last in self._ranges():
            with self._database.read() as connection:
                page = connection.execute(sql, (self._run, first, last)).fetchall()
            yield [
                StoredScore(row, unpacked(name), repeat, value, unpacked(status), "", unpacked(level), None,
                            None if usage is None else unpacked_json(usage), seconds)
                for row, name, repeat, value, status, level, usage, seconds in page
            ]  # fmt: skip

    def rows(self, *, inputs: bool = False, outputs: bool = False) -> Iterator[RowFacts]:
        """Yields the rows in the order of their numbers.

        Args:
            inputs: read the inputs, too.
            outputs: read the outputs, too.
        """
        columns = [name if wanted else "NULL" for name, wanted in (("inputs", inputs), ("outputs", outputs))]
        sql = f"""SELECT number, key, status, {", ".join(columns)} FROM rows
            WHERE run = ? AND number BETWEEN ? AND ? ORDER BY number"""
        size = PAGE // 10 if inputs or outputs else PAGE
        for first, last in self._ranges(size):
            with self._database.read() as connection:
                page = connection.execute(sql, (self._run, first, last)).fetchall()
            for number, key, status, *kept in page:
                given, answered = ({} if each is None else unpacked_json(each) for each in kept)
                yield RowFacts(number, unpacked(key), OK if status == OK else unpacked(status), given, answered)

    def row_keys(self) -> Iterator[tuple[list[int], list[str]]]:
        """Yields numbers and keys of portions of the rows, in the order of their numbers."""
        sql = "SELECT number, key FROM rows WHERE run = ? AND number BETWEEN ? AND ? ORDER BY number"
        for first, last in self._ranges():
            with self._database.read() as connection:
                page = connection.execute(sql, (self._run, first, last)).fetchall()
            yield [number for number, _ in page], [unpacked(key) for _, key in page]

    def statuses(self) -> Iterator[tuple[list[int], list[str]]]:
        """Yields numbers and statuses of portions of the rows, in the order of their numbers."""
        sql = "SELECT number, status FROM rows WHERE run = ? AND number BETWEEN ? AND ? ORDER BY number"
        for first, last in self._ranges():
            with self._database.read() as connection:
                page = connection.execute(sql, (self._run, first, last)).fetchall()
            yield [number for number, _ in page], [unpacked(status) for _, status in page]

    def _ranges(self, size: int = PAGE) -> Iterator[tuple[int, int]]:
        """First and last number of portions of so many rows, whatever gaps the numbers have."""
        sql = """SELECT max(number), min(number) FROM
            (SELECT number FROM rows WHERE run = ? AND number > ? ORDER BY number LIMIT ?)"""
        after = 0
        while True:
            with self._database.read() as connection:
                last, first = connection.execute(sql, (self._run, after, size)).fetchone()
            if last is None:
                return
            yield first, last
            after = last
