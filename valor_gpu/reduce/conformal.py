"""Coverage and size of prediction sets, from counts. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.reduce.ratios import Ratio

Counts = NDArray[np.float64]


def size_values(sizes: Counts) -> dict[str, float]:
    """Computes the numbers of all prediction sets.

    Args:
        sizes: ``[2, S]``, samples by the size of their set, 0 to S - 1, and those among them whose set is right.

    Example:
        >>> size_values(np.array([[1, 2, 1], [0, 1, 1]]))
        {'coverage': 0.5, 'mean_set_size': 1.0, 'empty': 0.25, 'single': 0.5}
    """
    rows, right = sizes
    total = float(rows.sum())
    if not total:
        return dict.fromkeys(("coverage", "mean_set_size", "empty", "single"), math.nan)
    sums = (right.sum(), (rows * np.arange(len(rows))).sum(), rows[0], rows[1])
    return dict(zip(("coverage", "mean_set_size", "empty", "single"), (float(part) / total for part in sums)))


def rates(counts: Counts) -> Any:
    """The fractions ``[K]`` of counts ``[2, K]``, of all and of those that are right; NaN of none."""
    return Ratio(counts[1], counts[0]).value()


def strata(sizes: Counts, starts: Sequence[int] | None) -> Counts:
    """Counts ``[2, K]`` of groups of set sizes.

    Args:
        sizes: ``[2, S]``, by size.
        starts: the least size of each group, ascending from 0; None: each size is one.

    Example:
        >>> strata(np.array([[1, 2, 3, 4], [1, 1, 1, 1]]), (0, 2)).tolist()
        [[3, 7], [2, 2]]
    """
    if starts is None:
        return sizes
    held = [start for start in starts if start < sizes.shape[1]]
    found = np.zeros((2, len(starts)), sizes.dtype)
    found[:, : len(held)] = np.add.reduceat(sizes, held, axis=1)
    return found


def least(values: Any) -> float:
    """The least of values ``[K]`` that are no NaN; NaN of none."""
    known = values[~np.isnan(values)]
    return float(known.min()) if len(known) else math.nan
