"""Ratios of counts, and means that do not depend on the order of what they are of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

RATIOS: dict[str, Callable[[Integers, Integers, Integers], tuple[Integers, Integers]]] = {
    "Precision": lambda tp, fp, fn: (tp, tp + fp),
    "Recall": lambda tp, fp, fn: (tp, tp + fn),
    "F1": lambda tp, fp, fn: (2 * tp, 2 * tp + fp + fn),
}
"""Numerator and denominator of true positives, false positives and false negatives."""


def mean_of(values: Sequence[float]) -> float | None:
    """Returns the mean, rounded once; None without values.

    Args:
        values: finite numbers.

    Example:
        >>> mean_of([0.25, 0.75]), mean_of([])
        (0.5, None)
    """
    return math.fsum(values) / len(values) if values else None
