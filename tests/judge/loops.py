"""Event loops with a clock of their own, so that minutes of waiting take no time and go the same way every time."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from valor_gpu.judge.scheduler import Scheduler

T = TypeVar("T")


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


def run(
    scheduler: Scheduler,
    main: Callable[[], Awaitable[T]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> T:
    """Result of ``main()`` while the scheduler serves a loop of its own."""

    async def body() -> T:
        async with scheduler:
            return await main()

    loop = loop_factory()
    try:
        return loop.run_until_complete(body())
    finally:
        loop.close()


def run_all(
    scheduler: Scheduler,
    jobs: Iterable[Callable[[], Awaitable[object]]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> float:
    """Runs all jobs at the same time and returns the seconds that they took by the clock of the loop."""

    async def body() -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await asyncio.gather(*(job() for job in jobs))
        return loop.time() - begun

    return run(scheduler, body, loop_factory)
