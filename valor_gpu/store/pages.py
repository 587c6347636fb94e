"""Scores of a run by pages, each continued behind the key of the last one, so that none costs more for lying deep."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from valor_gpu.checks import check_number, check_type
from valor_gpu.store.checksums import damage, fetched, placed, whole
from valor_gpu.store.database import Database
from valor_gpu.store.records import (
    CHECKED_ROW,
    CHECKED_SCORE,
    LARGEST,
    StoredRow,
    StoredScore,
    check_count,
    checked_rows,
    checked_scores,
    rows_of,
    scores_of,
)
from valor_gpu.store.totals import check_lookup, check_places, check_rows, check_scores, check_values
from valor_gpu.store.values import packed, unpacked

PAGE = 1000
ANSWERED = """AND NOT EXISTS (SELECT 1 FROM rows AS failed INDEXED BY rows_failed
    WHERE failed.run = rows.run AND failed.number = rows.number AND failed.status <> 'ok')"""
"""Rows with status "ok": by the index of the others, so that a row whose status is damaged is among them."""
FAILED = """AND number IN (SELECT number FROM rows AS failed INDEXED BY rows_failed
    WHERE failed.run = rows.run AND failed.status <> 'ok' AND failed.status = ?)"""
"""Rows of another status: by their index, so that a row whose status is damaged is among them."""
_ANY_NAME = b"\xff"  # behind every text: SQLite sorts BLOBs after texts, and no text of ours has such a byte
_ANY_FAILED = "SELECT 1 FROM scores INDEXED BY scores_failed WHERE run = ? AND value IS NULL LIMIT 1"
_PLACES = """SELECT row, evaluator, repeat FROM scores INDEXED BY sqlite_autoindex_scores_1
    WHERE run = ? AND row BETWEEN ? AND ?"""
_UNSCORED, _SCORED = "value IS NULL", "value IS NOT NULL"


def check_statuses(rows: Sequence[StoredRow], status: str | None, run: int) -> None:
    """Raises DamageError where a row has another status than the one by which an index has found it; None: any."""
    odd = next((row.number for row in rows if status not in (None, row.status)), None)
    if odd is not None:
        raise damage("rows without an answer of run ", f"their index is wrong about row {odd}", run)


def chosen_rows(connection: sqlite3.Connection, run: int, column: str, values: Sequence[Any]) -> list[StoredRow]:
    """Returns the rows with these numbers or keys, in this order; those that are not stored are left out."""
    return rows_of(chosen(connection, run, column, values), run)


def chosen(connection: sqlite3.Connection, run: int, column: str, values: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
    """Returns the columns of these rows, each with its checksum behind it, which was compared."""
    sql = f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND {column} = ?"
    found = checked_rows([row for value in values for row in fetched(connection, sql, (run, value))], run)
    if len(found) < len(values):
        check_lookup(connection, run)
    return found


def stream_scores(
    database: Database, run: int, evaluator: str | None, first: int, last: int, repeat: int | None
) -> Iterator[StoredScore]:
    """Returns scores by row, evaluator and repeat; see :meth:`valor_gpu.store.Run.scores`."""
    check_count("first", first, 1)
    check_count("last", last)
    filters: list[tuple[str, Any]] = []
    if evaluator is not None:
        check_type("evaluator", evaluator, str)
        filters.append(("evaluator = ?", packed(evaluator)))
    if repeat is not None:
        check_count("repeat", repeat)
        filters.append(("repeat = ?", repeat))
    which = "".join(f" AND {test}" for test, _ in filters)
    return _stream(database, run, (first, last), which, [value for _, value in filters])


def _stream(
    database: Database, run: int, between: tuple[int, int], which: str, values: list[Any]
) -> Iterator[StoredScore]:
    first, last = between
    sql = f"""SELECT {CHECKED_SCORE} FROM scores
        WHERE run = ? AND (row, evaluator, repeat) > (?, ?, ?) AND row <= ?{which}
        ORDER BY row, evaluator, repeat LIMIT ?"""
    key: tuple[Any, ...] = (first - 1, _ANY_NAME, LARGEST)
    while True:
        with database.read() as connection:
            check_scores(connection, run)
            page = scores_of(fetched(connection, sql, (run, *key, last, *values, PAGE)), run)
        yield from page
        if len(page) < PAGE:
            return
        key = page[-1].row, packed(page[-1].evaluator), page[-1].repeat


def score_page(
    database: Database,
    run: int,
    evaluator: str,
    after: StoredScore | None,
    limit: int,
    descending: bool,
    repeat: int,
    between: tuple[float | None, float | None] | None = None,
) -> list[StoredScore]:
    """Returns a page of scores by value; see :meth:`valor_gpu.store.Run.score_page`.

    NULL compares with nothing, so scores with and without a value are read one after the other, by the same index.
    """
    check_type("evaluator", evaluator, str)
    check_count("limit", limit, 1)
    check_count("repeat", repeat)
    parts = [_SCORED, _UNSCORED] if descending else [_UNSCORED, _SCORED]
    if between is not None:
        parts = [_bounded(between)]
    elif after is not None and (after.value is None) == (parts[1] == _UNSCORED):
        parts = parts[1:]
    found: list[StoredScore] = []
    for part in parts:
        if len(found) < limit:
            begin = after if after is not None and (after.value is None) == (part == _UNSCORED) else None
            found += _part(database, (run, packed(evaluator), repeat), part, begin, limit - len(found), descending)
    return found


def _bounded(between: tuple[float | None, float | None]) -> str:
    """Values from the first to the second; numbers are written by Python and can hold nothing else."""
    tests = [_SCORED]
    for sign, bound in zip((">=", "<="), between):
        if bound is not None:
            check_number("between", bound, -1.7976931348623157e308, 1.7976931348623157e308)
            tests.append(f"value {sign} {float(bound)!r}")
    return " AND ".join(tests)


def _part(
    database: Database,
    which: tuple[Any, ...],
    part: str,
    after: StoredScore | None,
    limit: int,
    descending: bool,
) -> list[StoredScore]:
    sign, direction = ("<", "DESC") if descending else (">", "ASC")
    key = ""
    values: list[Any] = []
    if after is not None:
        key = f"AND row {sign} ?" if after.value is None else f"AND (value, row) {sign} (?, ?)"
        values = [after.row] if after.value is None else [after.value, after.row]
    sql = f"""SELECT {CHECKED_SCORE} FROM scores INDEXED BY scores_value
        WHERE run = ? AND evaluator = ? AND repeat = ? AND {part} {key}
        ORDER BY value {direction}, row {direction} LIMIT ?"""
    with database.read() as connection:
        run, kept_name, _ = which
        check_values(connection, run, unpacked(kept_name), least=True)
        return scores_of(fetched(connection, sql, (*which, *values, limit)), run)


def missing_scores(
    database: Database, run: int, evaluators: Sequence[str], repeats: int, retry: Collection[str]
) -> Iterator[tuple[int, str, int]]:
    """Returns the scores that answered rows lack; see :meth:`valor_gpu.store.Run.missing`."""
    check_count("repeats", repeats, 1)
    for name, value in (("evaluators", evaluators), ("retry", retry)):
        check_type(name, value, (list, tuple, set, frozenset))  # a text would be taken letter by letter
        for each in value:
            check_type(f"each of {name}", each, str)
    return _missing(database, run, evaluators, repeats, retry)


def _missing(
    database: Database, run: int, evaluators: Sequence[str], repeats: int, retry: Collection[str]
) -> Iterator[tuple[int, str, int]]:
    again, names = {packed(status) for status in retry}, [(name, packed(name)) for name in evaluators]
    with database.read() as connection:
        check_places(connection, run)
    for page in _answered(database, run):
        with database.read() as connection:
            there = _there(connection, (run, page[0], page[-1]), again)
        for row in page:
            for name, kept in names:
                for repeat in range(repeats):
                    if (row, kept, repeat) not in there:
                        yield row, name, repeat


def _there(connection: sqlite3.Connection, which: tuple[int, int, int], again: Collection[Any]) -> set[tuple[Any, ...]]:
    """Returns row, evaluator and repeat of the scores of some rows, without those whose status is in ``again``.

    Statuses are read from the scores, with their checksums; where no score lacks a value, the index has all.
    """
    run = which[0]
    check_scores(connection, run)
    if not again or connection.execute(_ANY_FAILED, (run,)).fetchone() is None:
        return set(fetched(connection, _PLACES, which))
    sql = f"SELECT {CHECKED_SCORE} FROM scores WHERE run = ? AND row BETWEEN ? AND ?"
    stored = checked_scores(fetched(connection, sql, which), run)
    with placed("scores of run ", run):
        _read_unchecked(stored)
    return {values[:3] for values in stored if values[4] not in again}


def _read_unchecked(stored: Iterable[Sequence[Any]]) -> None:
    """Raises for names and statuses of scores without a checksum that cannot be read."""
    for values in stored:
        if values[-1] is None:
            unpacked(values[1]), unpacked(values[4])


def _answered(database: Database, run: int) -> Iterator[list[int]]:
    """Pages of the numbers of rows with status "ok"."""
    after = 0
    sql = f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND number > ? {ANSWERED} ORDER BY number LIMIT ?"
    while True:
        with database.read() as connection, placed("rows of run ", run):
            check_rows(connection, run)
            page = [whole(kept[0]) for kept in checked_rows(fetched(connection, sql, (run, after, PAGE)), run)]
        if not page:
            return
        yield page
        after = page[-1]
