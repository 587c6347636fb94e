"""Ends of bootstrap intervals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.checks import check_choice
from valor_gpu.stats.intervals import Interval
from valor_gpu.stats.paired import bca_interval
from valor_gpu.stats.proportions import normal_quantile

Floats = NDArray[np.float64]

METHODS = ("percentile", "basic", "normal", "normal_bias", "bca", "half_basic", "half_normal")
FEW_UNITS = 20
"""A number of a class has an interval only where so many units hold a truth of the class."""
MOST_LOST = 0.05
"""Fraction of replicates without the number up to which the others give an interval."""


@frozen
class Replicates:
    """What an interval is made of.

    Attributes:
        values: float64 ``[B]``, NaN where the number does not exist.
        half: the same of samples of half of the units, or None.
        deleted: the same without each share of the units, or None.
        support: units that hold a truth of the number; None: it needs none.
    """

    values: Floats
    half: Floats | None = None
    deleted: Floats | None = None
    support: int | None = None


def default_method(family: str, target: str) -> str:
    """Returns the method that holds its confidence for a family of metrics; see benchmarks/coverage.py."""
    return "normal"


def interval_by(method: str, estimate: float, sample: Replicates, confidence: float, unit: str) -> Interval:
    """Computes the interval of a number.

    Args:
        method: of :data:`METHODS`.
        estimate: the number.
        sample: its replicates.
        confidence: of the interval.
        unit: name of the units, for the reason.
    """
    check_choice("method", method, METHODS)
    kept = sample.values[~np.isnan(sample.values)]
    lost = len(sample.values) - len(kept)
    if math.isnan(estimate):
        return Interval(lost=lost, reason="the number does not exist")
    if sample.support is not None and sample.support < FEW_UNITS:
        return Interval(lost=lost, reason=f"too few {unit}: {sample.support} hold a truth, it takes {FEW_UNITS}")
    if lost > MOST_LOST * len(sample.values):
        return Interval(lost=lost, reason=f"the number does not exist in {lost} of {len(sample.values)} replicates")
    error, bias = float(kept.std(ddof=1)), float(kept.mean()) - estimate
    low, high = _ends(method, estimate, kept, sample, confidence)
    return Interval(low, high, error, bias, lost)


def _ends(method: str, estimate: float, kept: Floats, sample: Replicates, confidence: float) -> tuple[float, float]:
    tails = (1 - confidence) / 2, (1 + confidence) / 2
    if method == "bca" and sample.deleted is not None:
        deleted = sample.deleted[~np.isnan(sample.deleted)]
        return bca_interval(estimate, np.sort(kept), deleted - deleted.mean(), confidence)
    if method.startswith("half") and sample.half is not None:
        kept = sample.half[~np.isnan(sample.half)]
    low, high = (float(np.quantile(kept, tail)) for tail in tails)
    if method == "percentile":
        return low, high
    if method in ("basic", "half_basic"):
        return 2 * estimate - high, 2 * estimate - low
    reach = normal_quantile(confidence) * float(kept.std(ddof=1))
    centre = 2 * estimate - float(kept.mean()) if method == "normal_bias" else estimate
    return centre - reach, centre + reach
