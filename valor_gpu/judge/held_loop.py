"""Coroutines of users that hold the event loop: how long each does, and what is told of it. No torch."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
LONG = 1.0
"""Seconds for which one step of a coroutine may hold the event loop before the user is told."""


class LoopUse:
    """The time for which the coroutines of one function have held an event loop.

    Args:
        name: of the function, for the notice; empty for code of this library, which is not told about.

    Attributes:
        seconds: of all calls.
        notices: what is to be told, once.
    """

    def __init__(self, name: str) -> None:
        self.name, self.seconds = name, 0.0
        self.notices: deque[str] = deque()
        self._told = False

    def add(self, seconds: float) -> None:
        """Counts a step; a long one is told once."""
        self.seconds += seconds
        if seconds < LONG or self._told or not self.name:
            return
        self._told = True
        self.notices.append(
            f"{self.name} is a coroutine function but held the event loop for {seconds:.1f} s, in which no other row"
            " goes on and no limit of time is kept: make it a plain function, which runs in a thread, or put what"
            " takes time into await asyncio.to_thread(...)"
        )


def notices_of(asked: Any) -> list[str]:
    """Takes what is to be told of a judge or target that has a :class:`LoopUse`."""
    notices: deque[str] = getattr(getattr(asked, "loop_use", None), "notices", deque())
    return [notices.popleft() for _ in range(len(notices))]


class Steps(Generic[T]):
    """A coroutine that is awaited step by step, each of them timed by the clock of the running loop.

    Args:
        awaitable: to await, once.
        use: what its steps are counted by.

    Attributes:
        held: seconds for which it has held the loop.

    Example:
        >>> async def answer() -> str:
        ...     return "4"
        >>> async def ask() -> str:
        ...     return await Steps(answer(), LoopUse("answer"))
        >>> asyncio.run(ask())
        '4'
    """

    def __init__(self, awaitable: Awaitable[T], use: LoopUse) -> None:
        self._coroutine = awaitable if inspect.iscoroutine(awaitable) else _coroutine_of(awaitable)
        self._use, self.held = use, 0.0
        self._begun: float | None = None
        self._before = 0.0

    def task(self) -> asyncio.Future[T]:
        """A task of the running loop that awaits it."""
        return asyncio.ensure_future(_coroutine_of(self))

    def seconds(self) -> float:
        """Seconds since its first step, without those in which other calls of the function held the loop."""
        if self._begun is None:
            return 0.0
        others = self._use.seconds - self._before - self.held
        return asyncio.get_running_loop().time() - self._begun - others

    def __await__(self) -> Generator[Any, Any, T]:
        loop = asyncio.get_running_loop()
        self._begun, self._before = loop.time(), self._use.seconds
        error: BaseException | None = None
        while True:
            begun = loop.time()
            try:
                waits_for = self._coroutine.send(None) if error is None else self._coroutine.throw(error)
            except StopIteration as ended:
                found: T = ended.value
                return found
            finally:
                took = loop.time() - begun
                self.held += took
                self._use.add(took)
            error = None
            try:
                yield waits_for
            except BaseException as raised:  # a cancellation, say, which is the coroutine's to handle
                error = raised


async def is_done(task: asyncio.Future[Any], steps: Steps[Any], timeout: float | None) -> bool:
    """Waits until a task has had its time, in which that of other calls that hold the loop is not counted.

    Args:
        task: that awaits the steps.
        steps: of the call.
        timeout: seconds; None for any time.
    """
    left = timeout
    while True:
        done, _ = await asyncio.wait([task], timeout=left)
        if done or timeout is None:
            return bool(done)
        left = timeout - steps.seconds()
        if left <= 0.0:
            return False


async def _coroutine_of(awaitable: Awaitable[T]) -> T:
    return await awaitable
