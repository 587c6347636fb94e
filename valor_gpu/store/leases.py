"""Leases of runs: one process works on a run, and another one takes over when that process is gone.

A process number alone says nothing, since numbers are given again. Whether the owner lives is decided, on the machine
where it was started, by its number and the time when it started; elsewhere, and where no start time is to be had, by
its last heartbeat.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from valor_gpu.errors import InputError, LeaseError, StoreError
from valor_gpu.store.checksums import damage
from valor_gpu.store.database import Database

HEARTBEAT = 5.0  # seconds between two heartbeats
SILENCE = 60.0  # seconds without one after which an owner that cannot be looked up counts as gone
WATCH = 2.5 * HEARTBEAT
"""Seconds without a heartbeat that are waited for before a run of an owner is taken over of which the clock alone says
that it is gone: the clock may have been set since the last one."""
_HELD: set[str] = set()  # tokens of the leases of this process: on a full disk one given back stays in the store
_STATE, _START = 0, 19  # fields of /proc/PID/stat behind the name: 3 and 22 in proc(5)
_BOOT = "/proc/sys/kernel/random/boot_id"


def machine() -> str:
    """Returns a name of the machine, boot and container in which process numbers mean something."""
    with contextlib.suppress(OSError):
        return f"{Path(_BOOT).read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    return platform.node() or "here"


def start_time(pid: int) -> str | None:
    """Returns when a process of this machine started, in ticks since boot; None if it is gone, "" if unknown.

    A process that has ended and whose parent has not asked for its exit status is gone.
    """
    with contextlib.suppress(OSError, IndexError):
        behind = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
        return None if behind[_STATE] in (b"Z", b"X") else behind[_START].decode()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except (OSError, OverflowError):
        pass
    return ""


def lives(pid: int, started: str, where: str, heartbeat: float) -> bool:
    """Whether the owner of a lease lives, as far as can be told.

    Args:
        pid: number of the process.
        started: when it started, ``""`` if that is unknown.
        where: its :func:`machine`.
        heartbeat: its last one, seconds since 1970.
    """
    known = is_there(pid, started, where)
    if known is not None:
        return known
    return abs(time.time() - heartbeat) <= SILENCE  # one of the future was sent before the clock was set back


def is_there(pid: int, started: str, where: str) -> bool | None:
    """Whether a process that can be looked up is there; None for one that cannot be."""
    if where == machine():
        now = start_time(pid)
        if now is None:
            return False
        if now and started:
            return now == started
    return None


class Lease:
    """The right to work on a run; a context manager that gives it back. A thread sends heartbeats meanwhile.

    Args:
        database: of the store.
        run: number of the run in it.
        name: of the run, for messages.
        heartbeat: seconds between two heartbeats.

    Raises:
        LeaseError: another process that lives holds the lease, or this one does already.
    """

    def __init__(self, database: Database, run: int, name: str, heartbeat: float = HEARTBEAT) -> None:
        self.token = secrets.token_hex(8)
        self.taken_over = False
        self._database, self._run, self._name, self._pause = database, run, name, heartbeat
        self._ended = threading.Event()
        self._process = os.getpid()
        self._take()
        self._thread = threading.Thread(target=self._beat, name=f"lease of {name}", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        """Waits where the clock alone says that an owner is gone: one that lives sends a heartbeat meanwhile.

        Raises:
            LeaseError: it has sent one.
        """
        sql = "SELECT pid, started, machine, heartbeat FROM leases WHERE run = ?"
        with self._database.read() as connection:
            kept = connection.execute(sql, (self._run,)).fetchone()
        if kept is None or is_there(*kept[:3]) is not None or lives(*kept):
            return
        self._ended.wait(WATCH)  # of which nobody tells: it is a pause
        with self._database.read() as connection:
            again = connection.execute(sql, (self._run,)).fetchone()
        if again is not None and again[3] != kept[3]:
            raise LeaseError(f"run {self._name} is worked on by {_described(*again)}")

    def _take(self) -> None:
        self._watch()
        with self._database.write() as connection:
            check_free(connection, self._run, self._name)
            before = connection.execute("SELECT 1 FROM leases WHERE run = ?", (self._run,)).fetchone()
            self.taken_over = before is not None
            started = start_time(os.getpid()) or ""
            connection.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?)",
                (self._run, self.token, os.getpid(), started, machine(), time.time()),
            )
        _HELD.add(self.token)

    def renew(self) -> None:
        """Sends a heartbeat.

        Raises:
            LeaseError: another process has taken the run over.
        """
        with self._database.write() as connection:
            self.check(connection)
            connection.execute(
                "UPDATE leases SET heartbeat = ? WHERE run = ? AND token = ?", (time.time(), self._run, self.token)
            )

    def check(self, connection: sqlite3.Connection) -> None:
        """Raises unless the lease is still this one; within a transaction of the caller."""
        kept = connection.execute("SELECT token FROM leases WHERE run = ?", (self._run,)).fetchone()
        if kept is None or kept[0] != self.token:
            raise LeaseError(f"run {self._name} is no longer leased by this process: another one took it over")

    def release(self) -> None:
        """Gives the lease back; nothing happens when another process has taken it over, or in one forked from it."""
        if self._process != os.getpid():
            return
        self._ended.set()
        self._thread.join()
        _HELD.discard(self.token)
        with self._database.write() as connection:
            connection.execute("DELETE FROM leases WHERE run = ? AND token = ?", (self._run, self.token))

    def _beat(self) -> None:
        """Heartbeats of a thread; a failure shows at the next write of the run, which checks the lease itself."""
        while not self._ended.wait(self._pause):
            with contextlib.suppress(LeaseError, StoreError):
                self.renew()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def owner(connection: sqlite3.Connection, run: int) -> str | None:
    """Returns a description of the process that lives and holds a lease of the run; None if there is none."""
    sql = "SELECT token, pid, started, machine, heartbeat FROM leases WHERE run = ?"
    token, *kept = connection.execute(sql, (run,)).fetchone() or (None,)
    if token is not None and [type(each) for each in (token, *kept)] != [str, int, str, str, float]:
        raise damage("lease of run ", "its columns have other types", run)
    if token is None or (kept[0] == os.getpid() and kept[2] == machine() and token not in _HELD):
        return None
    return _described(*kept) if lives(*kept) else None


def check_free(connection: sqlite3.Connection, run: int, name: str) -> None:
    """Raises while a process that lives holds a lease of the run, and where the run is gone."""
    if connection.execute("SELECT 1 FROM runs WHERE id = ?", (run,)).fetchone() is None:
        raise InputError(f"run {name} is no longer in the store: it was purged")
    if (holder := owner(connection, run)) is not None:
        raise LeaseError(f"run {name} is worked on by {holder}")


def _described(pid: int, _: str, where: str, heartbeat: float) -> str:
    local = where == machine()
    who = "this process" if local and pid == os.getpid() else f"process {pid}"
    silent = max(time.time() - heartbeat, 0)
    return f"{who}{'' if local else ' of another machine or container'}, last heard of {silent:.0f} s ago"


@contextlib.contextmanager
def quiet_release(lease: Lease) -> Iterator[Lease]:
    """A context in which the lease is held, and given back even where the store cannot be written any more."""
    try:
        yield lease
    except BaseException:
        with contextlib.suppress(StoreError):
            lease.release()
        raise
    lease.release()
