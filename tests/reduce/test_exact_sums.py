"""Numbers of exact sums: each is the nearest float64, whatever the sums."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from testing.examples_moments import wild
from tests.fuzz import seeds
from valor_gpu.ops.moments.kinds import Kind
from valor_gpu.ops.moments.op import moments
from valor_gpu.reduce.exact_sums import centred, correlation, exact, quotient, root, rounded, unit


@pytest.mark.parametrize("seed", seeds(5))
def test_rounded_sums_are_those_of_fsum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = sorted(rng.integers(-1074, 1000, 2).tolist())
    values = wild(rng, (int(rng.integers(0, 300)), 3), low, high)
    found = moments(values, torch.zeros_like(values), Kind.PRODUCTS).sums
    expected = [math.fsum(column) for column in values.t().tolist()]
    assert rounded(found)[:, 0].tolist() == expected
    added = sum((moments(row[None], torch.zeros_like(row[None]), Kind.PRODUCTS).sums for row in values), 0 * found)
    assert exact(added) == exact(found)  # limbs of added sums are larger than 32 bits


def test_sums_of_negative_numbers() -> None:
    found = moments(torch.tensor([-1.0, -2.0]), torch.tensor([0.0, 5.0]), Kind.PRODUCTS).sums
    assert [Fraction(number, unit(found)) for number in exact(found)] == [-3, 5, 5, 25, -10]
    assert exact(-found) == [-number for number in exact(found)]


@pytest.mark.parametrize("seed", seeds(5))
def test_roots_are_the_nearest(seed: int) -> None:
    rng, context = np.random.default_rng(seed), Context(prec=60)
    for _ in range(200):
        numerator, denominator = (int(rng.integers(1, 2**62)) << int(rng.integers(0, 900)) for _ in range(2))
        exact_root = context.sqrt(context.divide(Decimal(numerator), Decimal(denominator)))
        assert root(numerator, denominator) == float(exact_root)
    assert root(9 << 2000, 1 << 2000) == 3.0 and root(0, 5) == 0.0
    assert math.isnan(root(-1, 2)) and math.isnan(root(1, 0)) and root(-4, -1) == 2.0
    halfway = (2**53 + 1) ** 2
    assert root(halfway, 1) == 2.0**53 and root(halfway + 1, 1) == 2.0**53 + 2


def test_quotients_beyond_float64() -> None:
    assert quotient(10**400, 3) == math.inf and quotient(-(10**400), 3) == -math.inf
    assert quotient(10**400, -3) == -math.inf and quotient(1, 10**400) == 0.0
    assert math.isnan(quotient(1, 0))


def test_variances_do_not_cancel() -> None:
    values = torch.tensor([1e15, 1e15 + 0.125, 1e15 + 0.25], dtype=torch.float64)
    sums = moments(values, -values, Kind.PRODUCTS).sums
    x, y, xx, yy, xy = exact(sums)
    of_x, of_y = (centred(*part, 3, unit(sums)) for part in ((xx, x, x), (yy, y, y)))
    expected = np.var([0.0, 0.125, 0.25])
    assert quotient(of_x, 9 * unit(sums) ** 2) == expected and of_x == of_y
    assert correlation(centred(xy, x, y, 3, unit(sums)), of_x, of_y) == -1.0
    assert math.isnan(correlation(0, 0, 5))
