"""Adjusted p-values: plain loops of their definitions, scipy, and false alarms in simulated data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped,unused-ignore]

from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.stats import (
    adjust_benjamini_hochberg,
    adjust_benjamini_yekutieli,
    adjust_holm,
    adjust_max_t,
)

NAN = math.nan


@pytest.mark.parametrize("seed", seeds(5))
def test_false_discovery_rates_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p_values = np.round(rng.random(rng.integers(1, 40)) ** 3, 2)  # some are equal
    for adjust, method in ((adjust_benjamini_hochberg, "bh"), (adjust_benjamini_yekutieli, "by")):
        peer = scipy.stats.false_discovery_control(p_values, method=method)
        assert adjust(p_values) == pytest.approx(peer.tolist(), rel=1e-12)
    missing = np.insert(p_values, 0, NAN)
    assert adjust_benjamini_hochberg(missing)[1:] == adjust_benjamini_hochberg(p_values)


def test_benjamini_hochberg_by_hand() -> None:
    assert adjust_benjamini_hochberg([0.01, 0.02, 0.03]) == pytest.approx([0.03] * 3)
    assert adjust_benjamini_hochberg([0.9, 0.01]) == [0.9, 0.02]
    assert adjust_benjamini_hochberg([]) == []
    with pytest.raises(InputError, match=r"p_values must lie in \[0, 1\] but p_values\[1\] is -1.0"):
        adjust_benjamini_hochberg([0.1, -1.0])


def _loop(statistics: list[float], replicates: list[list[float]]) -> list[float]:
    """Step-down maxima as Westfall and Young write them."""
    there = [i for i, each in enumerate(statistics) if each == each]
    order = sorted(there, key=lambda i: -abs(statistics[i]))
    found, least = [NAN] * len(statistics), 0.0
    for place, i in enumerate(order):
        beyond = 0
        for b in range(len(replicates[0])):
            sizes = [abs(replicates[k][b]) for k in order[place:] if replicates[k][b] == replicates[k][b]]
            beyond += bool(sizes) and max(sizes) >= abs(statistics[i])
        least = max(least, (beyond + 1) / (len(replicates[0]) + 1))
        found[i] = least
    return found


@pytest.mark.parametrize("seed", seeds(10))
def test_maxima_are_those_of_the_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    number, count = rng.integers(1, 12), rng.integers(1, 60)
    statistics = np.round(rng.normal(size=number) * 2, 1)
    replicates = np.round(rng.normal(size=(number, count)), 1)
    statistics[rng.random(number) < 0.2] = NAN
    replicates[rng.random((number, count)) < 0.2] = NAN
    found = adjust_max_t(statistics, replicates)
    assert str(found) == str(_loop(statistics.tolist(), replicates.tolist()))
    order = rng.permutation(number)
    assert str(adjust_max_t(statistics[order], replicates[order])) == str([found[i] for i in order])


def test_one_comparison_has_the_p_value_of_a_permutation() -> None:
    deviations = np.random.default_rng(0).normal(size=999)
    expected = ((np.abs(deviations) >= 1.7).sum() + 1) / 1000
    assert adjust_max_t([-1.7], deviations[None]) == [expected]
    assert adjust_max_t([50.0], deviations[None]) == [0.001]


def test_eighty_comparisons_can_be_significant_by_a_thousand_replicates() -> None:
    rng = np.random.default_rng(1)
    statistics = np.append(rng.normal(size=79), 5.5)
    assert adjust_max_t(statistics, rng.normal(size=(80, 1000)))[-1] == 1 / 1001
    smallest = [1.0] * 79 + [2 / 1001]  # of the same replicates by counting
    assert adjust_holm(smallest)[-1] > 0.05


def test_comparisons_that_go_together_cost_no_more_than_one() -> None:
    rng = np.random.default_rng(2)
    alike, apart = np.repeat(rng.normal(size=(1, 4000)), 50, 0), rng.normal(size=(50, 4000))
    statistics = np.full(50, 2.5)
    assert adjust_max_t(statistics, alike)[0] < 0.02
    assert adjust_max_t(statistics, apart)[0] > 0.3


def test_false_alarms_over_all_comparisons_are_as_stated() -> None:
    rng, alarms, sets = np.random.default_rng(3), 0, 1000
    shared = 0.6
    for _ in range(sets):
        draw = [
            math.sqrt(shared) * rng.normal(size=(1, n)) + math.sqrt(1 - shared) * rng.normal(size=(20, n))
            for n in (1, 199)
        ]
        alarms += min(adjust_max_t(draw[0][:, 0], draw[1])) <= 0.05
    assert 0.035 < alarms / sets < 0.065


@pytest.mark.parametrize(
    ("statistics", "replicates"), [([1.0], [[1.0], [2.0]]), ([1.0], [[]]), ([[1.0]], [[1.0]]), ([1.0], [1.0])]
)
def test_shapes_must_fit(statistics: list[float], replicates: list[list[float]]) -> None:
    with pytest.raises(InputError, match="replicates must have a row for each of the statistics"):
        adjust_max_t(statistics, replicates)
