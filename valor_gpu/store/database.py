"""One connection a process to the file of a store, with transactions whose errors say what is wrong."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from valor_gpu._forks import ForkLock
from valor_gpu.errors import DamageError, InputError, StoreError
from valor_gpu.store.checksums import RunDamage, is_damage
from valor_gpu.store.connections import Connection
from valor_gpu.store.schema import damaged_head, migrate

BUSY = 30.0  # seconds to wait for another process that writes
_CHECKPOINT = 0.5  # seconds that a checkpoint waits for readers; all threads of this process wait with it
_MAKING = threading.Lock()
_HEADED = ("duplicate column", "already exists")  # of a migration: the header has an older version than the tables
_FUNCTION = "user-defined function raised exception"  # of ours, which read rows
_ABANDONED: list[sqlite3.Connection] = []  # of a parent process: closing one here could end the parent's transaction


def default_path() -> Path:
    """Returns the file of the store that is used when none is named.

    ``VALOR_GPU_STORE`` if it is set, else ``store.sqlite`` in the folder ``valor_gpu`` of the user's data.
    """
    if named := os.environ.get("VALOR_GPU_STORE"):
        return Path(named)
    return _data_folder() / "valor_gpu" / "store.sqlite"


def _data_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    given = Path(os.environ.get("XDG_DATA_HOME") or "")
    return given if given.is_absolute() else Path.home() / ".local" / "share"  # a relative one counts as not set


class _Still(NamedTuple):
    """The state of a file that nobody writes to, as far as can be seen: of the file, and bytes of the logs beside it.

    ``-journal`` is the log where SQLite cannot have ``-wal``: one that a crash has left holds what the file had before
    a transaction that is half in it.
    """

    inode: int
    size: int
    changed: int
    log: int


def _bytes_beside(path: Path, ending: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.with_name(path.name + ending).stat().st_size
    return 0


def _still(path: Path) -> _Still:
    log = sum(_bytes_beside(path, ending) for ending in ("-wal", "-journal"))
    found = path.stat()
    return _Still(found.st_ino, found.st_size, found.st_mtime_ns, log)


def _may_write(path: Path) -> bool:
    """Returns whether SQLite may write: to the file, and to the log and the index beside it, which it makes."""
    beside = (path.with_name(path.name + ending) for ending in ("-wal", "-shm"))
    folder = os.access(path.parent, os.W_OK) or all(os.access(each, os.W_OK) for each in beside)
    return folder and (os.access(path, os.W_OK) or not path.exists())


class Database:
    """The file, opened when it is first used by a process; threads take turns.

    A file that can be read alone is opened without SQLite's locks and log, which need a folder that can be written. Who
    else may write to it is seen by its size and time before and after each transaction.

    Args:
        path: the file, made for its owner alone when it does not exist, as are the folders that it lacks.
        busy: seconds to wait for another process that writes.
    """

    def __init__(self, path: str | os.PathLike[str], busy: float = BUSY) -> None:
        if "\0" in os.fspath(path):
            raise InputError(f"store must be the path of a file but is {os.fspath(path)!r}")
        self.path = Path(path).absolute()
        self._busy = busy
        self._closed = False
        self._process = os.getpid()
        self._lock = ForkLock(self._disconnect)
        self._connection: sqlite3.Connection | None = None
        self._reads = False  # whether the file can be read alone
        self._still: _Still | None = None  # the file as it was then, without a log beside it
        with self.read():
            pass

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one state of the store, whatever others write meanwhile."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextlib.contextmanager
    def write(self, overwriting: bool = False, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """A transaction that is kept as a whole, or not at all when an error leaves it.

        Args:
            overwriting: what is deleted is overwritten, which SQLite spares itself otherwise.
            patience: seconds to wait for another process that writes; None: those of the database.
        """
        with self._transaction("BEGIN IMMEDIATE", patience) as connection:
            if not overwriting:
                yield connection
                return
            connection.execute("PRAGMA secure_delete = ON")
            try:
                yield connection
            finally:
                connection.execute("PRAGMA secure_delete = OFF")

    def checkpoint(self) -> None:
        """Brings what was written into the file itself and empties the log beside it, as far as others let it."""
        with self._turn(), self._errors():
            connection = self._open()
            with self._waiting(connection, _CHECKPOINT):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextlib.contextmanager
    def _waiting(self, connection: sqlite3.Connection, patience: float | None) -> Iterator[None]:
        """Waits for another process at most ``patience`` seconds within ``with``; None: as long as ever."""
        if patience is None:
            yield
            return
        connection.execute(f"PRAGMA busy_timeout = {round(patience * 1000)}")
        try:
            yield
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(self._busy * 1000)}")

    @contextlib.contextmanager
    def _transaction(self, begin: str, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        with self._turn(), self._errors(begin == "BEGIN"):
            connection = self._open()
            with self._waiting(connection, patience):
                connection.execute(begin)
            try:
                yield connection
                if begin != "BEGIN":  # a COMMIT would tell again of damage that reading has met
                    connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if self._has_changed():
                raise StoreError(
                    f"store {self.path}, which can be read alone here, was changed meanwhile: read it again"
                )

    def _has_changed(self) -> bool:
        """Returns whether a file that can be read alone has changed since it was opened."""
        return self._still is not None and self._still != _still(self.path)

    def _turn(self) -> ForkLock:
        """The lock of this process: one that was forked along within a transaction may be held for ever."""
        if self._process != os.getpid():
            if self._connection is not None:
                _ABANDONED.append(self._connection)
            self._connection, self._lock, self._process = None, ForkLock(self._disconnect), os.getpid()
        return self._lock

    @contextlib.contextmanager
    def _errors(self, reads: bool = False) -> Iterator[None]:
        """A context whose errors name the file."""
        try:
            yield
        except DamageError as error:
            raise self._damage(error) from error
        except UnicodeDecodeError as error:  # SQLite's module for Python, of a message that quotes the file
            raise DamageError("the file", str(error), str(self.path)) from error
        except OverflowError as error:
            raise InputError(f"the store cannot hold a value: {error}") from error
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.DataError) and not reads:
                raise InputError(f"the store cannot hold a value: {error}") from error
            text = str(error)
            if isinstance(error, sqlite3.Error) and (is_damage(error) or any(each in text for each in _HEADED)):
                raise DamageError("the file", text, str(self.path)) from error
            found = getattr(self._connection, "damage", None)
            if _FUNCTION in text and found is not None:
                raise self._damage(found) from error
            raise StoreError(self._message(error)) from error

    def _damage(self, error: DamageError) -> DamageError:
        """The error with the file, and with the id of the run that it is of."""
        if error.path:
            return error
        place = error.place or "the file"
        return DamageError(f"{place}{self._id(error.run)}" if isinstance(error, RunDamage) else place,
                           error.what, str(self.path))  # fmt: skip

    def _id(self, run: int) -> str:
        """The id of a run, as far as it can be read."""
        with contextlib.suppress(sqlite3.Error):
            if self._connection is not None:
                found = self._connection.execute("SELECT uid FROM runs WHERE id = ?", (run,)).fetchone()
                if found is not None and isinstance(found[0], str):
                    return found[0]
        return f"with the number {run}"

    def _message(self, error: Exception) -> str:
        text = str(error)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) if isinstance(error, OSError) else "full" in text
        if full:
            return f"store {self.path} cannot be written: {text}; what was being written is not kept, all else is"
        if "readonly" in text and self._reads and _bytes_beside(self.path, "-journal"):
            log = f"a transaction that did not end is in {self.path.name}-journal beside it"
            return f"store {self.path} cannot be read: it is read-only, and {log}: copy both to a folder of your own"
        if "readonly" in text:
            return f"store {self.path} cannot be written: the file or its folder is read-only ({text})"
        if "locked" in text or "busy" in text:
            return f"store {self.path} cannot be used: another process has locked it for {self._busy:g} s ({text})"
        if self.path.is_dir():
            return f"store must be a file but {self.path} is a directory"
        if "unable to open" in text and not _may_write(self.path):
            log = f"what was written last is in {self.path.name}-wal beside it"
            return f"store {self.path} cannot be read: it is read-only, and {log}: copy both to a folder of your own"
        if "not a database" in text:
            return f"store must be a file of valor_gpu but {self.path} is no database; {damaged_head(self.path)}"
        return f"store {self.path} is not usable: {text}"

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreError(f"store {self.path} is closed")
        if self._reads and (_may_write(self.path) or self._has_changed()):
            self._disconnect()  # what SQLite has read of the file before does not count any more
        if self._connection is None:
            self._make_file()
            connection = self._connect()
            try:
                connection.execute("PRAGMA cell_size_check = ON")  # SQLite looks at each page that it reads
                if self._reads:
                    self._check_version(connection)
                else:
                    self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        """Connects to the file. One that can be read alone is opened so that SQLite makes no file beside it."""
        self._reads = not _may_write(self.path)
        self._still, name = None, str(self.path)
        if self._reads:
            found = _still(self.path)
            self._still = None if found.log else found
            name = f"{self.path.as_uri()}?mode=ro{'' if found.log else '&immutable=1'}"
        return sqlite3.connect(
            name, timeout=self._busy, isolation_level=None, check_same_thread=False, cached_statements=256,
            uri=self._reads, factory=Connection,
        )  # fmt: skip

    def _make_file(self) -> None:
        """Makes the file and its folders. One that exists is not opened here: closing it would drop SQLite's locks."""
        with _MAKING:
            lacking = [folder for folder in (self.path.parent, *self.path.parent.parents) if not folder.exists()]
            for folder in reversed(lacking):
                folder.mkdir(mode=0o700, exist_ok=True)
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:
                if self.path.is_dir():
                    raise
                if not self.path.is_file() and self.path.exists():
                    raise StoreError(f"store must be a file but {self.path} is a device or a pipe") from None

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Sets the connection up. SQLite itself does not wait when two processes make one file."""
        connection.execute("PRAGMA foreign_keys = ON")
        deadline = time.monotonic() + self._busy
        while True:
            try:
                migrate(connection, str(self.path))
                self._shut()
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last commits, a kill none
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def _check_version(self, connection: sqlite3.Connection) -> None:
        """Checks a file that can be read alone."""
        try:
            migrate(connection, str(self.path))
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error) or _bytes_beside(self.path, "-journal"):
                raise
            raise StoreError(
                f"store {self.path} is of an older version and cannot be written, since the file or its folder is"
                " read-only: copy it to a folder of your own"
            ) from error

    def _shut(self) -> None:
        """Lets the owner alone read the file, which is known to be a store by now; SQLite's other files follow it."""
        if self.path.stat().st_mode & 0o077:
            with contextlib.suppress(PermissionError):  # the file of another user
                self.path.chmod(0o600)

    def close(self) -> None:
        """Closes the file for good."""
        with self._turn():
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class RunHandle(Protocol):
    """Run as the modules that :class:`~valor_gpu.store.Run` is made of see it.

    Attributes:
        id: word that no other run has.
    """

    id: str
    _database: Database
    _number: int

    def _write(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Opens a transaction of the process that may write to the run."""
        ...
