"""p-values of differences against the intervals that they belong to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped,unused-ignore]

from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.stats.inversion import PAIRED_METHODS, check_paired_method, inverted
from valor_gpu.stats.methods import Replicates, interval_by


def _sample(rng: np.random.Generator, kind: str) -> tuple[float, Replicates]:
    """A difference, and its replicates: smooth, skewed, of few values, or all on one side."""
    count = int(rng.integers(5, 300))
    values = rng.normal(size=count)
    if kind == "skewed":
        values = rng.exponential(size=count) - 0.3
    elif kind == "few":
        values = rng.integers(-2, 4, count) / 10
        values[:2] = -0.1, 0.3
    elif kind == "apart":
        values = np.abs(values) + 0.01
    values = values + rng.normal() * (kind in ("smooth", "skewed"))
    half = values[rng.permutation(count)] * 1.1
    deleted = values.mean() + rng.exponential(size=40) * 0.05
    if rng.random() < 0.3:
        values[: count // 30] = np.nan
    return float(np.nanmean(values)) + 0.1 * rng.normal(), Replicates(values, half, deleted)


@pytest.mark.parametrize("method", PAIRED_METHODS)
@pytest.mark.parametrize("kind", ["smooth", "skewed", "few", "apart"])
@pytest.mark.parametrize("seed", seeds(3))
def test_p_is_below_a_rate_exactly_when_the_interval_leaves_out_0(method: str, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    checked = 0
    for _ in range(15):
        difference, sample = _sample(rng, kind)
        test = inverted(method, difference, sample)
        assert test.smallest <= test.p_value <= 1
        rates = [*rng.random(15), test.p_value + 1e-7, test.p_value - 1e-7, 0.05, 0.01]
        for rate in rates:
            if not max(test.smallest, 1e-9) < rate < 1 or math.isclose(rate, test.smallest, abs_tol=1e-6):
                continue
            interval = interval_by(method, difference, sample, 1 - rate, "rows")
            assert interval.reason == ""
            out = interval.low > 0 or interval.high < 0
            assert (test.p_value < rate) == out, (rate, test.p_value, interval)
            checked += 1
    assert checked > 20


def test_normal_methods_have_the_p_value_of_the_normal_distribution() -> None:
    values = np.random.default_rng(0).normal(0.3, 0.2, 500)
    error = values.std(ddof=1)
    for method, centre in (("normal", 0.25), ("normal_bias", 0.25 - (values.mean() - 0.25))):
        found = inverted(method, 0.25, Replicates(values))
        assert found.p_value == pytest.approx(2 * scipy.stats.norm.sf(centre / error), rel=1e-12)
        assert found.statistic == pytest.approx(centre / error) and found.spread == error
        assert found.deviations == pytest.approx((values - values.mean()) / error)


def test_the_smallest_p_value_is_that_of_no_replicate_beyond_0() -> None:
    values = np.linspace(0.1, 0.2, 99)
    for method in ("percentile", "basic"):
        found = inverted(method, 0.15, Replicates(values))
        assert found.p_value == found.smallest == 2 / 100
    assert inverted("normal", 0.15, Replicates(values)).smallest == 0


def test_a_method_of_half_samples_takes_those() -> None:
    rng = np.random.default_rng(1)
    values, half = rng.normal(0.3, 0.2, 100), rng.normal(0.3, 0.4, 100)
    assert inverted("half_normal", 0.3, Replicates(values, half)).spread == half.std(ddof=1)
    assert inverted("normal", 0.3, Replicates(values, half)).spread == values.std(ddof=1)


@pytest.mark.parametrize("method", ["logit_normal", "half_logit", "students_t"])
def test_log_odds_are_no_method_of_differences(method: str) -> None:
    with pytest.raises(InputError, match="method of a difference must be one of percentile, basic, normal"):
        check_paired_method(method)
