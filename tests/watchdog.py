"""Ends a process whose native code does not return: pytest-timeout interrupts Python alone."""

from __future__ import annotations

import faulthandler
import math
import os
import time

PATIENCE = 60
"""Seconds beyond the time limit of a test."""


class Watchdog:
    """Ends the process, with the stacks of all threads, when a test outlasts its time limit by far.

    The timer of faulthandler needs no lock of Python. It is off while the process forks: a child that arms a timer
    which was on would wait for ever.

    Args:
        stderr: descriptor for the stacks.
    """

    def __init__(self, stderr: int) -> None:
        self._stderr, self._end = stderr, math.inf
        os.register_at_fork(before=faulthandler.cancel_dump_traceback_later, after_in_parent=self._arm)

    def expect(self, seconds: float) -> None:
        """Begins to wait for the end of a test; ``inf`` ends the wait."""
        self._end = time.monotonic() + seconds + PATIENCE
        self._arm()

    def _arm(self) -> None:
        if self._end == math.inf:
            faulthandler.cancel_dump_traceback_later()
        else:
            left = max(self._end - time.monotonic(), 0.1)
            faulthandler.dump_traceback_later(left, exit=True, file=self._stderr)
