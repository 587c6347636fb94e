"""A connection to the file of a store that knows what of it was counted. Standard library alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, cast

from valor_gpu.errors import DamageError

_MOST_COUNTED = 1000


class Connection(sqlite3.Connection):
    """Connection that knows which indexes were counted.

    Attributes:
        counted: name of what was counted to the state in which it was.
        parsed: number of a run to its totals.
        damage: the last one that a function of SQL has met.
    """

    counted: dict[Any, Any]
    parsed: dict[int, Any]
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


def changes(connection: sqlite3.Connection) -> tuple[int, int]:
    """Returns what changes whenever something is written to the store."""
    version = connection.execute("PRAGMA data_version").fetchone()[0]
    return version, connection.total_changes


def _counted(connection: sqlite3.Connection) -> dict[Any, Any]:
    counted: dict[Any, Any] = cast(Connection, connection).__dict__.setdefault("counted", {})
    return counted


def parsed(connection: sqlite3.Connection) -> dict[int, Any]:
    """Returns number of a run to its totals, as far as they were read."""
    found: dict[int, Any] = cast(Connection, connection).__dict__.setdefault("parsed", {})
    return found


def is_known(connection: sqlite3.Connection, key: Any, state: Any) -> bool:
    """Returns whether something was counted in a state."""
    counted = _counted(connection)
    return key in counted and (counted[key] is state or counted[key] == state)


def note(connection: sqlite3.Connection, key: Any, state: Any) -> None:
    """Notes that something was counted in a state."""
    counted = _counted(connection)
    while len(counted) >= _MOST_COUNTED:
        gone = next(iter(counted))
        counted.pop(gone)
        if gone[0] == "content":
            parsed(connection).pop(gone[1], None)
    counted[key] = state
