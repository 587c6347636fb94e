"""Replies that need not be asked for: from the cache file, and from equal questions of the same run."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.protocol import Judgement, Reply, describe

T = TypeVar("T")
RECENT = 256  # replies kept in memory for equal questions
LONGEST_RECENT = 100_000  # characters of a reply that is kept in memory
FAILURES = 3  # failures in a row after which a broken file is left alone
UNREADABLE: Any = object()  # what stands for a reply that the file may have but does not give
LEASE = 15.0  # seconds that a question belongs to the process that asks it, unless renewed
RENEWAL = 4.0  # seconds between renewals
FIRST_LOOK, LONGEST_LOOK = 0.02, 0.3  # seconds between looks for the reply that another process asks for


class Replies:
    """The replies that one run can reuse.

    A cache that fails (a full disk, a lock, a damaged file) costs the keeping of replies and never a judgement: the
    first failure is remembered in ``error``, and after three in a row the file is no longer written, or read.

    Args:
        cache: the file; None to share replies within the run alone.
    """

    def __init__(self, cache: JudgeCache | None) -> None:
        self._cache = cache
        self._owner = f"{JudgeCache.process()} {os.urandom(8).hex()}"
        self._recent: OrderedDict[bytes, Reply] = OrderedDict()
        self._asking: dict[bytes, asyncio.Future[None]] = {}
        self._failures = {"read": 0, "written": 0}
        self._renewal: asyncio.Task[None] | None = None
        self.error: str | None = None

    def start(self) -> None:
        """Begins to renew the leases of this run, which tell other processes what is being asked."""
        if self._cache is not None:
            self._renewal = asyncio.ensure_future(self._renew())

    async def stop(self) -> None:
        """Gives all leases back."""
        if self._renewal is not None and self._cache is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
            self._try("written", lambda cache: cache.release(self._owner), None)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL)
            self._try("written", lambda cache: cache.renew(self._owner, LEASE), None)

    @asynccontextmanager
    async def only_one(self, key: bytes) -> AsyncIterator[None]:
        """Waits until no equal question of this run is being asked, and holds up later ones."""
        while (other := self._asking.get(key)) is not None:
            await asyncio.wait([other])
        done = self._asking[key] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._asking[key]
            done.set_result(None)

    async def find(
        self, key: bytes, read: Callable[[Reply], Judgement], stopped: Callable[[], bool]
    ) -> Judgement | None:
        """Judgement by a reply that is known already; None when the caller is to ask for one.

        Waits while another process asks the same question. A known reply that ``read`` makes no value of counts for
        nothing.
        """
        pause, unreadable = FIRST_LOOK, False
        while True:
            reply = self._recent.get(key) or self._try("read", lambda cache: cache.get(key), UNREADABLE)
            if isinstance(reply, Reply) and (judgement := read(reply)).ok:
                return replace(judgement, cached=True)
            # A file that was busy may give the reply at the second look; one that never does must not be waited for.
            again = isinstance(reply, Reply) or (reply is UNREADABLE and unreadable)
            if self._lease(key, again) or stopped():
                return None
            unreadable = reply is UNREADABLE
            await asyncio.sleep(pause)
            pause = min(LONGEST_LOOK, 1.5 * pause)

    def _lease(self, key: bytes, again: bool) -> bool:
        return self._try("written", lambda cache: cache.lease(key, self._owner, LEASE, again), True)

    def keep(self, key: bytes, reply: Reply) -> None:
        """Keeps a reply whose value was accepted."""
        if len(reply.text) <= LONGEST_RECENT:
            self._recent[key] = reply
            while len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        self._try("written", lambda cache: cache.put(key, reply), None)

    def release(self, key: bytes) -> None:
        """Lets other processes ask a question that got no reply here."""
        self._try("written", lambda cache: cache.release(self._owner, key), None)

    def forget(self, key: bytes) -> None:
        """Drops a reply that turned out to give no value."""
        self._recent.pop(key, None)
        self._try("written", lambda cache: cache.discard(key), None)

    def _try(self, kind: str, use: Callable[[JudgeCache], T], otherwise: T) -> T:
        if self._cache is None or self._failures[kind] >= FAILURES:
            return otherwise
        try:
            found = use(self._cache)
        except Exception as error:  # a broken file costs the keeping, whatever it raises
            self._failures[kind] += 1
            if self.error is None:
                self.error = f"{self._cache.path} could not be {kind}: {describe(error)}"
            return otherwise
        self._failures[kind] = 0
        return found
