"""Proportions with their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from valor_gpu.checks import check_choice, check_int, check_number
from valor_gpu.errors import InputError


@dataclass(frozen=True)
class Proportion:
    """How many of n trials succeeded.

    Attributes:
        rate: ``successes / n``; NaN without trials.
        low: lower end of the interval; likewise ``high``. NaN without trials.
        successes: trials that succeeded.
        n: trials.
        confidence: of the interval.
        reason: why numbers are NaN; empty where they are not.
    """

    rate: float
    low: float
    high: float
    successes: int
    n: int
    confidence: float
    reason: str = ""


METHODS = ("wilson", "clopper_pearson")


def pass_rate(
    successes: int,
    n: int,
    confidence: float = 0.95,
    effective: float | None = None,
    method: str = "wilson",
) -> Proportion:
    """A proportion with the score interval of Wilson, which holds near 0 and 1 and for few trials.

    Args:
        successes: from 0 to n.
        n: number of trials.
        confidence: above 0 and below 1.
        effective: number of independent trials that say as much as these do, where trials come in clusters; the
            interval is theirs. None: all are independent.
        method: ``wilson``: close to the promised confidence on average; ``clopper_pearson``: never below it, and wider.

    Raises:
        InputError: an argument out of its range, or ``effective`` is given with ``clopper_pearson``.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference" (1927); with an effective
    number of trials, Franco et al., "Comparative study of confidence intervals for proportions in complex sample
    surveys" (2019); Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial" (1934).

    Example:
        >>> found = pass_rate(9, 10)
        >>> found.rate, round(found.low, 4), round(found.high, 4)
        (0.9, 0.5958, 0.9821)
        >>> exact = pass_rate(9, 10, method="clopper_pearson")
        >>> round(exact.low, 4), round(exact.high, 4)
        (0.555, 0.9975)
    """
    check_int("n", n)
    check_int("successes", successes)
    if successes > n:
        raise InputError(f"successes must be at most n={n} but got {successes}")
    z = normal_quantile(confidence)
    check_choice("method", method, METHODS)
    if n == 0:
        return Proportion(math.nan, math.nan, math.nan, 0, 0, confidence, "there are no trials")
    if method == "clopper_pearson":
        if effective is not None:
            raise InputError(f"effective must be None with method 'clopper_pearson' but got {effective}")
        from valor_gpu.stats.distributions import exact_ends

        return Proportion(successes / n, *exact_ends(successes, n, confidence), successes, n, confidence)
    trials = float(n)
    if effective is not None:
        check_number("effective", effective, 1, n)
        trials = float(effective)
    rate, square = successes / n, z * z
    centre = (rate + square / (2 * trials)) / (1 + square / trials)
    half = z / (1 + square / trials) * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Proportion(rate, low, high, successes, n, confidence)


def normal_quantile(confidence: float) -> float:
    """How many standard deviations around the mean of a normal distribution hold this share of it.

    Raises:
        InputError: ``confidence`` is not above 0 and below 1.

    Example:
        >>> round(normal_quantile(0.95), 4)
        1.96
    """
    check_number("confidence", confidence, 0, 1)
    if confidence in (0, 1):
        raise InputError(f"confidence must be above 0 and below 1 but got {confidence}")
    upper = 0.5 + confidence / 2  # 1 for the largest confidence below 1
    return NormalDist().inv_cdf(upper) if upper < 1 else -NormalDist().inv_cdf((1 - confidence) / 2)
