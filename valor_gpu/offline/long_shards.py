"""Tells in the log which shards take long, and ends processes whose shard takes longer than it may. No torch.

A shard may never end: its file system may hang, or a metric may. What waits for it says so from time to time; only
``shard_timeout`` ends it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from valor_gpu.offline.records import FAILED, Record
from valor_gpu.offline.shards import Shard

_LOG = logging.getLogger("valor_gpu.offline")
FIRST = 60.0
"""Seconds of a shard before it is told of for the first time."""

_TIMES = 3  # as long as the longest shard before it: others take a minute and more as well
_GRACE = 30.0  # seconds beyond a limit after which a process ends by itself, where nothing has ended it
_STANDARD_ERROR = 2


class LongShards:
    """Logs shards that are at work for a minute and for three times the longest before, then each time twice as long.

    Args:
        limit: seconds that a shard may take; None: there is none.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit, self._longest = limit, 0.0
        self._due: dict[str, float] = {}

    def ended(self, seconds: float) -> None:
        """Counts how long a shard took."""
        self._longest = max(self._longest, seconds)

    def look(self, at_work: Mapping[str, float]) -> float:
        """Logs what is to be told, and says in how many seconds the next look is due.

        Args:
            at_work: shards by name, and since how many seconds they are at work.
        """
        first = max(FIRST, _TIMES * self._longest)
        self._due = {name: self._due.get(name, first) for name in at_work}
        for name, seconds in at_work.items():
            if seconds >= self._due[name]:
                _LOG.warning("%s has been at work for %.0f s and has not ended: %s", name, seconds, self._end())
                self._due[name] = 2 * seconds
        return max(min((self._due[name] - seconds for name, seconds in at_work.items()), default=FIRST), 0.0)

    def _end(self) -> str:
        if self._limit is None:
            return "shard_timeout would end such shards"
        return f"it is ended after shard_timeout, {self._limit:g} s"


@contextlib.contextmanager
def watched(looks: LongShards, at_work: Callable[[], Mapping[str, float]]) -> Iterator[None]:
    """Looks at shards from a thread of its own while the body runs."""
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(min(looks.look(at_work()), FIRST)):
            pass

    thread = threading.Thread(target=look, name="valor_gpu-long-shards", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class AtWork:
    """The shard that this process has, for :func:`watched`."""

    def __init__(self) -> None:
        self._now: tuple[str, float] | None = None

    def __call__(self) -> Mapping[str, float]:
        """Its name, and since how many seconds it is at work."""
        now = self._now
        return {} if now is None else {now[0]: time.monotonic() - now[1]}

    @contextlib.contextmanager
    def on(self, shard: Shard) -> Iterator[None]:
        """While the body works on a shard."""
        self._now = shard.name, time.monotonic()
        try:
            yield
        finally:
            self._now = None


@contextlib.contextmanager
def ended_by_itself(limit: float | None) -> Iterator[None]:
    """Ends this process where the body takes half a minute longer than the limit, with its stack on standard error.

    That is for processes whose driver is gone. No lock of Python's is needed for it, so that it also ends a process
    that hangs in native code.
    """
    if limit is None:
        yield
        return
    faulthandler.dump_traceback_later(limit + _GRACE, exit=True, file=_STANDARD_ERROR)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def late_record(shard: Shard, limit: float | None) -> Record:
    """What is said of a shard that took longer than it may."""
    error = f"{shard.name} took longer than shard_timeout, {limit or 0:g} s, and was ended: the next run tries it again"
    return Record(shard.name, FAILED, [], error=error, seconds=limit or 0.0)
