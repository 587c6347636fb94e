"""Seconds of the calls of a judge or a target: median, 95th percentile and longest. No torch."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

REQUEST_SECONDS = "request_seconds"
"""Key of the usage of a score: seconds of each request that got a reply."""
_PERCENTS = (50, 95)


class Latency:
    """Collects the seconds of calls, 8 bytes for each.

    Args:
        seconds: of the first calls.

    Example:
        >>> Latency([0.5, 2.0, 1.0]).summary()
        {'n': 3, 'p50': 1.0, 'p95': 2.0, 'max': 2.0}
    """

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self._seconds = array("d", seconds)

    def __iadd__(self, other: Latency) -> Latency:
        self._seconds.extend(other._seconds)
        return self

    def add(self, seconds: Any) -> None:
        """Adds a call; a value that is no time counts for nothing."""
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if is_number and math.isfinite(seconds) and seconds >= 0.0:
            self._seconds.append(seconds)

    def add_usage(self, usage: Mapping[str, Any]) -> None:
        """Adds the calls of a score, whose usage has their seconds; one of an older version has none."""
        kept = usage.get(REQUEST_SECONDS)
        for each in kept if isinstance(kept, (list, tuple)) else ():
            self.add(each)

    def summary(self) -> dict[str, float] | None:
        """Returns ``n`` calls, and in seconds ``p50``, ``p95`` and ``max``; None without a call.

        A percentile is the least of the values that at least so many percent of all values do not exceed, as of
        ``numpy.percentile`` by the method ``inverted_cdf``. It is exact.

        Source: R. J. Hyndman and Y. Fan, "Sample Quantiles in Statistical Packages" (1996), definition 1.
        """
        n = len(self._seconds)
        if not n:
            return None
        import numpy as np  # which the words of a finished run need not

        places = [-(-n * percent // 100) - 1 for percent in _PERCENTS]
        found = np.partition(np.array(self._seconds), [*places, n - 1])
        named = {f"p{percent}": float(found[place]) for percent, place in zip(_PERCENTS, places)}
        return {"n": n, **named, "max": float(found[n - 1])}


def latency_in_words(latency: Mapping[str, Any]) -> list[str]:
    """Returns the seconds of the calls of judge and target, each as a text.

    Args:
        latency: ``latency`` of a summary or of the progress of a run; what is not known is left out.

    Example:
        >>> latency_in_words({"judge": {"n": 1200, "p50": 0.42, "p95": 1.3, "max": 4.0}, "target": None})
        ['judge median 420 ms, 95% within 1.3 s, longest 4 s, of 1,200 calls']
    """
    found = []
    for name, each in latency.items():
        if each:
            calls = "1 call" if each["n"] == 1 else f"{each['n']:,} calls"
            median, most, longest = (_time(each[key]) for key in ("p50", "p95", "max"))
            found.append(f"{name} median {median}, 95% within {most}, longest {longest}, of {calls}")
    return found


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
