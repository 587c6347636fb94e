"""Replies kept in SQLite under a hash of all that decides them.

Failures are never kept, so that a resumed run asks for them again and for nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.judge.protocol import Messages, Reply, Schema, Usage

_APPLICATION = 0x564A4331  # "VJC1", in the header of the file
_BUSY = 60.0  # seconds to wait for another process that writes
_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, reply TEXT NOT NULL, created REAL NOT NULL) WITHOUT ROWID"""


def cache_key(
    identity: Mapping[str, Any], messages: Messages, schema: Schema | None, prompt: str = "", repeat: int = 0
) -> bytes:
    """SHA-256 of all that decides a reply, 32 bytes.

    Args:
        identity: of the judge.
        messages: what it is asked.
        schema: what the reply must follow.
        prompt: version or hash of the prompt.
        repeat: number of the repeat.

    Raises:
        InputError: something that JSON does not know.

    Example:
        >>> one = cache_key({"model": "m"}, [{"role": "user", "content": "?"}], None)
        >>> one == cache_key({"model": "m"}, [{"content": "?", "role": "user"}], None), len(one)
        (True, 32)
    """
    parts = [dict(identity), [dict(message) for message in messages], schema, prompt, repeat]
    try:
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"identity, messages and schema must hold JSON values: {error}") from error
    return hashlib.sha256(text.encode()).digest()


class JudgeCache:
    """A file of replies, for any number of threads and processes of one machine at a time.

    The file holds what was judged and said: it is made readable for its owner alone. It must lie on a local disk,
    since SQLite's write-ahead log does not work across machines.

    Args:
        path: the file; it is made when it does not exist. Its folder must exist.

    Raises:
        InputError: the file is something else, or cannot be opened.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, JudgeCache(folder + "/replies.sqlite") as cache:
        ...     cache.put(bytes(32), Reply("4"))
        ...     cache.get(bytes(32)).text, len(cache)
        ('4', 1)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
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
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
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
        """Make the table, unless it is there. SQLite does not wait when two processes make one file, so we do."""
        deadline = time.monotonic() + _BUSY
        while True:
            try:
                if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                    self._make(connection)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last replies, a kill none
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
            connection.execute(_TABLE)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def get(self, key: bytes) -> Reply | None:
        """The reply kept under ``key``, or None."""
        with self._lock:
            row = self._open().execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        kept = json.loads(row[0])
        logprobs = None if kept["logprobs"] is None else tuple(kept["logprobs"])
        return Reply(kept["text"], Usage(*kept["usage"]), logprobs, kept["finish_reason"], kept["model"])

    def put(self, key: bytes, reply: Reply) -> None:
        """Keep a reply; it is safe from a kill of the process when this returns."""
        kept = {
            "text": reply.text,
            "usage": [reply.usage.prompt, reply.usage.completion, reply.usage.cached],
            "logprobs": None if reply.logprobs is None else [dict(position) for position in reply.logprobs],
            "finish_reason": reply.finish_reason,
            "model": reply.model,
        }
        row = (key, reply.model, json.dumps(kept), time.time())
        with self._lock:
            self._open().execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", row)

    def __len__(self) -> int:
        with self._lock:
            return int(self._open().execute("SELECT count(*) FROM replies").fetchone()[0])

    def __bool__(self) -> bool:
        return True  # an empty cache is a cache

    def clear(self) -> None:
        """Forget all replies."""
        with self._lock:
            self._open().execute("DELETE FROM replies")

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __enter__(self) -> JudgeCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
