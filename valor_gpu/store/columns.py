"""Columns of a run's scores and rows, without the texts beside them: what statistics are computed from."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from valor_gpu.store.checksums import fetched, placed, whole
from valor_gpu.store.records import (
    CHECKED_ROW,
    CHECKED_SCORE,
    OK,
    StoredScore,
    scores_of,
    whole_rows,
    whole_scores,
)
from valor_gpu.store.runs import Run
from valor_gpu.store.search import split_numbers
from valor_gpu.store.totals import (
    PORTION,
    TOLD,
    are_keys,
    check_rows,
    check_scores,
    check_told,
    check_values,
    totals_of,
)
from valor_gpu.store.values import packed, unpacked, unpacked_json

PAGE = PORTION
_WHOLE = 1000  # rows of which all texts and scores are in memory at a time

_Page = Sequence[tuple[Any, ...]]


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
        for page in self._told("levels", evaluator):
            for level in (unpacked(kept[6]) for kept in page if kept[3] is not None and kept[6]):
                found[level] = found.get(level, 0) + 1
        return dict(sorted(found.items()))

    def details(self, evaluator: str) -> Iterator[tuple[int, int, Any]]:
        """Yields row, repeat and details of the scores with a value, by row and repeat."""
        for page in self._scores("AND evaluator = ?", packed(evaluator)):
            yield from ((kept[0], kept[2], _json(kept[7])) for kept in page if kept[3] is not None)

    def usage(self) -> Iterator[tuple[str, Any, float]]:
        """Yields evaluator, usage (None without) and seconds (0 without) of every score that has one of both."""
        for page in self._told("usage"):
            for _, name, *_, usage, seconds, _ in page:
                if usage is not None or seconds is not None:
                    yield unpacked(name), _json(usage), seconds or 0.0

    def score_pages(self) -> Iterator[list[StoredScore]]:
        """Yields the scores of portions of the rows, by row, evaluator and repeat."""
        for page in self._scores(""):
            yield scores_of(page, self._run)

    def _told(self, what: str, evaluator: str | None = None) -> Iterator[_Page]:
        """Yields at least the scores that tell something, a level or usage; those of an ended run are counted."""
        which, values = ("", ()) if evaluator is None else ("AND evaluator = ?", (packed(evaluator),))
        with self._database.read() as connection:
            totals = totals_of(connection, self._run)
        if totals is None:
            yield from self._scores(which, *values)
            return
        n = 0
        for page in self._scores(f"{which} AND {TOLD[what]}", *values):
            n += len(page)
            yield page
        with self._database.read() as connection:
            check_told(connection, self._run, what, evaluator, n, totals)

    def _scores(self, which: str, *values: Any) -> Iterator[_Page]:
        """Yields the columns of scores with their checksums, by row, evaluator and repeat, a portion at a time."""
        sql = f"""SELECT {CHECKED_SCORE} FROM scores INDEXED BY sqlite_autoindex_scores_1
            WHERE run = ? AND row BETWEEN ? AND ? {which} ORDER BY row, evaluator, repeat"""
        for first, last in self._ranges(_WHOLE):
            with self._database.read() as connection:
                check_scores(connection, self._run)
                found = fetched(connection, sql, (self._run, first, last, *values))
                page = whole_scores(found, self._run)
            yield page

    def rows(self, *, inputs: bool = False, outputs: bool = False) -> Iterator[RowFacts]:
        """Yields the rows in the order of their numbers.

        Args:
            inputs: read the inputs, too.
            outputs: read the outputs, too.
        """
        for page in self._rows():
            for number, key, given, answered, status, *_ in page:
                known = unpacked_json(given) if inputs else {}
                text = OK if status == OK else unpacked(status)
                yield RowFacts(number, unpacked(key), text, known, unpacked_json(answered) if outputs else {})

    def row_keys(self) -> Iterator[tuple[list[int], list[str]]]:
        """Yields numbers and keys of portions of the rows, in the order of their numbers."""
        sql = "SELECT number, key FROM rows WHERE run = ? AND number BETWEEN ? AND ? ORDER BY number"
        for portion, (first, last) in enumerate(self._ranges()):
            with self._database.read() as connection:
                totals = check_rows(connection, self._run)
                values = (self._run, first, last)
                page: _Page = fetched(connection, sql, values) if totals is not None else ()
                if totals is None or not are_keys(page, portion, totals):  # the checksum of a row says which is damaged
                    page = self._checked(connection, first, last)
            yield [kept[0] for kept in page], [unpacked(kept[1]) for kept in page]

    def statuses(self) -> Iterator[tuple[list[int], list[str]]]:
        """Yields numbers and statuses of portions of the rows, in the order of their numbers."""
        for first, last in self._ranges():
            with self._database.read() as connection:
                if check_rows(connection, self._run) is not None:  # the indexes were compared with what they had
                    page = self._index_page(connection, first, last)
                else:
                    found = self._checked(connection, first, last)
                    page = [kept[0] for kept in found], [unpacked(kept[2]) for kept in found]
            yield page

    def _index_page(self, connection: sqlite3.Connection, first: int, last: int) -> tuple[list[int], list[str]]:
        """Numbers and statuses of a portion of the rows, by indexes alone."""
        where = "WHERE run = ? AND number BETWEEN ? AND ?"
        values = (self._run, first, last)
        sql = f"SELECT number FROM rows INDEXED BY sqlite_autoindex_rows_1 {where} ORDER BY number"
        numbers = [number for (number,) in connection.execute(sql, values)]
        failed = f"SELECT number, status FROM rows INDEXED BY rows_failed {where} AND status <> '{OK}'"
        with placed("rows without an answer of run ", self._run):
            known = {number: unpacked(status) for number, status in fetched(connection, failed, values)}
        return numbers, [known.get(number, OK) for number in numbers]

    def _rows(self) -> Iterator[_Page]:
        """Yields the columns of rows with their checksums, which were compared, a portion at a time."""
        for first, last in self._ranges(_WHOLE):
            with self._database.read() as connection:
                page = self._page(connection, first, last)
            yield page

    def _checked(self, connection: sqlite3.Connection, first: int, last: int) -> list[tuple[Any, ...]]:
        """Number, key and status of a portion of the rows, whose checksums were compared a few at a time."""
        sql = f"""SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND number > ? AND number <= ?
            ORDER BY number LIMIT {_WHOLE}"""
        found: list[tuple[Any, ...]] = []
        while page := whole_rows(fetched(connection, sql, (self._run, first - 1, last)), self._run):
            found += [(kept[0], kept[1], kept[4]) for kept in page]
            first = page[-1][0] + 1
        return found

    def _page(self, connection: sqlite3.Connection, first: int, last: int) -> _Page:
        sql = f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND number BETWEEN ? AND ? ORDER BY number"
        return whole_rows(fetched(connection, sql, (self._run, first, last)), self._run)

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


def _json(kept: Any) -> Any:
    return None if kept is None else unpacked_json(kept)
