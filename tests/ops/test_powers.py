"""Logarithms and powers of exact sums beside those of decimal numbers with 60 digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.examples_moments import wild
from tests.fuzz import seeds
from valor_gpu.ops.moments import powers

ROWS = 300


def units_off(found: Tensor, expected: list[Decimal]) -> float:
    """The largest error in units of the last place of what is right."""
    pairs = zip(found.tolist(), expected)
    return max(float(abs(Decimal(f) - e) / Decimal(math.ulp(float(e)))) for f, e in pairs)


def by_decimal(x: Tensor, function: Callable[[Decimal], Decimal]) -> list[Decimal]:
    with localcontext() as context:
        context.prec = 60
        return [function(Decimal(value)) for value in x.tolist()]


def numbers(seed: int, low: int, high: int) -> Tensor:
    """Positive numbers of all exponents from low to high."""
    return wild(np.random.default_rng([seed, 41]), (ROWS,), low, high).abs() + 2.0**-1074


def test_tables_are_those_of_decimal_numbers() -> None:
    with localcontext() as context:
        context.prec = 60
        for place, numbers in enumerate(zip(powers.RECIPROCALS, powers.LOGS_HIGH, powers.LOGS_LOW)):
            c, high, low = map(Decimal, numbers)
            fractions = (np.int64(powers._START) + (np.arange(2, dtype=np.int64) + place << 48)).view(np.float64)
            assert all(abs(Decimal(float(m)) * c - 1) <= Decimal(2) ** -5 for m in fractions)
            assert c % Decimal(2) ** -16 == 0 and high % Decimal(2) ** -42 == 0
            assert abs(high + low + c.ln()) < Decimal(2) ** -97
        for place, (high, low) in enumerate(zip(powers.POWERS_HIGH, powers.POWERS_LOW)):
            assert abs(Decimal(high) + Decimal(low) - Decimal(2) ** (Decimal(place) / 16)) < Decimal(2) ** -105


@pytest.mark.parametrize("seed", seeds(2))
def test_a_logarithm_is_below_a_unit_off(seed: int) -> None:
    rng = np.random.default_rng([seed, 42])
    near, close = torch.from_numpy(rng.uniform(0.6, 1.5, ROWS)), 1 + wild(rng, (ROWS,), -52, -3)
    for x in (numbers(seed, -1074, 1023), near, close[close != 1]):
        expected = by_decimal(x, Decimal.ln)
        assert units_off(powers.log(x), expected) < 1
        parts = zip(*(part.tolist() for part in powers._long_log(x)), expected)
        assert max(abs(Decimal(high) + Decimal(low) - e) / abs(e) for high, low, e in parts) < Decimal(2) ** -57
    for x in (numbers(seed, -100, 3), -numbers(seed, -100, -1), numbers(seed, 0, 1023)):
        assert units_off(powers.log1p(x), by_decimal(x, lambda v: (1 + v).ln())) < 1


@pytest.mark.parametrize("exponent", [1.5, 2.5, 3.0, 4.0, 2.7, 7.0, -1.3])
def test_a_power_is_below_two_units_off(exponent: float) -> None:
    x = numbers(5, -20, 20)
    bound = 2 if exponent in powers.PLAIN_POWERS else 1 + abs(exponent) * 20 * math.log(2) / 16
    assert units_off(powers.power(x, exponent), by_decimal(x, lambda v: v ** Decimal(exponent))) < bound


def test_a_logarithm_of_a_cosine_is_below_three_units_off() -> None:
    sizes = torch.from_numpy(np.random.default_rng(7).uniform(0.5, 2, ROWS))
    for x in (sizes, numbers(8, -25, 8)):
        expected = by_decimal(x, lambda v: ((v.exp() + (-v).exp()) / 2).ln())
        assert units_off(powers.log_cosh(x), expected) < 3


def test_a_difference_of_logarithms_does_not_cancel() -> None:
    t = numbers(9, -40, 40)
    for p in (t.flip(0), t * (1 + 1e-9), t.nextafter(torch.full_like(t, torch.inf))):
        with localcontext() as context:
            context.prec = 60
            expected = [abs((1 + Decimal(a)).ln() - (1 + Decimal(b)).ln()) for a, b in zip(p.tolist(), t.tolist())]
        assert units_off(powers.log_ratio(p, t), expected) < 3


def test_deviances_of_equal_numbers_are_0() -> None:
    x = numbers(10, -100, 100)
    for exponent in (0.0, 1.0, 1.5, 2.0, 3.0):
        assert not powers.tweedie(x, x, exponent).any()
