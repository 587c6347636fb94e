"""Risk and coverage of a model that leaves out what it is least sure of. Imports no torch.

Samples are in the order of their confidence, the largest first; those of equal confidence are one group, whose order is
not known. ``right`` and ``wrong`` are running counts at the ends of groups.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


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
    ends = right + wrong
    places = np.arange(1, int(ends[-1]) + 1)
    if len(ends) == len(places):
        return float((wrong / places).sum() / len(places))
    sizes, errors = np.diff(ends, prepend=0), np.diff(wrong, prepend=0)
    within = places - np.repeat(ends - sizes, sizes)
    among = np.repeat(wrong - errors, sizes) + np.repeat(errors, sizes) * within / np.repeat(sizes, sizes)
    return float((among / places).sum() / len(places))


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
