"""Measures how the work of a call grows with the size of its input, where no steps can be counted."""

from __future__ import annotations

import time
from collections.abc import Callable

FACTOR = 8
"""By how much the larger of two inputs exceeds the smaller one."""


def growth(call: Callable[[int], object], size: int) -> float:
    """Returns the processor time of ``call(FACTOR * size)`` divided by that of ``call(size)``, the least of three each.

    Work in proportion to the size gives about :data:`FACTOR`, work in proportion to its square 64. The ratio does not
    depend on the machine or on its load.
    """
    small, large = (min(_seconds(call, each) for _ in range(3)) for each in (size, FACTOR * size))
    return large / small


def _seconds(call: Callable[[int], object], size: int) -> float:
    begin = time.process_time()
    call(size)
    return time.process_time() - begin
