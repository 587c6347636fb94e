"""McNemar's test against sums of fractions and against signs of clusters; the interval by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from valor_gpu.errors import InputError
from valor_gpu.stats import compare_accuracy, pass_rate
from valor_gpu.stats.mcnemar import ALIKE


def answers(both: int, lost: int, gained: int, none: int) -> tuple[NDArray[Any], NDArray[Any]]:
    sizes = [both, lost, gained, none]
    return np.repeat([1, 1, 0, 0], sizes), np.repeat([1, 0, 1, 0], sizes)


def two_tails(gained: int, lost: int) -> tuple[Fraction, Fraction]:
    """The exact p-value and the mid-p, by binomial coefficients."""
    trials = gained + lost
    tail = [Fraction(math.comb(trials, k), 2**trials) for k in range(max(gained, lost), trials + 1)]
    return min(Fraction(1), 2 * sum(tail, Fraction())), min(Fraction(1), 2 * sum(tail, Fraction()) - tail[0])


@pytest.mark.parametrize(("lost", "gained"), [(0, 1), (1, 0), (3, 3), (2, 12), (25, 8), (0, 30), (120, 160)])
def test_p_values_are_sums_of_fractions(lost: int, gained: int) -> None:
    sides = answers(40, lost, gained, 7)
    for method, p_value in zip(("exact", "mid_p"), two_tails(gained, lost)):
        found = compare_accuracy(*sides, method=method)
        assert found.p_value == pytest.approx(float(p_value), rel=1e-12)
    assert found.difference == pytest.approx((gained - lost) / len(sides[0]), abs=1e-15)
    assert (found.first, found.second) == (sides[0].mean(), sides[1].mean())


def test_exact_p_value_is_that_of_scipy() -> None:
    for lost, gained in ((3, 9), (10, 2), (50, 71)):
        found = compare_accuracy(*answers(10, lost, gained, 10), method="exact")
        assert found.p_value == pytest.approx(stats.binomtest(gained, gained + lost).pvalue, rel=1e-12)


@pytest.mark.parametrize("method", ["mid_p", "exact"])
def test_interval_and_p_value_decide_alike(method: str) -> None:
    for lost, gained in product(range(0, 30, 3), repeat=2):
        found = compare_accuracy(*answers(30, lost, gained, 5), method=method)
        assert -1 <= found.low <= found.difference <= found.high <= 1
        if abs(found.p_value - 0.05) > 1e-9:
            assert (found.low <= 0 <= found.high) == (found.p_value > 0.05)


@pytest.mark.parametrize(("n", "up", "down"), [(30, 0.1, 0.1), (30, 0.3, 0.05), (60, 0.2, 0.01), (60, 0.1, 0.08)])
def test_interval_holds_the_difference_as_often_as_promised(n: int, up: float, down: float) -> None:
    covered = 0.0
    for gained in range(n + 1):
        for lost in range(n + 1 - gained):
            chance = float(stats.multinomial.pmf([gained, lost, n - gained - lost], n, [up, down, 1 - up - down]))
            if chance > 1e-7:
                found = compare_accuracy(*answers(n - gained - lost, lost, gained, 0))
                covered += chance * (found.low <= up - down <= found.high)
    assert 0.935 < covered < 0.99


def test_swapped_models_are_mirrored() -> None:
    first, second = answers(20, 4, 11, 6)
    one, two = compare_accuracy(first, second), compare_accuracy(second, first)
    assert (one.difference, one.low, one.high, one.p_value) == (-two.difference, -two.high, -two.low, two.p_value)


def test_models_that_are_right_alike() -> None:
    found = compare_accuracy(*answers(20, 0, 0, 5))
    assert (found.difference, found.p_value) == (0.0, 1.0)
    assert (found.low, found.high) == (-pass_rate(0, 25).high, pass_rate(0, 25).high)
    clustered = compare_accuracy(*answers(20, 0, 0, 5), clusters=np.arange(25) // 5)
    assert (clustered.p_value, clustered.reason) == (1.0, ALIKE)


def test_no_rows_say_so() -> None:
    found = compare_accuracy([], [])
    assert found.reason == "there are no rows"
    assert math.isnan(found.p_value)


def test_clusters_have_the_statistic_of_their_sums() -> None:
    rng = np.random.default_rng(3)
    clusters = rng.integers(0, 25, 150)
    first, second = rng.random(150) < 0.6, rng.random(150) < 0.7
    found = compare_accuracy(first, second, clusters)
    sums = np.array([second[clusters == c].sum() - first[clusters == c].sum(dtype=int) for c in range(25)], float)
    z = sums.sum() / math.sqrt((sums**2).sum())
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-12)
    assert (found.test, found.n) == ("mcnemar_clusters", 25)
    rows = np.bincount(clusters)
    for end in (found.low, found.high):
        left = sums - end * rows
        assert abs(left.sum()) / math.sqrt((left**2).sum()) == pytest.approx(stats.norm.ppf(0.975), rel=1e-9)
    order = rng.permutation(150)
    assert vars(compare_accuracy(first[order], second[order], clusters[order])) == vars(found)


def test_few_clusters_have_no_interval() -> None:
    found = compare_accuracy([1, 0, 1, 0], [1, 1, 1, 1], clusters=[0, 0, 1, 1])
    assert found.reason.startswith("too few clusters for an interval")
    assert math.isnan(found.low)
    assert 0 < found.p_value < 1


def test_equal_models_on_clusters_are_called_different_as_often_as_promised() -> None:
    rng = np.random.default_rng(11)
    clusters = np.repeat(np.arange(60), 5)
    hits = 0
    for _ in range(1000):
        easy = rng.normal(size=60)[clusters]
        bias = 1.5 * rng.normal(size=(2, 60))[:, clusters]  # each model fails on clusters of its own
        first, second = (easy + b + rng.normal(size=300) > 0 for b in bias)
        hits += compare_accuracy(first, second, clusters).p_value < 0.05
    assert 0.03 * 1000 < hits < 0.07 * 1000


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match=r"second must be 0 or 1 but second\[1\] is 2"):
        compare_accuracy([0, 1], [0, 2])
    with pytest.raises(InputError, match="first and second must have the same rows but have 2 and 1"):
        compare_accuracy([0, 1], [0])
    with pytest.raises(InputError, match="first must hold 0 or 1 for each row but has shape"):
        compare_accuracy([[0, 1]], [0, 1])
    with pytest.raises(InputError, match="method must be"):
        compare_accuracy([0], [0], method="asymptotic")
    with pytest.raises(InputError, match="clusters must name that of each of 2 rows but lacks row 1"):
        compare_accuracy([0, 1], [0, 1], clusters={0: "a"})
