"""What lists of runs show, read for all runs at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import check, checksum, fetched, placed, real, real_or_none
from valor_gpu.store.totals import check_count_of
from valor_gpu.store.values import packed, unpacked, unpacked_mapping

_CHUNK = 500
SEALED = (
    *("uid", "name", "state", "config", "tags", "dataset", "created", "summary", "finished", "deleted", "indexed"),
    *("note", "edited"),
)
"""Columns of a run of which, behind its number, there is a checksum."""
_SELECT = f"SELECT id, checksum, {', '.join(SEALED)}"
STATES = ("draft", "running", "finished", "stopped", "failed")
"""States of a run."""


class KeptRun(NamedTuple):
    """A run as SQLite gives it, with a right checksum.

    Attributes:
        number: of the run in the store.
        values: column to its value.
        more: values of further expressions.
    """

    number: int
    values: dict[str, Any]
    more: tuple[Any, ...] = ()


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
    found = []
    for number, kept, *columns in fetched(connection, f"{_SELECT}{more} FROM runs {which}", values):
        run, rest = columns[: len(SEALED)], columns[len(SEALED) :]
        check((number, *run), kept, "name, configuration, tags or summary of run ", number)
        found.append(KeptRun(number, dict(zip(SEALED, run)), tuple(rest)))
    return found


def kept_run(connection: sqlite3.Connection, number: int) -> dict[str, Any] | None:
    """Returns the columns of the run with a number; None where it is gone."""
    found = kept_runs(connection, "WHERE id = ?", (number,))
    return found[0].values if found else None


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
        id: word that no other run has.
        name: for people.
        state: "draft", "running", "finished", "stopped" or "failed".
        created: seconds since 1970.
        finished: seconds since 1970; None while it has no end.
        deleted: seconds since 1970 when it was marked as deleted; None for others.
        dataset: hash of the data set, or ``""``.
        has_owner: whether a lease is held, perhaps by a process that is gone.
        note: what people wrote about the run; empty without a note.
        edited: seconds since 1970 when name, tags or note were last edited; None when they never were.
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


def heads(connection: sqlite3.Connection, deleted: bool) -> list[RunHead]:
    """Returns all runs, the newest first."""
    which = "WHERE (deleted IS NOT NULL) = ? ORDER BY id DESC"
    owned = ", EXISTS (SELECT 1 FROM leases WHERE leases.run = runs.id)"
    return [_head(each) for each in kept_runs(connection, which, (deleted,), owned)]


def _head(kept: KeptRun) -> RunHead:
    values, (owned,) = kept.values, kept.more
    state = state_of(values, kept.number)
    with placed("name, note or times of run ", kept.number):
        uid, name, dataset, note = (unpacked(values[column]) for column in ("uid", "name", "dataset", "note"))
        finished, deleted = (real_or_none(values[column]) for column in ("finished", "deleted"))
        edited = real_or_none(values["edited"])
        times = (real(values["created"]), finished, deleted)
        return RunHead(uid, name, state, *times, dataset, bool(owned), note, edited)


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


def contents(
    connection: sqlite3.Connection, ids: Collection[str]
) -> dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]]:
    """Returns configuration, tags and summary (None before the end) of runs."""
    found = {}
    wanted = [packed(name) for name in ids]
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        for number, kept, _ in kept_runs(connection, f"WHERE uid IN ({', '.join('?' * len(chunk))})", chunk):
            with placed("configuration, tags or summary of run ", number):
                summary = None if kept["summary"] is None else unpacked_mapping(kept["summary"])
                content = unpacked_mapping(kept["config"]), unpacked_mapping(kept["tags"]), summary
                found[unpacked(kept["uid"])] = content
    if len(found) < len(set(ids)):
        for (uid,) in fetched(connection, "SELECT uid FROM runs NOT INDEXED"):
            if uid in wanted and uid not in found:
                raise DamageError(f"run {uid}", "the index of runs does not have it")
    return found
