"""p-values of several comparisons at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valor_gpu.errors import InputError
from valor_gpu.stats.given import float_rows


def adjust_holm(p_values: ArrayLike) -> list[float]:
    """Adjusts p-values so that all comparisons together hold one error rate (Holm).

    A comparison is significant at level a, whatever the others are, where its adjusted value is at most a.

    Args:
        p_values: numbers in [0, 1]; NaN stands for a comparison that was not made and counts for nothing.

    Returns:
        Adjusted values in the order given; NaN stays NaN.

    Raises:
        InputError: a number outside [0, 1], or what is no row of numbers.

    Source: Holm, "A simple sequentially rejective multiple test procedure" (1979).

    Example:
        >>> adjust_holm([0.01, 0.04, float("nan"), 0.03])
        [0.03, 0.06, nan, 0.06]
    """
    values, order = _ordered(p_values)
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full(len(values), np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted.tolist()  # type: ignore[no-any-return]


def adjust_benjamini_yekutieli(p_values: ArrayLike) -> list[float]:
    """Adjusts p-values so that the false discovery rate holds whatever the comparisons have to do with one another.

    Where each comparison whose adjusted value is at most a counts as significant, the expected share of those that are
    so by chance is at most a.

    Args:
        p_values: numbers in [0, 1]; NaN stands for a comparison that was not made and counts for nothing.

    Returns:
        Adjusted values in the order given; NaN stays NaN.

    Raises:
        InputError: a number outside [0, 1], or what is no row of numbers.

    Source: Benjamini and Yekutieli, "The control of the false discovery rate in multiple testing under dependency"
    (2001), theorem 1.3.

    Example:
        >>> [round(value, 6) for value in adjust_benjamini_yekutieli([0.01, 0.04, float("nan"), 0.03])]
        [0.055, 0.073333, nan, 0.073333]
    """
    values, order = _ordered(p_values)
    ranks = np.arange(1, len(order) + 1)
    scaled = values[order] * (len(order) * np.sum(1 / ranks)) / ranks
    adjusted = np.full(len(values), np.nan)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted.tolist()  # type: ignore[no-any-return]


def adjust_benjamini_hochberg(p_values: ArrayLike) -> list[float]:
    """Adjusts p-values so that the false discovery rate holds where the comparisons are independent, or rise together.

    Where each comparison whose adjusted value is at most a counts as significant, the expected share of those that are
    so by chance is at most a. :func:`adjust_benjamini_yekutieli` also holds where comparisons oppose each other.

    Args:
        p_values: numbers in [0, 1]; NaN stands for a comparison that was not made and counts for nothing.

    Returns:
        Adjusted values in the order given; NaN stays NaN.

    Raises:
        InputError: a number outside [0, 1], or what is no row of numbers.

    Source: Benjamini and Hochberg, "Controlling the false discovery rate" (1995).

    Example:
        >>> [round(value, 6) for value in adjust_benjamini_hochberg([0.01, 0.04, float("nan"), 0.03])]
        [0.03, 0.04, nan, 0.04]
    """
    values, order = _ordered(p_values)
    scaled = values[order] * len(order) / np.arange(1, len(order) + 1)
    adjusted = np.full(len(values), np.nan)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted.tolist()  # type: ignore[no-any-return]


def adjust_max_t(statistics: ArrayLike, replicates: ArrayLike) -> list[float]:
    """Computes p-values adjusted for many comparisons from replicates of all of them, by step-down maxima.

    A comparison is significant at level a, whatever the others are, where its adjusted value is at most a. Replicates
    show how far the largest of all statistics strays by chance. Comparisons that rise and fall together therefore cost
    less than the method of Holm makes them cost, and B replicates serve any number of comparisons: the least adjusted
    value is 1 / (B + 1).

    Args:
        statistics: ``[N]``, differences in standard errors; NaN stands for a comparison that was not made and counts
            for nothing.
        replicates: ``[N, B]``, the statistics as they are where no comparison differs: of a bootstrap, deviations from
            their mean, in standard errors. Column b is one replicate of all comparisons. NaN: the replicate has no
            such statistic, which then counts for nothing in it.

    Returns:
        Adjusted two-sided values in the order given; NaN stays NaN.

    Raises:
        InputError: the shapes do not fit, there is no replicate, or something is no number.

    Source: Westfall and Young, "Resampling-based multiple testing" (1993), algorithm 4.1; Phipson and Smyth,
    "Permutation p-values should never be zero" (2010), for the 1 that is added.

    Example:
        >>> adjust_max_t([3.0, -0.5, float("nan")], [[0.1, -2.0, 1.0], [0.4, 0.0, -0.6], [9.0, 9.0, 9.0]])
        [0.25, 0.5, nan]
    """
    observed = np.abs(float_rows("statistics", statistics))
    table = float_rows("replicates", replicates)
    if observed.ndim != 1 or table.ndim != 2 or len(table) != len(observed) or not table.shape[1]:
        raise InputError(
            "replicates must have a row for each of the statistics and a column for each replicate but have shape"
            f" {list(table.shape)} beside statistics of shape {list(observed.shape)}"
        )
    order = np.argsort(-observed, kind="stable")[: int((~np.isnan(observed)).sum())]
    adjusted = np.full(len(observed), np.nan)
    largest = np.full(table.shape[1], -np.inf)
    for place in order[::-1]:  # of this comparison and all below it
        largest = np.fmax(largest, np.abs(table[place]))
        adjusted[place] = (np.count_nonzero(largest >= observed[place]) + 1) / (table.shape[1] + 1)
    adjusted[order] = np.maximum.accumulate(adjusted[order])
    return adjusted.tolist()  # type: ignore[no-any-return]


def _ordered(p_values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The values, and the places of those that are not NaN, ascending."""
    values = float_rows("p_values", p_values)
    if values.ndim != 1:
        raise InputError(f"p_values must hold one number for each comparison but has shape {list(values.shape)}")
    made = np.flatnonzero(~np.isnan(values))
    bad = made[(values[made] < 0) | (values[made] > 1)]
    if len(bad):
        raise InputError(f"p_values must lie in [0, 1] but p_values[{bad[0]}] is {values[bad[0]]}")
    return values, made[np.argsort(values[made], kind="stable")]
