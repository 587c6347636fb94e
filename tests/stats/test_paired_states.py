"""Differences of two states against plain loops, SciPy and hand-made edge cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped,unused-ignore]

from tests.fuzz import seeds
from tests.stats.paired_fakes import Means
from valor_gpu.errors import InputError
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.inversion import PAIRED_METHODS
from valor_gpu.stats.methods import EQUAL, Replicates, interval_by
from valor_gpu.stats.paired_states import BOOTSTRAP_NULL, UNSAMPLED, PairedNumber, paired_numbers
from valor_gpu.stats.permuted_states import permuted
from valor_gpu.stats.resample import LOST_CLASSES
from valor_gpu.stats.units import pair_units


def paired(first: Means, second: Means, clusters: Any = None, **choices: Any) -> dict[str, PairedNumber]:
    pairing = pair_units(first.identities(), second.identities(), clusters)
    values = first.values(), second.values()
    return paired_numbers(values, (first, second), pairing, Bootstrap(**{"replicates": 60, **choices}))


def models(seed: int, units: int = 40, **choices: Any) -> tuple[Means, Means]:
    rng = np.random.default_rng(seed)
    first = rng.normal(size=units)
    return Means({"m": first}, **choices), Means({"m": first + rng.normal(0.2, 0.5, units)}, **choices)


@pytest.mark.parametrize("method", PAIRED_METHODS)
@pytest.mark.parametrize("seed", seeds(2))
def test_each_replicate_draws_the_same_rows_of_both(method: str, seed: int) -> None:
    first, second = models(seed)
    found = paired(first, second, seed=seed, method=method)["m"]
    rows = second.columns["m"] - first.columns["m"]
    kinds: dict[str, list[float]] = {"multinomial": [], "half": [], "delete": []}
    for kind, means in kinds.items():
        count = 40 if kind == "delete" else 60
        weights = Draws(40, count, seed=seed, kind=kind, groups=40).array()
        for column in range(count):
            copies = [rows[row] for row in range(40) for _ in range(weights[row, column])]
            means.append(sum(copies) / len(copies))
    values = np.array(kinds["half" if method.startswith("half") else "multinomial"])
    sample = Replicates(values, values, np.array(kinds["delete"]), freedom=1 / (1 / 39 + 1 / 59))
    expected = interval_by(method, found.difference, sample, 0.95, "rows")
    assert found.difference == pytest.approx(rows.mean())
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert found.spread == pytest.approx(values.std(ddof=1)) and found.null == BOOTSTRAP_NULL
    assert found.deviations == pytest.approx((values - values.mean()) / values.std(ddof=1), abs=1e-9)
    assert (found.p_value < 0.05) == (found.interval.low > 0 or found.interval.high < 0)


@pytest.mark.parametrize(("support", "units"), [(None, 40), (25, 25)])
def test_the_test_of_few_units_is_that_of_student(support: int | None, units: int) -> None:
    first, second = models(3, supports={} if support is None else {"m": support})
    found = paired(first, second, method="normal")["m"]
    freedom = 1 / (1 / (units - 1) + 1 / 59)
    assert found.p_value == pytest.approx(2 * scipy.stats.t.sf(abs(found.difference) / found.spread, freedom), rel=1e-9)
    assert found.statistic == pytest.approx(
        math.copysign(scipy.stats.norm.isf(found.p_value / 2), found.difference), rel=1e-9
    )
    reach = scipy.stats.t.ppf(0.975, freedom) * found.spread
    assert found.interval.high - found.difference == pytest.approx(reach, rel=1e-9)


@pytest.mark.parametrize(("units", "of_student"), [(40, True), (99, True), (100, False)])
def test_quantiles_of_replicates_give_way_to_student_for_few_units(units: int, of_student: bool) -> None:
    first, second = models(5, units, family="pixels")  # whose differences have the method percentile
    found, normal = paired(first, second)["m"], paired(first, second, method="normal")["m"]
    assert ((found.interval.low, found.p_value) == (normal.interval.low, normal.p_value)) is of_student
    assert paired(first, second, method="percentile")["m"].interval.low != normal.interval.low


def test_exchanged_models_have_the_opposite_difference_and_the_same_test() -> None:
    first, second = models(3)
    one, other = paired(first, second)["m"], paired(second, first)["m"]
    assert one.difference == -other.difference and one.p_value == pytest.approx(other.p_value, rel=1e-9)
    assert (one.interval.low, one.interval.high) == pytest.approx((-other.interval.high, -other.interval.low))


def test_clusters_are_drawn_as_a_whole() -> None:
    first, second = models(4)
    clusters = np.arange(40) // 8
    found = paired(first, second, clusters, method="normal")["m"]
    weights = Draws(5, 60).array()[clusters].astype(float)
    values = Means.mean(second.columns["m"], weights) - Means.mean(first.columns["m"], weights)
    assert found.spread == pytest.approx(values.std(ddof=1))


def test_one_model_twice_cannot_be_told_apart() -> None:
    first, _ = models(0)
    found = paired(first, first)["m"]
    assert (found.difference, found.p_value, found.statistic) == (0.0, 1.0, 0.0)
    assert (found.interval.low, found.interval.high, found.interval.reason) == (0.0, 0.0, "")
    assert found.deviations is not None and not found.deviations.any() and math.isnan(found.spread)


def test_a_difference_that_is_the_same_in_every_replicate_has_no_test() -> None:
    found = paired(Means({"m": [0.25] * 30}), Means({"m": [0.5] * 30}))["m"]
    assert found.difference == 0.25 and math.isnan(found.p_value) and found.interval.reason == EQUAL
    assert found.deviations is None


def test_replicates_that_differ_by_rounding_alone_are_equal() -> None:
    scores = np.random.default_rng(0).normal(size=80)
    found = paired(Means({"m": scores}), Means({"m": scores + 1}))["m"]
    assert found.difference == pytest.approx(1) and math.isnan(found.p_value) and found.interval.reason == EQUAL


def test_numbers_without_an_interval_say_why() -> None:
    rng, nan = np.random.default_rng(0), math.nan
    columns = {"worst": rng.normal(size=30), "few": rng.normal(size=30), "odd": rng.normal(size=30)}
    rare = np.full(30, nan)
    rare[:2] = 1.0, 2.0
    columns |= {"rare": rare, "none": np.full(30, nan), "infinite": np.where(np.arange(30) == 3, np.inf, 1.0)}
    choices = {"refused": {"worst": "a maximum"}, "supports": {"few": 4}, "unsampled": ("odd",)}
    first, second = (Means({name: each + shift for name, each in columns.items()}, **choices) for shift in (0, 0.1))
    found = paired(first, second)
    reasons = {name: each.interval.reason for name, each in found.items()}
    assert reasons["worst"] == "a maximum" and reasons["odd"] == UNSAMPLED
    assert reasons["few"] == "too few rows: 4 hold a truth, it takes 20"
    assert (
        reasons["rare"].startswith("the number does not exist in ") and reasons["none"] == "the number does not exist"
    )
    assert reasons["infinite"].startswith("the number does not exist in ")  # infinity less infinity
    assert all(math.isnan(each.p_value) and each.deviations is None for each in found.values())
    assert found["worst"].difference == pytest.approx(0.1) and found["infinite"].difference == 0


def test_one_unit_shows_nothing() -> None:
    found = paired(Means({"m": [0.5]}), Means({"m": [0.75]}))["m"]
    assert found.interval.reason == "too few rows: there is 1, it takes 2" and found.difference == 0.25
    first, second = models(0)
    clustered = paired(first, second, ["a"] * 40)["m"]
    assert clustered.interval.reason == "too few clusters: there is 1, it takes 2"


def test_replicates_without_the_number_are_left_out() -> None:
    rng = np.random.default_rng(1)
    column = np.where(np.arange(40) < 5, rng.normal(size=40), math.nan)  # gone in some 0.5 % of the replicates
    found = paired(Means({"m": column}), Means({"m": column + rng.normal(size=40)}), replicates=1000)["m"]
    assert found.deviations is not None
    assert 0 < found.interval.lost == int(np.isnan(found.deviations).sum()) < 50
    assert 0 < found.p_value <= 1


def test_differences_stay_within_those_of_two_fractions() -> None:
    rows = np.array([1.0] * 29 + [0.0])
    choices = {"range": (0.0, 1.0), "family": "ratio"}
    found = paired(Means({"m": 1 - rows}, **choices), Means({"m": rows}, **choices), replicates=200)["m"]
    assert found.interval.high == 1.0 and found.interval.low > 0.7


def test_classes_that_replicates_lose_are_counted() -> None:
    class Losing(Means):
        def replicates(self, draws: Draws) -> dict[str, Any]:
            lost = (draws.first + np.arange(draws.count)) % 3 == 0
            return {**super().replicates(draws), "m" + LOST_CLASSES: lost.astype(float)}

    first, second = (Losing(each.columns) for each in models(2))
    assert paired(first, second)["m"].interval.lost_classes == 20
    assert set(paired(first, second)) == {"m"}


def test_a_method_of_fractions_is_refused() -> None:
    with pytest.raises(InputError, match="method of a difference must be one of percentile"):
        paired(*models(0), method="logit_normal")


def test_the_bias_of_half_of_the_units_is_not_that_of_all() -> None:
    first, second = models(5)
    assert math.isnan(paired(first, second, method="half_normal")["m"].interval.bias)
    assert abs(paired(first, second, method="normal")["m"].interval.bias) < 0.1


# ---------------------------------------------------------------------------------------------------------- permutation


def permuted_means(first: Means, second: Means, clusters: Any = None, permutations: int = 300, seed: int = 0) -> Any:
    pairing = pair_units(first.identities(), second.identities(), clusters)
    values = first.values(), second.values()
    return permuted(values, (first, second), pairing, values[0], permutations, seed)["m"]


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_permutation_swaps_rows_between_the_models(clustered: bool, seed: int) -> None:
    first, second = models(seed, units=12)
    clusters = np.arange(12) // 3 if clustered else np.arange(12)
    pairs = 4 if clustered else 12
    bits = Draws(2 * pairs, 300, seed=seed, kind="swap").array()[pairs:][clusters]
    a, b, beyond = first.columns["m"], second.columns["m"], 0
    for column in range(300):
        swapped = bits[:, column] == 1
        one, two = np.where(swapped, b, a), np.where(swapped, a, b)
        beyond += abs(two.mean() - one.mean()) >= abs(b.mean() - a.mean()) - 1e-12
    assert permuted_means(first, second, clusters if clustered else None, seed=seed) == (beyond + 1) / 301


def test_the_p_value_is_that_of_scipy() -> None:
    first, second = models(1, units=10)
    peer = scipy.stats.permutation_test(
        (first.columns["m"], second.columns["m"]),
        lambda a, b, axis: b.mean(axis) - a.mean(axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    assert permuted_means(first, second, permutations=20_000) == pytest.approx(peer.pvalue, abs=0.01)


def test_permutations_of_equal_and_of_far_models() -> None:
    first, _ = models(0)
    assert permuted_means(first, first) == 1.0
    assert permuted_means(first, Means({"m": first.columns["m"] + 100})) == 1 / 301


def test_permutations_that_cannot_be_made_have_no_p_value() -> None:
    first, second = models(0)
    apart = Means(first.columns, joins=False)
    assert math.isnan(permuted_means(apart, second))
    assert math.isnan(permuted_means(first, second, permutations=0))
    assert math.isnan(permuted_means(first, second, ["one"] * 40))
    rare = np.where(np.arange(40) < 1, 1.0, math.nan)
    there = np.where(np.arange(40) < 39, math.nan, 2.0)
    assert math.isnan(permuted_means(Means({"m": rare}), Means({"m": there})))  # half of the permutations lack one


def test_portions_change_no_bit() -> None:
    first, second = (Means({"m": np.round(64 * each.columns["m"])}) for each in models(6))  # sums are exact
    whole = paired(first, second)["m"], permuted_means(first, second)
    first.chunk = second.chunk = 3
    found = paired(first, second)["m"], permuted_means(first, second)
    assert repr(found[0].interval) == repr(whole[0].interval) and found[1] == whole[1]
