"""Calls that may never return, one after the other in a thread; one that takes too long is left behind. No torch."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
T = TypeVar("T")


class Worker(Generic[A, T]):
    """A thread that makes calls until one of them takes too long.

    Args:
        call: does not raise.
        arguments: of the calls.
        timeout: seconds of a call.
    """

    def __init__(self, call: Callable[[A], T], arguments: Sequence[A], timeout: float) -> None:
        self._call, self._arguments, self._timeout = call, arguments, timeout
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._found: list[T] = []
        self._left_behind = False
        self._since = time.monotonic()
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._work,), daemon=True, name="valor_gpu evaluator").start()

    def _work(self) -> None:
        try:
            for argument in self._arguments:
                value = self._call(argument)
                with self._lock:
                    if self._left_behind:
                        return
                    self._found.append(value)
                    self._since = time.monotonic()
        finally:
            self._ended.set()

    def results(self) -> list[T]:
        """What the calls gave, up to the first one that took too long; that one goes on, and nobody waits for it."""
        left = self._timeout
        while not self._ended.wait(left):
            with self._lock:
                left = self._since + self._timeout - time.monotonic()
                if left <= 0 and not self._ended.is_set():
                    self._left_behind = True
                    break
            left = max(left, 0.0)
        return self._found
