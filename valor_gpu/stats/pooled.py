"""Two results whose counts are added up over rows before anything is divided: corpus BLEU, word error rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valor_gpu.checks import check_int
from valor_gpu.errors import InputError
from valor_gpu.stats.means import Mean
from valor_gpu.stats.paired import (
    Clusters,
    Floats,
    PairedDifference,
    bca_interval,
    codes_of_rows,
    deviation_of,
    random_bits,
    too_few,
)
from valor_gpu.stats.proportions import normal_quantile

Ints = NDArray[np.int64]
Statistic = Callable[[Sequence[int]], float]
"""A number from the sums of the counts; NaN where there is none."""

_GROUPS = 2000  # left out in turn for the acceleration: of more rows, several at a time
_SLACK = 1e-12


def compare_pooled(
    first: ArrayLike,
    second: ArrayLike,
    statistic: Statistic,
    *,
    clusters: Clusters | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> PairedDifference:
    """Compares two results of which each row has counts.

    The interval is the bias-corrected and accelerated one of the difference when rows are drawn with replacement, both
    sides the same rows. The p-value is ``(b + 1) / (B + 1)``: b of B times, when the sides of every row are swapped or
    not at random, the difference is at least as far from 0. Where so few rows have other counts that there are at most
    B ways to swap them, it is the exact fraction of all ways. Clusters of rows are drawn, and swapped, as a whole. No
    order of the rows changes a bit.

    Args:
        first: ``[n, k]`` counts of each row.
        second: likewise, of the same rows.
        statistic: of the sums of k counts.
        clusters: the cluster of every row; or row number, from 0, to cluster. None: each row stands alone.
        confidence: of the interval.
        resamples: B, of either procedure.
        seed: of the random numbers.

    Returns:
        The difference ``statistic(second) - statistic(first)``; NaN, with a reason, where there are fewer than two
        rows, or clusters, or the statistic has no number.

    Raises:
        InputError: the sides have other shapes, a row has no cluster, or an argument is out of its range.

    Source: Efron, "Better bootstrap confidence intervals" (1987); Riezler and Maxwell, "On some pitfalls in automatic
    evaluation and significance testing for MT" (2005), approximate randomisation.

    Example:
        >>> def rate(sums):
        ...     return sums[0] / sums[1]
        >>> found = compare_pooled([[1, 4], [2, 5], [0, 3]] * 5, [[2, 4], [2, 5], [2, 3]] * 5, rate)
        >>> found.difference, found.low > 0, found.p_value < 0.05
        (0.25, True, True)
    """
    normal_quantile(confidence)
    check_int("resamples", resamples, 1)
    check_int("seed", seed)
    rows = _tables(first, second)
    n = rows.shape[1]
    tables = _by_cluster(rows, None if clusters is None else codes_of_rows(clusters, n))
    units = tables.shape[1]

    def without(value: float, reason: str) -> PairedDifference:
        return PairedDifference(value, math.nan, math.nan, math.nan, n, 0, confidence, reason, units)

    def difference(sums: Ints) -> float:
        return statistic(sums[1].tolist()) - statistic(sums[0].tolist())

    if units < 2:
        return without(math.nan, too_few(units, clusters is not None))
    whole = difference(tables.sum(1))
    if math.isnan(whole):
        return without(math.nan, "one of the results has no number")
    bootstrap, swaps = np.random.default_rng(seed).spawn(2)
    drawn = np.sort(_resampled(tables, difference, resamples, bootstrap))
    kept = drawn[~np.isnan(drawn)]
    if not len(kept):
        return without(whole, "no sample of rows has a number")
    low, high = bca_interval(whole, kept, _jackknife(tables, difference), confidence, _SLACK)
    p_value, exact = _swapped(tables, difference, abs(whole), resamples, swaps)
    error = deviation_of(kept)
    return PairedDifference(whole, low, high, p_value, n, 0, confidence, "", units, exact, error)


def pooled_estimate(
    counts: ArrayLike, statistic: Statistic, clusters: ArrayLike | None = None, confidence: float = 0.95
) -> Mean:
    """A number of counts that are added up over rows, with its jackknife standard error.

    Args:
        counts: ``[n, k]`` of each row.
        statistic: of the sums of k counts.
        clusters: ``[n]`` ids of rows that are left out together, those of one cluster in succession; None when rows
            are independent.
        confidence: of the interval ``value -+ z * standard_error``.

    Returns:
        ``mean`` is the number; NaN, with a reason, where it does not exist. Of more than 2,000 rows several are left
        out at a time.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 11.

    Example:
        >>> found = pooled_estimate([[1, 1], [3, 1], [5, 1]], lambda sums: sums[0] / sums[1])
        >>> found.mean, round(found.standard_error, 6)  # a mean, so that it is s / sqrt(n)
        (3.0, 1.154701)
    """
    z = normal_quantile(confidence)
    table = np.asarray(counts, np.int64)
    n = len(table)
    value = statistic(table.sum(0).tolist()) if n else math.nan
    if math.isnan(value):
        reason = "the counts have no number" if n else "there are no rows"
        return Mean(math.nan, math.nan, math.nan, math.nan, n, 0, confidence, reason)
    if clusters is not None:
        ids = np.asarray(clusters)
        table = np.add.reduceat(table, np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]), axis=0)
    deviations = _jackknife(table[None], lambda sums: statistic(sums[0].tolist()))
    if len(table) < 2 or len(deviations) < 2:
        what = "rows" if clusters is None else "clusters"
        return Mean(value, math.nan, math.nan, math.nan, n, len(table), confidence, f"it takes two {what}")
    groups = len(deviations)
    error = math.sqrt((groups - 1) / groups * math.fsum(deviations**2))
    return Mean(value, error, value - z * error, value + z * error, n, len(table), confidence)


def _tables(first: ArrayLike, second: ArrayLike) -> Ints:
    sides = [np.asarray(side, np.int64) for side in (first, second)]
    if sides[0].ndim != 2 or sides[0].shape != sides[1].shape:
        shapes = " and ".join(str(list(side.shape)) for side in sides)
        raise InputError(f"first and second must both be [rows, counts] but have the shapes {shapes}")
    return np.stack(sides)


def _by_cluster(tables: Ints, codes: Ints | None) -> Ints:
    """Sums of the rows of each cluster, in the order of what they hold."""
    if codes is not None:
        sums = np.zeros((2, int(codes.max(initial=-1)) + 1, tables.shape[2]), np.int64)
        for side, table in zip(sums, tables):
            np.add.at(side, codes, table)
        tables = sums
    columns = [*tables[0].T, *tables[1].T]
    return tables[:, np.lexsort(columns[::-1])] if columns else tables


def _resampled(tables: Ints, difference: Callable[[Ints], float], resamples: int, rng: np.random.Generator) -> Floats:
    n = tables.shape[1]
    found = np.empty(resamples)
    for index in range(resamples):
        times = np.bincount(rng.integers(n, size=n, dtype=np.uint32), minlength=n)
        found[index] = difference(np.stack([times @ side for side in tables]))
    return found


def _jackknife(tables: Ints, difference: Callable[[Ints], float]) -> Floats:
    """Deviations of the differences without one row, or one group of rows, from their mean."""
    n = tables.shape[1]
    starts = np.linspace(0, n, min(n, _GROUPS), endpoint=False).astype(np.int64)
    groups = np.add.reduceat(tables, starts, axis=1)
    whole = tables.sum(1)
    found = np.array([difference(whole - groups[:, group]) for group in range(groups.shape[1])])
    found = found[~np.isnan(found)]
    return found - found.mean() if len(found) else np.zeros(1)


def _swapped(
    tables: Ints, difference: Callable[[Ints], float], reached: float, resamples: int, rng: np.random.Generator
) -> tuple[float, bool]:
    """p-value of the difference when the sides of every row are swapped or not; and whether it is of all ways."""
    first, second = tables.sum(1)
    change = (tables[1] - tables[0]).astype(np.float64)  # sums of counts are exact up to 2 ** 53
    change = change[change.any(1)]
    exact = 1 << len(change) <= resamples
    ways = 1 << len(change) if exact else resamples
    count = 0
    for way in range(ways):
        bits = (way >> np.arange(len(change)) & 1).astype(np.float64) if exact else random_bits(1, len(change), rng)[0]
        moved = (bits @ change).astype(np.int64)
        found = difference(np.stack((first + moved, second - moved)))
        count += not abs(found) < reached - _SLACK  # without a number it counts against a difference
    return (count / ways, True) if exact else ((count + 1) / (resamples + 1), False)
