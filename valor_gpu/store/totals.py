"""How many rows and scores a run had when it ended: an index of a damaged file may lack some of them in silence.

Checksums are of single rows. Here the entries of an index are counted, each index once for a connection and state of a
run. A run that goes on, or that an older version ended, has no totals.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from valor_gpu.errors import DamageError
from valor_gpu.store.checksums import check, checksum, damage, fetched, placed
from valor_gpu.store.records import CHECKED_ROW, checked_row
from valor_gpu.store.values import packed, packed_json, unpacked, unpacked_mapping

_MIX = 1_000_003  # a prime: sums of remainders stay within 64 bits, whatever numbers rows have
_ROWS = f"SELECT count(*), sum(number % {_MIX}), min(number), max(number) FROM rows WHERE run = ?"
_FAILED_ROWS = f"""SELECT status, count(*), sum(number % {_MIX}) FROM rows INDEXED BY rows_failed
    WHERE run = ? AND status <> 'ok' GROUP BY status"""
_PLACE = f"(row * 31 + repeat) % {_MIX}"
_SCORES = f"""SELECT evaluator, count(*), sum({_PLACE}) FROM scores INDEXED BY sqlite_autoindex_scores_1
    WHERE run = ? GROUP BY evaluator"""
_VALUES = f"""SELECT evaluator, count(*), sum({_PLACE}), count(value),
    total(again IS NOT NULL AND value IS NOT again) FROM scores INDEXED BY scores_value WHERE run = ? {{which}}
    GROUP BY evaluator"""
_FAILED = f"""SELECT evaluator, status, count(*), sum({_PLACE}) FROM scores INDEXED BY scores_failed
    WHERE run = ? AND value IS NULL {{which}} GROUP BY evaluator, status"""
_COPIES = "SELECT count(*), sum(length(texts)) FROM row_texts WHERE run = ?"
_OF_ONE = "AND evaluator = ?"


class Connection(sqlite3.Connection):
    """Connection that knows which indexes were counted.

    Attributes:
        counted: name of what was counted to the state of the store in which it was.
        damage: the last one that a function of SQL has met.
    """

    counted: dict[Any, Any]
    damage: DamageError | None


def add_function(connection: sqlite3.Connection, name: str, n: int, function: Callable[..., Any]) -> None:
    """Makes an SQL function that reads a row, whose damage the database can tell; SQLite says only that it raised."""

    def told(*values: Any) -> Any:
        try:
            return function(*values)
        except DamageError as error:
            cast(Connection, connection).damage = error
            raise

    connection.create_function(name, n, told, deterministic=True)


def keep_totals(connection: sqlite3.Connection, run: int) -> None:
    """Keeps the totals of a run that ends, within a transaction that writes."""
    rows = list(connection.execute(_ROWS, (run,)).fetchone())
    found = {
        "rows": rows,
        "failed_rows": _failed_rows(connection, run),
        "scores": _scores(connection, run),
        "copies": list(connection.execute(_COPIES, (run,)).fetchone()),
        "values": {name: found for name, *found, _ in _values(connection, run)},
        "failed": _failed(connection, run),
    }
    content = packed_json("totals", found)
    connection.execute(
        "INSERT OR REPLACE INTO totals (run, content, checksum) VALUES (?, ?, ?)",
        (run, content, checksum((run, content))),
    )


def totals_of(connection: sqlite3.Connection, run: int) -> dict[str, Any] | None:
    """Returns the totals of a run; None where there are none."""
    found = fetched(connection, "SELECT content, checksum FROM totals WHERE run = ?", (run,))
    if not found:
        return None
    [(content, kept)] = found
    place = "totals of run "
    check((run, content), kept, place, run)
    with placed(place, run):
        return unpacked_mapping(content)


@contextlib.contextmanager
def kept_totals(connection: sqlite3.Connection, run: int) -> Iterator[None]:
    """A context in which a change of the record of a run does not take its totals away, as that of its rows does."""
    sql = "SELECT run, content, checksum FROM totals WHERE run = ?"
    before = connection.execute(sql, (run,)).fetchall()
    yield
    connection.executemany("INSERT OR REPLACE INTO totals (run, content, checksum) VALUES (?, ?, ?)", before)


def forget_totals(connection: sqlite3.Connection, run: int) -> None:
    """Takes the totals of a run away whose rows or scores change, within a transaction that writes."""
    connection.execute("DELETE FROM totals WHERE run = ?", (run,))


def _is_stale(connection: sqlite3.Connection, run: int, table: str) -> bool:
    """Whether an older version wrote to an ended run: it keeps no checksums, and leaves the totals as they are."""
    sql = f"SELECT 1 FROM {table} WHERE run = ? AND checksum IS NULL LIMIT 1"
    return connection.execute(sql, (run,)).fetchone() is not None


def check_rows(connection: sqlite3.Connection, run: int) -> Mapping[str, Any] | None:
    """Counts the rows of an ended run by their indexes.

    Returns:
        The totals; None where there are none.

    Raises:
        DamageError: there are others than there were.
    """
    totals = totals_of(connection, run)
    if totals is not None and not _is_known(connection, ("rows", run), totals):
        found = list(connection.execute(_ROWS, (run,)).fetchone())
        if found != totals["rows"] and not _is_stale(connection, run, "rows"):
            raise damage("rows of run ", f"there are {found[0]} but there were {totals['rows'][0]}", run)
        if _failed_rows(connection, run) != totals["failed_rows"] and not _is_stale(connection, run, "rows"):
            raise damage("rows without an answer of run ", "their index has others than there were", run)
        _note(connection, ("rows", run), totals)
    elif totals is None and not _is_known(connection, ("rows", run), None):
        _check_row_entries(connection, run)
        _note(connection, ("rows", run), None)
    return totals


def check_scores(connection: sqlite3.Connection, run: int) -> None:
    """Counts the scores of an ended run by the index of their rows.

    Raises:
        DamageError: there are others than there were.
    """
    totals = check_rows(connection, run)
    if totals is not None and not _is_known(connection, ("scores", run), totals):
        found, then = _scores(connection, run), totals["scores"]
        if found != then and not _is_stale(connection, run, "scores"):
            one, other = (sum(n for n, _ in each.values()) for each in (found, then))
            raise damage("scores of run ", f"there are {one} but there were {other}, or of others", run)
        _note(connection, ("scores", run), totals)
    elif totals is None and not _is_known(connection, ("scores", run), None):
        _check_entries(connection, run)
        _note(connection, ("scores", run), None)


def check_copies(connection: sqlite3.Connection, run: int) -> None:
    """Counts the copies of texts of an ended run.

    Raises:
        DamageError: there are others than there were.
    """
    totals = totals_of(connection, run)
    if totals is not None and not _is_known(connection, ("copies", run), totals):
        found = list(connection.execute(_COPIES, (run,)).fetchone())
        if found != totals["copies"]:
            raise damage("copies of texts of run ", f"there are {found[0]} but there were {totals['copies'][0]}", run)
        _note(connection, ("copies", run), totals)


def check_lookup(connection: sqlite3.Connection, run: int) -> None:
    """Compares the two indexes of the rows of a run, after one of them did not have a row that was asked for.

    Raises:
        DamageError: they have other rows.
    """
    key = ("lookup", run)
    if _is_known(connection, key, None):
        return
    numbers, keys = (f"SELECT {{}} FROM rows INDEXED BY sqlite_autoindex_rows_{n} WHERE run = ?" for n in (1, 2))
    one, other = (connection.execute(sql.format("count(*)"), (run,)).fetchone()[0] for sql in (numbers, keys))
    by_key = {kept for (kept,) in fetched(connection, keys.format("key"), (run,))}
    same = one == other == len(by_key)
    for kept in fetched(connection, numbers.format(CHECKED_ROW), (run,)) if same else ():
        same = same and checked_row(kept, run)[1] in by_key
    if not same:
        raise damage("rows of run ", f"one index has {one} of them, the other one {other}, or other keys", run)
    _note(connection, key, None)


def check_count_of(connection: sqlite3.Connection, table: str, run: int = 0) -> None:
    """Compares how many rows a table that is rarely written has with the number that triggers keep.

    Args:
        connection: within a transaction.
        table: its name.
        run: number of the run whose rows are meant; 0: all.

    Raises:
        DamageError: there are more or less.
    """
    key = (table, run)
    if _is_known(connection, key, None):
        return
    kept = connection.execute("SELECT n FROM counts WHERE about = ? AND run = ?", key).fetchone()
    sql = f"SELECT count(*) FROM {table}{' WHERE run = ?' if run else ''}"
    n = connection.execute(sql, (run,) if run else ()).fetchone()[0]
    if n != (0 if kept is None else kept[0]):
        about = f"{table} of run " if run else f"table {table}"
        raise damage(about, f"it has {n} entries but was given {0 if kept is None else kept[0]}", run or None)
    _note(connection, key, None)


def check_values(connection: sqlite3.Connection, run: int, evaluator: str | None = None, least: bool = False) -> None:
    """Compares the values that the index of values has with their copies, and counts them where the run has ended.

    Args:
        connection: within a transaction.
        run: number of the run.
        evaluator: whose scores; None: of all.
        least: of a run without totals entries are counted alone, for callers that check each score that they return.

    Raises:
        DamageError: a value differs from its copy, or there are others than there were.
    """
    totals = totals_of(connection, run)
    key = ("values", run, evaluator, least and totals is None)
    if _is_known(connection, key, totals):
        return
    if totals is None:
        _check_entries(connection, run)
    if totals is not None or not least:
        _compare_values(connection, run, evaluator, totals)
    _note(connection, key, totals)


def _compare_values(
    connection: sqlite3.Connection, run: int, evaluator: str | None, totals: Mapping[str, Any] | None
) -> None:
    found = {name: (*counts, wrong) for name, *counts, wrong in _values(connection, run, evaluator)}
    for name, (*_, wrong) in found.items():
        if wrong:
            raise damage(f"scores by {name!r} in run ", f"{wrong:.0f} of their values are not what was written", run)
    if totals is None:
        return
    kept, failed = totals["values"], totals["failed"]
    if evaluator is not None:
        kept, failed = ({evaluator: each[evaluator]} if evaluator in each else {} for each in (kept, failed))
    for name in {**kept, **found}:
        now, then = list(found.get(name, ())[:3]), kept.get(name, [])
        if now != then and not _is_stale(connection, run, "scores"):
            told = f"there are {now[0] if now else 0} but there were {then[0] if then else 0}"
            raise damage(f"scores by {name!r} in run ", told, run)
    if _failed(connection, run, evaluator) != failed and not _is_stale(connection, run, "scores"):
        raise damage("scores without a value in run ", "their index has others than there were", run)


def _check_entries(connection: sqlite3.Connection, run: int) -> None:
    """Compares the numbers of entries that two indexes of the scores of a run have."""
    sql = "SELECT count(*) FROM scores INDEXED BY {} WHERE run = ?"
    names = ("sqlite_autoindex_scores_1", "scores_value")
    one, other = (connection.execute(sql.format(name), (run,)).fetchone()[0] for name in names)
    if one != other:
        raise damage("scores of run ", f"one index has {one} of them, the other one {other}", run)


def _scores(connection: sqlite3.Connection, run: int) -> dict[str, list[Any]]:
    with placed("scores of run ", run):
        return {unpacked(name): counts for name, *counts in fetched(connection, _SCORES, (run,))}


def _check_row_entries(connection: sqlite3.Connection, run: int) -> None:
    """Compares the numbers of entries that two indexes of the rows of a run have."""
    sql = "SELECT count(*) FROM rows INDEXED BY sqlite_autoindex_rows_{} WHERE run = ?"
    one, other = (connection.execute(sql.format(n), (run,)).fetchone()[0] for n in (1, 2))
    if one != other:
        raise damage("rows of run ", f"one index has {one} of them, the other one {other}", run)


def _failed_rows(connection: sqlite3.Connection, run: int) -> dict[str, list[Any]]:
    with placed("rows without an answer of run ", run):
        return {unpacked(status): counts for status, *counts in fetched(connection, _FAILED_ROWS, (run,))}


def _values(connection: sqlite3.Connection, run: int, evaluator: str | None = None) -> list[tuple[Any, ...]]:
    sql, values = _narrowed(_VALUES, run, evaluator)
    with placed("scores of run ", run):
        return [(unpacked(name), *counts) for name, *counts in fetched(connection, sql, values)]


def _failed(connection: sqlite3.Connection, run: int, evaluator: str | None = None) -> dict[str, Any]:
    sql, values = _narrowed(_FAILED, run, evaluator)
    found: dict[str, dict[str, Any]] = {}
    with placed("scores without a value in run ", run):
        for name, status, *counts in fetched(connection, sql, values):
            found.setdefault(unpacked(name), {})[unpacked(status)] = counts
    return found


def _narrowed(sql: str, run: int, evaluator: str | None) -> tuple[str, tuple[Any, ...]]:
    if evaluator is None:
        return sql.format(which=""), (run,)
    return sql.format(which=_OF_ONE), (run, packed(evaluator))


def _state(connection: sqlite3.Connection, totals: Any) -> Any:
    """What changes with the run: its totals, else the whole store."""
    if totals is not None:
        return totals
    version = connection.execute("PRAGMA data_version").fetchone()[0]
    return version, connection.total_changes


def _counted(connection: sqlite3.Connection) -> dict[Any, Any]:
    counted: dict[Any, Any] = cast(Connection, connection).__dict__.setdefault("counted", {})
    return counted


def _is_known(connection: sqlite3.Connection, key: Any, totals: Any) -> bool:
    counted = _counted(connection)
    return key in counted and counted[key] == _state(connection, totals)


def _note(connection: sqlite3.Connection, key: Any, totals: Any) -> None:
    counted = _counted(connection)
    while len(counted) >= _MOST_COUNTED:
        counted.pop(next(iter(counted)))
    counted[key] = _state(connection, totals)


_MOST_COUNTED = 1000
