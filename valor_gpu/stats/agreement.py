"""How far two raters agree beyond chance: quadratically weighted kappa with a bootstrap interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valor_gpu.checks import check_int
from valor_gpu.errors import InputError
from valor_gpu.stats.clusters import Clusters, codes_of_rows
from valor_gpu.stats.given import float_rows
from valor_gpu.stats.proportions import normal_quantile

Floats = NDArray[np.float64]

_DRAWS = 1 << 20  # drawn counts in memory at a time: 8 MB
_UNDEFINED = 0.05
"""Fraction of resamples without a kappa up to which the others give an interval."""


@dataclass(frozen=True)
class Agreement:
    """How far two raters agree.

    Attributes:
        kappa: 1 where they always agree, 0 where they agree as often as by chance, below 0 for less; NaN where it does
            not exist.
        low: lower end of its interval; likewise ``high``. NaN where it does not exist.
        n: pairs of ratings.
        n_clusters: rows that they are of; ``n`` without clusters.
        n_missing: pairs of which a rating is missing.
        n_equal: pairs of equal ratings.
        confidence: of the interval.
        reason: why numbers are NaN; empty where they are not.
    """

    kappa: float
    low: float
    high: float
    n: int
    n_clusters: int
    n_missing: int
    n_equal: int
    confidence: float
    reason: str = ""


def weighted_kappa(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Clusters | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Agreement:
    """Computes Cohen's kappa with quadratic weights, and its interval.

    One minus the mean squared difference of the pairs, divided by that of all pairings of a rating of one with a rating
    of the other. It needs no list of categories, so ratings may lie between whole numbers; of whole ones it is kappa
    over the categories from the least to the greatest, and of zeros and ones the plain kappa. The interval holds the
    quantiles of kappa under resampling of clusters. Of few it is too narrow: where it is to hold 95 % it held 89 % for
    10 pairs, 92 % for 30 and 95 % for 100 (600 simulations each, a kappa of 0.81).

    Args:
        first: ``[n]`` ratings of one rater; NaN where there is none.
        second: ``[n]`` ratings of the other.
        clusters: the cluster of every pair, such as a row that several people rated, or pair number, from 0, to
            cluster; None when the pairs are independent.
        confidence: of the interval, above 0 and below 1.
        resamples: how many.
        seed: of the random numbers; the same seed gives the same interval on every machine.

    Returns:
        Kappa; NaN, with a reason, of fewer than two pairs and where both raters gave one and the same rating to all.
        The interval is NaN, with a reason, of fewer than two clusters, where all pairs agree or one rater gave the
        same rating to all (resampling shows no spread then), and where more than 5% of the resamples have no kappa.

    Raises:
        InputError: other numbers of ratings, an infinite one, a pair without cluster, or an argument out of its range.

    Source: Cohen, "Weighted kappa" (1968); the form by squared differences: Fleiss and Cohen, "The equivalence of
    weighted kappa and the intraclass correlation coefficient" (1973).

    Example:
        >>> found = weighted_kappa([1, 2, 3, 4, 5, 5], [1, 2, 4, 4, 5, 3])
        >>> round(found.kappa, 6), found.n, found.n_equal
        (0.794521, 6, 4)
        >>> weighted_kappa([3, 3], [3, 3]).reason
        'both gave the same rating to all'
    """
    normal_quantile(confidence)
    check_int("resamples", resamples, 1)
    check_int("seed", seed)
    pairs, ids, missing = _pairs(first, second, clusters)
    n, n_equal = len(pairs), int((pairs[:, 0] == pairs[:, 1]).sum())
    different, members = np.unique(ids, return_inverse=True)
    counted = (n, len(different), missing, n_equal, confidence)
    if n < 2:
        reason = f"it takes two pairs of ratings but there {'is' if n == 1 else 'are'} {n or 'none'}"
        return Agreement(math.nan, math.nan, math.nan, *counted, reason)
    sums = _sums(pairs, members, len(different))
    kappa = float(_kappas(sums.sum(0, keepdims=True))[0])
    if math.isnan(kappa):
        return Agreement(math.nan, math.nan, math.nan, *counted, "both gave the same rating to all")
    if n_equal == n:
        return Agreement(1.0, math.nan, math.nan, *counted, "all pairs agree: resampling shows no spread")
    if (pairs == pairs[0]).all(0).any():
        reason = "one gave the same rating to all, which makes kappa 0 whatever the other says"
        return Agreement(0.0, math.nan, math.nan, *counted, reason)
    if len(different) < 2:
        return Agreement(kappa, math.nan, math.nan, *counted, "it takes two clusters for an interval")
    drawn = _resampled(sums, resamples, np.random.default_rng(seed))
    kept = drawn[~np.isnan(drawn)]
    if len(kept) < (1 - _UNDEFINED) * resamples:
        reason = f"{resamples - len(kept):,} of {resamples:,} resamples have no kappa"
        return Agreement(kappa, math.nan, math.nan, *counted, reason)
    low, high = np.quantile(kept, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Agreement(kappa, float(low), float(high), *counted)


def _pairs(first: ArrayLike, second: ArrayLike, clusters: Clusters | None) -> tuple[Floats, NDArray[np.int64], int]:
    """Pairs of ratings that are there, their clusters, and how many lack one."""
    sides = [float_rows(*side) for side in (("first", first), ("second", second))]
    for name, side in zip(("first", "second"), sides):
        if side.ndim != 1:
            raise InputError(f"{name} must hold one rating for each row but has shape {list(side.shape)}")
        if np.isinf(side).any():
            raise InputError(f"{name} must be finite or NaN but {name}[{int(np.isinf(side).argmax())}] is infinite")
    if len(sides[0]) != len(sides[1]):
        raise InputError(f"second must have {len(sides[0])} ratings, as first has, but has {len(sides[1])}")
    ids = np.arange(len(sides[0])) if clusters is None else codes_of_rows(clusters, len(sides[0]))
    pairs = np.stack(sides, 1)
    kept = ~np.isnan(pairs).any(1)
    return pairs[kept], ids[kept], int((~kept).sum())


def _sums(pairs: Floats, members: NDArray[np.intp], count: int) -> Floats:
    """Per cluster: pairs, squared differences, ratings of either, and their squares."""
    largest = float(np.abs(pairs).max()) or 1.0
    moved = pairs / largest  # squares of large ratings would overflow
    moved = moved - moved[0, 0]  # kappa is the same for any origin and unit; of one of the ratings none loses digits
    x, y = (moved / (float(np.abs(moved).max()) or 1.0)).T
    columns = (np.ones(len(x)), (x - y) ** 2, x, y, x**2, y**2)
    return np.stack([np.bincount(members, column, count) for column in columns], 1)


def _kappas(sums: Floats) -> Floats:
    """Kappa of each row of sums; NaN where chance leaves nothing to disagree on."""
    n, apart, x, y, xx, yy = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = (xx + yy) / n - 2 * (x / n) * (y / n)
        found = np.where(chance > 1e-14, 1 - apart / n / chance, math.nan)
    return np.maximum(found, -1.0)  # the least there is, but for rounding


def _resampled(sums: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Kappa of each resample of clusters; equal clusters are drawn by their counts."""
    different, counts = np.unique(sums, axis=0, return_counts=True)
    step = max(_DRAWS // len(different), 1)
    total = int(counts.sum())
    parts = [
        _kappas(rng.multinomial(total, counts / total, min(step, resamples - start)) @ different)
        for start in range(0, resamples, step)
    ]
    return np.concatenate(parts)
