"""Saves what is whole of a store into a new one; the old file is not touched."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from valor_gpu.errors import InputError, StoreError
from valor_gpu.store import search
from valor_gpu.store.checking import Record, Walk
from valor_gpu.store.checksums import checksum
from valor_gpu.store.damages import Report
from valor_gpu.store.heads import SEALED
from valor_gpu.store.reading import Source, source
from valor_gpu.store.runs import ENDED
from valor_gpu.store.schema import MIGRATIONS, migrate
from valor_gpu.store.stores import Store
from valor_gpu.store.totals import keep_totals

_LOGS = ("-wal", "-shm", "-journal")
_LEFT_OUT = ("leases", "row_texts", "totals", "counts")  # of processes that work on the old file; made anew
_CHECKED = 4  # version that has checksums of versions and settings in a table of their own
_WITHOUT_THE_LOST = (
    "DELETE FROM evaluators WHERE id NOT IN (SELECT evaluator FROM evaluator_versions)",
    """DELETE FROM checks WHERE (about = 'version' AND NOT EXISTS (SELECT 1 FROM evaluator_versions
        WHERE evaluator = first AND number = second)) OR (about = 'view' AND NOT EXISTS (SELECT 1 FROM views
        WHERE kind = first AND name = second))""",
)


def export(path: str | os.PathLike[str], new: str | os.PathLike[str]) -> Report:
    """Makes a new store of all that is whole in another one, which stays as it is.

    Ids, numbers, times and states of runs are kept. The index of words is made anew. A run whose own record is damaged
    is kept in the state "failed" with what is whole of it, so that its rows are not lost. Leases are left out: a run
    that a process works on is one that can be resumed in the new store.

    Args:
        path: of the file, damaged or not. Other processes may use it meanwhile.
        new: path of the new store, which must not exist; it is there as a whole in the end, or not at all.

    Returns:
        What was saved, and each place that is lost.

    Raises:
        InputError: there is no such file, it is no store, or ``new`` exists.
        StoreError: nothing of the store can be read, or the new one cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     report = export(store.path, folder + "/new.sqlite")
        ...     with Store(folder + "/new.sqlite") as saved:
        ...         report.n_lost, saved.run("capitals").id == run.id
        (0, True)
    """
    target = Path(new).absolute()
    _check_new(target)
    made = target.with_name(f"{target.name}.partial-{secrets.token_hex(4)}")
    try:
        with _writing(target):
            os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with source(Path(path)) as opened:
            report = _copied(opened, made, target)
        _index_words(made, target)
        with _writing(target):
            _finish(made, target)
    finally:
        for ending in ("", *_LOGS):
            made.with_name(made.name + ending).unlink(missing_ok=True)
    return report


def _check_new(target: Path) -> None:
    if not target.parent.is_dir():
        raise InputError(f"NEW must lie in a folder that exists but {target.parent} does not")
    for ending in ("", *_LOGS):
        if os.path.lexists(there := target.with_name(target.name + ending)):
            raise InputError(f"NEW must not exist but {there} does: give another name, or move that file away")


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Says of faults within ``with`` that the new store was not made."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"NEW {target} cannot be written: {error}; nothing was made, STORE is as it was") from error


def _copied(opened: Source, made: Path, target: Path) -> Report:
    """Copies all records into a file of the same version, without its search."""
    with _writing(target):
        connection = sqlite3.connect(made, isolation_level=None)
    try:
        with _writing(target):
            connection.execute("PRAGMA journal_mode = OFF")  # the file is thrown away where anything fails
            connection.execute("PRAGMA synchronous = OFF")
            migrate(connection, str(made), MIGRATIONS[: opened.version])
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN")
        report = Walk(opened, _Writer(connection, target).keep).report()
        with _writing(target):
            for statement in _WITHOUT_THE_LOST[: 2 if opened.version >= _CHECKED else 1]:
                connection.execute(statement)
            connection.execute("COMMIT")
        return report
    finally:
        connection.close()


class _Writer:
    """Writes records, each as it is.

    Args:
        connection: to the new file.
        target: of the new store, for messages.
    """

    def __init__(self, connection: sqlite3.Connection, target: Path) -> None:
        self._connection, self._target = connection, target
        self._columns: dict[str, set[str]] = {}

    def keep(self, table: str, record: Record) -> str:
        """Writes a record; returns why the new store refuses it, or nothing."""
        if table in _LEFT_OUT:
            return ""
        if table not in self._columns:
            found = self._connection.execute(f"PRAGMA table_info({table})").fetchall()
            self._columns[table] = {name for _, name, *_ in found}
        kept: dict[str, Any] = {name: value for name, value in record.items() if name in self._columns[table]}
        if table == "runs":
            kept["indexed"] = 0
            if kept.get("checksum") is not None:
                kept["checksum"] = checksum((kept["id"], *(kept[column] for column in SEALED)))
        sql = f"INSERT INTO {table} ({', '.join(kept)}) VALUES ({', '.join('?' * len(kept))})"
        try:
            with _writing(self._target):
                try:
                    self._connection.execute(sql, tuple(kept.values()))
                except sqlite3.IntegrityError as error:
                    return f"it contradicts what else is there: {error}"
        except OverflowError as error:
            return str(error)
        return ""


def _index_words(made: Path, target: Path) -> None:
    """Brings the file to the newest version, and builds the index of words of the runs that have ended."""
    with _writing(target), Store(made) as store:
        with store._database.read() as connection:
            marks = ", ".join("?" * len(ENDED))
            sql = f"SELECT id FROM runs WHERE state IN ({marks})"
            numbers = [number for (number,) in connection.execute(sql, ENDED)]
        for number in numbers:
            with store._database.write() as connection:
                keep_totals(connection, number, search.build(connection, number))


def _finish(made: Path, target: Path) -> None:
    """Gives the file its name, when all of it is on the disk."""
    file = os.open(made, os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)
    _check_new(target)
    try:
        os.link(made, target)  # unlike a rename, it replaces nothing
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.rename(made, target)
