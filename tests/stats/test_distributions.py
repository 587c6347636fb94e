"""Tails and quantiles beside those of SciPy, and of sums of whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from valor_gpu.stats.distributions import binomial_above, exact_ends, incomplete_beta, t_beyond, t_quantile


def test_incomplete_beta_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    for _ in range(1000):
        a, b = (10 ** rng.uniform(-1, 6, 2)).tolist()
        x = float(rng.beta(a, b))
        assert incomplete_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-12)
    assert [incomplete_beta(x, 2, 3) for x in (-0.5, 0, 1, 1.5)] == [0, 0, 1, 1]


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_tails_of_the_binomial_are_sums_of_fractions(n: int) -> None:
    for p in (Fraction(1, 100), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)):
        for least in range(n + 2):
            whole = sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least, n + 1))
            assert binomial_above(least, n, float(p)) == pytest.approx(float(whole), rel=1e-12, abs=1e-15)


def test_exact_ends_are_quantiles_of_the_beta_distribution() -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 5, 44, 1000, 250_000):
        for successes in {0, n, *rng.integers(0, n + 1, 5).tolist()}:
            low, high = exact_ends(successes, n, 0.9)
            assert low == pytest.approx(
                stats.beta.ppf(0.05, successes, n - successes + 1) if successes else 0, abs=1e-12
            )
            right = stats.beta.ppf(0.95, successes + 1, n - successes) if successes < n else 1
            assert high == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize(("successes", "n"), [(0, 4), (3, 10), (10, 10), (60, 200)])
def test_mid_ends_count_half_of_what_was_seen(successes: int, n: int) -> None:
    low, high = exact_ends(successes, n, 0.95, mid=True)
    exact = exact_ends(successes, n, 0.95)
    assert exact[0] <= low <= successes / n <= high <= exact[1]
    seen = stats.binom.pmf(successes, n, [low, high]) / 2
    if successes:
        assert stats.binom.sf(successes, n, low) + seen[0] == pytest.approx(0.025, abs=1e-12)
    if successes < n:
        assert stats.binom.cdf(successes - 1, n, high) + seen[1] == pytest.approx(0.025, abs=1e-12)


@pytest.mark.parametrize("freedom", [0.5, 1, 2.5, 10, 431.7, 9e5, 2e6])
def test_student_is_that_of_scipy(freedom: float) -> None:
    far = 1e-5 if freedom > 1e6 else 1e-11
    for t in (0.0, 0.01, 0.7, 1.96, 5.0, 30.0):
        assert t_beyond(t, freedom) == pytest.approx(
            2 * stats.t.sf(t, freedom), rel=1e-3 if far == 1e-5 else far, abs=far
        )
    for confidence in (0.5, 0.95, 0.999):
        assert t_quantile(confidence, freedom) == pytest.approx(stats.t.ppf(0.5 + confidence / 2, freedom), rel=far)
