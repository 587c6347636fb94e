"""Locks of SQLite connections, which are closed before the process forks.

A fork leaves SQLite's account of locks in the child's memory, but not the locks themselves. A connection that the
child opens while the parent has one takes no lock of its own: when the parent closes the file, its write-ahead log is
deleted, and what the child writes after that is lost. So no connection may be open while a process forks.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType

_FORKING = threading.Lock()
_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()
_HELD: list[ForkLock] = []


class ForkLock:
    """A lock of whoever uses a connection; a fork waits for it, and has the connection closed.

    A fork by the thread that holds the lock closes nothing.

    Args:
        close: method that closes the connection, if there is one; the next use opens it again.
    """

    def __init__(self, close: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._close = weakref.WeakMethod(close)
        self._holder = 0
        with _FORKING:
            _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holder = 0
        self._lock.release()

    def hold(self) -> bool:
        """Waits for the lock and has the connection closed; False where this thread holds it."""
        if self._holder == threading.get_ident():
            return False
        self.__enter__()
        if (close := self._close()) is not None:
            close()
        return True


def _before() -> None:
    _FORKING.acquire()
    _HELD.extend(lock for lock in list(_LOCKS) if lock.hold())


def _after() -> None:
    while _HELD:
        _HELD.pop().__exit__(None, None, None)
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
