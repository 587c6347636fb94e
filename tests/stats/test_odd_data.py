"""Odd data: equal scores, names of clusters of every kind, extreme confidence, what is no number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.fuzz import seeds
from valor_gpu import stats, text
from valor_gpu.classification import AUROC
from valor_gpu.errors import InputError
from valor_gpu.stats.row_samples import RowSample

NAN = float("nan")
FIRST, SECOND = np.arange(6.0), np.array([1.0, 2, 4, 3, 6, 5])


@pytest.mark.parametrize("measure", [stats.correlation, stats.weighted_kappa])
@pytest.mark.parametrize(
    "names",
    [["a", "b", "b", "c", "d", "d"], [1, "1", "1", 2, "2", "2"], [(1, 2), (1, 3), (1, 3), (2, 1), (2, 2), (2, 2)]],
)
def test_clusters_of_pairs_are_told_apart_as_their_names_are(measure: Callable[..., Any], names: list[Any]) -> None:
    """Numpy would take 1 and "1" for one name, and pairs for a table."""
    expected = measure(FIRST, SECOND, [0, 1, 1, 2, 3, 3])
    for given in (names, dict(enumerate(names))):
        assert measure(FIRST, SECOND, given) == expected
    assert expected.n_clusters == 4


@pytest.mark.parametrize(
    "compare",
    [
        lambda clusters: stats.correlation(FIRST, SECOND, clusters),
        lambda clusters: stats.weighted_kappa(FIRST, SECOND, clusters),
        lambda clusters: stats.compare_paired(FIRST, SECOND, clusters=clusters),
        lambda clusters: stats.delong(FIRST, SECOND > 2, clusters),
        lambda clusters: stats.compare_accuracy(FIRST > 2, SECOND > 2, clusters),
    ],
)
@pytest.mark.parametrize("missing", [NAN, None, (1, NAN), (1, None)], ids=str)
def test_a_row_without_a_cluster_is_named(compare: Callable[[Any], Any], missing: Any) -> None:
    with pytest.raises(InputError, match="clusters must name the cluster of every unit but that of 4 is"):
        compare([1, 2, 3, 4, missing, missing])


def test_a_place_without_a_cluster_in_a_table_is_named() -> None:
    column = pytest.importorskip("pandas").Series([1, 2, None, 3, 4, 5], dtype="Int64")
    with pytest.raises(InputError, match="clusters must name the cluster of every unit but that of 2 is <NA>"):
        stats.correlation(FIRST, SECOND, column)


def test_kappa_stays_within_its_range() -> None:
    """Opposite ratings have -1; rounding of the sums of a sample would leave it."""
    found = stats.weighted_kappa([1, 2, 3, 4, 5, 6], [1, 2, 4, 3, 6, 5], [1, 1, 2, 2, 3, 3])
    assert found.low == -1


@pytest.mark.parametrize("confidence", [1 - 1e-12, math.nextafter(1, 0)])
def test_ends_of_the_greatest_confidence_hold_the_number(confidence: float) -> None:
    found = stats.compare_paired(np.zeros(100), [0] * 99 + [1], confidence=confidence)
    assert found.low <= found.difference < found.high
    rate = stats.pass_rate(9, 10, confidence)
    assert 0 < rate.low < 0.14 and 0.998 < rate.high < 1
    area = stats.delong([0.1, 0.4, 0.35, 0.8, 0.7, 0.2], [0, 0, 1, 1, 1, 0], confidence=confidence)
    assert area.low < 0.01 and area.high > 0.99
    metric = text.TokenF1()
    metric.update(["a b", "a"] * 9, ["a", "a"] * 9)
    ends = metric.result(intervals=stats.Bootstrap(200, confidence)).intervals["f1"]
    assert ends.low < 0.75 and ends.high > 0.9


@pytest.mark.parametrize("rows", [2, 37, 1000])
def test_equal_scores_that_no_float_sums_exactly_have_no_interval(rows: int) -> None:
    metric = text.TokenF1()
    metric.update(["a b c x y z w"] * rows, ["a b c d e f"] * rows)
    found = metric.result(intervals=300).intervals
    assert {name: found[name].reason.partition(":")[0] for name in ("f1", "precision", "recall")} == dict.fromkeys(
        ("f1", "precision", "recall"), "every replicate is equal"
    )


def test_scores_that_differ_in_one_row_have_an_interval() -> None:
    from valor_gpu.stats.resample import intervals_of

    sample = RowSample({"score": np.append(np.full(9_999, 0.1), 0.1 + 1e-6)})
    found = intervals_of({"score": 0.1}, sample, stats.Bootstrap(300))
    assert not found["score"].reason and found["score"].low < found["score"].high


def test_an_area_of_equal_scores_has_no_interval() -> None:
    """All rows tie: no row says how the area would vary."""
    target = [0, 1, 0] * 30
    found = stats.delong([0.5] * 90, target)
    assert found.value == 0.5 and math.isnan(found.low) and found.reason.startswith("every row is ranked as every")
    metric = AUROC()
    metric.update(torch.full((90,), 0.5), torch.tensor(target))
    interval = metric.result(intervals="delong").intervals["AUROC"]
    assert math.isnan(interval.high) and interval.reason == found.reason
    against = stats.compare_auroc([0.5] * 90, [0.1, 0.2, 0.3] * 30, target)
    assert against.difference == 0 and against.p_value == 1 and against.low < 0 < against.high


@pytest.mark.parametrize("method", ["mid_p", "exact"])
def test_the_order_of_the_models_only_turns_the_sign(method: str) -> None:
    for counts in itertools.product(range(4), repeat=4):
        if not sum(counts):
            continue
        first, second = np.repeat([1, 1, 0, 0], counts), np.repeat([1, 0, 1, 0], counts)
        found, turned = (
            stats.compare_accuracy(first, second, method=method),
            stats.compare_accuracy(second, first, method=method),
        )
        assert (found.low, found.high, found.p_value) == (-turned.high, -turned.low, turned.p_value)


@pytest.mark.parametrize("seed", seeds(10))
def test_the_p_value_is_that_of_all_assignments_of_signs(seed: int) -> None:
    """Enumerated here, with clusters, ties, equal differences and zeros."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(2, 10))
    differences = (rng.normal(size=rows), rng.integers(-1, 2, rows) * 1.0, rng.integers(-3, 4, rows) * 0.1)[seed % 3]
    codes = rng.integers(0, max(2, rows // 2), rows) if seed % 2 else np.arange(rows)
    sums = np.bincount(codes, differences)[np.unique(codes)]
    found = stats.compare_paired(np.zeros(rows), differences, clusters=codes)
    if len(sums) < 2:
        assert found.reason
        return
    least = abs(sums.sum()) - 1e-11 * np.abs(sums).sum()
    signs = np.array(list(itertools.product([-1, 1], repeat=len(sums))))
    assert found.exact and found.p_value == pytest.approx((np.abs(signs @ sums) >= least).mean(), abs=1e-12)
    assert found.low <= found.high


@pytest.mark.parametrize(
    "adjust", [stats.adjust_holm, stats.adjust_benjamini_hochberg, stats.adjust_benjamini_yekutieli]
)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a"], "p_values must hold numbers but has dtype <U1"),
        ([0.5j], "p_values must hold numbers but has dtype complex128"),
        ([[0.1, 0.2]], r"p_values must hold one number for each comparison but has shape \[1, 2\]"),
        ([[0.1], [0.2, 0.3]], "p_values must hold numbers but holds lists of different lengths"),
        ([10**400], "p_values must hold numbers of at most 1.8e308 but holds a larger one"),
    ],
)
def test_what_is_no_row_of_p_values(adjust: Callable[[Any], Any], given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        adjust(given)


def test_what_is_no_table_of_replicates() -> None:
    with pytest.raises(InputError, match="replicates must hold numbers but holds lists of different lengths"):
        stats.adjust_max_t([1, 1], [[1, 2], [1]])
    with pytest.raises(InputError, match="statistics must hold numbers but has dtype <U1"):
        stats.adjust_max_t(["a"], [[1]])
