"""Replies kept in SQLite under a hash of all that decides them, and leases of the questions being asked.

Failures are never kept, so that a resumed run asks for them again and for nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from valor_gpu._forks import ForkLock
from valor_gpu.errors import InputError
from valor_gpu.judge.protocol import Messages, Reply, Schema, Usage

_APPLICATION = 0x564A4331  # "VJC1", in the header of the file
_BUSY = 60.0  # seconds to wait, when the file is opened, for another process that writes
_BUSY_LATER = 10  # the same for every later use: a run waits meanwhile
_REPLIES = """CREATE TABLE IF NOT EXISTS replies (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, reply TEXT NOT NULL, created REAL NOT NULL) WITHOUT ROWID"""
_LEASES = """CREATE TABLE IF NOT EXISTS leases (
    key BLOB PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL) WITHOUT ROWID"""
_USES = """CREATE TABLE IF NOT EXISTS uses (
    key BLOB NOT NULL, run TEXT NOT NULL, PRIMARY KEY (key, run)) WITHOUT ROWID"""
# A reply that nobody noted is of a use that names no run: '' keeps it when the run that found it goes.
_NOTE_OTHER = "INSERT INTO uses SELECT ?1, '' WHERE NOT EXISTS (SELECT 1 FROM uses WHERE key = ?1)"
_NOTE = "INSERT OR IGNORE INTO uses VALUES (?, ?)"
_FORGET = """DELETE FROM replies WHERE key IN (SELECT key FROM uses WHERE run = ?1 AND NOT EXISTS (
    SELECT 1 FROM uses AS other WHERE other.key = uses.key AND other.run <> ?1))"""
_LEASE = """INSERT INTO leases SELECT :key, :owner, :expires
    WHERE :again OR NOT EXISTS (SELECT 1 FROM replies WHERE key = :key)
    ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
    WHERE leases.expires <= :now OR leases.expires > :now + 3600 OR leases.owner = excluded.owner"""


def cache_key(
    identity: Mapping[str, Any],
    messages: Messages,
    schema: Schema | None,
    prompt: str = "",
    repeat: int = 0,
    dropped: Sequence[str] = (),
) -> bytes:
    """Computes the SHA-256 of all that decides a reply, 32 bytes.

    Args:
        identity: of the judge.
        messages: what it is asked.
        schema: what the reply must follow.
        prompt: version or hash of the prompt.
        repeat: number of the repeat.
        dropped: names of the parameters that the request is sent without because the server rejects them.

    Raises:
        InputError: something that JSON cannot express.

    Example:
        >>> one = cache_key({"model": "m"}, [{"role": "user", "content": "?"}], None)
        >>> one == cache_key({"model": "m"}, [{"content": "?", "role": "user"}], None), len(one)
        (True, 32)
    """
    parts: list[Any] = [dict(identity), [dict(message) for message in messages], schema, prompt, repeat]
    if dropped:
        parts.append(sorted(dropped))
    try:
        if schema is not None:  # judges write the properties in their order, a reason before or after its rating
            parts[2] = json.dumps(schema, separators=(",", ":"), allow_nan=False)
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"identity, messages and schema must hold JSON values: {error}") from error
    return hashlib.sha256(text.encode()).digest()


class JudgeCache:
    """A file of replies, for any number of threads and processes of one machine at a time.

    The file holds what was judged and said: it is made readable for its owner alone. It must lie on a local disk,
    since SQLite's write-ahead log does not work across machines.

    Args:
        path: the file; it is made when it does not exist. Its folder must exist.
        run: id of the run that uses it, noted beside every reply that it finds or keeps; "" notes nothing.

    Raises:
        InputError: the file is something else, or cannot be opened.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, JudgeCache(folder + "/replies.sqlite") as cache:
        ...     cache.put(bytes(32), Reply("4"))
        ...     cache.get(bytes(32)).text, len(cache)
        ('4', 1)
    """

    def __init__(self, path: str | os.PathLike[str], run: str = "") -> None:
        self.path, self.run = Path(path), run
        self._lock = ForkLock(self._disconnect)
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        with self._lock:
            self._open()

    def __repr__(self) -> str:
        return f"JudgeCache({str(self.path)!r})"

    def _open(self) -> sqlite3.Connection:
        """The connection of this process: one that was forked along must not be used."""
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        try:
            with contextlib.suppress(FileExistsError):  # closing one that SQLite uses would drop the locks of all
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = sqlite3.connect(self.path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"cache must be a file of judge replies but {self.path} is not usable: {error}") from error
        self._connection, self._process = connection, os.getpid()
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Makes the table, unless it is there. SQLite does not wait when two processes make one file, so we do."""
        deadline = time.monotonic() + _BUSY
        while True:
            try:
                if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                    self._make(connection)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last replies, a kill none
                connection.execute(_LEASES)
                connection.execute(_USES)
                connection.execute(f"PRAGMA busy_timeout = {_BUSY_LATER * 1000}")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def _make(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application != _APPLICATION and (application or tables):
                raise InputError(f"cache must be a file of judge replies but {self.path} is another database")
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(_REPLIES)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def get(self, key: bytes) -> Reply | None:
        """Returns the reply kept under ``key``, or None."""
        with self._lock:
            connection = self._open()
            row = connection.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            if row is not None and self.run:
                with contextlib.suppress(sqlite3.OperationalError):  # of a file that can only be read
                    connection.execute(_NOTE_OTHER, (key,))
                    connection.execute(_NOTE, (key, self.run))
        if row is None:
            return None
        kept = json.loads(row[0])
        logprobs = None if kept["logprobs"] is None else tuple(kept["logprobs"])
        dropped = tuple(kept.get("dropped", ()))
        return Reply(kept["text"], Usage(*kept["usage"]), logprobs, kept["finish_reason"], kept["model"], dropped)

    def put(self, key: bytes, reply: Reply) -> None:
        """Keeps a reply and ends the lease of its question. The reply is safe from a kill when this returns."""
        kept = {
            "text": reply.text,
            "usage": [reply.usage.prompt, reply.usage.completion, reply.usage.cached],
            "logprobs": None if reply.logprobs is None else [dict(position) for position in reply.logprobs],
            "finish_reason": reply.finish_reason,
            "model": reply.model,
            "dropped": reply.dropped,
        }
        model = reply.model.encode(errors="backslashreplace").decode()  # SQLite takes no lone surrogates
        row = (key, model, json.dumps(kept), time.time())
        with self._lock:
            connection = self._open()
            connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", row)
            connection.execute("DELETE FROM leases WHERE key = ?", (key,))
            if self.run:
                connection.execute(_NOTE, (key, self.run))

    def forget_run(self, run: str) -> int:
        """Forgets the replies that no other run than this one has found or kept; returns how many these are."""
        with self._lock:
            connection = self._open()
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            try:
                gone = connection.execute(_FORGET, (run,)).rowcount
                connection.execute("DELETE FROM uses WHERE run = ?", (run,))
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return gone

    def discard(self, key: bytes) -> None:
        """Forgets the reply kept under ``key``, if there is one."""
        with self._lock:
            self._open().execute("DELETE FROM replies WHERE key = ?", (key,))

    @staticmethod
    def process() -> str:
        """Name of this process, by which others of the same machine can tell whether it still runs."""
        return f"{_namespace()} {os.getpid()}"

    def lease(self, key: bytes, owner: str, seconds: float, again: bool = False) -> bool:
        """Reserves a question, so that no other process asks it meanwhile.

        Args:
            key: of the question.
            owner: who asks: :meth:`process`, a space and something that tells apart the runs of one process.
            seconds: the lease ends after that unless :meth:`renew` is called.
            again: reserve it although there is a reply.

        Returns:
            False when another owner has reserved it, or when the reply has come meanwhile. The lease of a process
            that no longer runs counts for nothing, as does one that ends more than an hour from now: the clock
            has been set back.
        """
        with self._lock:
            connection, now = self._open(), time.time()
            values = {"key": key, "owner": owner, "expires": now + seconds, "now": now, "again": again}
            if connection.execute(_LEASE, values).rowcount == 1:
                return True
            holder = connection.execute("SELECT owner FROM leases WHERE key = ?", (key,)).fetchone()
            if holder is None or not _is_dead(holder[0]):
                return False
            connection.execute("DELETE FROM leases WHERE key = ? AND owner = ?", (key, holder[0]))
            return connection.execute(_LEASE, values).rowcount == 1

    def renew(self, owner: str, seconds: float) -> None:
        """Lets all leases of ``owner`` end in ``seconds`` from now."""
        with self._lock:
            self._open().execute("UPDATE leases SET expires = ? WHERE owner = ?", (time.time() + seconds, owner))

    def release(self, owner: str, key: bytes | None = None) -> None:
        """Ends the lease of one question, or all leases of ``owner``."""
        with self._lock:
            which = "" if key is None else " AND key = ?"
            self._open().execute(f"DELETE FROM leases WHERE owner = ?{which}", (owner, *([] if key is None else [key])))

    def __len__(self) -> int:
        with self._lock:
            return int(self._open().execute("SELECT count(*) FROM replies").fetchone()[0])

    def __bool__(self) -> bool:
        return True  # an empty cache is a cache

    def clear(self) -> None:
        """Forgets all replies."""
        with self._lock:
            self._open().executescript("DELETE FROM replies; DELETE FROM uses;")

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    def __enter__(self) -> JudgeCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _namespace() -> str:
    """The machine or container in which process numbers mean something."""
    try:
        return os.readlink("/proc/self/ns/pid").replace(" ", "")
    except OSError:
        return platform.node().replace(" ", "") or "here"


def _is_dead(owner: str) -> bool:
    """Whether the owner of a lease certainly no longer runs."""
    namespace, number, *_ = [*owner.split(" "), ""]
    if namespace != _namespace() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
