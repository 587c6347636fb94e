"""Accuracies of two models on the same rows: the test of McNemar and the interval of the difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.stats.clusters import codes_of_rows
from valor_gpu.stats.distributions import binomial_above, exact_ends
from valor_gpu.stats.given import host_array
from valor_gpu.stats.paired_test import PairedTest
from valor_gpu.stats.proportions import normal_quantile, pass_rate

NULL = "both models have the same expected accuracy"
METHODS = ("mid_p", "exact")
ALIKE = "both models are right on the same rows"
Ints = NDArray[np.int64]


def compare_accuracy(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Mapping[Any, Any] | Sequence[Any] | None = None,
    confidence: float = 0.95,
    method: str = "mid_p",
) -> PairedTest:
    """Compares the accuracies of two models on the same rows.

    Rows on which one model alone is right decide: under the null hypothesis each of them favours either model with
    probability 1/2. The interval of the difference is made of that of the share of these rows that favour the second
    model and that of how many such rows there are, so that it leaves out 0 exactly where the p-value is below
    ``1 - confidence``. Enumerated for 30, 100 and 300 rows it held differences of 0 to 0.49 in 94 to 99.96 %.

    With clusters the sum over rows of a cluster, of what the models differ by, takes the place of a row, in standard
    errors without the difference in the variance; test and interval are of the normal distribution.

    Args:
        first: whether the first model is right, bool or 0 and 1 ``[N]``.
        second: whether the second one is.
        clusters: of the rows, which are drawn as a whole; see :class:`valor_gpu.stats.Bootstrap`.
        confidence: of the interval, above 0 and below 1.
        method: ``mid_p`` counts half of the probability of what was seen: its error rate is close to the promised one;
            ``exact`` counts all of it: its error rate is never above, and with few such rows far below.

    Returns:
        The difference, second less first; NaN, with a reason, where there are no rows or too few clusters.

    Raises:
        InputError: an argument is out of range or has another length.

    Source: McNemar, "Note on the sampling error of the difference between correlated proportions" (1947); Fagerland,
    Lydersen and Laake, "The McNemar test for binary matched-pairs data: mid-p and asymptotic are better than exact
    conditional" (2013); interval: Donner and Zou, "Closed-form confidence intervals for functions of the normal mean
    and standard deviation" (2012), of a product; clusters: Yang, Sun and Hardin, "A note on the tests for clustered
    matched-pair binary data" (2010).

    Example:
        >>> first = np.repeat([1, 1, 0, 0], [70, 2, 12, 16])
        >>> second = np.repeat([1, 0, 1, 0], [70, 2, 12, 16])
        >>> found = compare_accuracy(first, second)
        >>> round(found.difference, 2), round(found.low, 4), round(found.high, 4), round(found.p_value, 4)
        (0.1, 0.0236, 0.1696, 0.0074)
    """
    normal_quantile(confidence)
    check_choice("method", method, METHODS)
    sides = [_right(name, given) for name, given in (("first", first), ("second", second))]
    if len(sides[0]) != len(sides[1]):
        raise InputError(f"first and second must have the same rows but have {len(sides[0])} and {len(sides[1])}")
    codes = None if clusters is None else codes_of_rows(clusters, len(sides[0]))
    return compared_rights(sides[0], sides[1], codes, confidence, method)


def compared_rights(
    first: Ints, second: Ints, codes: Ints | None = None, confidence: float = 0.95, method: str = "mid_p"
) -> PairedTest:
    """Compares what two models have right; see :func:`compare_accuracy`.

    Args:
        first: 0 or 1 ``[N]``.
        second: likewise.
        codes: int64 ``[N]``, of the clusters of the rows.
        confidence: of the interval.
        method: of :data:`METHODS`.
    """
    n = len(first)
    if not n:
        return PairedTest(math.nan, math.nan, math.nan, confidence=confidence, reason="there are no rows")
    accuracies = int(first.sum()) / n, int(second.sum()) / n
    gained, lost = int(((second == 1) & (first == 0)).sum()), int(((first == 1) & (second == 0)).sum())
    difference = (gained - lost) / n
    made = PairedTest(*accuracies, difference, test="mcnemar", null=NULL, n=n, confidence=confidence)
    if codes is not None:
        sums, rows = np.bincount(codes, second - first).astype(np.float64), np.bincount(codes).astype(np.int64)
        found = _of_clusters(sums, rows, confidence)
        return replace(made, test="mcnemar_clusters", n=int((rows > 0).sum()), **found)
    if not gained and not lost:
        high = pass_rate(0, n, confidence).high
        return replace(made, low=-high, high=high, p_value=1.0, standard_error=0.0)
    low, high = _ends(gained, lost, n, confidence, method)
    error = math.sqrt(max((gained + lost) - (gained - lost) ** 2 / n, 0)) / n
    p_value = _p_value(gained, lost, method)
    return replace(made, low=low, high=high, p_value=p_value, standard_error=error)


def _p_value(gained: int, lost: int, method: str) -> float:
    """Two tails of the binomial distribution of 1/2."""
    trials, most = gained + lost, max(gained, lost)
    tail = binomial_above(most, trials, 0.5)
    if method == "mid_p":
        tail = (tail + binomial_above(most + 1, trials, 0.5)) / 2
    return min(1.0, 2 * tail)


def _ends(gained: int, lost: int, n: int, confidence: float, method: str) -> tuple[float, float]:
    """Ends of ``(2 share - 1) rate``: share of the rows that the models differ on, rate of such rows."""
    if gained < lost:
        low, high = _ends(lost, gained, n, confidence, method)
        return -high, -low
    trials = gained + lost
    share, rate = 2 * gained / trials - 1, trials / n
    ends = [2 * end - 1 for end in exact_ends(gained, trials, confidence, mid=method == "mid_p")]
    rates = pass_rate(trials, n, confidence)
    below, less = share - ends[0], rate - rates.low
    above, more = ends[1] - share, rates.high - rate
    # The last product is taken off below, where it lets the end be 0 just where that of the share is, and not above.
    low = math.sqrt(max((rate * below) ** 2 + (share * less) ** 2 - (below * less) ** 2, 0.0))
    high = math.sqrt((rate * above) ** 2 + (share * more) ** 2 + (above * more) ** 2)
    low = high if gained == lost else low  # neither model is better: both ends lie equally far from 0
    return share * rate - low, min(share * rate + high, 1.0)


def _of_clusters(sums: NDArray[np.float64], rows: Ints, confidence: float) -> dict[str, Any]:
    """Test and interval of the ratio of sums of clusters: where ``sum (s - d n) ** 2`` bounds ``(S - d N) ** 2``."""
    total, n = float(sums.sum()), float(rows.sum())
    squares, crossed, sizes = (float(a @ b) for a, b in ((sums, sums), (sums, rows), (rows, rows)))
    if not squares:
        return {"p_value": 1.0, "standard_error": 0.0, "reason": ALIKE}
    p_value = 2 * NormalDist().cdf(-abs(total) / math.sqrt(squares))
    square = normal_quantile(confidence) ** 2
    lead = n * n - square * sizes
    difference = total / n
    error = math.sqrt(max(squares - 2 * difference * crossed + difference**2 * sizes, 0.0)) / n
    if lead <= 0:
        few = f"too few clusters for an interval: they have the weight of {n * n / sizes:.3g} of equal size"
        return {"p_value": p_value, "standard_error": error, "reason": few}
    middle = (total * n - square * crossed) / lead
    half = math.sqrt(max(middle**2 - (total**2 - square * squares) / lead, 0.0))
    return {
        "low": max(middle - half, -1.0),
        "high": min(middle + half, 1.0),
        "p_value": p_value,
        "standard_error": error,
    }


def _right(name: str, given: ArrayLike) -> Ints:
    right = host_array(given)
    if right.ndim != 1:
        raise InputError(f"{name} must hold 0 or 1 for each row but has shape {list(right.shape)}")
    bad = np.flatnonzero((right != 0) & (right != 1))
    if len(bad):
        raise InputError(f"{name} must be 0 or 1 but {name}[{bad[0]}] is {right[bad[0]]}")
    return right.astype(np.int64)
