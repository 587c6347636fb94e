"""Says before most of the work how long intervals take, and how much memory."""

from __future__ import annotations

import logging
import os
import sys
import time

from valor_gpu.progress import CLEAR

SECONDS, MEGABYTES = 1.0, 100.0
"""What takes less is not said."""

_LOG = logging.getLogger(__name__)
_WORDS = {"multinomial": "replicates", "half": "half samples", "delete": "jackknife samples", "swap": "permutations"}


class Forecast:
    """Times the first portion of draws, and says how long all of them take.

    Args:
        kind: of the draws.
        count: how many there are.
        units: how many units are drawn, in words.
    """

    def __init__(self, kind: str, count: int, units: str) -> None:
        self._what, self._count = f"{count:,} {_WORDS[kind]} of {units}", count
        self._start: float | None = time.perf_counter()

    def memory(self, size: int) -> None:
        """Says how much memory the draws take.

        Args:
            size: in bytes.
        """
        if size > MEGABYTES * 1e6:
            say(f"{self._what} take about {_size(size)} of memory")

    def after(self, done: int) -> None:
        """Says how long all take, from the time of the first ones; only the first call does.

        Args:
            done: how many the first portion had.
        """
        if self._start is not None:
            seconds = (time.perf_counter() - self._start) / done * self._count
            self._start = None
            if seconds > SECONDS:
                say(f"{self._what} take about {_time(seconds)}")


def say(text: str) -> None:
    """Tells the logger of this module at INFO, or a terminal where no logging is set up; rank 0 alone."""
    if os.environ.get("RANK", "0") != "0":
        return
    if _LOG.hasHandlers():
        _LOG.info(text)
    elif sys.stderr is not None and sys.stderr.isatty():
        print(f"{CLEAR}{text}", file=sys.stderr)  # a line of progress may stand there


def _time(seconds: float) -> str:
    """A time in two digits.

    Example:
        >>> _time(1.26), _time(47), _time(431)
        ('1.3 s', '47 s', '7 min')
    """
    if seconds >= 120:
        return f"{seconds / 60:,.0f} min"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _size(size: int) -> str:
    """A size in MB, or in GB from 1,000 MB on.

    Example:
        >>> _size(123_456_789), _size(5_000_000_000)
        ('123 MB', '5.0 GB')
    """
    return f"{size / 1e6:.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"
