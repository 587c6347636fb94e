"""Means of arrays that come one by one. Imports no torch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


class RunningMean:
    """Computes the mean of what is not NaN, of arrays added one by one; keeps rounding errors of the sum (Neumaier).

    Args:
        shape: of the arrays.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._sum, self._lost, self._count = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64)

    def add(self, values: NDArray[np.float64] | np.float64) -> None:
        """Adds an array of the shape."""
        known = ~np.isnan(values)
        values = np.where(known, values, 0.0)
        total = self._sum + values
        larger = np.abs(self._sum) >= np.abs(values)
        self._lost += np.where(larger, (self._sum - total) + values, (values - total) + self._sum)
        self._sum = total
        self._count += known

    def value(self) -> NDArray[np.float64]:
        """Returns the mean; NaN where nothing was added."""
        mean: NDArray[np.float64] = np.where(
            self._count > 0, (self._sum + self._lost) / np.maximum(self._count, 1), math.nan
        )
        return mean
