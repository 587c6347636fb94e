"""Tails of the binomial and of Student's t distribution, by the incomplete beta function. No NumPy."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from statistics import NormalDist

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_LARGE = 15.0  # from which on Stirling's series has all digits
_TINY = 1e-300
_NORMAL = 1e6  # degrees of freedom from which on Student's distribution is taken for the normal one
_STEEP = 0.1  # confidence from which on Newton's method finds the quantile
_STEPS, _CLOSE = 60, 1e-13


def incomplete_beta(x: float, a: float, b: float, rest: float | None = None) -> float:
    """Computes the regularised incomplete beta function ``I_x(a, b)``, the share of a beta distribution below ``x``.

    Args:
        x: from 0 to 1.
        a: above 0.
        b: above 0.
        rest: ``1 - x``, of which an ``x`` close to 1 does not have all digits; None: it is computed.

    Source: the even part of the continued fraction 8.17.22 of the NIST Digital Library of Mathematical Functions; its
    factor by Stirling's series, after Loader, "Fast and accurate computation of binomial probabilities" (2000).

    Example:
        >>> round(incomplete_beta(0.25, 2, 3), 12)
        0.26171875
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    rest = 1 - x if rest is None else rest
    if x > (a + 1) / (a + b + 2):
        return 1 - _lower(rest, x, b, a)
    return _lower(x, rest, a, b)


def _lower(x: float, rest: float, a: float, b: float) -> float:
    """The function below the mean, by the method of Lentz."""
    lead = a * rest - b * x + 1
    value = c = _apart(a * lead / (a + 1))
    inverse, step = 0.0, 0
    while True:
        step += 1
        at = a + 2 * step - 1
        top = (a + step - 1) * (a + b + step - 1) * step * (b - step) * x * x / (at * at)
        bottom = step + step * (b - step) * x / at + (a + step) * (lead + step * (1 + rest)) / (at + 2)
        inverse, c = 1 / _apart(bottom + top * inverse), _apart(bottom + top / c)
        value *= inverse * c
        if abs(inverse * c - 1) < 2e-16:
            return _power(x, rest, a, b) / value


def _apart(value: float) -> float:
    """The value, which is not to be 0."""
    return value if abs(value) > _TINY else _TINY


def _power(x: float, rest: float, a: float, b: float) -> float:
    """``x^a (1 - x)^b / B(a, b)``."""
    whole = a + b
    away = x - a / whole if x < rest else b / whole - rest
    exponent = a * _log_ratio(away, x, a / whole) + b * _log_ratio(-away, rest, b / whole)
    exponent += _remainder(whole) - _remainder(a) - _remainder(b)
    return math.exp(exponent) * math.sqrt(a * b / (2 * math.pi * whole))


def _log_ratio(away: float, x: float, middle: float) -> float:
    """Logarithm of ``x / middle``; ``away`` is their difference."""
    return math.log1p(away / middle) if abs(away) < middle / 2 else math.log(x) - math.log(middle)


def _remainder(z: float) -> float:
    """Logarithm of the gamma function less Stirling's formula."""
    if z < _LARGE:
        return math.lgamma(z) - ((z - 0.5) * math.log(z) - z + 0.5 * math.log(2 * math.pi))
    return math.fsum(term / z ** (2 * place + 1) for place, term in enumerate(_STIRLING))


def binomial_above(least: int, n: int, p: float) -> float:
    """Computes how probable it is that at least ``least`` of n trials succeed.

    Args:
        least: number of successes.
        n: number of trials.
        p: how probable the success of each is.

    Example:
        >>> round(binomial_above(2, 3, 0.5), 12)
        0.5
    """
    if least <= 0 or least > n:
        return 1.0 if least <= 0 else 0.0
    return incomplete_beta(p, least, n - least + 1)


def exact_ends(successes: int, n: int, confidence: float, mid: bool = False) -> tuple[float, float]:
    """Computes the interval of the probability of success that inverts the binomial test of equal tails.

    Args:
        successes: from 0 to n.
        n: number of trials, at least 1.
        confidence: of the interval.
        mid: whether the number that was seen counts half in its tail.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial"
    (1934); with ``mid``, Berry and Armitage, "Mid-P confidence intervals: a brief review" (1995).

    Example:
        >>> [round(end, 4) for end in exact_ends(9, 10, 0.95)]
        [0.555, 0.9975]
    """
    tail = (1 - confidence) / 2

    def above(p: float, seen: int) -> float:
        if not mid:
            return binomial_above(seen, n, p)
        return (binomial_above(seen, n, p) + binomial_above(seen + 1, n, p)) / 2

    low = _crossing(lambda p: above(p, successes) - tail) if successes else 0.0
    high = 1 - _crossing(lambda q: above(q, n - successes) - tail) if successes < n else 1.0
    return low, high


def _crossing(rising: Callable[[float], float], high: float = 1.0) -> float:
    """Where a function that rises from below 0 reaches 0, between 0 and ``high``, by halves."""
    low = 0.0
    while low < (middle := (low + high) / 2) < high and high - low > 4e-16 * middle:
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


def t_beyond(t: float, freedom: float) -> float:
    """Computes how probable it is that a variable of Student's distribution is at least so far from 0.

    Args:
        t: distance, at least 0.
        freedom: degrees of freedom, above 0; of 1e6 and more the normal distribution is taken.

    Example:
        >>> round(t_beyond(1.0, 1.0), 12)
        0.5
    """
    if freedom >= _NORMAL:
        return math.erfc(t / math.sqrt(2))
    square = t * t
    whole = freedom + square
    return incomplete_beta(freedom / whole, freedom / 2, 0.5, square / whole)


@functools.cache
def t_quantile(confidence: float, freedom: float) -> float:
    """Computes within which distance of 0 a variable of Student's distribution lies with this probability.

    Args:
        confidence: above 0 and below 1.
        freedom: degrees of freedom, above 0.

    Example:
        >>> round(t_quantile(0.95, 10), 4)
        2.2281
    """
    upper = 0.5 + confidence / 2  # 1 for the largest confidence below 1
    normal = NormalDist().inv_cdf(upper) if upper < 1 else -NormalDist().inv_cdf((1 - confidence) / 2)
    if freedom >= _NORMAL:
        return normal
    if confidence < _STEEP:
        return _crossing(lambda t: 1 - confidence - t_beyond(t, freedom), 1.0)
    # Newton's method for log P over log t, which is nearly straight in the tail.
    scale = 2 * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    t = normal
    for _ in range(_STEPS):
        beyond = t_beyond(t, freedom)
        slope = t * scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2) / beyond
        step = math.log(beyond / (1 - confidence)) / slope
        t *= math.exp(min(step, 1.0))
        if abs(step) < _CLOSE:
            break
    return t
