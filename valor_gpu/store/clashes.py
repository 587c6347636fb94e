"""Rows that a run cannot keep, since another row has their number or key."""

from __future__ import annotations

import sqlite3
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.store.checksums import placed
from valor_gpu.store.values import unpacked


def clash(connection: sqlite3.Connection, run: int, uid: str, bound: list[tuple[Any, ...]]) -> str:
    """Returns which two rows have one key.

    Args:
        connection: within a transaction.
        run: number of the run.
        uid: id of the run.
        bound: rows as they are bound to a statement.
    """
    seen: dict[Any, int] = {}
    for _, number, key, *_ in bound:
        other = seen.setdefault(key, number)
        kept = connection.execute("SELECT number FROM rows WHERE run = ? AND key = ?", (run, key)).fetchone()
        other = kept[0] if other == number and kept is not None else other
        if other != number:
            return f"rows {other} and {number} have {unpacked(key)!r}"
    return f"run {uid} is no longer in the store"


def check_row_keys(connection: sqlite3.Connection, run: int, bound: list[tuple[Any, ...]]) -> None:
    """Raises :class:`InputError` for a row that is stored under another key.

    Args:
        connection: within a transaction.
        run: number of the run.
        bound: rows as they are bound to a statement.
    """
    for _, number, key, *_ in bound:
        kept = connection.execute("SELECT key FROM rows WHERE run = ? AND number = ?", (run, number)).fetchone()[0]
        if kept != key:
            with placed(f"row {number} of run ", run):
                unpacked(kept)
            raise InputError(
                f"row {number} is stored under the key {unpacked(kept)!r} but came as {unpacked(key)!r}: "
                "is this other data?"
            )
