"""The log AUC: equal to trapezoids under scikit-learn's curve, and from a histogram between bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu import functional
from valor_gpu.classification import BinaryLogAUC, LogAUC, MulticlassLogAUC
from valor_gpu.errors import InputError

RANGES = [(0.001, 0.1), (0.01, 0.5), (0.1, 1.0), (0.2, 0.25)]


def oracle(scores: Any, target: Any, fpr_range: tuple[float, float], weight: Any = None) -> float:
    """Trapezoids over the logarithm of the false positive rate, of scikit-learn's curve."""
    fpr, tpr, _ = sk.roc_curve(target, scores, sample_weight=weight, drop_intermediate=False)
    points = []
    for end, side in zip(fpr_range, ("last", "first")):
        right = np.flatnonzero(fpr <= end)[-1] if side == "last" else None
        if right is not None and fpr[right] == end:
            points.append((end, tpr[right]))
            continue
        above = np.flatnonzero(fpr >= end)[0]
        part = (end - fpr[above - 1]) / (fpr[above] - fpr[above - 1])
        points.append((end, tpr[above - 1] + part * (tpr[above] - tpr[above - 1])))
    inside = (fpr > fpr_range[0]) & (fpr < fpr_range[1])
    x = np.concatenate(([points[0][0]], fpr[inside], [points[1][0]]))
    y = np.concatenate(([points[0][1]], tpr[inside], [points[1][1]]))
    area = ((y[1:] + y[:-1]) / 2 * np.diff(np.log10(x))).sum()
    return float(area / (math.log10(fpr_range[1]) - math.log10(fpr_range[0])))


def data(seed: int) -> tuple[Tensor, Tensor]:
    """Scores with few, some or no ties; both classes occur."""
    generator = torch.Generator().manual_seed(seed)
    rows, levels = int(torch.randint(4, 300, (), generator=generator)), (3, 20, 10**6)[seed % 3]
    target = torch.randint(2, (rows,), generator=generator)
    target[0], target[1] = 0, 1
    return torch.randint(levels, (rows,), generator=generator).double() / levels, target


def value(metric: LogAUC, *batches: Any) -> float:
    for batch in batches:
        metric.update(*batch)
    found: float = metric.result().values["LogAUC"]
    assert float(metric.compute()) == pytest.approx(found, abs=1e-6)
    return found


@pytest.mark.parametrize("seed", seeds(30))
@pytest.mark.parametrize("fpr_range", RANGES)
def test_it_equals_a_loop_over_the_curve(seed: int, fpr_range: tuple[float, float]) -> None:
    scores, target = data(seed)
    metric = LogAUC(fpr_range=fpr_range, score_dtype=torch.float64)
    found = value(metric, (scores[:3], target[:3]), (scores[3:], target[3:]))
    assert found == pytest.approx(oracle(scores, target, fpr_range), abs=1e-12)
    weight = torch.rand(len(scores), generator=torch.Generator().manual_seed(seed)).double() + 0.1
    weighted = value(LogAUC(fpr_range=fpr_range, score_dtype=torch.float64), (scores, target, weight))
    assert weighted == pytest.approx(oracle(scores, target, fpr_range, weight), abs=1e-9)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_histogram_gives_bounds_on_the_exact_number(seed: int) -> None:
    scores, target = data(seed)
    for fpr_range in RANGES:
        exact = value(LogAUC(fpr_range=fpr_range, score_dtype=torch.float64), (scores, target))
        binned = LogAUC(fpr_range=fpr_range, thresholds=7)
        binned.update(scores, target)
        values = binned.result().values
        assert values["lowest"] - 1e-12 <= exact <= values["highest"] + 1e-12
        assert values["lowest"] <= values["LogAUC"] <= values["highest"]


@pytest.mark.parametrize("seed", seeds(10))
def test_it_equals_torchmetrics_of_few_points(seed: int) -> None:
    """Of more than 16 points torchmetrics' sort may put those of one false positive rate in another order."""
    generator = torch.Generator().manual_seed(seed)
    scores, target = torch.rand(14, generator=generator), torch.arange(14) % 2
    for fpr_range in RANGES:
        theirs, ours = (kind(fpr_range=fpr_range) for kind in (tm.BinaryLogAUC, BinaryLogAUC))
        for metric in (theirs, ours):
            metric.update(scores, target)
        torch.testing.assert_close(ours.compute(), theirs.compute(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(functional.binary_logauc(scores, target, fpr_range), ours.compute())


def test_a_perfect_order_is_1_and_a_reversed_one_0() -> None:
    target = torch.tensor([0] * 50 + [1] * 7)
    assert value(LogAUC(), (torch.arange(57) / 57, target)) == 1.0
    assert value(LogAUC(), (-torch.arange(57) / 57, target)) == 0.0


def test_equal_scores_are_on_the_diagonal() -> None:
    """There, the rate at both ends is that of false positives, and the line between them is over the logarithm."""
    assert value(LogAUC(fpr_range=(0.1, 0.5)), (torch.zeros(40), torch.arange(40) % 2)) == pytest.approx(0.3, abs=1e-15)


@pytest.mark.parametrize("columns", ["num_classes", "num_labels"])
def test_averages_and_ignored_targets(columns: str) -> None:
    generator, sizes = torch.Generator().manual_seed(3), dict[str, Any]({columns: 3})
    scores = torch.rand((80, 3), generator=generator).softmax(1)
    target = torch.randint(3 if columns == "num_classes" else 2, (80, 3), generator=generator)
    target = target[:, 0] if columns == "num_classes" else target
    target[:5] = -1
    held = (target[:, None] == torch.arange(3)).long() if columns == "num_classes" else target
    expected = np.array([oracle(scores[5:, c], held[5:, c], (0.05, 0.5)) for c in range(3)])
    weights = held[5:].sum(0).numpy()
    for average, number in (("macro", expected.mean()), ("weighted", (expected * weights).sum() / weights.sum())):
        metric = LogAUC(**sizes, average=average, fpr_range=(0.05, 0.5), ignore_index=-1)
        assert value(metric, (scores, target)) == pytest.approx(number, abs=1e-12)
    each = LogAUC(**sizes, fpr_range=(0.05, 0.5), ignore_index=-1)
    each.update(scores, target)
    np.testing.assert_allclose(each.result().values["per_class"], expected, atol=1e-12)
    assert each.result().counts == {"samples": 80, "ignored": 5 if columns == "num_classes" else 15}
    pooled = LogAUC(**sizes, average="micro", fpr_range=(0.05, 0.5), ignore_index=-1)
    assert value(pooled, (scores, target)) == pytest.approx(
        oracle(scores[5:].flatten(), held[5:].flatten(), (0.05, 0.5)), abs=1e-12
    )


def test_a_class_of_one_side_has_none_and_is_left_out_of_means() -> None:
    scores = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.6, 0.4, 0.0]])
    metric = MulticlassLogAUC(3, fpr_range=(0.5, 1.0))
    metric.update(scores, torch.tensor([0, 1, 0]))
    assert metric.compute().tolist()[:2] == [1.0, 1.0] and metric.compute()[2].isnan()
    result = metric.result()
    assert result.reason("MulticlassLogAUC/2") == result.reason("per_class/2") != ""
    mean = LogAUC(3, average="macro", fpr_range=(0.5, 1.0))
    assert value(mean, (scores, torch.tensor([0, 1, 0]))) == 1.0
    alone = LogAUC()
    alone.update(torch.rand(4), torch.ones(4, dtype=torch.long))
    assert alone.compute().isnan() and alone.result().reason("LogAUC")


def test_intervals_are_of_the_rows_that_are_kept() -> None:
    scores, target = torch.rand(200, generator=torch.Generator().manual_seed(0)), torch.arange(200) % 2
    metric = LogAUC(fpr_range=(0.1, 1.0))
    metric.update(scores, target)
    interval = metric.result(intervals=50).intervals["LogAUC"]
    assert interval.low < metric.result().values["LogAUC"] < interval.high
    binned = LogAUC(fpr_range=(0.1, 1.0), thresholds=5)
    binned.update(scores, target)
    assert binned.result(intervals=50).intervals["LogAUC"].low < binned.result().values["LogAUC"]


@pytest.mark.parametrize("fpr_range", [(0, 0.1), (0.1, 0.1), (0.2, 0.1), (0.1, 1.5), 0.1, "ab", (0.1, 0.2, 0.3),
                                       (True, 1), (0.1, math.nan), None])  # fmt: skip
def test_a_range_has_two_rates_with_a_logarithm(fpr_range: Any) -> None:
    with pytest.raises(InputError, match="fpr_range must be two numbers above 0 and at most 1 that ascend"):
        LogAUC(fpr_range=fpr_range)
