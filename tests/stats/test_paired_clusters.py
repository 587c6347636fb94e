"""Two results whose rows come in clusters, and exact sign flips: against SciPy and plain loops over all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped,unused-ignore]

from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.stats import compare_paired
from valor_gpu.stats.pooled import compare_pooled

NAN = math.nan


def by_hand(sums: Sequence[float]) -> float:
    """p-value of a sum under all signs, one assignment after another."""
    signs = itertools.product([1, -1], repeat=len(sums))
    reached = [abs(math.fsum(s * v for s, v in zip(each, sums))) >= abs(math.fsum(sums)) - 1e-9 for each in signs]
    return sum(reached) / len(reached)


def rows_in_clusters(seed: int, clusters: int = 40) -> tuple[np.ndarray[Any, Any], ...]:
    """Differences that a cluster shares, of clusters with 1 to 9 rows, in a random order."""
    rng = np.random.default_rng(seed)
    names = np.repeat(np.arange(clusters), rng.integers(1, 10, clusters))
    shared = rng.normal(0.1, 1, clusters)
    first, order = rng.normal(size=len(names)), rng.permutation(len(names))
    second = first + shared[names] + rng.normal(0, 0.3, len(names))
    return first[order], second[order], names[order]


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("rows", [2, 3, 8, 12])
def test_few_rows_have_the_p_value_of_every_assignment_of_signs(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(0.4, 1, rows) if seed % 2 else rng.integers(-2, 4, rows) / 4
    found = compare_paired(np.zeros(rows), values, resamples=50, seed=seed)
    assert found.exact and found.p_value == by_hand(values.tolist())
    peer = scipy.stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert found.p_value == pytest.approx(peer.pvalue, rel=1e-12)
    assert found.p_value == compare_paired(np.zeros(rows), values, resamples=7, seed=seed + 1).p_value


@pytest.mark.parametrize("seed", seeds(3))
def test_many_right_and_wrong_answers_have_the_exact_sign_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.random(800) < 0.6, rng.random(800) < 0.65
    found = compare_paired(first, second)
    wins, losses = int((second & ~first).sum()), int((first & ~second).sum())
    assert found.exact
    assert found.p_value == pytest.approx(scipy.stats.binomtest(wins, wins + losses).pvalue, rel=1e-12)


def test_random_signs_serve_where_all_are_too_many() -> None:
    rng = np.random.default_rng(0)
    assert compare_paired(np.zeros(16), rng.normal(size=16)).exact
    assert not compare_paired(np.zeros(17), rng.normal(size=17)).exact
    assert compare_paired(np.zeros(1000), np.repeat([1.0, -1.0], 500)).exact
    assert not compare_paired(np.zeros(1001), np.append(np.ones(1000), -1.0)).exact
    same = compare_paired([0.5] * 4, [0.5] * 4)
    assert (same.p_value, same.exact) == (1.0, True)


def test_rows_without_a_difference_change_no_p_value() -> None:
    alone = compare_paired(np.zeros(5), [1.0, 2, -0.5, 3, 0.25])
    among = compare_paired(np.zeros(905), np.append(np.zeros(900), [1.0, 2, -0.5, 3, 0.25]))
    assert alone.exact and among.exact and alone.p_value == among.p_value


@pytest.mark.parametrize("seed", seeds(3))
def test_clusters_change_sign_as_a_whole(seed: int) -> None:
    first, second, names = rows_in_clusters(seed, 11)
    found = compare_paired(first, second, clusters=names)
    sums = [float((second - first)[names == name].sum()) for name in range(11)]
    assert found.exact and found.p_value == by_hand(sums)
    assert found.difference == pytest.approx((second - first).mean(), rel=1e-12)
    assert (found.n, found.n_clusters, found.n_missing) == (len(first), 11, 0)
    many = rows_in_clusters(seed, 60)
    totals = np.bincount(many[2], many[1] - many[0])
    peer = scipy.stats.permutation_test(
        (totals,),
        np.mean,
        permutation_type="samples",
        n_resamples=40_000,
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    drawn = compare_paired(many[0], many[1], clusters=many[2], resamples=40_000)
    assert not drawn.exact and drawn.p_value == pytest.approx(peer.pvalue, abs=0.02)


@pytest.mark.parametrize("few", [True, False], ids=["few kinds of clusters", "many kinds"])
def test_the_interval_of_clusters_is_that_of_scipy_for_their_sums_and_rows(few: bool) -> None:
    first, second, names = rows_in_clusters(5)
    if few:
        second = first + np.round(second - first)
    found = compare_paired(first, second, clusters=names, resamples=20_000)
    totals, sizes = np.bincount(names, second - first), np.bincount(names)
    peer = scipy.stats.bootstrap(
        (totals, sizes),
        lambda sums, rows, axis=-1: sums.sum(axis) / rows.sum(axis),
        paired=True,
        n_resamples=20_000,
        method="BCa",
        rng=np.random.default_rng(3),
    ).confidence_interval
    width = found.high - found.low
    assert (found.low, found.high) == pytest.approx((peer.low, peer.high), abs=0.04 * width)
    rows = compare_paired(first, second, resamples=20_000)
    assert width > 1.5 * (rows.high - rows.low)


def test_clusters_of_one_row_are_rows() -> None:
    first, second, _ = rows_in_clusters(2)
    alone = compare_paired(first, second, resamples=300)
    assert compare_paired(first, second, clusters=[f"r{n}" for n in range(len(first))], resamples=300) == alone
    assert alone.n_clusters == alone.n


def test_no_order_of_rows_changes_a_bit() -> None:
    first, second, names = rows_in_clusters(1)
    order = np.random.default_rng(2).permutation(len(first))
    for clusters, same in (
        (None, None),
        (names, names[order]),
        (dict(enumerate(names)), dict(enumerate(names[order]))),
    ):
        found = compare_paired(first, second, clusters=clusters, resamples=200)
        assert compare_paired(first[order], second[order], clusters=same, resamples=200) == found


def test_rows_without_a_number_leave_their_cluster() -> None:
    found = compare_paired([1, NAN, 2, 3, 0], [2, 5, NAN, 5, 1], clusters=["a", "a", "b", "c", "c"])
    assert (found.n, found.n_missing, found.n_clusters) == (3, 2, 2)
    assert found.difference == pytest.approx(4 / 3)
    assert found.p_value == by_hand([1, 3])
    one = compare_paired([1, 2], [2, 4], clusters=["a", "a"])
    assert (one.difference, one.reason) == (1.5, "it takes two clusters of rows with both numbers but there is 1")


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (["a"], "clusters must have one for each of the 3 rows but has 1"),
        ({0: "a", 2: "a"}, "clusters must have one for each of the 3 rows but has none for row 1"),
        (["a", None, "b"], "clusters must name the cluster of every unit but that of 1 is None"),
    ],
)
def test_clusters_that_do_not_fit_are_named(clusters: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare_paired([1, 2, 3], [2, 3, 5], clusters=clusters)
    with pytest.raises(InputError, match=message):
        compare_pooled([[1, 2]] * 3, [[2, 2]] * 3, lambda sums: sums[0] / sums[1], clusters=clusters)


def rate(sums: Sequence[int]) -> float:
    return sums[0] / sums[1] if sums[1] else NAN


@pytest.mark.parametrize("seed", seeds(3))
def test_few_counts_are_swapped_in_every_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = rng.integers(2, 30, 9)
    first, second = (np.stack((rng.binomial(words, p), words), 1) for p in (0.3, 0.5))
    first, second = (np.concatenate((side, [[3, 10]] * 20)) for side in (first, second))
    found = compare_pooled(first, second, rate, resamples=600, seed=seed)

    def difference(chosen: Sequence[bool]) -> float:
        sides = np.where(np.array(chosen)[:, None], second, first), np.where(np.array(chosen)[:, None], first, second)
        return abs(rate(sides[1].sum(0).tolist()) - rate(sides[0].sum(0).tolist()))

    ways = [(*each, *[False] * 20) for each in itertools.product([False, True], repeat=9)]
    reached = [difference(way) >= abs(found.difference) - 1e-12 for way in ways]
    assert found.exact and found.p_value == sum(reached) / 512
    ways_of_changes = 1 << int((first != second).any(1).sum())
    assert compare_pooled(first, second, rate, resamples=ways_of_changes).exact
    assert not compare_pooled(first, second, rate, resamples=ways_of_changes - 1).exact


def test_counts_of_clusters_are_added_up() -> None:
    rng = np.random.default_rng(4)
    names = np.repeat(np.arange(30), rng.integers(1, 6, 30))
    words = rng.integers(2, 30, len(names))
    first, second = (np.stack((rng.binomial(words, p), words), 1) for p in (0.3, 0.35))
    found = compare_pooled(first, second, rate, clusters=names, resamples=500)
    added = [np.stack([np.bincount(names, column) for column in side.T], 1).astype(int) for side in (first, second)]
    whole = compare_pooled(*added, rate, resamples=500)
    assert (found.difference, found.low, found.high, found.p_value) == (
        whole.difference, whole.low, whole.high, whole.p_value,
    )  # fmt: skip
    assert (found.n, found.n_clusters) == (len(names), 30)
    order = rng.permutation(len(names))
    assert compare_pooled(first[order], second[order], rate, clusters=names[order], resamples=500) == found


@pytest.mark.slow
def test_false_alarms_of_clusters_are_as_many_as_they_should_be() -> None:
    """Rows that share a cluster are no evidence of their own: compared one by one they raise false alarms."""
    alarms, held, naive = 0, 0, 0
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        names = np.repeat(np.arange(30), rng.integers(2, 9, 30))
        values = rng.normal(size=30)[names] + rng.normal(0, 0.3, len(names))
        found = compare_paired(np.zeros(len(names)), values, clusters=names, resamples=999, seed=seed)
        alarms += found.p_value <= 0.05
        held += found.low <= 0 <= found.high
        naive += compare_paired(np.zeros(len(names)), values, resamples=99, seed=seed).p_value <= 0.05
    assert 40 <= alarms <= 60
    assert 900 <= held <= 965
    assert naive > 200
