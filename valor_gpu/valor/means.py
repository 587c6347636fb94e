"""Means that do not depend on the order of what they are of."""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean_of(values: Sequence[float]) -> float | None:
    """Their mean, rounded once; None without values.

    Args:
        values: finite numbers.

    Example:
        >>> mean_of([0.25, 0.75]), mean_of([])
        (0.5, None)
    """
    return math.fsum(values) / len(values) if values else None
