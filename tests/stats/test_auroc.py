"""DeLong's variance and test against double loops over pairs of rows, and Obuchowski's sums of clusters."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from valor_gpu.errors import InputError
from valor_gpu.stats import compare_auroc, delong
from valor_gpu.stats.area_moments import Areas, moments
from valor_gpu.stats.auroc import ALIKE
from valor_gpu.stats.placements import exact_dot, placements

Scores = NDArray[Any]


def rows(seed: int, n: int = 40, ties: int = 6) -> tuple[Scores, Scores, Scores]:
    """Scores of two models, of which some are tied, and targets."""
    rng = np.random.default_rng(seed)
    target = rng.random(n) < 0.4
    target[:4] = (True, True, False, False)
    shared = rng.normal(size=n)
    first, second = (np.round((shared + rng.normal(size=n) + gap * target) * ties / 2) for gap in (1.0, 1.5))
    return first, second, target.astype(np.int64)


def kernel(positive: float, negative: float) -> Fraction:
    return Fraction(int(positive > negative) * 2 + int(positive == negative), 2)


def placed(scores: Scores, target: Scores) -> tuple[Fraction, list[Fraction], list[Fraction]]:
    """The area, and the placements of positives and of negatives, by a loop over pairs."""
    above, below = scores[target == 1], scores[target == 0]
    of_positives = [sum((kernel(p, q) for q in below), Fraction()) / len(below) for p in above]
    of_negatives = [sum((kernel(p, q) for p in above), Fraction()) / len(above) for q in below]
    return sum(of_positives, Fraction()) / len(above), of_positives, of_negatives


def covariance(one: Scores, two: Scores, target: Scores) -> Fraction:
    """That of two areas: sample covariances of the placements over the numbers of rows."""
    found = Fraction()
    (area, *mine), (other_area, *other) = placed(one, target), placed(two, target)
    for a, b in zip(mine, other):
        found += sum(((x - area) * (y - other_area) for x, y in zip(a, b)), Fraction()) / (len(a) - 1) / len(a)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_moments_are_those_of_all_pairs_to_the_last_bit(seed: int) -> None:
    first, second, target = rows(seed)
    sides = [Areas([placements(scores, target == 1)]) for scores in (first, second)]
    found = moments(*sides)
    assert [side.value for side in sides] == [float(placed(scores, target)[0]) for scores in (first, second)]
    assert found.variances == tuple(float(covariance(scores, scores, target)) for scores in (first, second))
    assert found.covariance == float(covariance(first, second, target))


@pytest.mark.parametrize("seed", range(4))
def test_area_is_that_of_scikit_learn(seed: int) -> None:
    first, _, target = rows(seed, 400)
    assert delong(first, target).value == pytest.approx(roc_auc_score(target, first), abs=1e-15)


def obuchowski(one: Scores, two: Scores, target: Scores, clusters: Scores) -> float:
    """The covariance of two areas by the sums over clusters of Obuchowski (1997), equations 3 to 5."""
    (area, *mine), (other, *its) = placed(one, target), placed(two, target)
    m, n = len(mine[0]), len(mine[1])
    sums: dict[Any, list[list[float]]] = {c: [[0.0, 0.0], [0.0, 0.0]] for c in np.unique(clusters)}
    held: dict[Any, list[int]] = {c: [0, 0] for c in sums}
    for side, value in ((0, 1), (1, 0)):
        for cluster, a, b in zip(clusters[target == value], mine[side], its[side]):
            sums[cluster][0][side] += float(a - area)
            sums[cluster][1][side] += float(b - other)
            held[cluster][side] += 1
    units = len(sums)
    with_side = [sum(each[side] > 0 for each in held.values()) for side in (0, 1)]
    s10 = with_side[0] / ((with_side[0] - 1) * m) * sum(a[0] * b[0] for a, b in sums.values())
    s01 = with_side[1] / ((with_side[1] - 1) * n) * sum(a[1] * b[1] for a, b in sums.values())
    s11 = units / (units - 1) * sum(a[0] * b[1] + a[1] * b[0] for a, b in sums.values())
    return s10 / m + s01 / n + s11 / (m * n)


@pytest.mark.parametrize("seed", range(6))
def test_clusters_have_the_variance_of_obuchowski(seed: int) -> None:
    first, second, target = rows(seed, 60)
    clusters = np.random.default_rng(seed).integers(0, 15, 60)
    sides = [Areas([placements(scores, target == 1)], [clusters]) for scores in (first, second)]
    found = moments(*sides)
    for got, pair in zip((*found.variances, found.covariance), ((first,) * 2, (second,) * 2, (first, second))):
        assert got == pytest.approx(obuchowski(*pair, target, clusters), rel=1e-12)


def test_clusters_of_one_row_change_nothing() -> None:
    first, second, target = rows(3)
    alone, clustered = (compare_auroc(first, second, target, clusters) for clusters in (None, range(40)))
    assert clustered.n == alone.n == 40
    for name in ("difference", "low", "high", "p_value", "standard_error"):
        assert getattr(clustered, name) == pytest.approx(getattr(alone, name), rel=1e-9)


def test_mean_of_two_opposite_classes_has_the_variance_of_one() -> None:
    first, second, target = rows(5)
    sides = []
    for scores in (first, second):
        classes = [placements(scores, target == 1), placements(-scores, target == 0)]
        sides.append(Areas(classes, [np.arange(40)] * 2))
    found, alone = moments(*sides), moments(*(Areas([side.classes[0]]) for side in sides))
    assert sides[0].value == pytest.approx(sides[0].classes[0].value, abs=1e-15)
    assert [*found.variances, found.covariance] == pytest.approx([*alone.variances, alone.covariance], rel=1e-12)


def test_order_of_rows_and_scale_of_scores_change_no_bit() -> None:
    first, second, target = rows(7, 200)
    clusters = np.arange(200) // 3
    order = np.random.default_rng(1).permutation(200)
    for codes in (None, clusters):
        whole = compare_auroc(first, second, target, codes)
        again = compare_auroc(
            np.exp(first[order] / 5), 3 * second[order] - 100, target[order], None if codes is None else codes[order]
        )
        assert vars(again) == vars(whole)


@pytest.mark.parametrize("seed", range(20))
def test_p_value_and_interval_decide_alike(seed: int) -> None:
    first, second, target = rows(seed, 60)
    p_value = compare_auroc(first, second, target).p_value
    assert 0 < p_value <= 1
    for share in (0.999, 1.001):
        found = compare_auroc(first, second, target, confidence=1 - min(p_value * share, 0.999))
        assert (found.low <= 0 <= found.high) == (share < 1 or p_value > 0.999)


def test_swapped_models_have_the_mirrored_difference() -> None:
    first, second, target = rows(2, 80)
    one, two = compare_auroc(first, second, target), compare_auroc(second, first, target)
    assert one.difference == -two.difference
    assert one.p_value == pytest.approx(two.p_value, rel=1e-12)
    assert (one.low, one.high) == pytest.approx((-two.high, -two.low), abs=1e-15)


def test_equal_rankings_have_a_p_value_and_no_interval() -> None:
    first, _, target = rows(1)
    for clusters in (None, np.arange(40) // 2):
        found = compare_auroc(first, 2 * first + 1, target, clusters)
        assert (found.difference, found.p_value, found.reason) == (0.0, 1.0, ALIKE)
        assert math.isnan(found.low)


@pytest.mark.parametrize(
    ("scores", "target", "reason"),
    [
        ([1.0, 2, 3, 4], [0, 0, 1, 1], "the area is 1: data of this size do not show how it varies"),
        ([4.0, 3, 2, 1], [0, 0, 1, 1], "the area is 0: data of this size do not show how it varies"),
        ([1.0, 2, 3], [0, 0, 0], "too few positive rows: it takes 2 but there are none"),
        ([1.0, 2, 3], [0, 1, 1], "too few negative rows: it takes 2 but there is 1"),
        ([], [], "too few positive rows: it takes 2 but there are none"),
    ],
)
def test_what_has_no_variance_says_why(scores: list[float], target: list[int], reason: str) -> None:
    found = delong(scores, target)
    assert found.reason == reason
    assert math.isnan(found.low)
    assert math.isnan(found.standard_error)
    paired = compare_auroc(scores, scores, target)
    assert paired.reason == reason
    assert math.isnan(paired.p_value)


def test_few_clusters_say_so() -> None:
    found = delong([1.0, 3, 2, 4], [0, 0, 1, 1], clusters=["a", "b", "b", "b"])
    assert found.reason == "too few clusters with positive rows: it takes 2 but there is 1"


def test_ends_stay_within_the_scale() -> None:
    target = np.repeat([0, 1], 20)
    scores = np.arange(40.0)
    scores[[19, 20]] = scores[[20, 19]]
    found = delong(scores, target, confidence=0.999)
    assert 0 < found.low < found.value < found.high < 1


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match=r"target must be 0 or 1 but target\[1\] is 2"):
        delong([1.0, 2.0], [0, 2])
    with pytest.raises(InputError, match=r"scores must hold no NaN but scores\[1\] is NaN"):
        delong([1.0, math.nan], [0, 1])
    with pytest.raises(InputError, match=r"second must hold a score for each of 2 rows but has shape \[3\]"):
        compare_auroc([1.0, 2.0], [1.0, 2.0, 3.0], [0, 1])
    with pytest.raises(InputError, match="clusters must have one for each of 2 rows but has 1"):
        delong([1.0, 2.0], [0, 1], clusters=["a"])
    with pytest.raises(InputError, match="first must hold numbers but has dtype <U1"):
        compare_auroc(["a", "b"], [1, 2], [0, 1])
    with pytest.raises(InputError, match=r"target must hold 0 or 1 for each row but has shape \[1, 2\]"):
        delong([1.0, 2.0], [[0, 1]])


def test_sums_of_products_are_exact() -> None:
    rng = np.random.default_rng(0)
    for top in (3, 1 << 21, 1 << 33, 1 << 44):
        first, second = rng.integers(0, top, (2, 300))
        assert exact_dot(first, second) == sum(a * b for a, b in zip(first.tolist(), second.tolist()))
    assert exact_dot(np.zeros(0, np.int64), np.zeros(0, np.int64)) == 0


def test_equal_models_are_called_different_as_often_as_promised() -> None:
    rng = np.random.default_rng(5)
    target = np.arange(100) % 4 == 0
    hits = 0
    for _ in range(400):
        shared = rng.normal(size=100)
        first, second = (shared + rng.normal(size=100) + 1.5 * target for _ in range(2))
        hits += compare_auroc(first, second, target).p_value < 0.05
    assert 0.02 * 400 < hits < 0.08 * 400
