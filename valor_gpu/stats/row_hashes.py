"""Hashes of the rows of a table, by which ground truths of two models are told to be the same. No torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SEED = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def row_hashes(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Computes a hash of 64 bits of each row.

    The bits depend on the values alone: not on dtype of integers, memory layout or other rows.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), the finaliser.

    Args:
        columns: integers, bools or floats ``[N, ...]``, of one N. Of floats, 0 and -0 are the same, and so are all NaN.

    Returns:
        int64 ``[N]``.

    Example:
        >>> first, second, third = row_hashes(np.array([[1, 2], [1, 2], [2, 1]]), np.array([0.0, -0.0, 0.0]))
        >>> bool(first == second), bool(first == third)
        (True, False)
    """
    found = np.full(len(columns[0]), _SEED, np.uint64)
    for table in columns:
        for column in table.reshape(len(table), math.prod(table.shape[1:])).T:
            found = _mixed(found ^ _words(column))
    return found.view(np.int64)


def _words(column: NDArray[Any]) -> NDArray[np.uint64]:
    if column.dtype.kind != "f":
        return column.astype(np.int64).view(np.uint64)
    numbers = np.where(np.isnan(column), math.nan, column.astype(np.float64)) + 0.0
    return numbers.view(np.uint64)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = words + _SEED
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS):
        words = (words ^ (words >> shift)) * multiplier
    return words ^ (words >> _SHIFTS[2])
