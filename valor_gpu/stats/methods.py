"""Ends of bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.checks import check_choice
from valor_gpu.stats.intervals import Interval
from valor_gpu.stats.proportions import normal_quantile

Floats = NDArray[np.float64]

FAMILIES = (
    "detection", "detection_class", "ratio", "ratio_class", "curve", "pixels", "panoptic", "corpus", "rows",
)  # fmt: skip
"""Metrics whose numbers behave alike: means of detection, and its classes; accuracy, F1 and counts, and F1 of a class;
AUROC and AP of exact scores; mIoU; panoptic quality; BLEU; means of rows."""
METHODS = (
    "percentile", "basic", "normal", "normal_bias", "bca", "logit_normal", "skewed",
    "half_basic", "half_normal", "half_bias", "half_root", "half_logit", "half_skewed",
)  # fmt: skip
"""Ways to make the ends of an interval from replicates of all units, or (``half``) of half of the units without
replacement, which vary as much. ``percentile``: their quantiles. ``basic``: those mirrored at the number. ``normal``:
the number plus or minus their spread. ``bias``: about the number less the bias that they show. ``root``: if the bias
falls as the root of the units. ``logit``: normal on the scale of log odds, unless a replicate is below 0 or above 1.
``bca``, ``skewed``: with the skewness taken out that samples without a share of the units show."""
ANALYTIC = {
    "delong": "areas under exact ROC curves of rows of equal weight, of classes and of their mean",
    "wilson": "proportions of rows, such as accuracy",
    "clopper_pearson": "proportions of rows, such as accuracy",
}
"""Ways to make an interval without replicates, and of which numbers. ``delong``: by the variance of DeLong on the scale
of log odds; ``wilson``: the score interval; ``clopper_pearson``: the exact one, which is wider."""
DELETED = ("bca", "skewed", "half_skewed")
"""Methods that need samples without a share of the units."""
FEW_UNITS = 20
"""A number of a class has an interval only where so many units hold a truth of the class."""
_FAR = 500.0  # log odds that are as good as infinite
_LARGEST = 1e100  # the cubes of sums of such numbers are finite
_ROUNDING = 1e-12  # of means of a million equal numbers, relative
_EVEN = 1e-6  # skewness below which its correction is lost in rounding
MOST_LOST = 0.05
"""Fraction of replicates without the number up to which the others give an interval."""
EQUAL = "every replicate is equal: data of this size do not show how the number varies"


@frozen
class Replicates:
    """What an interval is made of.

    Attributes:
        values: float64 ``[B]``, NaN where the number does not exist.
        half: the same of samples of half of the units, or None.
        deleted: the same without each share of the units, or None.
        support: units that hold a truth of the number; None: it needs none.
        freedom: degrees of freedom of the spread, for Student's quantiles; infinite: those of the normal distribution.
    """

    values: Floats
    half: Floats | None = None
    deleted: Floats | None = None
    support: int | None = None
    freedom: float = math.inf


@frozen
class Default:
    """The method of a family of metrics and a target: the shortest that was seen to hold, by benchmarks/coverage.py.

    Attributes:
        method: of :data:`METHODS`.
        least: units from which on it holds in 93 % or more of data sets; infinite: no size that was measured is enough.
    """

    method: str
    least: float = 0


DEFAULTS: Mapping[str, Mapping[str, Default]] = {
    "detection": {"expected": Default("half_normal"), "population": Default("normal_bias", 5000)},
    "detection_class": {"expected": Default("logit_normal"), "population": Default("half_logit")},
    "ratio": {"expected": Default("logit_normal"), "population": Default("logit_normal")},
    "ratio_class": {"expected": Default("percentile"), "population": Default("percentile")},
    "curve": {"expected": Default("logit_normal"), "population": Default("logit_normal")},
    "pixels": {"expected": Default("logit_normal"), "population": Default("half_logit")},
    "panoptic": {"expected": Default("half_logit"), "population": Default("half_bias")},
    "corpus": {"expected": Default("logit_normal"), "population": Default("logit_normal")},
    "rows": {"expected": Default("skewed"), "population": Default("skewed")},
}
"""Defaults by family and target: ``python -m benchmarks.coverage choose`` prints them from the stored table."""
DIFFERENCES: Mapping[str, Mapping[str, Default]] = {
    "detection": {"expected": Default("half_normal"), "population": Default("half_normal")},
    "detection_class": {"expected": Default("half_normal"), "population": Default("percentile")},
    "ratio": {"expected": Default("normal_bias"), "population": Default("normal_bias")},
    "ratio_class": {"expected": Default("normal"), "population": Default("normal")},
    "curve": {"expected": Default("normal_bias"), "population": Default("normal_bias")},
    "pixels": {"expected": Default("percentile"), "population": Default("percentile")},
    "panoptic": {"expected": Default("percentile"), "population": Default("percentile")},
    "corpus": {"expected": Default("percentile"), "population": Default("percentile")},
    "rows": {"expected": Default("normal_bias"), "population": Default("normal")},
}
"""Those of the difference of two models on the same units."""


def default_of(family: str, target: str, paired: bool = False) -> Default:
    """Returns the default of a family.

    Args:
        family: of :data:`FAMILIES`.
        target: of the interval.
        paired: whether the number is the difference of two models on the same units.
    """
    check_choice("family", family, FAMILIES)
    return (DIFFERENCES if paired else DEFAULTS)[family][target]


def default_method(family: str, target: str, paired: bool = False) -> str:
    """Returns the method that holds its confidence for a family of metrics; see :func:`default_of`."""
    return default_of(family, target, paired).method


def too_few_units(family: str, target: str, units: int, unit: str, paired: bool = False) -> str:
    """Returns why the default interval of a target is refused for so many units; empty where it is not.

    Only that of the population is refused: few units bias a number by more than its interval, which no method mends.
    """
    least = default_of(family, target, paired).least
    if target != "population" or units >= least:
        return ""
    if math.isinf(least):
        size = "no size that was measured is enough"
    else:
        size = f"it takes {int(least):,} but there are {units:,}"
    return f"too few {unit} for an interval that holds the {target} number: {size} (docs/coverage.md)"


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
    if reason := _unusable(sample.values, "replicates"):
        return Interval(lost=lost, reason=reason)
    if method.startswith("half") and sample.half is not None and (reason := _doubt_of_half(kept, sample.half, unit)):
        return Interval(lost=lost, reason=reason)
    error, bias = float(kept.std(ddof=1)), float(kept.mean()) - estimate
    if "logit" in method and estimate in (0, 1) and 0 <= kept.min() < kept.max() <= 1:
        return Interval(lost=lost, reason=f"the number is {estimate:g}, an end of its range, and replicates differ")
    low, high = _ends(method, estimate, kept, sample, confidence)
    return Interval(low, high, error, bias, lost)


def _doubt_of_half(kept: Floats, half: Floats, unit: str) -> str:
    """Why samples of half of the units give no interval; empty where they do."""
    if all_equal(kept):
        return EQUAL
    there = half[~np.isnan(half)]
    return _unusable(half, f"samples of half of the {unit}") or (EQUAL if all_equal(there) else "")


def all_equal(replicates: Floats) -> bool:
    """Returns whether replicates differ by no more than the rounding of their sums.

    Example:
        >>> all_equal(np.array([0.1 + 0.2, 0.3])), all_equal(np.array([0.3, 0.3001]))
        (True, False)
    """
    return float(np.ptp(replicates)) <= _ROUNDING * float(np.abs(replicates).max())


def _unusable(values: Floats, what: str) -> str:
    """Why replicates give no interval; empty where they do."""
    lost, infinite = int(np.isnan(values).sum()), int((np.abs(values) > _LARGEST).sum())
    if lost > MOST_LOST * len(values):
        return f"the number does not exist in {lost} of {len(values)} {what}"
    return f"the number is infinite, or above 1e100, in {infinite} of {len(values)} {what}" if infinite else ""


def _ends(method: str, estimate: float, kept: Floats, sample: Replicates, confidence: float) -> tuple[float, float]:
    deleted = usable_deleted(sample)
    if method == "bca" and len(deleted):
        from valor_gpu.stats.paired import bca_interval

        return bca_interval(estimate, np.sort(kept), deleted - deleted.mean(), confidence)
    values = used_replicates(method, sample)
    kept = values[~np.isnan(values)]
    if method in ("percentile", "basic", "half_basic"):
        low, high = np.quantile(kept, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
        return (low, high) if method == "percentile" else (2 * estimate - high, 2 * estimate - low)
    z, error = _reach(confidence, sample.freedom), float(kept.std(ddof=1))
    if "logit" in method and 0 < estimate < 1 and kept.min() >= 0 and kept.max() <= 1:
        return logit_ends(estimate, z * error)
    if method.endswith("skewed"):
        return _skewed(estimate, error, deleted, z)
    shift = {"normal_bias": 1.0, "half_bias": 1.0, "half_root": 1 / (math.sqrt(2) - 1)}.get(method, 0.0)
    centre = estimate - shift * (float(kept.mean()) - estimate)
    return centre - z * error, centre + z * error


def _reach(confidence: float, freedom: float) -> float:
    """How many standard errors an end lies from the centre."""
    if math.isinf(freedom):
        return normal_quantile(confidence)
    from valor_gpu.stats.distributions import t_quantile

    return t_quantile(confidence, freedom)


def used_replicates(method: str, sample: Replicates) -> Floats:
    """Returns the replicates that the ends of a method are made of."""
    return sample.half if method.startswith("half") and sample.half is not None else sample.values


def usable_deleted(sample: Replicates) -> Floats:
    """Returns the finite numbers without each share of the units."""
    return np.zeros(0) if sample.deleted is None else sample.deleted[np.abs(sample.deleted) <= _LARGEST]


def skewness_of(deleted: Floats) -> float:
    """Returns the skewness of a number from samples without each share of the units; 0 without such samples."""
    deviations = deleted.mean() - deleted if len(deleted) else deleted
    square = float((deviations**2).sum())
    return float((deviations**3).sum()) / square**1.5 if square else 0.0


def logit_ends(estimate: float, reach: float) -> tuple[float, float]:
    """Computes ends about the log odds of a number, by the delta method.

    Args:
        estimate: above 0 and below 1.
        reach: half of the width of the interval on the scale of the number.

    Example:
        >>> [round(end, 4) for end in logit_ends(0.9, 0.1)]
        [0.7476, 0.9647]
    """
    centre, reach = math.log(estimate / (1 - estimate)), min(reach / (estimate * (1 - estimate)), _FAR)
    return _share(centre - reach), _share(centre + reach)


def _share(odds: float) -> float:
    """The share whose log odds these are."""
    return 1 / (1 + math.exp(-odds)) if odds >= 0 else math.exp(odds) / (1 + math.exp(odds))


def _skewed(estimate: float, error: float, deleted: Floats, z: float) -> tuple[float, float]:
    """Ends after the transformation that takes the skewness out of (number - expected) / error.

    Source: Hall, "On the removal of skewness by transformation" (1992).
    """
    skew = skewness_of(deleted)
    low, high = (_unskewed(end - skew / 6, skew) for end in (z, -z))
    return estimate - low * error, estimate - high * error


def _unskewed(end: float, skew: float) -> float:
    """Inverse of ``t + skew t^2 / 3 + skew^2 t^3 / 27``."""
    return end if abs(skew) < _EVEN else 3 / skew * (math.cbrt(1 + skew * end) - 1)
