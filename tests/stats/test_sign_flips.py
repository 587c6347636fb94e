"""Sign flips of few rows: every assignment by a plain loop, intervals that agree with p-values, and false alarms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.paired import compare_paired
from valor_gpu.stats.paired_states import PairedNumber, paired_numbers
from valor_gpu.stats.row_samples import RowSample
from valor_gpu.stats.sign_flips import MOST_UNITS, sign_flips
from valor_gpu.stats.units import pair_units


def loop(sums: list[float], rows: list[int], shift: float) -> float:
    """The p-value of a shift by all assignments of signs."""
    shifted = [s - shift * n for s, n in zip(sums, rows)]
    least = abs(math.fsum(shifted)) - 1e-9
    signs = list(itertools.product((-1, 1), repeat=len(sums)))
    return sum(abs(math.fsum(a * b for a, b in zip(each, shifted))) >= least for each in signs) / len(signs)


@pytest.mark.parametrize("units", [2, 5, 6, 7, 9])
@pytest.mark.parametrize("tied", [False, True])
def test_every_assignment_by_a_loop(units: int, tied: bool) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sums, rows = rng.normal(0.6, 1, units), rng.integers(1, 4, units)
        sums = np.round(sums) if tied else sums
        found = sign_flips(sums, rows, 0.9)
        if found is None:
            assert not sums.any()
            continue
        assert found.p_value == pytest.approx(loop(sums.tolist(), rows.tolist(), 0))
        if units < 5:
            assert math.isnan(found.low) and "signs of" in found.reason
            continue
        inside, gap = (found.low, found.high), 1e-6
        assert all(loop(sums.tolist(), rows.tolist(), end) >= 0.1 for end in inside)
        beyond = (found.low - gap, found.high + gap)
        assert all(loop(sums.tolist(), rows.tolist(), end) < 0.1 for end in beyond)


@pytest.mark.parametrize("units", [8, 16, 17, 60, MOST_UNITS])
def test_interval_and_p_value_agree(units: int) -> None:
    ones = np.ones(units, np.int64)
    for seed in range(40):
        shift = (seed / 13) / math.sqrt(units)
        values = np.random.default_rng(seed).normal(shift, 1, units)
        values = np.round(2 * values) / 2 if seed % 2 else values
        found = sign_flips(values, ones, 0.95)
        assert found is not None
        assert (found.low > 0 or found.high < 0) == (found.p_value < 0.05)
        assert found.low < found.difference < found.high
        other = sign_flips(-values[::-1], ones, 0.95)
        assert other is not None and (other.p_value, other.low) == (found.p_value, -found.high)


def test_random_signs_are_close_to_all() -> None:
    values = np.random.default_rng(3).normal(0.5, 1, 20)
    found = sign_flips(values, np.ones(20, np.int64), 0.95)
    exact = compare_paired(np.zeros(20), values, resamples=100_000).p_value
    assert found is not None and found.p_value == pytest.approx(exact, rel=0.15)
    assert found.test == "sign flip"


def test_no_test_of_equal_models_nor_of_many_rows() -> None:
    ones = np.ones(MOST_UNITS + 1, np.int64)
    assert sign_flips(np.zeros(9), ones[:9], 0.95) is None
    assert sign_flips(np.arange(MOST_UNITS + 1.0), ones, 0.95) is None
    assert sign_flips(np.ones(1), ones[:1], 0.95) is None


def compared(first: Any, second: Any, clusters: Any = None, scale: float = 1.0) -> PairedNumber:
    states = (RowSample({"f1": np.asarray(first)}, scale=scale), RowSample({"f1": np.asarray(second)}, scale=scale))
    pairing = pair_units(*(state.identities() for state in states), clusters)
    values = [{"f1": scale * float(np.nanmean(each))} for each in (first, second)]
    return paired_numbers((values[0], values[1]), states, pairing, Bootstrap(200))["f1"]


@pytest.mark.parametrize("clusters", [None, [row // 3 for row in range(36)]])
def test_means_of_rows_are_tested_by_sign_flips(clusters: Any) -> None:
    rng = np.random.default_rng(1)
    first = rng.random(36)
    second = first + rng.normal(0.2, 0.5, 36)
    found, scaled = compared(first, second, clusters), compared(first, second, clusters, 100)
    sums = (second - first).reshape(12, 3).sum(1) if clusters else second - first
    wanted = sign_flips(sums, np.full(len(sums), 36 // len(sums)), 0.95)
    assert wanted is not None
    interval = found.interval
    numbers = (found.difference, interval.low, interval.high, found.spread)
    assert numbers == pytest.approx((wanted.difference, wanted.low, wanted.high, wanted.standard_error), rel=1e-9)
    assert (found.p_value, found.test) == (wanted.p_value, "exact sign flip" if clusters else "sign flip")
    assert [scaled.interval.low, scaled.spread] == pytest.approx([100 * interval.low, 100 * found.spread], rel=1e-9)


def test_five_rows_have_a_p_value_and_no_interval() -> None:
    found = compared([0, 0.1, 0.2, 0.3, 0.4], [0.5, 0.7, 0.8, 1.0, 1.2])
    assert found.p_value == 2 / 32
    assert math.isnan(found.interval.low)
    assert found.interval.reason == "too few units: signs of 5 have no interval, those of 6 do"


def test_sums_in_another_order_are_equal() -> None:
    """Three tenths in two orders differ by a rounding error, which is no difference of models."""
    first, second = [0.1, 0.2, 0.3, 0.5], [0.3, 0.2, 0.1, 0.5]
    found = compared(first, second, [0, 0, 0, 1])
    assert found.p_value == 1 and found.test == "bootstrap"


def test_false_alarms_of_twelve_normal_differences() -> None:
    ones = np.ones(12, np.int64)
    tests = (sign_flips(np.random.default_rng(seed).normal(0, 1, 12), ones, 0.95) for seed in range(1000))
    assert 30 <= sum(test is not None and test.p_value < 0.05 for test in tests) <= 70
