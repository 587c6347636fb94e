"""Numbers from histograms: counts against numpy, areas within their bounds of scikit-learn's exact ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.ops.score_histogram.op import score_histogram
from valor_gpu.reduce.histogram_metrics import average_precision, float_order_thresholds, roc_auc, threshold_counts

ROUNDING = 1e-12


def histogram(
    scores: NDArray[np.float64], target: NDArray[np.int64], grid: Tensor, weight: Tensor | None = None
) -> Tensor:
    found = score_histogram(torch.from_numpy(scores)[:, None], torch.from_numpy(target)[:, None], grid, weight=weight)
    return found.histogram


def samples(seed: int, rows: int = 200) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scores of few or many values, positives above negatives more or less often."""
    rng = np.random.default_rng(seed)
    target = (rng.random(rows) < rng.uniform(0.05, 0.95)).astype(np.int64)
    target[:2] = 0, 1
    scores = 1 / (1 + np.exp(-rng.normal(size=rows) * rng.uniform(0.5, 8) - rng.uniform(0, 4) * target))
    return np.round(scores, int(rng.integers(1, 9))), target


def grid_of(seed: int) -> Tensor:
    return torch.linspace(0, 1, 1 + seed % 13 * 3, dtype=torch.float64) if seed % 3 else float_order_thresholds(2)


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_at_thresholds_are_numpys(weighted: bool) -> None:
    for seed in range(20):
        (scores, target), grid = samples(seed), grid_of(seed)
        weight = np.random.default_rng(seed).integers(0, 5, len(scores)) / 4 if weighted else np.ones(len(scores))
        counts = threshold_counts(histogram(scores, target, grid, torch.from_numpy(weight) if weighted else None))
        reach, hot = scores >= grid.numpy()[:, None], target == 1
        masks = (reach & hot, reach & ~hot, ~reach & hot, ~reach & ~hot)
        for got, mask in zip(counts, masks):
            assert got.dtype == torch.float64 and got.shape == (1, len(grid))
            assert got[0].tolist() == (mask * weight).sum(1).tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_exact_areas_lie_within_the_bounds(weighted: bool) -> None:
    for seed in range(100):
        scores, target = samples(seed)
        weight = np.random.default_rng(seed).exponential(size=len(scores)) if weighted else None
        found = histogram(scores, target, grid_of(seed), None if weight is None else torch.from_numpy(weight))
        area, precision = roc_auc(found), average_precision(found, 0.0 if weighted else 1.0)
        exact = roc_auc_score(target, scores, sample_weight=weight)
        assert abs(float(area.value) - exact) <= float(area.bound) + ROUNDING
        exact = average_precision_score(target, scores, sample_weight=weight)
        assert float(precision.lowest) - ROUNDING <= exact <= float(precision.highest) + ROUNDING
        assert precision.lowest <= precision.value <= precision.highest


def test_every_order_within_a_bucket_lies_within_the_bounds_and_some_reach_them() -> None:
    counts = torch.tensor([[0, 2, 1, 0], [0, 4, 1, 1]])  # from above: a negative, a positive, two of each
    target = np.array([0, 1, 1, 1, 0, 0])
    area, precision = roc_auc(counts), average_precision(counts, 1.0)
    scores = [np.array([9, 8, *order]) for order in itertools.product(range(4), repeat=4)]
    areas = [roc_auc_score(target, found) for found in scores]
    assert max(areas) == pytest.approx(float(area.value + area.bound), abs=ROUNDING)
    assert min(areas) == pytest.approx(float(area.value - area.bound), abs=ROUNDING)
    precisions = [average_precision_score(target, found) for found in scores]
    assert max(precisions) == pytest.approx(float(precision.highest), abs=ROUNDING)
    assert min(precisions) - 0.01 < float(precision.lowest) <= min(precisions)
    assert float(average_precision(counts).lowest) < float(precision.lowest)


def test_scores_that_share_no_bucket_have_the_exact_areas() -> None:
    for seed in range(20):
        scores, target = samples(seed)
        found = histogram(scores, target, torch.from_numpy(np.unique(scores)))
        assert float(roc_auc(found).value) == pytest.approx(roc_auc_score(target, scores), abs=ROUNDING)
        exact = average_precision_score(target, scores)
        assert float(average_precision(found).value) == pytest.approx(exact, abs=ROUNDING)


def test_weights_below_one_need_the_looser_bound() -> None:
    scores, target = np.concatenate([[9.0], np.arange(8.0)]), np.array([0] + [1] * 8)
    weight = np.array([1.0] + [1 / 8] * 8)
    found = histogram(scores, target, torch.zeros(0, dtype=torch.float64), torch.from_numpy(weight))
    exact = average_precision_score(target, scores, sample_weight=weight)
    assert average_precision(found, 1 / 8).lowest <= exact < average_precision(found, 1.0).lowest
    assert average_precision(found).lowest <= average_precision(found, 1 / 8).lowest


def test_many_classes_at_once_are_each_class_alone() -> None:
    rng = np.random.default_rng(0)
    scores, target = torch.from_numpy(rng.random((300, 7))), torch.from_numpy(rng.integers(0, 7, 300))
    found = score_histogram(scores, target, float_order_thresholds(4)).histogram
    for c in range(7):
        for reduce in (roc_auc, average_precision, threshold_counts):
            alone = reduce(found[:, c])
            assert all(torch.equal(whole[c], one) for whole, one in zip(reduce(found), alone))


def test_where_one_side_is_missing_there_is_no_area() -> None:
    none, all_positive = torch.tensor([[0, 0], [3, 4]]), torch.tensor([[3, 4], [3, 4]])
    assert all(number.isnan() for number in (*roc_auc(none), *roc_auc(all_positive), *average_precision(none)))
    assert [float(number) for number in average_precision(all_positive)] == [1.0, 1.0, 1.0]
    assert all(number.isnan() for number in (*roc_auc(none * 0), *average_precision(none * 0)))


def test_rounded_sums_of_weights_leave_no_negative_count() -> None:
    more_than_all = torch.tensor([[0.1 + 0.2, 1.0], [0.3, 2.0]], dtype=torch.float64)
    assert threshold_counts(more_than_all).tn.tolist() == [0.0]


@pytest.mark.parametrize("per_octave", [1, 3, 32, 64])
def test_thresholds_split_every_power_of_two(per_octave: int) -> None:
    grid = float_order_thresholds(per_octave).numpy()
    assert (np.diff(grid) > 0).all() and grid[0] == 2.0**-32 and grid[-1] == 1.0
    assert np.array_equal(grid, grid.astype(np.float32).astype(np.float64))
    for k in range(1, 31):
        assert ((grid >= 2.0 ** -(k + 1)) & (grid < 2.0**-k)).sum() == per_octave
    for k in range(1, 24):
        distinct = min(per_octave, 2 ** (23 - k))
        assert ((grid > 1 - 2.0**-k) & (grid <= 1 - 2.0 ** -(k + 1))).sum() == distinct


def test_the_default_costs_less_than_50_mb_for_1000_classes() -> None:
    assert 2 * 1000 * (len(float_order_thresholds()) + 1) * 8 < 50e6


@pytest.mark.parametrize(
    ("given", "message"), [(0, "per_octave must be at least 1 but is 0"), (1.5, "per_octave must be int but got float")]
)
def test_errors_name_the_argument(given: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        float_order_thresholds(given)
