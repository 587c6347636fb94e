"""Opens the file of a store so that damage ends nothing and nothing is ever written, and says what tables it has."""

from __future__ import annotations

import contextlib
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from valor_gpu.errors import InputError, StoreError
from valor_gpu.store.contents import TABLES
from valor_gpu.store.database import BUSY
from valor_gpu.store.first_pages import with_new_head
from valor_gpu.store.scanning import damage_ends_it, text_of
from valor_gpu.store.schema import APPLICATION, MIGRATIONS

_LEFT = "what is left is `.recover` of SQLite's own program, if it has it: sqlite3 {path} .recover"


class _UnreadableError(StoreError):
    """Nothing of a file can be read, as long as its first page stays as it is."""


class Source(NamedTuple):
    """Holds a file that is read, in one transaction.

    Attributes:
        path: of the file.
        connection: that reads it.
        version: of the store; that of the tables where the header does not say it.
        columns: of each table that the file has.
        odd: what is wrong with header and list of tables, in words.
    """

    path: Path
    connection: sqlite3.Connection
    version: int
    columns: dict[str, list[str]]
    odd: list[str]


@contextlib.contextmanager
def source(path: Path) -> Iterator[Source]:
    """Opens a file within ``with``; other processes may read and write it meanwhile.

    Raises:
        InputError: there is no such file, or it is no store.
        StoreError: nothing of the file can be read, or it was changed by a process that SQLite's locks do not reach.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is no file" if path.exists() else "does not exist"
        raise InputError(f"STORE must be the file of a store but {path} {what}")
    if not path.stat().st_size:
        raise InputError(f"STORE must be the file of a store but {path} is empty")
    before = _marks(path)
    is_shared = _is_used(path)
    name = f"{path.absolute().as_uri()}?mode=ro{'' if is_shared else '&immutable=1'}"
    with contextlib.closing(sqlite3.connect(name, timeout=BUSY, isolation_level=None, uri=True)) as connection:
        try:
            found = _described(path, connection)
        except _UnreadableError as error:
            connection.close()
            with _mended(path, error) as mended:
                yield mended
        else:
            yield found
    if not is_shared and _marks(path) != before:
        raise StoreError(f"store {path} was changed while it was read, by a process that began meanwhile: try again")


@contextlib.contextmanager
def _mended(path: Path, error: StoreError) -> Iterator[Source]:
    """Opens a copy of a file that has a new header or list of tables; raises the error where that does not help."""
    with with_new_head(path) as found:
        if found is None:
            raise error
        copy, what = found
        with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            described = _described(path, connection)
            yield described._replace(odd=[f"{what} cannot be read: that of an empty store is read in its place"])


def _is_used(path: Path) -> bool:
    """Returns whether a process has the file open, or has left a log beside it.

    SQLite would make files beside a file that nobody uses, and not take them away.
    """
    return any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-shm", "-journal"))


def _marks(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _described(path: Path, connection: sqlite3.Connection) -> Source:
    connection.text_factory = text_of
    try:
        # Records of the list of tables that make no sense, and a file that ends early, are no reason to read nothing.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("BEGIN")
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        written = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except (sqlite3.Error, OSError) as error:
        raise _unreadable(path, str(error)) from error
    faults: list[str] = []
    tables = 0
    with damage_ends_it(faults):
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    columns = {table.name: found for table in TABLES if (found := _columns(connection, table.name))}
    if not {"runs", "rows", "scores"} & set(columns):
        if application not in (APPLICATION, 0) or (application == 0 and (tables or written)):
            raise InputError(f"STORE must be the file of a store but {path} is another program's database")
        raise _unreadable(path, "; ".join(["its list of tables is gone", *faults]))
    if application == APPLICATION and written > len(MIGRATIONS):
        raise StoreError(
            f"store {path} has version {written}, and this valor_gpu knows versions up to {len(MIGRATIONS)}: install a"
            " newer one"
        )
    version = max((table.since for table in TABLES if table.name in columns), default=1)
    odd = [f"its list of tables cannot be read to the end: {fault}" for fault in faults]
    if application != APPLICATION or not version <= written <= len(MIGRATIONS):
        odd.append("its header does not say that it is a store, and of which version")
        written = version
    return Source(path, connection, written, columns, odd)


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    found: list[str] = []
    with damage_ends_it([]):
        for _, name, *_ in connection.execute(f"PRAGMA table_info({table})"):
            found.append(str(name))
    return found


def _unreadable(path: Path, why: str) -> StoreError:
    if "locked" in why or "busy" in why:
        return StoreError(f"store {path} cannot be used: another process has locked it ({why})")
    if "unable to open" in why or "readonly" in why:
        log = "what was written last is in a log beside it that cannot be read here"
        return StoreError(f"store {path} cannot be read: {why}: {log}: copy all its files to a folder of your own")
    return _UnreadableError(f"store {path} cannot be read: {why}; {_LEFT.format(path=shlex.quote(str(path)))}")
