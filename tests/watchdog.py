"""Ends a process whose native code does not return: pytest-timeout interrupts Python alone."""

from __future__ import annotations

import faulthandler
import math
import os
import threading
import time

PATIENCE = 60
"""Seconds beyond the time limit of a test."""


class Watchdog:
    """A thread that ends the process, with the stacks of all threads, when a test outlasts its time limit by far.

    faulthandler has one as well, but a process that forks while that is armed hangs when the child arms it.

    Args:
        stderr: descriptor for the stacks.
    """

    def __init__(self, stderr: int) -> None:
        self._stderr, self._end = stderr, math.inf
        threading.Thread(target=self._work, name="watchdog", daemon=True).start()

    def _work(self) -> None:
        while time.monotonic() < self._end:
            time.sleep(1)
        os.write(self._stderr, b"\na test does not end and cannot be interrupted\n")
        faulthandler.dump_traceback(self._stderr)
        os._exit(1)

    def expect(self, seconds: float) -> None:
        """Begins to wait for the end of a test; ``inf`` ends the wait."""
        self._end = time.monotonic() + seconds + PATIENCE
