"""Risk and coverage of a model that leaves out what it is least sure of. Imports no torch.

Samples are in the order of their confidence, the largest first; those of equal confidence are one group, whose order is
not known. ``right`` and ``wrong`` are running counts at the ends of groups.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_GROUPS = 1 << 15  # that are summed at a time, so that their arrays stay in the cache


def area_under_risk(right: Ints, wrong: Ints) -> float:
    """Computes the mean, over k from 1 to n, of the risk among the k most confident samples; NaN without samples.

    Within a group it is the mean over all orders of the group: of its e errors in m samples, e j / m are expected among
    the first j.

    Source: Geifman, Uziel and El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, ICLR 2019.

    Args:
        right: ``[G]`` samples that are right.
        wrong: ``[G]`` samples that are wrong.

    Example:
        >>> area_under_risk(np.array([1, 1, 2]), np.array([0, 1, 1])), area_under_risk(np.array([1]), np.array([1]))
        (0.27777777777777773, 0.5)
    """
    if not len(right):
        return math.nan
    sums, before, missed = [], 0, 0
    for first in range(0, len(right), _GROUPS):
        errors = wrong[first : first + _GROUPS]
        ends = right[first : first + _GROUPS] + errors
        sums.append(_sum_of_risks(ends, errors, before, missed))
        before, missed = int(ends[-1]), int(errors[-1])
    return math.fsum(sums) / before


def _sum_of_risks(ends: Ints, wrong: Ints, before: int, missed: int) -> float:
    """The sum of the risks at the samples of groups, before which come ``before``, ``missed`` of them wrong."""
    sizes = np.diff(ends, prepend=before)
    alone = sizes == 1
    if alone.all():
        return float((wrong / ends).sum())
    total = float((wrong[alone] / ends[alone]).sum())
    errors = np.diff(wrong, prepend=missed)[~alone]
    ends, wrong, sizes = ends[~alone], wrong[~alone], sizes[~alone]
    within = np.arange(1, int(sizes.sum()) + 1) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    among = np.repeat(wrong - errors, sizes) + np.repeat(errors / sizes, sizes) * within
    return total + float((among / (np.repeat(ends - sizes, sizes) + within)).sum())


def least_area(right: int, wrong: int) -> float:
    """Computes the area under the risk of a model that is least sure of its errors: the least of so many errors.

    It is ``sum_i i / (right + i) / n`` over i from 1 to ``wrong``. With r = wrong / n, ``r + (1 - r) log(1 - r)`` is
    near to it where there are many samples.

    Args:
        right: samples that are right.
        wrong: samples that are wrong.

    Example:
        >>> least_area(2, 1), least_area(2, 0)
        (0.1111111111111111, 0.0)
    """
    if not right + wrong:
        return math.nan
    errors = np.arange(1, wrong + 1)
    return float((errors / (right + errors)).sum() / (right + wrong))


def risk_at_coverage(right: Ints, wrong: Ints, coverage: float) -> int:
    """Returns the first group with which at least a fraction of the samples is covered; -1 without samples.

    Example:
        >>> risk_at_coverage(np.array([1, 1, 2]), np.array([0, 1, 1]), 0.5)
        1
    """
    if not len(right):
        return -1
    ends = right + wrong
    return int((ends / ends[-1] >= coverage).argmax())


def coverage_at_risk(right: Ints, wrong: Ints, risk: float) -> int:
    """Returns the last group up to which the fraction of errors is at most a risk; -1 where there is none.

    Example:
        >>> coverage_at_risk(np.array([1, 1, 3]), np.array([0, 1, 1]), 0.25)
        2
    """
    low = np.flatnonzero(wrong / (right + wrong) <= risk) if len(right) else right
    return int(low[-1]) if len(low) else -1
