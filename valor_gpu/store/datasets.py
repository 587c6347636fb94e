"""Data sets that runs used, by the hash of their content, and settings of pages by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.store.database import Database
from valor_gpu.store.records import check_count
from valor_gpu.store.values import packed, packed_json, unpacked, unpacked_json

_COLUMNS = "hash, name, columns, rows, source, created"


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
        values = (
            packed(digest),
            packed(name),
            packed_json("columns", list(columns)),
            rows,
            packed(source),
            time.time(),
        )
        with self._database.write() as connection:
            connection.execute(
                f"""INSERT INTO datasets ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET
                name = excluded.name, columns = excluded.columns, rows = excluded.rows, source = excluded.source""",
                values,
            )
        return self.get(digest)

    def get(self, digest: str) -> StoredDataset:
        """Returns the data set of a hash; an InputError where there is none."""
        with self._database.read() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM datasets WHERE hash = ?", (packed(digest),)).fetchone()
        if row is None:
            raise InputError(f"no data set with the hash {digest!r} in the store")
        return _dataset(row)

    def list(self) -> list[StoredDataset]:
        """Returns all data sets, the newest first."""
        with self._database.read() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM datasets ORDER BY created DESC, hash").fetchall()
        return [_dataset(row) for row in rows]

    def delete(self, digest: str) -> None:
        """Forgets a data set; runs that used it keep its hash and their rows."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM datasets WHERE hash = ?", (packed(digest),))


def _dataset(row: tuple[Any, ...]) -> StoredDataset:
    digest, name, columns, rows, source, created = row
    return StoredDataset(
        unpacked(digest), unpacked(name), tuple(unpacked_json(columns)), rows, unpacked(source), created
    )


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
            connection.execute("INSERT OR REPLACE INTO views VALUES (?, ?, ?, ?)", values)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Returns the settings, or None."""
        with self._database.read() as connection:
            sql = "SELECT settings FROM views WHERE kind = ? AND name = ?"
            row = connection.execute(sql, (packed(kind), packed(name))).fetchone()
        return None if row is None else dict(unpacked_json(row[0]))

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
            row = connection.execute("SELECT settings FROM views WHERE kind = ? AND name = ?", key).fetchone()
            before = None if row is None else dict(unpacked_json(row[0]))
            made = make(None if before is None else dict(before))
            if made is not None:
                values = (*key, packed_json("settings", made), time.time())
                connection.execute("INSERT OR REPLACE INTO views VALUES (?, ?, ?, ?)", values)
            elif row is not None:
                connection.execute("DELETE FROM views WHERE kind = ? AND name = ?", key)
        return before

    def list(self, kind: str) -> list[str]:
        """Returns the names of one kind."""
        with self._database.read() as connection:
            names = connection.execute(
                "SELECT name FROM views WHERE kind = ? ORDER BY name", (packed(kind),)
            ).fetchall()
        return [unpacked(name) for (name,) in names]

    def delete(self, kind: str, name: str) -> None:
        """Forgets settings."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM views WHERE kind = ? AND name = ?", (packed(kind), packed(name)))
