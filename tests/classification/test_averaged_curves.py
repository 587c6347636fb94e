"""Partial ROC areas and mean curves of classes: equal to scikit-learn and torchmetrics."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm
from torch import Tensor

from valor_gpu.classification import ROC, ROCAUC, AveragePrecision, PrecisionRecallCurve
from valor_gpu.errors import InputError


def scores_of(seed: int, rows: int = 80, levels: int = 1000) -> tuple[Tensor, Tensor]:
    """Probabilities of three classes with some information; few ``levels`` make ties."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(3, (rows,), generator=generator)
    logits = torch.randn(rows, 3, generator=generator).scatter_add(1, target[:, None], torch.ones(rows, 1))
    return (logits.softmax(1) * levels).round() / levels, target


def updated(metric: Any, *batch: Tensor) -> Any:
    metric.update(*batch)
    return metric


@pytest.mark.parametrize("max_fpr", [0.01, 0.1, 0.5, 0.9, 1, 1.0])
@pytest.mark.parametrize("levels", [5, 1000])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_partial_area_equals_scikit_learn(max_fpr: float, levels: int, weighted: bool) -> None:
    for seed in range(5):
        scores, target = scores_of(seed, levels=levels)
        weight = torch.rand(80, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        batch = (scores[:, 0], (target == 0).long(), *([weight] if weighted else []))
        expected = sk.roc_auc_score(
            batch[1].numpy(), batch[0].numpy(), max_fpr=max_fpr, sample_weight=weight.numpy() if weighted else None
        )
        result = updated(ROCAUC(max_fpr=max_fpr), *batch).result()
        assert result.values["ROCAUC"] == pytest.approx(expected, abs=1e-12)
        assert result.signature["max_fpr"] == max_fpr


@pytest.mark.parametrize("thresholds", [None, 11])
def test_a_partial_area_equals_torchmetrics(thresholds: int | None) -> None:
    scores, target = scores_of(0)
    batch = (scores[:, 1], (target == 1).long())
    expected = updated(tm.BinaryAUROC(max_fpr=0.3, thresholds=thresholds), *batch).compute()
    found = updated(ROCAUC(max_fpr=0.3, thresholds=thresholds), *batch).compute()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_partial_areas_of_classes_are_averaged_and_absent_classes_have_none() -> None:
    scores, target = scores_of(1)
    target[target == 2] = 0
    result = updated(ROCAUC(3, max_fpr=0.2), scores, target).result()
    expected = [sk.roc_auc_score(target.numpy() == c, scores[:, c].numpy(), max_fpr=0.2) for c in range(2)]
    assert result.values["per_class"][:2].tolist() == pytest.approx(expected, abs=1e-12)
    assert math.isnan(result.values["per_class"][2])
    assert result.values["ROCAUC"] == pytest.approx(np.mean(expected), abs=1e-12)
    micro = updated(ROCAUC(3, max_fpr=0.2, average="micro"), scores, target).result()
    pooled = sk.roc_auc_score(np.eye(3)[target.numpy()].ravel(), scores.numpy().ravel(), max_fpr=0.2)
    assert micro.values["ROCAUC"] == pytest.approx(pooled, abs=1e-12)


def test_bounds_of_a_partial_area_hold_the_exact_one() -> None:
    for seed in range(20):
        scores, target = scores_of(seed)
        exact = updated(ROCAUC(3, max_fpr=0.25), scores, target).result().values
        histograms: list[dict[str, Any]] = [{"thresholds": 4}, {"bins": 1}]
        for choices in histograms:
            binned = updated(ROCAUC(3, max_fpr=0.25, **choices), scores, target).result().values
            assert binned["lowest"] - 1e-12 <= exact["ROCAUC"] <= binned["highest"] + 1e-12
            assert (binned["lowest_per_class"] <= exact["per_class"] + 1e-12).all()
            assert (binned["highest_per_class"] >= exact["per_class"] - 1e-12).all()


def test_a_partial_area_of_one_is_the_whole_area() -> None:
    scores, target = scores_of(2)
    whole = updated(ROCAUC(3), scores, target).compute()
    torch.testing.assert_close(updated(ROCAUC(3, max_fpr=1.0), scores, target).compute(), whole, rtol=0, atol=1e-7)


@pytest.mark.parametrize("max_fpr", [0, -0.1, 1.5, math.nan, "0.5", True])
def test_max_fpr_out_of_range_raises(max_fpr: Any) -> None:
    with pytest.raises(InputError, match="max_fpr must be a number above 0 and at most 1, or None, but got"):
        ROCAUC(max_fpr=max_fpr)


def mean_roc(scores: Tensor, target: Tensor) -> tuple[Any, Any]:
    """scikit-learn's curves, averaged at all false positive rates by np.interp."""
    curves = [sk.roc_curve(target == c, scores[:, c], drop_intermediate=False) for c in range(scores.shape[1])]
    points = np.sort(np.concatenate([fpr for fpr, _, _ in curves]))
    return points, np.mean([np.interp(points, fpr, tpr) for fpr, tpr, _ in curves], axis=0)


@pytest.mark.parametrize("levels", [5, 1000])
def test_a_mean_roc_curve_equals_scikit_learn_and_torchmetrics(levels: int) -> None:
    for seed in range(5):
        scores, target = scores_of(seed, levels=levels)
        fpr, tpr, thresholds = updated(ROC(3, average="macro"), scores, target).compute()
        points, means = mean_roc(scores.double(), target)
        np.testing.assert_allclose(fpr, points, atol=1e-6)
        np.testing.assert_allclose(tpr, means, atol=1e-6)
        theirs = updated(tm.MulticlassROC(3, average="macro"), scores, target).compute()
        torch.testing.assert_close(fpr, theirs[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(thresholds, theirs[2], rtol=0, atol=1e-6)
        before = points < 1  # theirs is wrong where a curve ends in a vertical line
        np.testing.assert_allclose(tpr[before], theirs[1][before], atol=1e-5)
        assert float(tpr[-1]) == 1


def test_a_mean_roc_curve_at_thresholds_equals_torchmetrics() -> None:
    scores, target = scores_of(3)
    fpr, tpr, thresholds = updated(ROC(3, average="macro", thresholds=21), scores, target).compute()
    theirs = updated(tm.MulticlassROC(3, average="macro", thresholds=21), scores, target).compute()
    torch.testing.assert_close(fpr, theirs[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(tpr, theirs[1], rtol=0, atol=1e-5)
    torch.testing.assert_close(thresholds, theirs[2], rtol=0, atol=1e-6)


@pytest.mark.parametrize("choices", [{"num_classes": 3}, {"num_labels": 3}])
def test_the_steps_of_a_mean_precision_recall_curve_have_the_mean_average_precision(choices: dict[str, Any]) -> None:
    for seed in range(5):
        scores, target = scores_of(seed, levels=20)
        if "num_labels" in choices:
            target = torch.nn.functional.one_hot(target, 3)
        curve = updated(PrecisionRecallCurve(**choices, average="macro"), scores, target)
        precision, recall, thresholds = curve.compute()
        each = updated(PrecisionRecallCurve(**choices), scores, target).compute()
        assert len(precision) == len(recall) == sum(map(len, each[0])) and len(thresholds) == sum(map(len, each[2]))
        assert thresholds.tolist() == sorted(torch.cat(each[2]).tolist())
        values = curve.result().values
        assert (np.diff(values["recall"]) <= 0).all()
        expected = updated(AveragePrecision(**choices), scores, target).result().values["AveragePrecision"]
        assert -np.diff(values["recall"]) @ values["precision"][:-1] == pytest.approx(expected, abs=1e-12)


def test_classes_without_a_curve_are_left_out_of_the_mean() -> None:
    scores, target = scores_of(4)
    target[target == 2] = 0
    for kind in (ROC, PrecisionRecallCurve):
        mean = updated(kind(3, average="macro"), scores, target).compute()
        two = updated(kind(num_labels=2, average="macro"), scores[:, :2], torch.nn.functional.one_hot(target, 2))
        for found, expected in zip(mean, two.compute()):
            torch.testing.assert_close(found, expected)
        nothing = updated(kind(3, average="macro", thresholds=4), scores, target * 0 + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(nothing.compute()) == 3
    none = updated(ROC(3, average="macro", ignore_index=0), scores, target * 0).result()
    assert np.isnan(none.values["tpr"]).all() and none.reason("tpr")


def test_a_mean_curve_of_a_binary_task_is_the_curve() -> None:
    scores, target = scores_of(5)
    batch = (scores[:, 0], (target == 0).long())
    for kind in (ROC, PrecisionRecallCurve):
        for mean, alone in zip(updated(kind(average="macro"), *batch).compute(), updated(kind(), *batch).compute()):
            assert torch.equal(mean, alone)


def test_a_mean_curve_is_drawn() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    scores, target = scores_of(6)
    for kind in (ROC, PrecisionRecallCurve):
        figure, axes = updated(kind(3, average="macro"), scores, target).plot()
        assert len(axes.lines) >= 1
        figure.clear()
