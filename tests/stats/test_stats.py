"""Intervals and tests against scipy, exact enumeration, simulation and hand counts."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped,unused-ignore]

from tests.fuzz import seeds
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.judge.statistics import standard_error
from valor_gpu.stats import adjust_holm, compare_paired, pass_rate
from valor_gpu.stats.means import exact_mean, interval_on_scale, mean_of_sample
from valor_gpu.stats.pooled import compare_pooled, pooled_estimate

NAN = math.nan


@pytest.mark.parametrize("few", [True, False], ids=["few values", "many values"])
@pytest.mark.parametrize("seed", seeds(2))
def test_the_interval_and_the_p_value_are_those_of_scipy(few: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = rng.integers(1, 6, 80).astype(float) if few else rng.normal(size=80)
    second = rng.integers(1, 6, 80).astype(float) if few else first + rng.gamma(1.0, 0.3, size=80) - 0.25
    found = compare_paired(first, second, resamples=40_000, seed=seed)
    differences = second - first
    peer = scipy.stats.bootstrap((differences,), np.mean, n_resamples=40_000, method="BCa", rng=rng)
    width = found.high - found.low
    assert found.difference == pytest.approx(differences.mean(), rel=1e-12)
    assert found.low == pytest.approx(peer.confidence_interval.low, abs=0.04 * width)
    assert found.high == pytest.approx(peer.confidence_interval.high, abs=0.04 * width)
    test = scipy.stats.permutation_test(
        (differences,),
        lambda x, axis: x.mean(axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=40_000,
        rng=rng,
    )
    assert found.p_value == pytest.approx(test.pvalue, abs=0.02)


def test_the_p_value_is_that_of_all_assignments_of_signs() -> None:
    differences = np.array([0.3, -0.1, 0.5, 0.4, 0.2, 0.1, -0.2])
    signs = np.array(list(itertools.product([1, -1], repeat=7)))
    exact = (np.abs(signs @ np.abs(differences)) >= differences.sum() - 1e-12).mean()
    found = compare_paired(np.zeros(7), differences, resamples=200_000)
    assert found.p_value == pytest.approx(exact, abs=0.004)


def test_intervals_hold_as_often_as_they_say_and_p_values_are_no_smaller_than_chance() -> None:
    rng = np.random.default_rng(3)
    held = small = 0
    for seed in range(400):
        values = rng.exponential(size=40)
        found = compare_paired(np.zeros(40), values, resamples=999, seed=seed)
        held += found.low <= 1 <= found.high
        null = compare_paired(rng.normal(size=12), rng.normal(size=12), resamples=199, seed=seed)
        small += null.p_value <= 0.1
    assert 0.90 <= held / 400 <= 0.98
    assert 0.05 <= small / 400 <= 0.15


def test_the_same_seed_gives_the_same_result_and_another_seed_another() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 50))
    results = [compare_paired(first, second, resamples=500, seed=seed) for seed in (1, 1, 2)]
    assert results[0] == results[1]
    assert results[0].low != results[2].low
    turned = compare_paired(second, first, resamples=500, seed=1)
    assert turned.difference == -results[0].difference
    assert turned.p_value == results[0].p_value


def test_chunks_change_nothing_but_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 100))
    whole = compare_paired(first, second, resamples=300)
    monkeypatch.setattr("valor_gpu.stats.paired._DRAWS", 1000)
    parts = compare_paired(first, second, resamples=300)
    assert (parts.low, parts.high) == (whole.low, whole.high)


def test_rows_without_a_number_are_left_out_and_counted() -> None:
    found = compare_paired([1, NAN, 2, 3, NAN], [2, 5, NAN, 5, NAN])
    assert (found.n, found.n_missing, found.difference) == (2, 3, 1.5)


def test_equal_differences_have_an_interval_of_no_width() -> None:
    found = compare_paired([1.1, 2.2, 3.3], [1.4, 2.5, 3.6])
    assert found.low == pytest.approx(0.3, rel=1e-12)
    assert found.high == pytest.approx(0.3, rel=1e-12)
    same = compare_paired([0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    assert (same.low, same.high, same.p_value) == (0, 0, 1)


@pytest.mark.parametrize(("rows", "words"), [(0, "there are none"), (1, "there is 1")])
def test_fewer_than_two_rows_have_no_interval_and_a_reason(rows: int, words: str) -> None:
    found = compare_paired([1.0] * rows + [NAN], [2.0] * rows + [1.0])
    assert math.isnan(found.low) and math.isnan(found.high) and math.isnan(found.p_value)
    assert math.isnan(found.difference) == (rows == 0)
    assert found.reason == f"it takes two rows with both numbers but {words}"


def test_the_p_value_is_never_zero() -> None:
    found = compare_paired(np.zeros(200), np.arange(1.0, 201), resamples=999)
    assert (found.p_value, found.exact) == (1 / 1000, False)
    exact = compare_paired(np.zeros(200), np.ones(200), resamples=999)
    assert (exact.p_value, exact.exact) == (2 / 2**200, True)


def test_differences_by_rounding_are_none() -> None:
    found = compare_paired([0.1 + 0.2] * 10, [0.3] * 10)
    assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)
    assert compare_paired([1e6] * 10, [1e6 + 1e-6] * 10).p_value < 0.01


@pytest.mark.parametrize("exponent", [-1000, -400, 400, 1020])
def test_the_size_of_numbers_changes_nothing(exponent: int) -> None:
    second = np.array([1.0, -0.5, 2.0, 3.25, 0.75, -1.5])
    plain = compare_paired(np.zeros(6), second)
    found = compare_paired(np.zeros(6), np.ldexp(second, exponent))
    assert found.p_value == plain.p_value
    ends = [math.ldexp(number, -exponent) for number in (found.difference, found.low, found.high)]
    assert ends == [plain.difference, plain.low, plain.high]


@pytest.mark.parametrize(
    ("arguments", "choices", "message"),
    [
        (([1, 1e308], [1, -1e308]), {}, "second - first must be finite but overflows at 1"),
        (([1, 2], [1]), {}, "same rows but have 2 and 1"),
        (([[1, 2]], [[1, 2]]), {}, r"first must hold one number for each row but has shape \[1, 2\]"),
        (([1, 2], [1, math.inf]), {}, r"second must be finite or NaN but second\[1\] is infinite"),
        (([1, 2], [1, 2]), {"confidence": 1}, "confidence must be above 0 and below 1 but got 1"),
        (([1, 2], [1, 2]), {"confidence": 95}, r"confidence must be in \[0, 1\] but got 95"),
        (([1, 2], [1, 2]), {"resamples": 0}, "resamples must be at least 1 but got 0"),
        (([1, 2], [1, 2]), {"seed": -1}, "seed must be at least 0 but got -1"),
    ],
)
def test_what_cannot_be_compared_is_named(
    arguments: tuple[list[float], list[float]], choices: dict[str, float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        compare_paired(*arguments, **choices)  # type: ignore[arg-type]


@pytest.mark.parametrize(("successes", "n"), [(0, 5), (5, 5), (1, 3), (90, 100), (12345, 100_000)])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_the_interval_of_a_proportion_is_that_of_scipy(successes: int, n: int, confidence: float) -> None:
    found = pass_rate(successes, n, confidence)
    peer = scipy.stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    assert found.rate == successes / n
    assert found.low == pytest.approx(peer.low, rel=1e-9, abs=1e-12)
    assert found.high == pytest.approx(peer.high, rel=1e-9)
    assert 0 <= found.low <= found.rate <= found.high <= 1


def test_no_trials_have_no_rate() -> None:
    found = pass_rate(0, 0)
    assert math.isnan(found.rate) and math.isnan(found.low) and math.isnan(found.high)
    assert found.reason == "there are no trials"
    with pytest.raises(InputError, match="successes must be at most n=2 but got 3"):
        pass_rate(3, 2)
    with pytest.raises(InputTypeError, match="n must be int but got float"):
        pass_rate(1, 2.0)  # type: ignore[arg-type]


def test_holm_rejects_what_its_procedure_rejects() -> None:
    """One after another, from the smallest: the first that fails ends it."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        p_values, level = rng.random(6) ** 3, float(rng.choice([0.01, 0.05, 0.2]))
        rejected = np.zeros(6, bool)
        for place, index in enumerate(np.argsort(p_values)):
            if p_values[index] > level / (6 - place):
                break
            rejected[index] = True
        assert (np.array(adjust_holm(p_values.tolist())) <= level).tolist() == rejected.tolist()


def test_holm_by_hand() -> None:
    assert adjust_holm([0.01, 0.02, 0.03]) == [0.03, 0.04, 0.04]
    assert adjust_holm([0.6, 0.5]) == [1.0, 1.0]
    assert adjust_holm([]) == []
    assert str(adjust_holm([NAN, 0.02])) == "[nan, 0.02]"
    with pytest.raises(InputError, match=r"p_values must lie in \[0, 1\] but p_values\[1\] is 1.5"):
        adjust_holm([0.1, 1.5])


def test_importing_it_loads_neither_torch_nor_scipy() -> None:
    program = (
        "import sys, valor_gpu.stats as s; s.compare_paired; print({'torch', 'scipy', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("seed", seeds(20))
def test_mean_of_clusters_is_that_of_the_judge(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=30) * 10.0 ** rng.integers(-3, 4)
    clusters = rng.integers(0, 9, 30)
    found = mean_of_sample(values, clusters)
    assert found.standard_error == pytest.approx(standard_error(values.tolist(), clusters.tolist()), rel=1e-12)
    assert mean_of_sample(values).standard_error == pytest.approx(scipy.stats.sem(values), rel=1e-12)
    assert found.n_clusters == len(set(clusters.tolist()))


def test_means_that_do_not_exist_say_why() -> None:
    assert mean_of_sample([]).reason == "there are no values"
    assert mean_of_sample([1.0]).reason == "it takes two values"
    one = mean_of_sample([1.0, 2.0], [0, 0])
    assert (one.mean, one.reason, math.isnan(one.low)) == (1.5, "it takes two clusters", True)
    with pytest.raises(InputError, match=r"values must be finite but values\[1\] is not"):
        mean_of_sample([1.0, math.inf])
    with pytest.raises(InputError, match="one id for each of 2 values but has 1"):
        mean_of_sample([1.0, 2.0], [0])
    large = mean_of_sample([1.6e308, 1.4e308])
    assert (large.mean, large.standard_error) == pytest.approx((1.5e308, 1e307))


def test_effective_trials_widen_the_interval() -> None:
    plain, half = pass_rate(30, 60), pass_rate(30, 60, effective=30.0)
    few = pass_rate(15, 30)
    assert (half.low, half.high) == pytest.approx((few.low, few.high), rel=1e-15)
    assert (half.rate, half.successes, half.n) == (plain.rate, 30, 60)
    with pytest.raises(InputError, match="effective must be"):
        pass_rate(1, 2, effective=3.0)


def test_pooled_ratios_of_equal_totals_are_means() -> None:
    """Counts over one unit a row: the pooled ratio is the mean, so that both comparisons agree up to random numbers."""
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 6, 60), rng.integers(0, 7, 60)
    ones = np.ones(60, np.int64)
    found = compare_pooled(
        np.stack((first, ones), 1), np.stack((second, ones), 1), lambda sums: sums[0] / sums[1], resamples=4000
    )
    mean = compare_paired(first, second)
    assert found.difference == pytest.approx(mean.difference, rel=1e-12)
    assert (found.low, found.high) == pytest.approx((mean.low, mean.high), abs=0.06)
    assert found.p_value == pytest.approx(mean.p_value, abs=0.02)


def test_pooled_difference_is_the_one_of_scipy() -> None:
    rng = np.random.default_rng(5)
    words = rng.integers(3, 40, 50)
    first, second = rng.binomial(words, 0.3), rng.binomial(words, 0.24)

    def difference(a: Any, b: Any, n: Any, axis: int = -1) -> Any:
        return b.sum(axis) / n.sum(axis) - a.sum(axis) / n.sum(axis)

    ours = compare_pooled(
        np.stack((first, words), 1), np.stack((second, words), 1), lambda sums: sums[0] / sums[1], resamples=9000
    )
    theirs = scipy.stats.bootstrap(
        (first, second, words), difference, paired=True, n_resamples=9000, method="BCa", random_state=1
    ).confidence_interval
    assert ours.difference == pytest.approx(difference(first, second, words))
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)

    test = scipy.stats.permutation_test(
        (first / words.sum(), second / words.sum()), lambda a, b: b.sum() - a.sum(), permutation_type="samples",
        n_resamples=9000, vectorized=False, random_state=2,
    )  # fmt: skip
    assert ours.p_value == pytest.approx(test.pvalue, abs=0.02)


def test_pooled_comparison_of_one_thing_with_itself() -> None:
    counts = [[3, 10], [1, 4], [0, 7]]
    found = compare_pooled(counts, counts, lambda sums: sums[0] / sums[1], resamples=200)
    assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_pooled_comparisons_that_do_not_exist() -> None:
    rate = lambda sums: sums[0] / sums[1] if sums[1] else NAN  # noqa: E731
    assert compare_pooled([[1, 2]], [[1, 2]], rate).reason == "it takes two rows with both numbers but there is 1"
    assert compare_pooled(np.zeros((0, 0)), np.zeros((0, 0)), rate).n == 0
    none = compare_pooled([[0, 0]] * 3, [[1, 2]] * 3, rate, resamples=50)
    assert (math.isnan(none.difference), none.reason) == (True, "one of the results has no number")
    with pytest.raises(InputError, match=r"first and second must both be \[rows, counts\] but have the shapes"):
        compare_pooled([[1, 2]], [[1]], rate)


@pytest.mark.parametrize("seed", seeds(3))
def test_pooled_estimates_are_the_jackknife_and_means_where_they_are_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, ones = rng.integers(0, 9, 40), np.ones(40, np.int64)
    rate = lambda sums: sums[0] / sums[1]  # noqa: E731
    found = pooled_estimate(np.stack((values, ones), 1), rate)
    assert (found.mean, found.standard_error) == pytest.approx((values.mean(), scipy.stats.sem(values)), rel=1e-12)

    words = rng.integers(1, 30, 40)
    leave_out = [(values.sum() - v) / (words.sum() - w) for v, w in zip(values, words)]
    error = math.sqrt(39 / 40 * sum((each - np.mean(leave_out)) ** 2 for each in leave_out))
    assert pooled_estimate(np.stack((values, words), 1), rate).standard_error == pytest.approx(error, rel=1e-12)

    pairs = pooled_estimate(np.stack((values, words), 1), rate, np.repeat(np.arange(20), 2))
    merged = pooled_estimate(np.stack((values, words), 1).reshape(20, 2, 2).sum(1), rate)
    assert (pairs.standard_error, pairs.n, pairs.n_clusters) == (merged.standard_error, 40, 20)


def test_pooled_estimates_that_do_not_exist() -> None:
    rate = lambda sums: sums[0] / sums[1] if sums[1] else NAN  # noqa: E731
    assert pooled_estimate(np.zeros((0, 2)), rate).reason == "there are no rows"
    assert pooled_estimate([[0, 0]], rate).reason == "the counts have no number"
    one = pooled_estimate([[1, 2]], rate)
    assert (one.mean, math.isnan(one.standard_error), one.reason) == (0.5, True, "it takes two rows")


def test_a_mean_is_rounded_as_if_once() -> None:
    rng = np.random.default_rng(5)
    for n in range(1, 40):
        numbers = np.round(rng.normal(0, 10.0 ** rng.integers(-3, 9), n), 2).tolist()
        assert exact_mean(numbers) == float(sum(map(Fraction, numbers)) / n)
    assert exact_mean([1.7e308] * 3) == 1.7e308
    assert exact_mean([0.6, 0.7, 0.8]) == 0.7


@pytest.mark.parametrize("seed", seeds(20))
def test_the_interval_on_a_scale_holds_the_mean_and_is_wilsons_of_zeros_and_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    low, width = float(rng.normal(0, 5)), float(10.0 ** rng.integers(-3, 4))
    ends = low + width * rng.integers(0, 2, n)
    expected = pass_rate(int((ends > low).sum()), n)
    found = interval_on_scale(mean_of_sample(ends), low, low + width)
    assert found == pytest.approx((low + width * expected.low, low + width * expected.high), rel=1e-9, abs=1e-9)
    values, clusters = low + width * rng.beta(0.3, 0.3, n), rng.integers(0, 5, n)
    for sample in (mean_of_sample(values), mean_of_sample(values, clusters), mean_of_sample([low] * n)):
        if sample.n_clusters > 1:
            least, most = interval_on_scale(sample, low, low + width)
            assert low <= least <= sample.mean <= most <= low + width
            assert least < most


def test_intervals_on_scales_that_are_open() -> None:
    sample = mean_of_sample([0.0, 1.0, 5.0])
    assert interval_on_scale(sample, None, None) == (sample.low, sample.high)
    assert sample.low < 0
    assert interval_on_scale(sample, 0, None) == (0, sample.high)
    assert all(map(math.isnan, interval_on_scale(mean_of_sample([5, 5]), 0, None)))
    assert all(map(math.isnan, interval_on_scale(mean_of_sample([5]), 0, 10)))


def test_the_interval_on_a_scale_holds_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(2000):
        low, high = interval_on_scale(mean_of_sample((rng.random(10) < 0.9).astype(float)), 0, 1)
        hits += low <= 0.9 <= high
    assert 0.92 < hits / 2000 < 0.97  # 0.93 as for Wilson's; 0.65 where it is mean -+ 1.96 errors
