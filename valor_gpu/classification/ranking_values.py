"""Numbers of metrics of ranks, with bounds where they come from a histogram."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class RankingValues(NamedTuple):
    """One number per class, float64 ``[C]``, between bounds that equal it when it is exact; NaN where there is none.

    Attributes:
        value: the number.
        lowest: lower bound on the exact number.
        highest: upper bound on the exact number.
        positives: count of positives, or the sum of their weights.
        negatives: count of negatives, or the sum of their weights.
    """

    value: Tensor
    lowest: Tensor
    highest: Tensor
    positives: Tensor
    negatives: Tensor
