"""Ranks of scores, which two models share whatever the scales of their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def mid_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the mid-ranks of numbers as fractions of their count, above 0 and below 1.

    Equal numbers share the mean of their ranks. No increasing map of the numbers changes a bit.

    Args:
        values: ``[N]`` without NaN.

    Returns:
        float64 ``[N]``: ``(rank - 1/2) / N``, ranks from 1.

    Example:
        >>> mid_ranks(np.array([0.2, 0.9, 0.2, 0.7])).tolist()
        [0.25, 0.875, 0.25, 0.625]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - counts / 2
    found: NDArray[np.float64] = (ranks / max(len(values), 1))[inverse.reshape(-1)]
    return found
