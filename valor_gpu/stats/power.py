"""How much data a comparison takes: the difference that it could show, and units for a difference that matters."""

from __future__ import annotations

import math
from statistics import NormalDist

from valor_gpu.checks import check_number
from valor_gpu.errors import InputError
from valor_gpu.stats.proportions import normal_quantile

_NORMAL = NormalDist()


def detectable_difference(error: float, confidence: float = 0.95, power: float = 0.8) -> float:
    """Returns the smallest true difference that a test at the error rate 1 - ``confidence`` finds with some power.

    Args:
        error: standard error of the difference, at least 0; NaN gives NaN.
        confidence: above 0 and below 1.
        power: probability with which the test finds it, above 0 and below 1.

    Raises:
        InputError: an argument out of its range.

    Source: Cohen, "Statistical power analysis for the behavioral sciences" (1988); for evaluations, Miller, "Adding
    error bars to evals" (2024), section 5.

    Example:
        >>> round(detectable_difference(0.0021), 4)
        0.0059
    """
    check_power(power)
    return (normal_quantile(confidence) + _NORMAL.inv_cdf(power)) * error


def units_needed(units: int, detectable: float, smallest: float) -> float:
    """Returns how many units show a difference, when so many show another one; the standard error falls as their root.

    Args:
        units: that there are.
        detectable: difference that they show; NaN gives NaN.
        smallest: difference that would matter, above 0.

    Example:
        >>> units_needed(5000, 0.006, 0.003)
        20000.0
    """
    return math.nan if math.isnan(detectable) else float(math.ceil(units * (detectable / smallest) ** 2))


def power_of(difference: float, error: float, confidence: float = 0.95) -> float:
    """Returns the probability with which a test finds a true difference; NaN where there is no standard error.

    Args:
        difference: true difference.
        error: its standard error.
        confidence: above 0 and below 1; the error rate of the test is the rest.

    Example:
        >>> round(power_of(0.0058833, 0.0021), 3), round(power_of(0.0, 0.0021), 3)
        (0.8, 0.05)
    """
    if math.isnan(error) or error == 0 or math.isnan(difference):
        return math.nan
    z, ratio = normal_quantile(confidence), abs(difference) / error
    return _NORMAL.cdf(ratio - z) + _NORMAL.cdf(-ratio - z)


def check_power(power: float) -> None:
    """Raises unless ``power`` is above 0 and below 1."""
    check_number("power", power)
    if not 0 < power < 1:
        raise InputError(f"power must be above 0 and below 1 but is {power!r}")
