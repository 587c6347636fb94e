"""Replies that need not be asked for: from the cache file, and from equal questions of the same run."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.protocol import Judgement, Reply, Usage, describe
from valor_gpu.judge.room import PLACE, Place

T = TypeVar("T")
RECENT = 256  # replies kept in memory for equal questions
LONGEST_RECENT = 100_000  # characters of a reply that is kept in memory
FAILURES = 3  # failures in a row after which a broken file is left alone
UNREADABLE: Any = object()  # what stands for a reply that the file may have but does not give
LEASE = 15.0  # seconds that a question belongs to the process that asks it, unless renewed
RENEWAL = 4.0  # seconds between renewals
FIRST_LOOK, LONGEST_LOOK = 0.02, 0.3  # seconds between looks for the reply that another process asks for
SOON = 2.0  # seconds in which that reply may come; a row that waits for longer makes room for others
LONGEST_PAUSE = 3.0  # seconds between looks from then on, since many rows may wait


@dataclass(eq=False)
class _Asking:
    """A question that is being asked.

    Attributes:
        done: set at its end.
        waits: whether it waits for another try.
        followers: places of the rows that wait for its reply.
    """

    done: asyncio.Future[None]
    waits: bool = False
    followers: list[Place] = field(default_factory=list)


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
        self._asking: dict[bytes, _Asking] = {}
        self._given_up: OrderedDict[bytes, Judgement] = OrderedDict()
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
            await self._follow(other, PLACE.get())
        asking = self._asking[key] = _Asking(asyncio.get_running_loop().create_future())
        try:
            yield
        finally:
            del self._asking[key]
            asking.done.set_result(None)

    async def _follow(self, other: _Asking, place: Place | None) -> None:
        """Waits for the end of an equal question; while that waits for another try, the row makes room for others."""
        if place is None:
            await asyncio.wait([other.done])
            return
        other.followers.append(place)
        if other.waits:
            place.hold()
        try:
            await asyncio.wait([other.done])
        finally:
            other.followers.remove(place)
            if other.waits:
                place.resume()

    @contextmanager
    def held(self, key: bytes) -> Iterator[None]:
        """Lets the rows that wait for an equal question make room for others within ``with``."""
        asking = self._asking.get(key)
        if asking is None:
            yield
            return
        asking.waits = True
        for place in asking.followers:
            place.hold()
        try:
            yield
        finally:
            asking.waits = False
            for place in asking.followers:
                place.resume()

    def give_up(self, key: bytes, judgement: Judgement) -> None:
        """Remembers a question that failed again and again: equal ones are not asked."""
        self._given_up[key] = judgement
        while len(self._given_up) > RECENT:
            self._given_up.popitem(last=False)

    def given_up(self, key: bytes) -> Judgement | None:
        """Returns the judgement of an equal question that was given up in this run; None where there was none."""
        failed = self._given_up.get(key)
        return None if failed is None else replace(failed, attempts=0, usage=Usage(), seconds=0.0)

    async def find(
        self, key: bytes, read: Callable[[Reply], Judgement], stopped: Callable[[], bool]
    ) -> Judgement | None:
        """Judgement by a reply that is known already; None when the caller is to ask for one.

        Waits while another process asks the same question, which it may do at the end of its run. A known reply that
        ``read`` makes no value of counts for nothing.
        """
        with ExitStack() as held:
            return await self._found(key, read, stopped, held)

    async def _found(
        self, key: bytes, read: Callable[[Reply], Judgement], stopped: Callable[[], bool], held: ExitStack
    ) -> Judgement | None:
        pause, longest, unreadable = FIRST_LOOK, LONGEST_LOOK, False
        clock, place = asyncio.get_running_loop().time, PLACE.get()
        late = clock() + SOON
        while True:
            reply = self._recent.get(key) or self._try("read", lambda cache: cache.get(key), UNREADABLE)
            if isinstance(reply, Reply) and (judgement := read(reply)).ok:
                return replace(judgement, cached=True)
            # A file that was busy may give the reply at the second look; one that never does must not be waited for.
            again = isinstance(reply, Reply) or (reply is UNREADABLE and unreadable)
            if self._lease(key, again) or stopped():
                return None
            unreadable = reply is UNREADABLE
            if clock() >= late and longest != LONGEST_PAUSE:
                longest = LONGEST_PAUSE
                held.enter_context(nullcontext() if place is None else place.held())
            await asyncio.sleep(pause)
            pause = min(longest, 1.5 * pause)

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
