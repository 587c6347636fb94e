"""Means over the samples that exist."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ABSENT = -1.0
"""What COCO's arrays hold where no ground truth counts."""


def mean_present_rows(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of every row of ``[K, N]``, NaN for a row of absent values; a row is absent as a whole or not at all.

    Example:
        >>> mean_present_rows(np.array([[0.5, 1.0], [-1.0, -1.0]]))
        array([0.75,  nan])
    """
    if values.shape[1] == 0:
        return np.full(values.shape[0], np.nan)
    means: NDArray[Any] = np.ascontiguousarray(values).mean(axis=1)
    return np.where(values[:, 0] > ABSENT, means, np.nan)
