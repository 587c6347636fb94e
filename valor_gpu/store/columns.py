"""Columns of a run's scores and rows, without the texts beside them: what statistics are computed from."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from valor_gpu.store.checksums import fetched, placed, whole
from valor_gpu.store.records import CHECKED_ROW, CHECKED_SCORE, OK, StoredScore, checked_row
from valor_gpu.store.runs import Run
from valor_gpu.store.search import split_numbers
from valor_gpu.store.totals import check_rows, check_scores, check_values
from valor_gpu.store.values import packed, unpacked, unpacked_mapping

PAGE = 10_000

_T = TypeVar("_T")


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
            check_values(connection, self._run, least=True)
            last: str | bytes = ""
            with placed("names of evaluators of run ", self._run):
                while (found := fetched(connection, sql, (self._run, last))[0][0]) is not None:
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
            check_values(connection, self._run, evaluator)
            for value, n, joined, last in connection.execute(sql, (self._run, packed(evaluator))):
                if last:
                    return self._repeated_values(connection, evaluator)
                rows.append(str(joined))
                values.extend([value] * n)
            numbers = split_numbers(",".join(rows))
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
        with self._database.read() as connection, placed(f"scores without a value by {evaluator!r} in run ", self._run):
            check_values(connection, self._run, evaluator)
            for row, kept in fetched(connection, sql, (self._run, packed(evaluator))):
                rows.append(whole(row))
                status = unpacked(kept)
                statuses.append(known.setdefault(status, status))
        return rows, statuses

    def levels(self, evaluator: str) -> dict[str, int]:
        """How many scores with a value there are of each level; scores without a level are left out."""
        found: dict[str, int] = {}
        for page in self._scores("AND evaluator = ?", packed(evaluator)):
            for score in (each for each in page if each.value is not None and each.level):
                found[score.level] = found.get(score.level, 0) + 1
        return dict(sorted(found.items()))

    def details(self, evaluator: str) -> Iterator[tuple[int, int, Any]]:
        """Yields row, repeat and details of the scores with a value, by row and repeat."""
        for page in self._scores("AND evaluator = ?", packed(evaluator)):
            yield from ((score.row, score.repeat, score.details) for score in page if score.value is not None)

    def usage(self) -> Iterator[tuple[str, Any, float]]:
        """Yields evaluator, usage (None without) and seconds (0 without) of every score that has one of both."""
        for page in self._scores(""):
            found = (score for score in page if score.usage is not None or score.seconds is not None)
            yield from ((score.evaluator, score.usage, score.seconds or 0.0) for score in found)

    def score_pages(self) -> Iterator[list[StoredScore]]:
        """Yields the scores of portions of the rows, by row, evaluator and repeat."""
        return self._scores("")

    def _scores(self, which: str, *values: Any) -> Iterator[list[StoredScore]]:
        sql = f"""SELECT {CHECKED_SCORE} FROM scores INDEXED BY sqlite_autoindex_scores_1
            WHERE run = ? AND row BETWEEN ? AND ? {which} ORDER BY row, evaluator, repeat"""
        for first, last in self._ranges():
            with self._database.read() as connection:
                check_scores(connection, self._run)
                found = fetched(connection, sql, (self._run, first, last, *values))
                page = [StoredScore.kept(kept, self._run) for kept in found]
            yield page

    def rows(self, *, inputs: bool = False, outputs: bool = False) -> Iterator[RowFacts]:
        """Yields the rows in the order of their numbers.

        Args:
            inputs: read the inputs, too.
            outputs: read the outputs, too.
        """

        def facts(kept: tuple[Any, ...]) -> RowFacts:
            number, key, given, answered, status, _ = kept
            texts = unpacked(key), OK if status == OK else unpacked(status)
            known = unpacked_mapping(given) if inputs else {}
            return RowFacts(whole(number), *texts, known, unpacked_mapping(answered) if outputs else {})

        for page in self._rows(facts, PAGE // 10 if inputs or outputs else PAGE):
            yield from page

    def row_keys(self) -> Iterator[tuple[list[int], list[str]]]:
        """Yields numbers and keys of portions of the rows, in the order of their numbers."""
        for page in self._rows(lambda kept: (whole(kept[0]), unpacked(kept[1]))):
            yield [number for number, _ in page], [key for _, key in page]

    def statuses(self) -> Iterator[tuple[list[int], list[str]]]:
        """Yields numbers and statuses of portions of the rows, in the order of their numbers."""
        for page in self._rows(lambda kept: (whole(kept[0]), unpacked(kept[4]))):
            yield [number for number, _ in page], [status for _, status in page]

    def _rows(self, make: Callable[[tuple[Any, ...]], _T], size: int = PAGE) -> Iterator[list[_T]]:
        """What is made of the columns of each row, a portion at a time, each compared with its checksum."""
        sql = f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND number BETWEEN ? AND ? ORDER BY number"
        for first, last in self._ranges(size):
            with self._database.read() as connection:
                found = fetched(connection, sql, (self._run, first, last))
                page = [_made(make, kept, self._run) for kept in found]
            yield page

    def _ranges(self, size: int = PAGE) -> Iterator[tuple[int, int]]:
        """First and last number of portions of so many rows, whatever gaps the numbers have."""
        sql = """SELECT max(number), min(number) FROM
            (SELECT number FROM rows WHERE run = ? AND number > ? ORDER BY number LIMIT ?)"""
        after = 0
        while True:
            with self._database.read() as connection, placed("numbers of rows of run ", self._run):
                check_rows(connection, self._run)
                last, first = connection.execute(sql, (self._run, after, size)).fetchone()
                if last is not None:
                    whole(first), whole(last)
            if last is None:
                return
            yield first, last
            after = last


def _made(make: Callable[[tuple[Any, ...]], _T], kept: tuple[Any, ...], run: int) -> _T:
    values = checked_row(kept, run)
    with placed(f"row {values[0]} of run ", run):
        return make(values)
