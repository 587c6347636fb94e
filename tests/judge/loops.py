"""Event loops with a clock of their own, so that minutes of waiting take no time and go the same way every time."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any


class _Selector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    loop: Any = None

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            return super().select(0.01)
        return self.loop.idle(timeout, super().select)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only when everybody sleeps, and then at once."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def idle(self, timeout: float, select: Any) -> Any:
        self.now += timeout
        return []


class FastLoop(VirtualLoop):
    """Real time, ``factor`` times as fast: for limits measured at a real server."""

    factor = 30.0

    def time(self) -> float:
        return time.monotonic() * self.factor

    def idle(self, timeout: float, select: Any) -> Any:
        return select(timeout / self.factor)
