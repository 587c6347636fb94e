"""What lists of runs show, read for all runs at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any, NamedTuple

from valor_gpu.errors import InputError
from valor_gpu.store.values import packed, unpacked, unpacked_json

_CHUNK = 500


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
    sql = """SELECT uid, name, state, created, finished, deleted, dataset,
        EXISTS (SELECT 1 FROM leases WHERE leases.run = runs.id), note, edited
        FROM runs WHERE (deleted IS NOT NULL) = ? ORDER BY id DESC"""
    found = []
    for uid, name, state, created, finished, marked, dataset, owned, note, edited in connection.execute(
        sql, (deleted,)
    ):
        ends = (created, finished, marked)
        found.append(RunHead(uid, unpacked(name), state, *ends, unpacked(dataset), bool(owned), unpacked(note), edited))
    return found


def finished_at(connection: sqlite3.Connection, uid: str) -> float | None:
    """When a run ended; None while it has no end, and where it is gone."""
    row = connection.execute("SELECT finished FROM runs WHERE uid = ?", (packed(uid),)).fetchone()
    return None if row is None else row[0]


def mark_deleted(connection: sqlite3.Connection, uid: str, when: float | None) -> None:
    """Marks a run as deleted, or takes the mark away; that needs no lease, since nothing of the run changes."""
    if not connection.execute("UPDATE runs SET deleted = ? WHERE uid = ?", (when, packed(uid))).rowcount:
        raise InputError(f"run {uid} is no longer in the store: it was purged")


def contents(
    connection: sqlite3.Connection, ids: Collection[str]
) -> dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]]:
    """Returns configuration, tags and summary (None before the end) of runs."""
    found = {}
    wanted = [packed(name) for name in ids]
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        sql = f"SELECT uid, config, tags, summary FROM runs WHERE uid IN ({', '.join('?' * len(chunk))})"
        for uid, config, tags, summary in connection.execute(sql, chunk):
            kept = None if summary is None else unpacked_json(summary)
            found[uid] = (unpacked_json(config), unpacked_json(tags), kept)
    return found
