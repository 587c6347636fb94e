"""An event loop in a thread of its own, for callers that may have a loop already, and Ctrl-C while they wait for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 5.0  # seconds that cancelled requests get to end
# Seconds that the main thread waits at a time. A signal does not wake it if it arrives just before the wait begins, or
# if another thread receives it: a wait without a limit would miss Ctrl-C.
WAKE = 0.25


class LoopThread:
    """An event loop in a thread of its own, in which a session (a scheduler, say) serves one run.

    The caller's thread pulls the rows and hands on results, and requests go on meanwhile, also where the caller's
    thread runs an event loop already, as in notebooks.

    Args:
        session: entered in the loop at the beginning, left in it at the end.
    """

    def __init__(self, session: AbstractAsyncContextManager[Any]) -> None:
        self._session = session
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, daemon=True, name="valor_gpu judge run")
        self._is_blocked = False

    def _work(self) -> None:
        while True:
            with contextlib.suppress(KeyboardInterrupt, SystemExit):  # the task that raised it has reported it
                self.loop.run_forever()
                break
        if left := asyncio.all_tasks(self.loop):  # of a parser or a judge that kept the loop from ending them in time
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(left, timeout=PATIENCE))
        self.loop.close()

    def __enter__(self) -> LoopThread:
        self._thread.start()
        try:
            self.wait(self._session.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.is_finalizing():  # the interpreter has stopped the thread: nothing in it ends any more
            return
        try:
            self.end(self._session.__aexit__(None, None, None))
            self.end(self.loop.shutdown_asyncgens())
        finally:
            self._end()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of ``work`` in the loop."""
        return result_of(asyncio.run_coroutine_threadsafe(work, self.loop))

    def end(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs ``work`` in the loop, unless a parser or a judge that does not return keeps the loop from it."""
        if self._is_blocked:
            work.close()
            return
        try:
            asyncio.run_coroutine_threadsafe(work, self.loop).result(6 * PATIENCE)
        except concurrent.futures.TimeoutError:
            self._is_blocked = True

    def _end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)


def result_of(future: concurrent.futures.Future[T], longest: float = math.inf) -> T:
    """Returns the result of a future; Ctrl-C ends the wait.

    Args:
        future: runs in another thread.
        longest: seconds to wait.

    Raises:
        concurrent.futures.TimeoutError: it took longer.
    """
    end = time.monotonic() + longest
    while not concurrent.futures.wait([future], WAKE).done:
        if time.monotonic() >= end:
            raise concurrent.futures.TimeoutError
    return future.result()


@contextmanager
def interrupts_here() -> Iterator[None]:
    """Lets Ctrl-C break into a wait of the main thread although an event loop of this thread has taken it over."""
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(handler) or handler is signal.default_int_handler or asyncio._get_running_loop() is None:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def cancellations() -> tuple[Any, int]:
    """The task that runs in this thread, if any, and how often it has been cancelled.

    While the caller works nothing else runs in the thread's event loop, so that only Ctrl-C can have cancelled it:
    ``asyncio.run`` makes a cancellation of it, which would wait for the end of the run.
    """
    task = None if asyncio._get_running_loop() is None else asyncio.current_task()
    return task, task.cancelling() if task is not None and sys.version_info >= (3, 11) else 0
