"""How closely two scores of the same rows go together: Pearson's and Spearman's correlation with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.stats.clusters import Clusters, codes_of_rows
from valor_gpu.stats.given import float_rows
from valor_gpu.stats.proportions import normal_quantile
from valor_gpu.stats.ranks import mid_ranks

Floats = NDArray[np.float64]

METHODS = ("pearson", "spearman")
_LEAST = 4
"""Clusters from which on Fisher's z has a standard error."""


@dataclass(frozen=True)
class Correlation:
    """Correlation of two scores, with its interval; see :func:`correlation`.

    Attributes:
        value: from -1 to 1; NaN where it does not exist.
        low: lower end of the interval, from -1 to 1; NaN where it does not exist.
        high: upper end of the interval, likewise.
        n: number of pairs with both scores.
        n_clusters: number of clusters of these pairs; ``n`` without clusters.
        n_missing: number of pairs that lack a score.
        method: ``pearson`` or ``spearman``.
        confidence: of the interval, above 0 and below 1.
        reason: why a number is NaN; empty where none is.
    """

    value: float
    low: float
    high: float
    n: int
    n_clusters: int
    n_missing: int
    method: str
    confidence: float
    reason: str = ""


def correlation(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Clusters | None = None,
    *,
    method: str = "pearson",
    confidence: float = 0.95,
) -> Correlation:
    """Computes the correlation of two scores of the same rows, and its interval.

    The interval is symmetric on the scale of Fisher's z. All pairs of a cluster count as one pair in its width, which
    is cautious. A 95% interval held the true correlation in 94 to 97% of 2,000 simulations each, for 10, 30 and 300
    pairs of normal scores and of whole scores from 1 to 5, with correlations of 0, 0.5 and 0.8.

    Args:
        first: ``[n]`` scores of any real dtype; NaN where a row has none.
        second: ``[n]`` other scores of the same rows, likewise.
        clusters: the cluster of every pair, such as a question that was answered several times, or pair number, from
            0, to cluster; None when pairs are independent.
        method: ``pearson`` for a straight line, or ``spearman`` for any increasing curve; ranks of equal scores are
            the mean of their places.
        confidence: of the interval, above 0 and below 1.

    Returns:
        The correlation. Its value is NaN, with a reason, for fewer than two pairs and where all scores of one side
        are equal. Its interval is NaN, with a reason, for fewer than four clusters and where all pairs lie on one line.

    Raises:
        InputError: the arrays differ in length, a score is infinite, a pair has no cluster, or an argument is out of
            its range.

    Source: Pearson, "Note on regression and inheritance in the case of two parents" (1895); Spearman, "The proof and
    measurement of association between two things" (1904). Interval: Fisher, "On the 'probable error' of a coefficient
    of correlation deduced from a small sample" (1921). Standard error for ranks: Bonett and Wright, "Sample size
    requirements for estimating Pearson, Kendall and Spearman correlations" (2000).

    Example:
        >>> found = correlation([0.1, 0.4, 0.5, 0.9, float("nan")], [1, 3, 2, 4, 5])
        >>> round(found.value, 3), found.n, found.n_missing
        (0.899, 4, 1)
        >>> found = correlation([1, 2, 3, 4, 5, 5], [1, 2, 4, 4, 5, 3], method="spearman")
        >>> round(found.value, 6), round(found.low, 3), round(found.high, 3), found.n
        (0.735294, -0.323, 0.976, 6)
        >>> correlation([3, 3], [1, 2]).reason
        'all scores of the first are equal'
    """
    check_choice("method", method, METHODS)
    quantile = normal_quantile(confidence)
    x, y, ids, missing = _pairs(first, second, clusters)
    n = len(x)
    n_clusters = n if ids is None else len(np.unique(ids))
    value, reason = math.nan, ""
    if n < 2:
        reason = f"it takes two pairs of scores but there {'is' if n == 1 else 'are'} {n or 'none'}"
    elif (x == x[0]).all() or (y == y[0]).all():
        reason = f"all scores of the {'first' if (x == x[0]).all() else 'second'} are equal"
    else:
        value = _cosine(*((mid_ranks(x), mid_ranks(y)) if method == "spearman" else (x, y)))
    low, high = math.nan, math.nan
    if not math.isnan(value):
        if n_clusters < _LEAST:
            reason = f"an interval takes {_LEAST} clusters of pairs but there are {n_clusters}"
        elif abs(value) >= 1:
            reason = "all pairs lie on one line, which shows no spread"
        else:
            low, high = _interval(value, n_clusters, method, quantile)
    return Correlation(value, low, high, n, n_clusters, missing, method, confidence, reason)


def _interval(value: float, n: int, method: str, quantile: float) -> tuple[float, float]:
    z = math.atanh(value)
    variance = (1 + value**2 / 2 if method == "spearman" else 1.0) / (n - 3)
    half = quantile * math.sqrt(variance)
    return math.tanh(z - half), math.tanh(z + half)


def _cosine(x: Floats, y: Floats) -> float:
    """The cosine of the angle between the deviations from both means."""
    found = float(np.dot(_unit(x), _unit(y)))
    return 1.0 if found > 1 - 1e-14 else -1.0 if found < -1 + 1e-14 else found


def _unit(values: Floats) -> Floats:
    """Deviations from the mean, of length 1."""
    moved = values / (float(np.abs(values).max()) or 1.0)  # squares of large scores would overflow
    moved = moved - moved[0]  # of one of the scores, so that no digit is lost
    moved = moved / float(np.abs(moved).max())
    moved = moved - moved.mean()
    found: Floats = moved / math.sqrt(float(np.dot(moved, moved)))
    return found


def _pairs(
    first: ArrayLike, second: ArrayLike, clusters: Clusters | None
) -> tuple[Floats, Floats, NDArray[np.int64] | None, int]:
    """Scores of the pairs that are whole, their clusters, and how many lack one."""
    sides = [float_rows(*side) for side in (("first", first), ("second", second))]
    for name, side in zip(("first", "second"), sides):
        if side.ndim != 1:
            raise InputError(f"{name} must hold one score for each row but has shape {list(side.shape)}")
        if np.isinf(side).any():
            raise InputError(f"{name} must be finite or NaN but {name}[{int(np.isinf(side).argmax())}] is infinite")
    if len(sides[0]) != len(sides[1]):
        raise InputError(f"second must have {len(sides[0])} scores, as first has, but has {len(sides[1])}")
    ids = None if clusters is None else codes_of_rows(clusters, len(sides[0]))
    kept = ~(np.isnan(sides[0]) | np.isnan(sides[1]))
    return sides[0][kept], sides[1][kept], None if ids is None else ids[kept], int((~kept).sum())
