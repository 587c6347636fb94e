"""p-values of several comparisons at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

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
    values = np.asarray(p_values, np.float64).reshape(-1)
    made = np.flatnonzero(~np.isnan(values))
    bad = made[(values[made] < 0) | (values[made] > 1)]
    if len(bad):
        raise InputError(f"p_values must lie in [0, 1] but p_values[{bad[0]}] is {values[bad[0]]}")
    order = made[np.argsort(values[made], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full(len(values), np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted.tolist()  # type: ignore[no-any-return]
