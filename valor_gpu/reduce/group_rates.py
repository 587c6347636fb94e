"""Rates of groups and how far they are apart, from counts of decisions: NumPy, float64 out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SELECTED, FOUND, FALSE_ALARM = "selection_rate", "true_positive_rate", "false_positive_rate"
CRITERIA = {
    "demographic_parity": {"DP": SELECTED},
    "equal_opportunity": {"EO": FOUND},
    "all": {"DP": SELECTED, "EO": FOUND},
}
"""Choice to the short names of its criteria and the rates that they compare."""
LONG = {"DP": "demographic_parity", "EO": "equal_opportunity"}
"""Short name of a criterion to its name."""
_NO_RATE = {
    SELECTED: "groups without samples have none",
    FOUND: "groups without positives have none",
    FALSE_ALARM: "groups without negatives have none",
}
_NO_GAP = "no group has a rate"
_NO_RATIO = "the highest rate is 0, or no group has one"


class Gap(NamedTuple):
    """How far rates are apart.

    Attributes:
        lowest: the first group with the lowest rate; 0 where none has one.
        highest: the first group with the highest.
        ratio: of both, NaN where the highest is 0.
        difference: of both.
    """

    lowest: int
    highest: int
    ratio: float
    difference: float


def rates_of(parts: Floats, wholes: Floats) -> Floats:
    """Returns parts divided by wholes, NaN where these are 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        rates: Floats = np.asarray(parts, np.float64) / wholes
    return rates


def group_rates(counts: Floats) -> dict[str, Floats]:
    """Computes the selection rate, true positive rate and false positive rate of each group.

    Args:
        counts: ``[G, 4]``, true positives, false positives, true negatives and false negatives; sums of weights too.

    Returns:
        Name to ``[G]``, NaN where a group has none.

    Example:
        >>> rates = group_rates(np.array([[2.0, 1.0, 1.0, 0.0], [0.0, 0.0, 4.0, 0.0]]))
        >>> rates["selection_rate"], rates["true_positive_rate"]
        (array([0.75, 0.  ]), array([ 1., nan]))
    """
    return {name: rates_of(*trials) for name, trials in trials_of_rates(counts).items()}


def trials_of_rates(counts: Floats) -> dict[str, tuple[Floats, Floats]]:
    """Returns successes and trials of each rate of :func:`group_rates`, ``[G]``."""
    tp, fp, tn, fn = counts.T
    return {SELECTED: (tp + fp, tp + fp + tn + fn), FOUND: (tp, tp + fn), FALSE_ALARM: (fp, fp + tn)}


def gap_of(rates: Floats) -> Gap:
    """Computes how far rates are apart, of the groups that have one.

    Example:
        >>> gap_of(np.array([0.5, np.nan, 0.25, 0.5]))
        Gap(lowest=2, highest=0, ratio=0.5, difference=0.25)
    """
    if np.isnan(rates).all():
        return Gap(0, 0, math.nan, math.nan)
    lowest, highest = int(np.nanargmin(rates)), int(np.nanargmax(rates))
    low, high = float(rates[lowest]), float(rates[highest])
    return Gap(lowest, highest, low / high if high > 0 else math.nan, high - low)


def fairness_values(rates: Mapping[str, Floats], criterion: str, names: Sequence[str]) -> dict[str, Any]:
    """Returns ratios, differences and rates of groups by name, as a result has them.

    Args:
        rates: of :func:`group_rates`.
        criterion: one of :data:`CRITERIA`.
        names: of the groups.
    """
    gaps = {LONG[short]: gap_of(rates[rate]) for short, rate in CRITERIA[criterion].items()}
    shown = list(CRITERIA[criterion].values())
    if criterion == "all":
        shown.append(FALSE_ALARM)
        odds = [gap_of(rates[rate]) for rate in (FOUND, FALSE_ALARM)]
        # NaN of one rate is NaN of both: np.min keeps it.
        ratio, difference = np.min([gap.ratio for gap in odds]), np.max([gap.difference for gap in odds])
        gaps["equalized_odds"] = Gap(0, 0, float(ratio), float(difference))
    found: dict[str, Any] = {}
    for name, gap in gaps.items():
        found |= {f"{name}_ratio": gap.ratio, f"{name}_difference": gap.difference}
    return found | {rate: dict(zip(names, rates[rate].tolist())) for rate in shown}


def gap_reasons(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns why numbers of :func:`fairness_values` are NaN."""
    reasons = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            if any(map(math.isnan, value.values())):
                reasons[name] = _NO_RATE[name]
        elif math.isnan(value):
            reasons[name] = _NO_RATIO if name.endswith("_ratio") else _NO_GAP
    return reasons
