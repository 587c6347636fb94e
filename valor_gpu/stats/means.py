"""Means with their standard error, of rows that may come in clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import ArrayLike

from valor_gpu.errors import InputError
from valor_gpu.stats.proportions import normal_quantile

_LARGE = 1e140  # squares of larger numbers, or their sums, could overflow


@dataclass(frozen=True)
class Mean:
    """A mean of a sample.

    Attributes:
        mean: NaN without values.
        standard_error: of the mean; NaN for fewer than two values, or clusters.
        low: lower end of the interval ``mean -+ z * standard_error``; likewise ``high``. NaN where that is.
        n: values.
        n_clusters: clusters; ``n`` without them.
        confidence: of the interval.
        reason: why numbers are NaN; empty where they are not.
    """

    mean: float
    standard_error: float
    low: float
    high: float
    n: int
    n_clusters: int
    confidence: float
    reason: str = ""


def exact_mean(numbers: Sequence[float]) -> float:
    """The mean, rounded as if once: of numbers that are all 0.7 it is 0.7, which their sum, divided, misses.

    Args:
        numbers: finite, at least one.

    Example:
        >>> exact_mean([0.7, 0.7, 0.7]), math.fsum([0.7, 0.7, 0.7]) / 3
        (0.7, 0.6999999999999998)
    """
    n = len(numbers)
    try:
        first = math.fsum(numbers) / n
    except OverflowError:
        places = n.bit_length()
        return math.ldexp(exact_mean([math.ldexp(number, -places) for number in numbers]), places)
    # What the division has rounded off: a sum of exact terms, rounded once.
    return first + math.fsum(chain(numbers, repeat(-first, n))) / n


def mean_of_sample(values: ArrayLike, clusters: ArrayLike | None = None, confidence: float = 0.95) -> Mean:
    """Computes a mean, its standard error and the interval of the normal distribution.

    With clusters (answers to one question, say), sums of deviations within a cluster stand for the values; a cluster
    for each value gives the plain ``s / sqrt(n)``.

    Args:
        values: ``[n]`` finite numbers.
        clusters: ``[n]`` ids, integers; None when the values are independent.
        confidence: above 0 and below 1.

    Raises:
        InputError: a value that is not finite, or another number of clusters.

    Source: Liang and Zeger, "Longitudinal data analysis using generalized linear models" (1986), with the factor
    G / (G - 1) of G clusters.

    Example:
        >>> found = mean_of_sample([1, 1, 3, 3], [7, 7, 8, 8])
        >>> found.mean, round(found.standard_error, 6), found.n, found.n_clusters
        (2.0, 1.0, 4, 2)
    """
    z = normal_quantile(confidence)
    numbers = np.asarray(values, np.float64).reshape(-1)
    n = len(numbers)
    if not np.isfinite(numbers).all():
        raise InputError(f"values must be finite but values[{int((~np.isfinite(numbers)).argmax())}] is not")
    ids = np.arange(n) if clusters is None else np.asarray(clusters).reshape(-1)
    if len(ids) != n:
        raise InputError(f"clusters must hold one id for each of {n} values but has {len(ids)}")
    if n == 0:
        return Mean(math.nan, math.nan, math.nan, math.nan, 0, 0, confidence, "there are no values")
    greatest = float(np.abs(numbers).max())
    scale = 2.0 ** (math.frexp(greatest)[1] - 1) if greatest > _LARGE else 1.0
    scaled = numbers / scale
    mean = exact_mean(scaled.tolist())
    different, members = np.unique(ids, return_inverse=True)
    count = len(different)
    if count < 2:
        what = "values" if clusters is None else "clusters"
        return Mean(mean * scale, math.nan, math.nan, math.nan, n, count, confidence, f"it takes two {what}")
    sums = np.bincount(members, scaled - mean, count)
    error = math.sqrt(math.fsum(sums**2) * count / (count - 1)) / n
    low, high = ((mean + side * z * error) * scale for side in (-1, 1))
    return Mean(mean * scale, error * scale, low, high, n, count, confidence)
