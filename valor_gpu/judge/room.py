"""Places of the rows under way: a row that waits for another try makes room for the next one. No torch."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST_HELD = 1000
"""Rows that may wait for another try beside those of the window."""
MOST_HELD_SIZE = 10_000_000
"""Characters that the rows that wait for another try may have together."""


class Room:
    """Number of rows that may be under way.

    A window of rows keeps the judge busy. Rows that wait for another try are not counted in it, up to
    :data:`MOST_HELD` rows and :data:`MOST_HELD_SIZE` characters. While the server answers nobody they are fewer, since
    new rows would fail, too.

    Args:
        window: rows that keep the judge busy.
        most: gives the number of rows that may wait now beside those of the window, at most :data:`MOST_HELD`.
        changed: called in the event loop when a row has begun to wait.

    Attributes:
        under_way: rows that have begun and not ended.
        held: rows of these that wait for another try.
    """

    def __init__(
        self, window: int, most: Callable[[], int] = lambda: MOST_HELD, changed: Callable[[], object] = lambda: None
    ) -> None:
        self.window, self.under_way, self.held, self.held_size = window, 0, 0, 0
        self._most, self.changed = most, changed

    def free(self) -> int:
        """Returns the number of rows that may begin now; 0 or less when there is no room."""
        spared = 0 if self.held_size > MOST_HELD_SIZE else min(self.held, self._most())
        return self.window - self.under_way + spared

    def batch(self) -> int:
        """Returns the number of rows to begin at once: half a window or more, fewer where all others wait; else 0."""
        free = self.free()
        return free if free >= (self.window + 1) // 2 or (free > 0 and self.held >= self.under_way) else 0


class Place:
    """Place of one row, whose questions and target wait for other tries one by one, or at the same time.

    Args:
        room: that counts it.
        size: characters of the row.
    """

    def __init__(self, room: Room, size: int = 0) -> None:
        self._room, self._size, self._waits = room, size, 0
        self.slot: Slot | None = None

    def hold(self) -> None:
        """Makes room for another row while this one waits."""
        self._waits += 1
        if self._waits == 1:
            self._room.held += 1
            self._room.held_size += self._size
            if self.slot is not None:
                self.slot.leave()
            self._room.changed()

    def resume(self) -> None:
        """Ends a wait."""
        self._waits -= 1
        if not self._waits:
            self._room.held -= 1
            self._room.held_size -= self._size

    @contextmanager
    def held(self) -> Iterator[None]:
        """Makes room for another row within ``with``."""
        self.hold()
        try:
            yield
        finally:
            self.resume()

    async def regain(self) -> None:
        """Waits for the slot that the row gave back when it began to wait."""
        if self.slot is not None:
            await self.slot.take()


class Slot:
    """A slot of a semaphore that can be left and taken again.

    Args:
        slots: that have it.
    """

    def __init__(self, slots: Semaphore) -> None:
        self._slots, self._is_taken = slots, False

    async def take(self) -> None:
        """Waits for the slot, unless it is taken already."""
        if not self._is_taken:
            await self._slots.acquire()
            self._is_taken = True

    def leave(self) -> None:
        """Gives the slot back, unless that was done."""
        if self._is_taken:
            self._is_taken = False
            self._slots.release()


PLACE: ContextVar[Place | None] = ContextVar("PLACE", default=None)
"""Place of the row whose question is asked, where rows are counted."""
