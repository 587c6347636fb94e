"""Every way to make an interval that benchmarks/coverage.py compares: the methods of the package, and candidates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.stats.methods import METHODS, MOST_LOST, Replicates, interval_by
from valor_gpu.stats.proportions import pass_rate

Floats = NDArray[np.float64]
Ends = tuple[float, float]
CONFIDENCE = 0.95
_Z = 1.959963984540054
_NONE = (math.nan, math.nan)


class Sample(NamedTuple):
    """A number of one data set, and all that was computed to judge it.

    Attributes:
        units: of the data set.
        estimate: the number.
        values: of draws with replacement; ``half`` of half the units, ``quarter`` of a quarter, without replacement.
        deleted: of all units but a share.
        nested: of draws with replacement from draws with replacement.
        error: standard error by a formula, NaN where none is known; ``errors``: of each draw.
    """

    units: int
    estimate: float
    values: Floats
    half: Floats
    quarter: Floats
    deleted: Floats
    nested: Floats
    error: float = math.nan
    errors: Floats | None = None


def _around(centre: float, reach: float) -> Ends:
    return centre - reach, centre + reach


def _spread(values: Floats) -> float:
    return float(np.nanstd(values, ddof=1))


def _root_bias(sample: Sample) -> float:
    """Bias of the number, if it falls as n to the power of -1/2."""
    return float(np.nanmean(sample.half) - sample.estimate) / (math.sqrt(2) - 1)


def _extrapolated(sample: Sample) -> Ends:
    """The power is that which n / 4 and n / 2 show, from 1/4 to 1."""
    first = float(np.nanmean(sample.half)) - sample.estimate
    second = float(np.nanmean(sample.quarter) - np.nanmean(sample.half))
    ratio = second / first if first else 1.0
    growth = min(max(ratio, 2**0.25), 2.0)
    return _around(sample.estimate - first / (growth - 1), _Z * _spread(sample.half))


def _double(sample: Sample) -> Ends:
    """The bias of the bootstrap's estimate of the bias is taken off it."""
    once = float(np.nanmean(sample.values))
    return _around(3 * sample.estimate - 3 * once + float(np.nanmean(sample.nested)), _Z * _spread(sample.values))


def _wide_root(sample: Sample) -> Ends:
    """As half_root, but as wide as a number that is 1 + 1 / (sqrt(2) - 1) times as uncertain in its own part."""
    bias = _root_bias(sample)
    return _around(sample.estimate - bias, math.hypot(_Z * _spread(sample.half), bias / 2))


def _odds(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values) - np.log1p(-values))


def _logit_basic(estimate: float, values: Floats) -> Ends:
    """The basic interval on the scale of log odds."""
    if not 0 < estimate < 1:
        return _NONE
    centre = math.log(estimate / (1 - estimate))
    low, high = np.quantile(_odds(values[~np.isnan(values)]), [0.025, 0.975], method="nearest")
    with np.errstate(over="ignore"):
        found = 1 / (1 + np.exp(-(2 * centre - np.array([high, low]))))
    return float(found[0]), float(found[1])


def _half_percentile(sample: Sample) -> Ends:
    low, high = np.nanquantile(sample.half, [0.025, 0.975])
    return float(low), float(high)


def _studentized(sample: Sample) -> Ends:
    if sample.errors is None or not sample.error:
        return _NONE
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = (sample.values - sample.estimate) / sample.errors
    low, high = np.quantile(ratios[np.isfinite(ratios)], [0.025, 0.975])
    return float(sample.estimate - high * sample.error), float(sample.estimate - low * sample.error)


def _wilson(sample: Sample) -> Ends:
    found = pass_rate(round(sample.estimate * sample.units), sample.units, CONFIDENCE)
    return found.low, found.high


CANDIDATES: dict[str, Callable[[Sample], Ends]] = {
    "logit_basic": lambda s: _logit_basic(s.estimate, s.values),
    "logit_half_basic": lambda s: _logit_basic(s.estimate, s.half),
    "half_percentile": _half_percentile,
    "half_root_wide": _wide_root,
    "half_power": _extrapolated,
    "double": _double,
    "studentized": _studentized,
    "wilson": _wilson,
}
"""Ways that the package has not, or not under this name."""

SHARES = ("logit_normal", "half_logit", "logit_basic", "logit_half_basic")
"""Those of numbers from 0 to 1: a difference and a mean of any scores have none."""
ALL = tuple(dict.fromkeys([*METHODS, *CANDIDATES]))


def applies(method: str, family: str, number: str) -> bool:
    """Whether a method is for such numbers."""
    if method == "wilson":
        return number == "accuracy"
    if method == "studentized":
        return family == "rows"
    return method not in SHARES or not (family == "rows" or number.endswith("difference"))


def ends(method: str, sample: Sample) -> Ends:
    """Ends of the interval; NaN where it makes none, or where nothing varies and the package gives none."""
    kept = sample.values[~np.isnan(sample.values)]
    if len(kept) < (1 - MOST_LOST) * len(sample.values) or kept.min() == kept.max():
        return _NONE
    if method not in METHODS:
        return CANDIDATES[method](sample)
    found: Any = interval_by(
        method, sample.estimate, Replicates(sample.values, sample.half, sample.deleted), CONFIDENCE, "units"
    )
    return found.low, found.high
