"""Reads the tables of a file that may be damaged: a page that cannot be read takes no other one with it.

SQLite ends a statement at the first page that it cannot read. A table is therefore read from both ends, by the ids that
its indexes name, and between the ends by halving what is left.
"""

from __future__ import annotations

import contextlib
import sqlite3
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from valor_gpu.errors import StoreError

Values = tuple[Any, ...]

LARGEST_ID = 1 << 62
"""Ids above it are damage: a store never gives them."""
_BEHIND = 1 << 13
"""Ids behind the last one known that are looked for, where the end of a table cannot be read."""
_WIDE = 1 << 22
"""Ids next to either end of a gap that are looked for one by one; a wider gap comes from an id that is damaged."""
_OTHERS = ("locked", "busy", "interrupted")  # faults that are none of the file's content


class Undecodable(NamedTuple):
    """Holds a text of a damaged file that is no UTF-8."""

    content: bytes


def text_of(kept: bytes) -> str | Undecodable:
    r"""Returns a text of SQLite, also one that is damaged: the ``text_factory`` of a connection.

    Example:
        >>> text_of(b"plain"), text_of(b"\xff")
        ('plain', Undecodable(content=b'\xff'))
    """
    try:
        return kept.decode()
    except UnicodeDecodeError:
        return Undecodable(kept)


@contextlib.contextmanager
def damage_ends_it(found: list[str]) -> Iterator[None]:
    """Ends the block at a page that cannot be read, and adds SQLite's words on it to ``found``.

    Raises:
        StoreError: another process has locked the file.
    """
    try:
        yield
    # A damaged length may ask for all memory; words of SQLite's that quote the file may be no UTF-8.
    except (sqlite3.DatabaseError, MemoryError, UnicodeDecodeError) as error:
        if any(word in str(error) for word in _OTHERS):
            raise StoreError(f"the store cannot be read: {error}") from error
        found.append(str(error) or type(error).__name__)


class Numbers:
    """Holds a set of whole numbers, most of them neighbours, as first and last ones of ranges.

    Example:
        >>> numbers = Numbers()
        >>> [numbers.add(n) for n in (1, 2, 5, 4, 2)], 4 in numbers, 3 in numbers, len(numbers)
        ([True, True, True, True, False], True, False, 4)
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._n = 0

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._firsts, number)
        return place > 0 and number <= self._lasts[place - 1]

    def __len__(self) -> int:
        return self._n

    def add(self, number: int) -> bool:
        """Adds a number; returns whether it is new."""
        firsts, lasts = self._firsts, self._lasts
        if lasts and number == lasts[-1] + 1:  # the next one, as nearly always
            lasts[-1] = number
            self._n += 1
            return True
        place = bisect_right(firsts, number)
        if place and number <= lasts[place - 1]:
            return False
        self._n += 1
        before, behind = (
            place > 0 and lasts[place - 1] == number - 1,
            place < len(firsts) and firsts[place] == number + 1,
        )
        if before and behind:
            lasts[place - 1] = lasts[place]
            del firsts[place], lasts[place]
        elif before:
            lasts[place - 1] = number
        elif behind:
            firsts[place] = number
        else:
            firsts.insert(place, number)
            lasts.insert(place, number)
        return True


class Index(NamedTuple):
    """Names an index of a table and its columns, which say what a record was that cannot be read."""

    name: str
    columns: tuple[str, ...]


class TableScan:
    """Yields the records of a table that can be read, each once, its id first.

    Args:
        connection: with :func:`text_of` as its ``text_factory``.
        table: with an integer as its key.
        columns: to read.
        indexes: of the table.

    Attributes:
        seen: ids of the records that were read.
        faults: SQLite's words on each place where reading ended.
        doubles: records with the id of one that was read before them; one of both ids is damaged.
        lost: ids that an index names and the table lacks, with the columns that the indexes have.
        is_exact: whether ``lost`` has every record that is missing, as far as an index knows.
    """

    def __init__(
        self, connection: sqlite3.Connection, table: str, columns: Sequence[str], indexes: Sequence[Index] = ()
    ) -> None:
        self._connection, self._table, self._indexes = connection, table, indexes
        self._select = f"SELECT rowid, {', '.join(columns)} FROM {table} NOT INDEXED"
        self.seen = Numbers()
        self.faults: list[str] = []
        self.doubles: list[Values] = []
        self.lost: dict[int, dict[str, Any]] = {}
        self.is_exact = True
        self._last = 0

    def __iter__(self) -> Iterator[Values]:
        yield from self._read("")
        low = self._last
        if not self.faults and self._agrees():
            return
        forward = len(self.faults)
        yield from self._read("ORDER BY rowid DESC")
        high = self._last if self._last > low else None
        has_gap = forward and len(self.faults) > forward
        self._name()
        for number in list(self.lost):
            yield from self._read("WHERE rowid = ?", number)
        if has_gap:
            yield from self._search(low, high)
        self._drop_found()

    def _read(self, which: str, *values: int) -> Iterator[Values]:
        """Yields records that were not read before, as far as pages can be read."""
        self._last = 0
        before = len(self.faults)
        yield from self._select_records(which, values)
        if len(self.faults) > before:  # a cursor drops the record before a fault: the next one is asked for alone
            if which.endswith("DESC"):
                then = "WHERE rowid < ? ORDER BY rowid DESC LIMIT 1", (self._last or LARGEST_ID,)
            else:
                then = "WHERE rowid > ? ORDER BY rowid LIMIT 1", (self._last or (values[0] - 1 if values else 0),)
            yield from self._select_records(*then)

    def _select_records(self, which: str, values: Sequence[int]) -> Iterator[Values]:
        with damage_ends_it(self.faults):
            for record in self._connection.execute(f"{self._select} {which}", values):
                if not 0 < record[0] <= LARGEST_ID:
                    self.faults.append(f"a record has the id {record[0]}")
                    continue
                self._last = record[0]
                if self.seen.add(record[0]):
                    yield record
                elif not which:
                    self.doubles.append(record)

    def _agrees(self) -> bool:
        """Returns whether the indexes have as many records as were read."""
        for index in self._indexes:
            with damage_ends_it([]):
                sql = f"SELECT count(*) FROM {self._table} INDEXED BY {index.name}"
                if self._connection.execute(sql).fetchone()[0] != len(self.seen):
                    return False
        return True

    def _name(self) -> None:
        """Finds the ids that the indexes know and that were not read."""
        whole = 0
        for index in self._indexes:
            faults: list[str] = []
            columns = ", ".join(index.columns)
            for order in ("ASC", "DESC"):
                by = ", ".join(f"{column} {order}" for column in index.columns)
                sql = f"SELECT rowid, {columns} FROM {self._table} INDEXED BY {index.name} ORDER BY {by}"
                with damage_ends_it(faults):
                    for number, *names in self._connection.execute(sql):
                        if type(number) is int and 0 < number <= LARGEST_ID and number not in self.seen:
                            self.lost.setdefault(number, {}).update(zip(index.columns, names))
                if not faults:
                    whole += 1
                    break
        self.is_exact = whole > 0

    def _drop_found(self) -> None:
        """Drops what was read from ``lost``: by its id, or by its columns where an index has a damaged id for it."""
        lost = {number: names for number, names in self.lost.items() if number not in self.seen}
        if lost:
            columns = self._indexes[0].columns
            places = {tuple(names.get(column) for column in columns): number for number, names in lost.items()}
            read = Numbers()  # of two records with one id the first is the one that was read
            for order in ("", "ORDER BY rowid DESC"):
                with damage_ends_it([]):
                    sql = f"SELECT rowid, {', '.join(columns)} FROM {self._table} NOT INDEXED {order}"
                    for number, *names in self._connection.execute(sql):
                        if read.add(number) and tuple(names) in places and number in self.seen:
                            lost.pop(places[tuple(names)], None)
        self.lost = lost

    def _search(self, low: int, high: int | None) -> Iterator[Values]:
        """Reads what lies between two ids where reading ended, neither included."""
        known = max((number for number in self.lost if number > low), default=low)
        if high is None:
            high = known + 1 if self.is_exact and known > low else known + _BEHIND
        gaps = [(low, high)]
        if high - low > 2 * _WIDE:
            gaps, self.is_exact = [(low, low + _WIDE), (high - _WIDE, high)], False
        while gaps:
            low, high = gaps.pop()
            if high - low < 2:
                continue
            middle = (low + high) // 2
            before = len(self.faults)
            yield from self._read("WHERE rowid >= ? AND rowid < ? ORDER BY rowid", middle, high)
            gaps.append((low, middle))
            if len(self.faults) > before:
                gaps.append((max(self._last, middle), high))
        del self.faults[1:]  # one for each id is no news


def keyed_records(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], keys: Sequence[str], faults: list[str]
) -> Iterator[Values]:
    """Yields the records of a table without ids, each once, from both ends as far as pages can be read.

    Args:
        connection: with :func:`text_of` as its ``text_factory``.
        table: without ids.
        columns: to read.
        keys: columns of its key.
        faults: gets SQLite's words on each place where reading ended.
    """
    places = [columns.index(key) for key in keys]
    seen: set[Values] = set()
    for order, beyond in (("ASC", ">"), ("DESC", "<")):
        by = ", ".join(f"{key} {order}" for key in keys)
        which, values = f"ORDER BY {by}", tuple[Any, ...]()
        before = len(faults)
        while True:
            key: Values = ()
            known = len(faults)
            with damage_ends_it(faults):
                for record in connection.execute(f"SELECT {', '.join(columns)} FROM {table} {which}", values):
                    key = tuple(record[place] for place in places)
                    if key not in seen:
                        seen.add(key)
                        yield record
            if which.endswith("LIMIT 1") or len(faults) == known:
                break
            # A cursor drops the record before a fault.
            behind = f"WHERE ({', '.join(keys)}) {beyond} ({', '.join('?' * len(keys))})" if key else ""
            which = f"{behind} ORDER BY {by} LIMIT 1"
            values = tuple(each.content if isinstance(each, Undecodable) else each for each in key)
        if len(faults) == before:
            return
