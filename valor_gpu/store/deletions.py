"""How long ago runs were marked as deleted, also where the clock was set meanwhile."""

from __future__ import annotations

import math
import sqlite3
import time

from valor_gpu.store.checksums import checksum, fetched
from valor_gpu.store.heads import SEALED

Mark = tuple[int, float]
"""Number of a run, and seconds since 1970 when it was marked."""

_MARKED = f"SELECT id, checksum, {', '.join(SEALED)} FROM runs WHERE deleted NOTNULL ORDER BY id"


def marks(connection: sqlite3.Connection) -> list[Mark]:
    """Returns the runs that are marked as deleted, in the order of their numbers.

    A run whose record is damaged is left out: the mark itself may be the damage, and what is purged is lost.
    """
    found = []
    for number, kept, *values in fetched(connection, _MARKED):
        mark = values[SEALED.index("deleted")]
        if type(mark) is float and (kept is None or kept == checksum((number, *values))):
            found.append((number, mark))
    return found


_GOES_ON = ("store", "purge")
"""Kind and name of a view that is there from the removal of runs until their words are gone from the index, too."""


def begin(connection: sqlite3.Connection) -> None:
    """Keeps, with the removal of runs, that their words are still in the index: a kill may come before these go."""
    sql = "INSERT OR REPLACE INTO views (kind, name, settings, changed) VALUES (?, ?, '{}', ?)"
    connection.execute(sql, (*_GOES_ON, time.time()))


def end(connection: sqlite3.Connection) -> None:
    """Keeps that the words are gone."""
    connection.execute("DELETE FROM views WHERE kind = ? AND name = ?", _GOES_ON)


def goes_on(connection: sqlite3.Connection) -> bool:
    """Returns whether words of runs that are gone are still in the index, since a purge was killed."""
    sql = "SELECT 1 FROM views WHERE kind = ? AND name = ?"
    return connection.execute(sql, _GOES_ON).fetchone() is not None


class Marks:
    """Remembers which marks were there at each look, by a clock that nobody sets.

    A mark that was not there at the last look is no older than that look, whatever the clock says. One of the future
    was made before the clock was set back: its age counts from the look that saw it first.
    """

    def __init__(self) -> None:
        self._looked = -math.inf
        self._known: dict[Mark, tuple[float, float]] = {}  # the look before it was there, and the first one that saw it

    def old(self, connection: sqlite3.Connection, seconds: float) -> set[Mark]:
        """Returns the marks that were made at least so many seconds ago."""
        now, today = time.monotonic(), time.time()
        self._known = {mark: self._known.get(mark, (self._looked, now)) for mark in marks(connection)}
        self._looked = now
        found = set()
        for mark, (before, seen) in self._known.items():
            by_clock = today - mark[1] >= seconds and now - before >= seconds
            if by_clock or (mark[1] > today and now - seen >= seconds):
                found.add(mark)
        return found
