"""p-values of several comparisons at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valor_gpu.errors import InputError


def adjust_holm(p_values: ArrayLike) -> list[float]:
    """Adjusts p-values so that all comparisons together hold one error rate (Holm).

    A comparison is significant at level a, whatever the others are, where its adjusted value is at most a.

    Args:
        p_values: numbers in [0, 1]; NaN stands for a comparison that was not made and counts for nothing.

    Returns:
        Adjusted values in the order given; NaN stays NaN.

    Raises:
        InputError: a number outside [0, 1].

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
        InputError: a number outside [0, 1].

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


def _ordered(p_values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The values, and the places of those that are not NaN, ascending."""
    values = np.asarray(p_values, np.float64).reshape(-1)
    made = np.flatnonzero(~np.isnan(values))
    bad = made[(values[made] < 0) | (values[made] > 1)]
    if len(bad):
        raise InputError(f"p_values must lie in [0, 1] but p_values[{bad[0]}] is {values[bad[0]]}")
    return values, made[np.argsort(values[made], kind="stable")]
