"""p-values of differences from the interval that a method makes of them: the least error rate that leaves out 0."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.stats.distributions import t_beyond
from valor_gpu.stats.methods import METHODS, Replicates, skewness_of, usable_deleted, used_replicates

Floats = NDArray[np.float64]

PAIRED_METHODS = tuple(method for method in METHODS if "logit" not in method)
"""Methods of differences: those of log odds are of fractions alone."""
_NORMAL = NormalDist()


@frozen
class Inverted:
    """A test of a difference, from its interval.

    Attributes:
        p_value: for every error rate from ``smallest`` on, it is below the rate exactly when the interval of that rate
            leaves out 0.
        smallest: the smallest value that so many replicates can give; 0 where the method takes none.
        statistic: the difference in standard errors, less the bias where the method takes it out; of a method that
            takes quantiles of a distribution, the distance at which the normal distribution has this p-value.
        deviations: float64 ``[B]``, replicates less their mean, in standard errors; NaN where one is lost.
        spread: standard error of the difference.
    """

    p_value: float
    smallest: float
    statistic: float
    deviations: Floats
    spread: float


def check_paired_method(method: str) -> None:
    """Raises unless a method serves differences.

    Raises:
        InputError: ``method`` is of log odds, or unknown.
    """
    if method not in PAIRED_METHODS:
        raise InputError(
            f"method of a difference must be one of {', '.join(PAIRED_METHODS)} but is {method!r}: log odds are of"
            " fractions alone"
        )


def inverted(method: str, difference: float, sample: Replicates) -> Inverted:
    """Computes the p-value that belongs to the interval of a method.

    Args:
        method: of :data:`PAIRED_METHODS`.
        difference: the number; its interval exists.
        sample: its replicates.

    Source: Efron and Tibshirani, "An introduction to the bootstrap" (1993), section 15.4, for the duality of intervals
    and tests; Phipson and Smyth, "Permutation p-values should never be zero" (2010), for the smallest value.

    Example:
        >>> values = np.array([0.1, 0.2, -0.1, 0.3, 0.4])
        >>> round(inverted("percentile", 0.2, Replicates(values)).p_value, 4)
        0.3333
        >>> round(inverted("normal", 0.2, Replicates(values)).p_value, 4)
        0.2985
    """
    values = used_replicates(method, sample)
    kept = values[~np.isnan(values)]
    mean, error = float(kept.mean()), float(kept.std(ddof=1))
    deleted = usable_deleted(sample)
    smallest = 2 / (len(kept) + 1)
    centre = difference - _shift(method) * (mean - difference)
    statistic = centre / error
    if method in ("percentile", "basic", "half_basic"):
        point = 0.0 if method == "percentile" else 2 * difference
        p_value = 2 * min(_share_up_to(kept, point), _share_up_to(-kept, -point))
    elif method == "bca" and len(deleted):
        p_value = _bca(difference, kept, deleted - deleted.mean())
    else:
        skew = skewness_of(deleted) if method.endswith("skewed") else 0.0
        ratio, smallest = statistic, 0.0
        unskewed = ratio + skew * ratio**2 / 3 + skew**2 * ratio**3 / 27 + skew / 6
        p_value = t_beyond(abs(unskewed), sample.freedom)
        statistic = math.copysign(normal_deviate(p_value), unskewed)
    p_value = min(1.0, max(p_value, smallest))
    return Inverted(p_value, smallest, statistic, (values - mean) / error, error)


def normal_deviate(p_value: float) -> float:
    """Returns the distance from 0 that a normal variable reaches with this probability; infinite of 0.

    Example:
        >>> round(normal_deviate(0.05), 4)
        1.96
    """
    return -_NORMAL.inv_cdf(p_value / 2) if p_value > 0 else math.inf


def _shift(method: str) -> float:
    """How often the bias of the replicates is taken out."""
    return {"normal_bias": 1.0, "half_bias": 1.0, "half_root": 1 / (math.sqrt(2) - 1)}.get(method, 0.0)


def _share_up_to(values: Floats, point: float) -> float:
    """The largest share whose quantile is at most a point; 0 where there is none."""
    ordered = np.sort(values)
    below = int(np.searchsorted(ordered, point, "right"))
    if below in (0, len(ordered)):
        return below / len(ordered)
    low, high = ordered[below - 1 : below + 1].tolist()
    return float((below - 1 + (point - low) / (high - low)) / (len(ordered) - 1))


def _bca(difference: float, kept: Floats, deviations: Floats) -> float:
    """The error rate at which an end of :func:`valor_gpu.stats.paired.bca_interval` is 0."""
    share = float((kept < difference).sum() + (kept <= difference).sum()) / 2 / len(kept)
    upto, beyond = _share_up_to(kept, 0.0), _share_up_to(-kept, 0.0)
    if not 0 < share < 1:
        return 0.0 if 0.0 in (upto, beyond) else 1.0
    bias = _NORMAL.inv_cdf(share)
    spread = float((deviations**2).sum()) ** 1.5
    acceleration = -float((deviations**3).sum()) / (6 * spread) if spread else 0.0
    reach = max(-_unshifted(upto, bias, acceleration), _unshifted(1 - beyond, bias, acceleration))
    return 2 * _NORMAL.cdf(-max(reach, 0.0))


def _unshifted(share: float, bias: float, acceleration: float) -> float:
    """The normal quantile whose end is the quantile ``share`` of the replicates."""
    if share in (0.0, 1.0):
        return -math.inf if share == 0 else math.inf
    moved = _NORMAL.inv_cdf(share) - bias
    if 1 + acceleration * moved <= 0:  # no end reaches so far
        return math.copysign(math.inf, moved)
    return moved / (1 + acceleration * moved) - bias
