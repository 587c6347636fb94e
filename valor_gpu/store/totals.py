"""How many rows and scores a run had when it ended: an index of a damaged file may lack some of them in silence.

Checksums are of single rows. Here the entries of an index are counted, each index once for a connection and state of a
run. A run that goes on, or that an older version ended, has no totals.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from valor_gpu.store.checksums import check, checksum, damage, fetched, placed
from valor_gpu.store.connections import changes, is_known, note, parsed
from valor_gpu.store.records import CHECKED_ROW, checked_row, checked_rows
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
_PAGE = 1000  # rows whose texts are in memory at a time
PORTION = 10_000
"""Rows whose keys have one checksum."""
TOLD = {"levels": "level <> ''", "usage": "(usage IS NOT NULL OR seconds IS NOT NULL)"}
"""What a score may tell, and the scores that do: those of a run that ended are counted."""
_TOLD = f"""SELECT evaluator, total({TOLD["levels"]}), total({TOLD["usage"]}) FROM scores
    INDEXED BY sqlite_autoindex_scores_1 WHERE run = ? GROUP BY evaluator"""


def keep_totals(connection: sqlite3.Connection, run: int, is_compared: bool = False) -> None:
    """Keeps the totals of a run that ends, within a transaction that writes.

    Args:
        connection: of the store.
        run: number of the run.
        is_compared: whether this transaction has compared all rows with their checksums.

    Raises:
        DamageError: two indexes have other rows or scores, or a row is damaged.
    """
    _check_row_entries(connection, run)
    _check_entries(connection, run)
    rows = list(connection.execute(_ROWS, (run,)).fetchone())
    found = {
        "rows": rows,
        "failed_rows": _failed_rows(connection, run),
        "scores": _scores(connection, run),
        "copies": list(connection.execute(_COPIES, (run,)).fetchone()),
        "values": {name: found for name, *found, _ in _values(connection, run)},
        "failed": _failed(connection, run),
        "keys": list(_sums_of_keys(connection, run, is_compared)),
        "told": _told(connection, run),
    }
    content = packed_json("totals", found)
    connection.execute(
        "INSERT OR REPLACE INTO totals (run, content, checksum) VALUES (?, ?, ?)",
        (run, content, checksum((run, content))),
    )


def _sums_of_keys(connection: sqlite3.Connection, run: int, is_compared: bool) -> Iterator[int]:
    """Checksums of numbers and keys of portions of the rows, by number."""
    columns, after = "number, key" if is_compared else CHECKED_ROW, 0
    sql = f"SELECT {columns} FROM rows WHERE run = ? AND number > ? ORDER BY number LIMIT ?"
    while True:
        portion: list[Sequence[Any]] = []
        while page := fetched(connection, sql, (run, after, min(_PAGE, PORTION - len(portion)))):
            if not is_compared:
                checked_rows(page, run)
            after = page[-1][0]
            portion += [kept[:2] for kept in page]
        if not portion:
            return
        yield _sum_of_keys(portion)


def _sum_of_keys(page: Sequence[Sequence[Any]]) -> int:
    return checksum(tuple(itertools.chain.from_iterable(kept[:2] for kept in page)))


def are_keys(page: Sequence[Sequence[Any]], portion: int, totals: Mapping[str, Any]) -> bool:
    """Returns whether numbers and keys are those that a portion of the rows had when the run ended.

    Args:
        page: number and key of each row of the portion, by number.
        portion: from 0.
        totals: of the run.
    """
    kept = totals.get("keys", ())[portion : portion + 1]
    return bool(kept) and _sum_of_keys(page) == kept[0]


def _told(connection: sqlite3.Connection, run: int) -> dict[str, dict[str, int]]:
    """Counts the scores of each evaluator that have a level, or tokens and seconds."""
    with placed("scores of run ", run):
        found = [(unpacked(name), counts) for name, *counts in fetched(connection, _TOLD, (run,))]
    return {name: dict(zip(TOLD, map(int, counts))) for name, counts in found}


def check_told(
    connection: sqlite3.Connection, run: int, what: str, evaluator: str | None, n: int, before: Mapping[str, Any]
) -> None:
    """Compares how many scores tell something with how many did when the run ended.

    Args:
        connection: within a transaction.
        run: number of the run.
        what: of :data:`TOLD`.
        evaluator: whose scores; None: of all.
        n: scores that were read.
        before: totals of the run before they were read; others now say that the run went on meanwhile.

    Raises:
        DamageError: there are more or less.
    """
    told = before.get("told")
    if told is None:
        return
    counts = told.values() if evaluator is None else [told.get(evaluator, {})]
    then = sum(each.get(what, 0) for each in counts)
    if n != then and totals_of(connection, run) == before and not _is_stale(connection, run, "scores"):
        raise damage("scores of run ", f"{n} of them have {what} but {then} had", run)


def totals_of(connection: sqlite3.Connection, run: int) -> dict[str, Any] | None:
    """Returns the totals of a run; None where there are none."""
    found = fetched(connection, "SELECT content, checksum FROM totals WHERE run = ?", (run,))
    if not found:
        return None
    key = ("content", run)
    if is_known(connection, key, found[0]):
        known: dict[str, Any] = parsed(connection)[run]
        return known
    [(content, kept)] = found
    place = "totals of run "
    check((run, content), kept, place, run)
    with placed(place, run):
        totals = unpacked_mapping(content)
    note(connection, key, found[0])
    parsed(connection)[run] = totals
    return totals


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
    """Returns whether an older version wrote to an ended run.

    Such a version keeps no checksums, and leaves the totals as they are.
    """
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
    if totals is not None and not is_known(connection, ("rows", run), totals):
        found = list(connection.execute(_ROWS, (run,)).fetchone())
        if found != totals["rows"] and not _is_stale(connection, run, "rows"):
            raise damage("rows of run ", f"there are {found[0]} but there were {totals['rows'][0]}", run)
        if _failed_rows(connection, run) != totals["failed_rows"] and not _is_stale(connection, run, "rows"):
            raise damage("rows without an answer of run ", "their index has others than there were", run)
        note(connection, ("rows", run), totals)
    elif totals is None and not is_known(connection, ("rows", run), None):
        _check_row_entries(connection, run)
        note(connection, ("rows", run), None)
    return totals


def check_scores(connection: sqlite3.Connection, run: int) -> None:
    """Counts the scores of an ended run by the index of their rows.

    Raises:
        DamageError: there are others than there were.
    """
    totals = check_rows(connection, run)
    if totals is not None and not is_known(connection, ("scores", run), totals):
        found, then = _scores(connection, run), totals["scores"]
        if found != then and not _is_stale(connection, run, "scores"):
            one, other = (sum(n for n, _ in each.values()) for each in (found, then))
            raise damage("scores of run ", f"there are {one} but there were {other}, or of others", run)
        note(connection, ("scores", run), totals)
    elif totals is None and not is_known(connection, ("entries", run), None):
        _check_entries(connection, run)
        note(connection, ("entries", run), None)


def check_copies(connection: sqlite3.Connection, run: int) -> None:
    """Counts the copies of texts of an ended run.

    Raises:
        DamageError: there are others than there were.
    """
    totals = totals_of(connection, run)
    if totals is not None and not is_known(connection, ("copies", run), totals):
        found = list(connection.execute(_COPIES, (run,)).fetchone())
        if found != totals["copies"]:
            raise damage("copies of texts of run ", f"there are {found[0]} but there were {totals['copies'][0]}", run)
        note(connection, ("copies", run), totals)


def check_lookup(connection: sqlite3.Connection, run: int) -> None:
    """Compares the two indexes of the rows of a run, after one of them did not have a row that was asked for.

    Raises:
        DamageError: they have other rows.
    """
    key, state = ("lookup", run), changes(connection)
    if is_known(connection, key, state):
        return
    numbers, keys = (f"SELECT {{}} FROM rows INDEXED BY sqlite_autoindex_rows_{n} WHERE run = ?" for n in (1, 2))
    one, other = (connection.execute(sql.format("count(*)"), (run,)).fetchone()[0] for sql in (numbers, keys))
    by_key = {kept for (kept,) in fetched(connection, keys.format("key"), (run,))}
    same = one == other == len(by_key)
    for kept in fetched(connection, numbers.format(CHECKED_ROW), (run,)) if same else ():
        same = same and checked_row(kept, run)[1] in by_key
    if not same:
        raise damage("rows of run ", f"one index has {one} of them, the other one {other}, or other keys", run)
    note(connection, key, state)


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
    kept = connection.execute("SELECT n FROM counts WHERE about = ? AND run = ?", key).fetchone()
    state = _state_of_count(connection, run, 0 if kept is None else kept[0])
    if is_known(connection, key, state):
        return
    sql = f"SELECT count(*) FROM {table}{' WHERE run = ?' if run else ''}"
    n = connection.execute(sql, (run,) if run else ()).fetchone()[0]
    if n != (0 if kept is None else kept[0]):
        about = f"{table} of run " if run else f"table {table}"
        raise damage(about, f"it has {n} entries but was given {0 if kept is None else kept[0]}", run or None)
    note(connection, key, state)


def _state_of_count(connection: sqlite3.Connection, run: int, n: Any) -> Any:
    """What of a table stays the same until it is counted again: of a run that goes on, until it has twice as much."""
    if not run or type(n) is not int or connection.execute("SELECT 1 FROM totals WHERE run = ?", (run,)).fetchone():
        return n
    return "goes on", n.bit_length()


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
    if totals is None:
        if not is_known(connection, ("entries", run), None):
            _check_entries(connection, run)
            note(connection, ("entries", run), None)
        if least:
            return
    key, state = ("values", run, evaluator), totals if totals is not None else changes(connection)
    if not is_known(connection, key, state):
        _compare_values(connection, run, evaluator, totals)
        note(connection, key, state)


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


def check_places(connection: sqlite3.Connection, run: int) -> None:
    """Compares rows, evaluators and repeats that the indexes of the scores of a run have.

    Raises:
        DamageError: they have others, or others than the run had when it ended.
    """
    totals = totals_of(connection, run)
    if totals is not None:
        check_scores(connection, run)
        check_values(connection, run)
        return
    one, failed = _scores(connection, run), _failed(connection, run)
    values = {name: counts for name, *counts in _values(connection, run)}
    lacking = {name: sum(n for n, _ in by_status.values()) for name, by_status in failed.items()}
    without = {name: n - valued for name, (n, _, valued, _) in values.items() if n > valued}
    if one != {name: counts[:2] for name, counts in values.items()} or lacking != without:
        raise damage("scores of run ", "their indexes do not have the same", run)


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
