"""Data sets that runs used, by the hash of their content, and settings of pages by name."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import check, checksum, damage, fetched, placed, real, sealed, told, whole
from valor_gpu.store.database import Database
from valor_gpu.store.records import check_count
from valor_gpu.store.totals import check_count_of
from valor_gpu.store.values import packed, packed_json, unpacked, unpacked_json, unpacked_mapping

_COLUMNS = "hash, name, columns, rows, source, created, checksum"
_VIEW = """SELECT settings, changed, (SELECT checksum FROM checks WHERE about = 'view' AND first = kind
    AND second = name) FROM views WHERE kind = ? AND name = ?"""


@dataclass(frozen=True)
class StoredDataset:
    """A data set.

    Args:
        hash: of the content; whoever has the same content has the same data set.
        name: for people.
        columns: in their order.
        rows: how many.
        source: where the content is, such as a path; may be empty.
        created: seconds since 1970; set by the store.
    """

    hash: str
    name: str
    columns: tuple[str, ...]
    rows: int
    source: str = ""
    created: float = 0.0


class DatasetLibrary:
    """The data sets of a store, :attr:`valor_gpu.store.Store.datasets`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, digest: str, name: str, columns: Sequence[str], rows: int, source: str = "") -> StoredDataset:
        """Keeps a data set; one of the same hash gets the new name, columns, count and source."""
        for argument, value in (("digest", digest), ("name", name), ("source", source)):
            check_type(argument, value, str)
        if not digest:
            raise InputError("digest must not be empty")
        for column in columns:
            check_type("columns", column, str)
        check_count("rows", rows)
        values = (packed(digest), packed(name), packed_json("columns", list(columns)), rows, packed(source))
        with self._database.write() as connection:
            known = connection.execute("SELECT created FROM datasets WHERE hash = ?", values[:1]).fetchone()
            connection.execute(
                f"""INSERT INTO datasets ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET
                name = excluded.name, columns = excluded.columns, rows = excluded.rows, source = excluded.source,
                checksum = excluded.checksum""",
                sealed((*values, time.time() if known is None else known[0])),
            )
        return self.get(digest)

    def get(self, digest: str) -> StoredDataset:
        """Returns the data set of a hash; an InputError where there is none."""
        with self._database.read() as connection:
            check_count_of(connection, "datasets")
            found = fetched(connection, f"SELECT {_COLUMNS} FROM datasets WHERE hash = ?", (packed(digest),))
            if not found:
                raise InputError(f"no data set with the hash {digest!r} in the store")
            return _dataset(found[0])

    def list(self) -> list[StoredDataset]:
        """Returns all data sets, the newest first; a warning names those that are damaged and left out."""
        found = []
        with self._database.read() as connection:
            check_count_of(connection, "datasets")
            for row in fetched(connection, f"SELECT {_COLUMNS} FROM datasets ORDER BY created DESC, hash"):
                with told(self._database.path):
                    found.append(_dataset(row))
        return found

    def delete(self, digest: str) -> None:
        """Forgets a data set; runs that used it keep its hash and their rows."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM datasets WHERE hash = ?", (packed(digest),))


def _dataset(row: tuple[Any, ...]) -> StoredDataset:
    *kept, number = row
    place = f"data set {kept[0]!r}"
    check(kept, number, place)
    digest, name, columns, rows, source, created = kept
    with placed(place):
        texts = unpacked(digest), unpacked(name)
        names = unpacked_json(columns)
        if type(names) is not list or not all(isinstance(each, str) for each in names):
            raise DamageError("", "its columns are no texts")
        return StoredDataset(*texts, tuple(names), whole(rows), unpacked(source), real(created))


def keep_view(connection: sqlite3.Connection, values: tuple[Any, ...]) -> None:
    """Writes kind, name, settings and time of a view, in place of those that are there, with their checksum."""
    connection.execute("INSERT OR REPLACE INTO views (kind, name, settings, changed) VALUES (?, ?, ?, ?)", values)
    bound = ("view", *values[:2], checksum(values))
    connection.execute("INSERT OR REPLACE INTO checks (about, first, second, checksum) VALUES (?, ?, ?, ?)", bound)


def kept_view(
    connection: sqlite3.Connection, kind: str | bytes, name: str | bytes
) -> tuple[dict[str, Any], float] | None:
    """Returns the settings of a view, and when they were kept; None where there are none."""
    check_count_of(connection, "views")
    for settings, changed, kept in fetched(connection, _VIEW, (kind, name)):
        place = f"settings {name!r} of the kind {kind!r}"
        check((kind, name, settings, changed), kept, place)
        with placed(place):
            return unpacked_mapping(settings), real(changed)
    sql = "SELECT 1 FROM checks WHERE about = 'view' AND first = ? AND second = ?"
    if connection.execute(sql, (kind, name)).fetchone() is not None:
        raise damage(f"settings {name!r} of the kind {kind!r}", "they are gone, though their checksum is there")
    return None


class ViewLibrary:
    """Settings of pages by kind and name, :attr:`valor_gpu.store.Store.views`: columns of a list, filters, drafts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, kind: str, name: str, settings: Mapping[str, Any]) -> None:
        """Keeps settings, JSON, instead of those of the same kind and name."""
        check_type("kind", kind, str)
        check_type("name", name, str)
        check_type("settings", settings, Mapping)
        values = (packed(kind), packed(name), packed_json("settings", settings), time.time())
        with self._database.write() as connection:
            keep_view(connection, values)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Returns the settings, or None."""
        with self._database.read() as connection:
            found = kept_view(connection, packed(kind), packed(name))
        return None if found is None else found[0]

    def change(
        self, kind: str, name: str, make: Callable[[dict[str, Any] | None], Mapping[str, Any] | None]
    ) -> dict[str, Any] | None:
        """Replaces settings by what ``make`` makes of them, without anybody writing in between.

        Args:
            kind: of the settings.
            name: of the settings.
            make: gets the settings, None where there are none; returns others, or None to take them away. It must not
                use the store.

        Returns:
            The settings before.
        """
        check_type("kind", kind, str)
        check_type("name", name, str)
        key = (packed(kind), packed(name))
        with self._database.write() as connection:
            found = kept_view(connection, *key)
            before = None if found is None else found[0]
            made = make(None if before is None else dict(before))
            if made is not None:
                values = (*key, packed_json("settings", made), time.time())
                keep_view(connection, values)
            elif found is not None:
                connection.execute("DELETE FROM views WHERE kind = ? AND name = ?", key)
        return before

    def list(self, kind: str) -> list[str]:
        """Returns the names of one kind; a warning names those that are damaged and left out."""
        found = []
        with self._database.read() as connection:
            check_count_of(connection, "views")
            kept = packed(kind)
            names = {name for (name,) in fetched(connection, "SELECT name FROM views WHERE kind = ?", (kept,))}
            # A name that has changed in the file has no checksum, and its checksum has no name.
            sql = "SELECT second FROM checks WHERE about = 'view' AND first = ?"
            names |= {name for (name,) in fetched(connection, sql, (kept,))}
            for name in names:
                with told(self._database.path), placed(f"names of settings of the kind {kind!r}"):
                    kept_view(connection, kept, name)
                    found.append(unpacked(name))
        return sorted(found)

    def delete(self, kind: str, name: str) -> None:
        """Forgets settings."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM views WHERE kind = ? AND name = ?", (packed(kind), packed(name)))
