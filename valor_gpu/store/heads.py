"""What lists of runs show, read for all runs at once."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import check, checksum, damage, fetched, is_damage, placed, real, real_or_none
from valor_gpu.store.records import LARGEST
from valor_gpu.store.totals import check_count_of
from valor_gpu.store.values import packed, unpacked, unpacked_mapping

_CHUNK = 500
_PAGE = 200  # runs that are read at once
_RECORD = "name, configuration, tags or summary of run "
SEALED = (
    *("uid", "name", "state", "config", "tags", "dataset", "created", "summary", "finished", "deleted", "indexed"),
    *("note", "edited"),
)
"""Columns of a run of which, behind its number, there is a checksum."""
_SELECT = f"SELECT id, checksum, {', '.join(SEALED)}"
STATES = ("draft", "running", "finished", "stopped", "failed")
"""States of a run."""


DAMAGED = "damaged"
"""State of a run in a list whose record cannot be read."""
_LATEST = 4e9  # seconds since 1970 of a time that a list can show: the year 2096


class KeptRun(NamedTuple):
    """A run as SQLite gives it, with a right checksum unless it says that it is damaged.

    Attributes:
        number: of the run in the store.
        values: column to its value.
        more: values of further expressions.
        damage: what is wrong with it; None where its checksum is right.
    """

    number: int
    values: dict[str, Any]
    more: tuple[Any, ...] = ()
    damage: DamageError | None = None


def kept_runs(connection: sqlite3.Connection, which: str, values: Sequence[Any], more: str = "") -> list[KeptRun]:
    """Returns runs that were read, by their columns.

    Args:
        connection: within a transaction.
        which: SQL behind ``FROM runs``.
        values: of ``which``.
        more: further expressions to select, after a comma.

    Raises:
        DamageError: a run is damaged.
    """
    check_count_of(connection, "runs")
    found = [_kept(columns) for columns in fetched(connection, f"{_SELECT}{more} FROM runs {which}", values)]
    for each in found:
        if each.damage is not None:
            raise each.damage
    return found


def each_run(connection: sqlite3.Connection, before: int | None = None, more: str = "") -> Iterator[KeptRun]:
    """Yields runs, the newest first; one that is damaged says so, and takes no other with it.

    What a list asks for by columns has to be looked for here: SQL would leave out a run whose column is damaged.

    Args:
        connection: within a transaction.
        before: only runs with a smaller number.
        more: further expressions to select, after a comma.

    Raises:
        DamageError: the table lacks runs.
    """
    check_count_of(connection, "runs")
    sql = f"{_SELECT}{more} FROM runs WHERE id < ? ORDER BY id DESC LIMIT {_PAGE}"
    last: int | None = LARGEST if before is None else before
    while last is not None:
        try:
            page = fetched(connection, sql, (last,))
        except sqlite3.DatabaseError as error:
            found = list(_one_by_one(connection, last, more, error))
        else:
            found = [_kept(columns) for columns in page]
        yield from found
        last = found[-1].number if found else None


def _one_by_one(
    connection: sqlite3.Connection, before: int, more: str, error: sqlite3.DatabaseError
) -> Iterator[KeptRun]:
    """Runs of a page that SQLite cannot read at once, since one of them reaches onto a damaged page of the file."""
    ids = "SELECT id FROM runs INDEXED BY sqlite_autoindex_runs_1 WHERE id < ? ORDER BY id DESC LIMIT ?"
    if not is_damage(error):
        raise error
    for (number,) in connection.execute(ids, (before, _PAGE)).fetchall():
        yield from _alone(connection, number, more)


def _alone(connection: sqlite3.Connection, number: int, more: str) -> list[KeptRun]:
    try:
        found = fetched(connection, f"{_SELECT}{more} FROM runs WHERE id = ?", (number,))
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        kept = connection.execute("SELECT uid FROM runs WHERE id = ?", (number,)).fetchone()
        values = {**dict.fromkeys(SEALED), "uid": kept[0]}
        return [KeptRun(number, values, (None,), damage(_RECORD, str(error), number))]
    return [_kept(columns) for columns in found]


def _kept(columns: Sequence[Any]) -> KeptRun:
    number, kept, *rest = columns
    run, more = rest[: len(SEALED)], tuple(rest[len(SEALED) :])
    values = dict(zip(SEALED, run))
    try:
        check((number, *run), kept, _RECORD, number)
    except DamageError as error:
        return KeptRun(number, values, more, error)
    return KeptRun(number, values, more)


def kept_run(connection: sqlite3.Connection, number: int) -> dict[str, Any] | None:
    """Returns the columns of the run with a number; None where it is gone."""
    found = kept_runs(connection, "WHERE id = ?", (number,))
    return found[0].values if found else None


def is_marked(connection: sqlite3.Connection, number: int, deleted: float) -> bool:
    """Returns whether a run has a mark of its deletion; one whose record is damaged has none that can be trusted."""
    found = [_kept(columns) for columns in fetched(connection, f"{_SELECT} FROM runs WHERE id = ?", (number,))]
    return any(each.damage is None and each.values["deleted"] == deleted for each in found)


def update_run(connection: sqlite3.Connection, number: int, **changes: Any) -> None:
    """Writes columns of a run, with a new checksum; what is damaged stays as it is.

    Args:
        connection: within a transaction that writes.
        number: of the run.
        changes: column to its new value, as it is bound to a statement.

    Raises:
        DamageError: the run is damaged.
    """
    kept = kept_run(connection, number)
    if kept is None:
        return
    values = {**kept, **changes}
    columns = ", ".join(f"{column} = ?" for column in changes)
    number_of = checksum((number, *(values[column] for column in SEALED)))
    connection.execute(f"UPDATE runs SET {columns}, checksum = ? WHERE id = ?", (*changes.values(), number_of, number))


def insert_run(connection: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    """Writes a new run; columns that are not given have the values of a draft."""
    columns = ", ".join(values)
    sql = f"INSERT INTO runs ({columns}) VALUES ({', '.join('?' * len(values))})"
    number = connection.execute(sql, tuple(values.values())).lastrowid or 0
    update_run(connection, number, indexed=0)


def state_of(kept: Mapping[str, Any], number: int) -> str:
    """Returns the state of a run that was read."""
    with placed("state of run ", number):
        state = unpacked(kept["state"])
        if state not in STATES:
            raise DamageError("", f"it is {state!r}, which is none")
        return state


class RunHead(NamedTuple):
    """A run in a list.

    Attributes:
        id: word that no other run has; of a damaged run as it stands in the file, else its number.
        name: for people; of a damaged run as it stands in the file.
        state: "draft", "running", "finished", "stopped" or "failed"; "damaged" where the record is.
        created: seconds since 1970.
        finished: seconds since 1970; None while it has no end.
        deleted: seconds since 1970 when it was marked as deleted; None for others.
        dataset: hash of the data set, or ``""``.
        has_owner: whether a lease is held, perhaps by a process that is gone.
        note: what people wrote about the run; empty without a note.
        edited: seconds since 1970 when name, tags or note were last edited; None when they never were.
        damage: what is wrong with the record, of which nothing else counts then; empty where it is whole.
    """

    id: str
    name: str
    state: str
    created: float
    finished: float | None
    deleted: float | None
    dataset: str
    has_owner: bool
    note: str = ""
    edited: float | None = None
    damage: str = ""


def heads(connection: sqlite3.Connection, deleted: bool) -> list[RunHead]:
    """Returns all runs, the newest first."""
    owned = ", EXISTS (SELECT 1 FROM leases WHERE leases.run = runs.id)"
    found = map(head_of, each_run(connection, more=owned))
    return [each for each in found if (each.deleted is not None) == deleted]


def head_of(kept: KeptRun) -> RunHead:
    """Returns what a list shows of a run that was read; of a damaged one what is wrong, and what stands in for it."""
    error = kept.damage
    try:
        if error is None:
            return _head(kept)
    except DamageError as found:
        error = found
    assert error is not None
    uid, name, created = (kept.values[column] for column in ("uid", "name", "created"))
    is_time = type(created) is float and math.isfinite(created) and 0 <= created <= _LATEST
    return RunHead(
        id=uid if type(uid) is str and uid else f"number {kept.number}",
        name=name if type(name) is str else "",
        state=DAMAGED,
        created=created if is_time else 0.0,
        finished=None,
        deleted=None,
        dataset="",
        has_owner=False,
        damage=error.what,
    )


def _head(kept: KeptRun) -> RunHead:
    values, owned = kept.values, any(kept.more)
    state = state_of(values, kept.number)
    with placed("name, note or times of run ", kept.number):
        uid, name, dataset, note = (unpacked(values[column]) for column in ("uid", "name", "dataset", "note"))
        finished, deleted = (real_or_none(values[column]) for column in ("finished", "deleted"))
        edited = real_or_none(values["edited"])
        times = (real(values["created"]), finished, deleted)
        return RunHead(uid, name, state, *times, dataset, owned, note, edited)


def finished_at(connection: sqlite3.Connection, uid: str) -> float | None:
    """When a run ended; None while it has no end, and where it is gone."""
    found = kept_runs(connection, "WHERE uid = ?", (packed(uid),))
    with placed("end of run ", found[0].number if found else None):
        return real_or_none(found[0].values["finished"]) if found else None


def mark_deleted(connection: sqlite3.Connection, uid: str, when: float | None) -> None:
    """Marks a run as deleted, or takes the mark away; that needs no lease, since nothing of the run changes."""
    found = connection.execute("SELECT id FROM runs WHERE uid = ?", (packed(uid),)).fetchone()
    if found is None:
        raise InputError(f"run {uid} is no longer in the store: it was purged")
    update_run(connection, found[0], deleted=when)


def newest_named(connection: sqlite3.Connection, name: str) -> KeptRun | None:
    """Returns the newest run of a name that is not deleted; None where there is none.

    Raises:
        DamageError: a run that is at least as new is damaged, so that it may be the one.
    """
    sought = packed(name)
    for each in each_run(connection):
        if each.damage is not None:
            raise each.damage
        if each.values["name"] == sought and each.values["deleted"] is None:
            return each
    return None


Content = tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]
"""Configuration, tags and summary (None before the end) of a run."""


def contents(
    connection: sqlite3.Connection, ids: Collection[str], damaged: dict[str, str] | None
) -> dict[str, Content]:
    """Returns what runs have, by their ids; see :meth:`valor_gpu.store.Store.contents`."""
    found, wrong = {}, {}
    wanted = [packed(name) for name in ids]
    check_count_of(connection, "runs")
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        which = f"WHERE uid IN ({', '.join('?' * len(chunk))})"
        for columns in fetched(connection, f"{_SELECT} FROM runs {which}", chunk):
            uid = columns[2]
            try:
                found[unpacked(uid)] = _content(_kept(columns))
            except DamageError as error:
                if damaged is None:
                    raise
                wrong[unpacked(uid)] = error.what
    if len(found) + len(wrong) < len(set(ids)):
        for (uid,) in fetched(connection, "SELECT uid FROM runs NOT INDEXED"):
            if uid in wanted and uid not in found and uid not in wrong:
                raise DamageError(f"run {uid}", "the index of runs does not have it")
    if damaged is not None:
        damaged |= wrong
    return found


def _content(kept: KeptRun) -> Content:
    if kept.damage is not None:
        raise kept.damage
    with placed("configuration, tags or summary of run ", kept.number):
        config, tags, summary = (kept.values[column] for column in ("config", "tags", "summary"))
        ended = None if summary is None else unpacked_mapping(summary)
        return unpacked_mapping(config), unpacked_mapping(tags), ended
