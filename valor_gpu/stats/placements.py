"""Placements of scores: how many rows of the other side each row is ranked right against. NumPy alone.

They are whole numbers, so that the area under the ROC curve and its covariances are the same for any order of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen

Ints = NDArray[np.int64]
_BITS = 62  # of a sum that int64 holds
_BLOCK_BITS = 12  # rows that are added at a time, at least


@frozen
class Placements:
    """Rows of one model and one class, ranked.

    Attributes:
        twice: int64 ``[N]``: of a positive row twice the negatives with a smaller score, of a negative row twice the
            positives with a larger one; in both a tie counts once.
        positive: bool ``[N]``.
        positives: how many rows are positive.
        negatives: how many are not.
        total: sum of ``twice`` over the positives; that over the negatives is the same.
    """

    twice: Ints
    positive: NDArray[np.bool_]
    positives: int
    negatives: int
    total: int

    @property
    def value(self) -> float:
        """Area under the ROC curve, correctly rounded; there must be a positive and a negative row."""
        return self.total / (2 * self.positives * self.negatives)

    @property
    def separated(self) -> bool:
        """Whether the area is 0 or 1: its variance cannot be seen."""
        return self.total in (0, 2 * self.positives * self.negatives)


def placements(scores: NDArray[Any], positive: NDArray[np.bool_]) -> Placements:
    """Ranks the rows of one model.

    Args:
        scores: ``[N]`` of any dtype that is ordered; none is NaN.
        positive: bool ``[N]``.

    Source: the mid-ranks of Sun and Xu, "Fast implementation of DeLong's algorithm for comparing the areas under
    correlated receiver operating characteristic curves" (2014), counted in whole numbers.

    Example:
        >>> found = placements(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
        >>> found.twice.tolist(), found.value
        ([4, 3, 3, 4], 0.875)
    """
    order = np.argsort(scores)
    ranked, sides = scores[order], positive[order]
    starts = np.flatnonzero(np.concatenate((np.ones(min(len(order), 1), bool), ranked[1:] != ranked[:-1])))
    sizes = np.diff(starts, append=len(order))
    held = np.add.reduceat(sides, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)
    positives = int(held.sum())
    others = sizes - held
    below = np.cumsum(others) - others
    above = positives - np.cumsum(held)
    of_positive, of_negative = (np.repeat(each, sizes) for each in (2 * below + others, 2 * above + held))
    twice = np.empty(len(order), np.int64)
    twice[order] = np.where(sides, of_positive, of_negative)
    total = exact_dot(2 * below + others, held)
    return Placements(twice, positive, positives, len(order) - positives, total)


def exact_dot(first: Ints, second: Ints) -> int:
    """Returns the sum of products of whole numbers from 0 to 2**44, without rounding.

    Example:
        >>> exact_dot(np.full(4, 1 << 40), np.full(4, 1 << 40)) == 1 << 82
        True
    """
    widths = [int(each.max(initial=0)).bit_length() for each in (first, second)]
    block = _BITS - sum(widths)
    if block < _BLOCK_BITS and widths[1] > 1:
        half = widths[1] // 2
        high, low = (exact_dot(first, part) for part in (second >> half, second & ((1 << half) - 1)))
        return (high << half) + low
    size = 1 << max(block, 0)
    return sum(int(first[at : at + size] @ second[at : at + size]) for at in range(0, len(first), size))
