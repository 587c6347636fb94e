"""Fleiss' kappa from how many raters chose each category of each row: NumPy, exact sums, float64 out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Kappa(NamedTuple):
    """Fleiss' kappa and its parts, NaN where they do not exist.

    Attributes:
        kappa: ``(observed - expected) / (1 - expected)``.
        observed: mean over rows of the fraction of pairs of raters that agree.
        expected: sum of the squares of ``shares``.
        shares: of each category, the mean over rows of the fraction of raters that chose it.
    """

    kappa: float
    observed: float
    expected: float
    shares: list[float]


def sums_of_rows(counts: Ints, raters: Sequence[int]) -> Ints:
    """Returns what kappa needs of each row, int64 ``[N, M]``, so that sums over rows are exact in any order.

    Args:
        counts: ``[N, C]``, raters of each row that chose each category.
        raters: the different numbers of raters of a row, ascending, without 0.

    Returns:
        For each number of raters C + 2 columns, 0 in the rows of other numbers: the counts, ordered pairs of raters
        that agree, and 1.

    Example:
        >>> sums_of_rows(np.array([[3, 0], [1, 1]]), [2, 3]).tolist()
        [[0, 0, 0, 0, 3, 0, 6, 1], [1, 1, 0, 1, 0, 0, 0, 0]]
    """
    counts = counts.astype(np.int64)
    each = np.concatenate((counts, (counts * (counts - 1)).sum(1, keepdims=True), np.ones((len(counts), 1), int)), 1)
    held = counts.sum(1)
    blocks = [np.where((held == number)[:, None], each, 0) for number in raters]
    return np.concatenate(blocks, 1) if blocks else np.zeros((len(counts), 0), np.int64)


def fleiss_kappa(sums: Sequence[int], raters: Sequence[int], categories: int) -> Kappa:
    """Computes kappa from sums over rows.

    Rows may have different numbers of raters: each row counts alike. Rows of one rater have a part in the shares, none
    in the agreement.

    Args:
        sums: ``[M]`` of :func:`sums_of_rows`.
        raters: as there.
        categories: C.

    Source: Fleiss, Measuring nominal scale agreement among many raters (1971); with different numbers of raters: Gwet,
    Handbook of inter-rater reliability (2014).

    Example:
        >>> round(fleiss_kappa([7, 5, 14, 4], [3], 2).kappa, 6)
        0.142857
    """
    width = categories + 2
    rows = compared = 0
    observed, shares = 0.0, [0.0] * categories
    for place, number in enumerate(raters):
        *counts, pairs, held = sums[place * width : (place + 1) * width]
        rows += held
        shares = [share + count / number for share, count in zip(shares, counts)]
        if number > 1:
            compared += held
            observed += pairs / (number * (number - 1))
    if not compared:
        return Kappa(math.nan, math.nan, math.nan, [share / rows if rows else math.nan for share in shares])
    observed, shares = observed / compared, [share / rows for share in shares]
    expected = math.fsum(share * share for share in shares)
    certain = sum(share > 0 for share in shares) == 1
    return Kappa(math.nan if certain else (observed - expected) / (1 - expected), observed, expected, shares)
