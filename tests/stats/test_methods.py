"""Ends of intervals by method, and which method a family takes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.stats.methods import EQUAL, METHODS, Default, Replicates, default_of, interval_by, too_few_units

Z = 1.959963984540054


def interval(method: str, estimate: float, values: list[float], **parts: np.ndarray) -> tuple[float, float]:
    found = interval_by(method, estimate, Replicates(np.array(values), **parts), 0.95, "images")
    return found.low, found.high


def test_log_odds_keep_the_ends_between_0_and_1() -> None:
    values = [0.97, 0.98, 0.99, 1.0]
    error = np.std(values, ddof=1) / (0.98 * 0.02)
    centre = math.log(0.98 / 0.02)
    wanted = [1 / (1 + math.exp(-(centre + sign * Z * error))) for sign in (-1, 1)]
    assert interval("logit_normal", 0.98, values) == pytest.approx(wanted) and wanted[1] < 1


@pytest.mark.parametrize("values", [[-0.1, 0.0, 0.2], [0.8, 0.9, 1.2]])
def test_numbers_that_are_no_shares_have_no_log_odds(values: list[float]) -> None:
    assert interval("logit_normal", 0.5, values) == interval("normal", 0.5, values)
    halves = np.array(values)
    assert interval("half_logit", 0.5, values, half=halves) == interval("half_normal", 0.5, values, half=halves)


def test_the_bias_of_halves_moves_the_centre() -> None:
    half = np.array([0.5, 0.6, 0.7])
    reach = Z * 0.1
    assert interval("half_bias", 0.55, [0.5, 0.6], half=half) == pytest.approx((0.5 - reach, 0.5 + reach))
    root = 0.55 - 0.05 / (math.sqrt(2) - 1)
    assert interval("half_root", 0.55, [0.5, 0.6], half=half) == pytest.approx((root - reach, root + reach))


@pytest.mark.parametrize("method", ["half_basic", "half_normal", "half_bias", "half_skewed"])
def test_halves_without_the_number_give_no_interval(method: str) -> None:
    def reason(half: list[float]) -> str:
        sample = Replicates(np.array([0.5, 0.6]), half=np.array(half), deleted=np.array([0.5, 0.6]))
        return interval_by(method, 0.55, sample, 0.95, "images").reason

    assert reason([math.nan] * 3) == "the number does not exist in 3 of 3 samples of half of the images"
    assert "in 2 of 21 samples" in reason([math.nan] * 2 + [0.5] * 18 + [0.6])
    assert reason([math.nan] + [0.5] * 18 + [0.6]) == ""
    assert reason([0.5] * 3) == EQUAL


def test_skewness_moves_both_ends_to_the_longer_tail() -> None:
    values, even = [0.9, 1.0, 1.1], np.array([0.99, 1.01])
    assert interval("skewed", 1.0, values, deleted=even) == pytest.approx(interval("normal", 1.0, values))
    low, high = interval("skewed", 1.0, values, deleted=np.array([0.9] + [1.02] * 5))  # without one unit far above
    reach = Z * 0.1
    assert low > 1 - reach and high > 1 + reach
    skew = 5 * (0.1**3 - 5 * 0.02**3) / 5 / (0.1**2 + 5 * 0.02**2) ** 1.5
    ends = [3 / skew * (np.cbrt(1 + skew * (z - skew / 6)) - 1) for z in (Z, -Z)]
    assert (low, high) == pytest.approx(tuple(1 - end * 0.1 for end in ends), rel=1e-6)


def test_too_few_units_are_refused_with_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    never, some = Default("normal", math.inf), Default("normal", 500)
    table = {"detection": {"population": some, "expected": Default("normal")}, "pixels": {"population": never}}
    monkeypatch.setattr("valor_gpu.stats.methods.DEFAULTS", table)
    assert (
        too_few_units("detection", "expected", 1, "images") == too_few_units("detection", "population", 500, "i") == ""
    )
    assert "it takes 500 but there are 499" in too_few_units("detection", "population", 499, "images")
    assert "no size" in too_few_units("pixels", "population", 10**9, "images")


def test_an_unknown_family_is_rejected() -> None:
    with pytest.raises(InputError, match="but got 'cats'"):
        default_of("cats", "expected")


@pytest.mark.parametrize("estimate", [0.0, 1.0])
def test_an_end_of_the_range_has_no_log_odds(estimate: float) -> None:
    """The normal interval about a recall of 1 would reach above it."""
    found = interval_by("logit_normal", estimate, Replicates(np.array([0.2, 0.9, 1.0, 1.0])), 0.95, "rows")
    assert math.isnan(found.high) and "an end of its range" in found.reason
    assert interval("normal", estimate, [0.2, 0.9, 1.0, 1.0])[1] > estimate


@pytest.mark.parametrize("method", ["half_normal", "half_basic", "half_skewed"])
def test_half_samples_without_the_number_are_counted(method: str) -> None:
    half = np.array([0.5, math.nan, 0.6, 0.7])
    found = interval_by(method, 0.6, Replicates(np.array([0.5, 0.6, 0.7, 0.8]), half), 0.95, "rows")
    assert found.reason == "the number does not exist in 1 of 4 samples of half of the rows"


@pytest.mark.parametrize("method", METHODS)
def test_infinite_numbers_have_a_reason_and_no_warning(method: str) -> None:
    some, deleted = np.array([0.5, 0.6, math.inf, 0.8]), np.array([0.6, 0.7, math.inf])
    of_half = [Replicates(some[:2], some)] if method.startswith("half") else []
    for sample in (Replicates(some), *of_half, Replicates(1e300 * some[:2])):
        assert "infinite, or above 1e100, in" in interval_by(method, 0.6, sample, 0.95, "rows").reason
    found = interval_by(method, 0.6, Replicates(some[[0, 1, 3]], some[:2], deleted), 0.95, "rows")
    assert found.low <= found.high


def test_log_odds_of_tiny_shares_are_finite() -> None:
    low, high = interval("logit_normal", 1e-310, [1e-310, 2e-310, 3e-310])
    assert 0 <= low <= 1e-310 <= high <= 1
