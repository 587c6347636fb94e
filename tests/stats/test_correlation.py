"""Pearson's and Spearman's correlation against SciPy, hand counts and simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped,unused-ignore]

from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.stats import correlation
from valor_gpu.stats.correlations import METHODS

NAN = math.nan


def scores(seed: int, n: int, ties: bool) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = 0.6 * x + rng.normal(size=n)
    return (np.rint(2 * x), np.rint(y)) if ties else (x, y)


@pytest.mark.parametrize("ties", [False, True], ids=["reals", "ties"])
@pytest.mark.parametrize("n", [8, 50, 1000])
@pytest.mark.parametrize("seed", seeds(4))
def test_numbers_are_those_of_scipy(seed: int, n: int, ties: bool) -> None:
    x, y = scores(seed, n, ties)
    peer = stats.pearsonr(x, y)
    found = correlation(x, y)
    assert found.value == pytest.approx(peer.statistic, rel=1e-12, abs=1e-13)
    ends = peer.confidence_interval(0.9)
    found = correlation(x, y, confidence=0.9)
    assert (found.low, found.high) == pytest.approx(tuple(ends), rel=1e-9, abs=1e-12)
    assert correlation(x, y, method="spearman").value == pytest.approx(stats.spearmanr(x, y).statistic, rel=1e-12)


def test_the_interval_of_ranks_is_that_of_the_formula() -> None:
    x, y = scores(1, 40, True)
    r = float(stats.spearmanr(x, y).statistic)
    half = 1.959963984540054 * math.sqrt((1 + r * r / 2) / (40 - 3))
    found = correlation(x, y, method="spearman")
    assert (found.low, found.high) == pytest.approx((math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)))


def test_missing_pairs_are_left_out_and_counted() -> None:
    x, y = scores(2, 30, False)
    x[3], y[4], x[5], y[5] = NAN, NAN, NAN, NAN
    kept = ~(np.isnan(x) | np.isnan(y))
    for method in METHODS:
        whole, bare = correlation(x, y, method=method), correlation(x[kept], y[kept], method=method)
        assert (whole.value, whole.low, whole.n, whole.n_missing) == (bare.value, bare.low, 27, 3)
    assert correlation([1, None, 3], [2, 5, 4]).n_missing == 1  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("first", "second", "value", "reason"),
    [
        ([], [], NAN, "there are none"),
        ([1], [2], NAN, "there is 1"),
        ([NAN, 1], [1, 2], NAN, "there is 1"),
        ([1, 1, 1], [1, 2, 3], NAN, "all scores of the first are equal"),
        ([1, 2, 3], [0.1, 0.1, 0.1], NAN, "all scores of the second are equal"),
        ([1, 2], [5, 3], -1.0, "4 clusters of pairs but there are 2"),
        ([1, 2, 4], [1, 3, 2], 1 / math.sqrt(21) * 1.5, "4 clusters of pairs but there are 3"),
        ([1, 2, 3, 4], [2, 4, 6, 8], 1.0, "all pairs lie on one line"),
        ([1, 2, 3, 4, 5], [-1, -2, -3, -4, -5], -1.0, "all pairs lie on one line"),
    ],
)
def test_what_does_not_exist_has_a_reason(first: Any, second: Any, value: float, reason: str) -> None:
    found = correlation(first, second)
    assert found.value == pytest.approx(value, nan_ok=True)
    assert math.isnan(found.low) and math.isnan(found.high) and reason in found.reason


@pytest.mark.parametrize("method", METHODS)
def test_unit_and_origin_do_not_matter(method: str) -> None:
    x, y = scores(5, 60, True)
    plain = correlation(x, y, method=method).value
    for a, b in ((1e200, 1.0), (1e-200, 1e9), (1.0, 1e-300)):
        assert correlation(a * x, b * y, method=method).value == pytest.approx(plain, rel=1e-9)
    assert correlation(x + 1e6, y - 1e6, method=method).value == pytest.approx(plain, rel=1e-9)
    assert correlation(-x, y, method=method).value == pytest.approx(-plain, rel=1e-9)


def test_only_ranks_survive_a_curve() -> None:
    x, y = scores(6, 60, False)
    assert correlation(np.exp(x), y, method="spearman") == correlation(x, y, method="spearman")
    assert correlation(np.exp(x), y).value != pytest.approx(correlation(x, y).value, abs=1e-3)


def test_pairs_of_a_cluster_count_as_one_in_the_width() -> None:
    x, y = scores(7, 20, False)
    repeated = correlation(np.repeat(x, 3), np.repeat(y, 3), np.repeat(np.arange(20), 3))
    once = correlation(x, y)
    assert (repeated.value, repeated.low, repeated.high) == pytest.approx((once.value, once.low, once.high))
    assert (repeated.n, repeated.n_clusters) == (60, 20)


@pytest.mark.parametrize("method", METHODS)
def test_the_interval_holds_what_it_promises(method: str) -> None:
    rng = np.random.default_rng(11)
    truth = {"pearson": 0.5, "spearman": 6 / math.pi * math.asin(0.25)}[method]  # of a bivariate normal distribution
    held = 0
    for _ in range(800):
        x = rng.normal(size=30)
        found = correlation(x, 0.5 * x + math.sqrt(0.75) * rng.normal(size=30), method=method)
        held += found.low <= truth <= found.high
    assert 0.93 <= held / 800 <= 0.975


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([1, 2], [1]), "second must have 2 scores, as first has, but has 1"),
        (([[1]], [1]), r"first must hold one score for each row but has shape \[1, 1\]"),
        (([1, math.inf], [1, 2]), r"first must be finite or NaN but first\[1\] is infinite"),
        ((["a"], [1]), "first must hold numbers"),
        (([1, 2], [1, 2], [0]), r"clusters must have one for each of 2 rows but has 1"),
    ],
)
def test_bad_input_is_named(arguments: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        correlation(*arguments)
    with pytest.raises(InputError, match="method"):
        correlation([1, 2], [1, 2], method="kendall")
    with pytest.raises(InputError, match="confidence"):
        correlation([1, 2], [1, 2], confidence=1)
