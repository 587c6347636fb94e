"""Ends of intervals of areas on the scale of log odds, and the p-value of a difference."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from valor_gpu.stats.area_moments import Moments
from valor_gpu.stats.distributions import t_beyond, t_quantile
from valor_gpu.stats.methods import logit_ends

_FARTHEST = 40.0  # standard errors that are looked at
_STEPS = 1024


def area_ends(value: float, variance: float, freedom: float, confidence: float) -> tuple[float, float]:
    """Computes the ends of the interval of an area about its log odds.

    Args:
        value: of the area, above 0 and below 1.
        variance: of the area.
        freedom: degrees of freedom of the variance.
        confidence: of the interval.
    """
    return logit_ends(value, t_quantile(confidence, freedom) * math.sqrt(variance))


def area_difference(
    values: Sequence[float], found: Moments, freedom: float, confidence: float
) -> tuple[float, float, float]:
    """Computes the ends of the interval of a difference, second less first, and the p-value that it inverts.

    Args:
        values: areas of both models, above 0 and below 1.
        found: their variances.
        freedom: degrees of freedom.
        confidence: of the interval.

    Source: Zou and Donner (2008), with the correlation of both areas.
    """
    difference = values[1] - values[0]
    width = t_quantile(confidence, freedom)
    low, high = difference - _reach(values, found, width, -1), difference + _reach(values, found, width, 1)
    if difference == 0:
        return low, high, 1.0
    side = -1 if difference > 0 else 1
    return low, high, t_beyond(_first_reaching(values, found, side), freedom)


def _reach(values: Sequence[float], found: Moments, width: float, side: int) -> float:
    """How far the interval of the difference reaches to a side, of intervals of ``width`` standard errors."""
    spread = math.sqrt(found.variances[0] * found.variances[1])
    correlation = min(max(found.covariance / spread, -1.0), 1.0) if spread else 0.0
    ends = [logit_ends(value, width * math.sqrt(v)) for value, v in zip(values, found.variances)]
    mine = abs(ends[1][side > 0] - values[1])
    other = abs(ends[0][side < 0] - values[0])
    return math.sqrt(max(mine * mine + other * other - 2 * correlation * mine * other, 0.0))


def _first_reaching(values: Sequence[float], found: Moments, side: int) -> float:
    """The smallest width whose interval reaches 0."""
    distance = abs(values[1] - values[0])
    widths = np.linspace(0, _FARTHEST, _STEPS + 1).tolist()
    high = next((width for width in widths if _reach(values, found, width, side) >= distance), None)
    if high is None:
        return _FARTHEST
    low = high - _FARTHEST / _STEPS
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if _reach(values, found, middle, side) >= distance else (middle, high)
    return high
