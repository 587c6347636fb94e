"""Which Studio serves a store: it keeps a small file beside the store while it lives, which names its port.

The file has no token and nothing of the runs. Whether its process lives is decided as for leases of runs, so that the
file of one that was killed counts for nothing.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from valor_gpu.store.leases import machine, start_time

if TYPE_CHECKING:
    from valor_gpu.store.runs import Run

HOST = "127.0.0.1"
_LONGEST = 4096  # bytes of a file that is read
_UNREADABLE = (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError)
_PATIENCE = 0.2  # seconds for a connection within this machine


class _Serving(NamedTuple):
    """What the file of a server says: its process, the port, and when it began, seconds since 1970."""

    pid: int
    started: str
    machine: str
    port: int
    since: float

    def lives(self) -> bool:
        """Whether the server is there, as seen by a process of its own machine and container."""
        now = start_time(self.pid) if self.machine == machine() else None
        if now and self.started:
            return now == self.started
        return now is not None and _answers(self.port)  # the number alone may be another process's by now


@contextlib.contextmanager
def announced(store: Path, port: int) -> Iterator[Path]:
    """A context in which readers of a store know that this process serves it.

    Args:
        store: file of the store.
        port: on which it is served.

    Raises:
        OSError: the file cannot be written.
    """
    for path, known in _files(store):
        if known is not None and known.machine == machine() and not known.lives():
            path.unlink(missing_ok=True)
    place = store.resolve()
    path = place.with_name(f"{place.name}.{os.getpid()}.{port}.studio")
    path.unlink(missing_ok=True)
    found = _Serving(os.getpid(), start_time(os.getpid()) or "", machine(), port, time.time())
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(found._asdict(), file)
    try:
        yield path
    finally:
        if os.getpid() == found.pid:  # a forked process does not serve
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def studio_address(store: Path) -> str | None:
    """Returns the address of the Studio that serves a store, of several the newest; None where none does.

    Args:
        store: file of the store.
    """
    alive = [known for _, known in _files(store) if known is not None and known.lives()]
    return f"http://{HOST}:{max(alive, key=lambda each: each.since).port}" if alive else None


def run_address(run: Run) -> str | None:
    """Returns the address of a run's page while a Studio serves its store; else None.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     before = run_address(run)
        ...     with announced(store.path, 8765):
        ...         before, run_address(run) == f"http://127.0.0.1:8765/runs/{run.id}"
        (None, True)
    """
    address = studio_address(run._database.path)
    return None if address is None else f"{address}/runs/{run.id}"


def _files(store: Path) -> Iterator[tuple[Path, _Serving | None]]:
    """Files of servers beside a store, each with what it says; None where it is not one of this user's."""
    place = store.resolve()
    for name in glob.glob(f"{glob.escape(str(place))}.*.studio"):
        yield Path(name), _read(name)


def _read(name: str) -> _Serving | None:
    with contextlib.suppress(*_UNREADABLE), open(name, "rb") as file:
        if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
            return None
        kept = json.loads(file.read(_LONGEST))
        pid, port, since = int(kept["pid"]), int(kept["port"]), float(kept["since"])
        if pid > 0 and 0 < port < 65536:
            return _Serving(pid, str(kept["started"]), str(kept["machine"]), port, since)
    return None


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), _PATIENCE):
        return True
    return False
