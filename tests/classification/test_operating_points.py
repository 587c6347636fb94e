"""Rates at a limit of another, and the equal error rate: equal to torchmetrics, and to scikit-learn's curves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm
from torch import Tensor
from torchmetrics import MetricCollection

from valor_gpu import classification
from valor_gpu.classification import EER, ROC, ROCAUC, RecallAtFixedPrecision, SpecificityAtSensitivity
from valor_gpu.errors import InputError

LIMITS = {
    "PrecisionAtFixedRecall": "min_recall",
    "RecallAtFixedPrecision": "min_precision",
    "SensitivityAtSpecificity": "min_specificity",
    "SpecificityAtSensitivity": "min_sensitivity",
}
TASKS: dict[str, dict[str, int]] = {"Binary": {}, "Multiclass": {"num_classes": 3}, "Multilabel": {"num_labels": 3}}


def batch_of(task: str, seed: int, levels: int = 64) -> tuple[Tensor, Tensor]:
    """Scores with some information; ``levels`` is a power of two, so that float32 holds them exactly."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(3 if task == "Multiclass" else 2, (60,) if task == "Multiclass" else (60, 3),
                           generator=generator)  # fmt: skip
    hot = torch.nn.functional.one_hot(target, 3) if task == "Multiclass" else target
    noise = torch.rand(60, 3, generator=generator)
    scores = ((0.75 * noise + 0.25 * hot * torch.rand(60, 3, generator=generator)) * levels).round() / levels
    return (scores[:, 0], target[:, 0]) if task == "Binary" else (scores, target)


def updated(metric: Any, *batches: Any) -> Any:
    for batch in batches:
        metric.update(*batch)
    return metric


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("thresholds", [None, 9, [0.125, 0.5, 0.75]])
@pytest.mark.parametrize("limit", [0.0, 0.3, 0.5, 0.7, 0.95, 1.0])
def test_values_and_thresholds_equal_torchmetrics(task: str, name: str, thresholds: Any, limit: float) -> None:
    for seed, levels in ((0, 64), (1, 8)):
        batches = batch_of(task, seed, levels), batch_of(task, seed + 100, levels)
        choices = {LIMITS[name]: limit, "thresholds": thresholds, **TASKS[task]}
        theirs = updated(getattr(tm, task + name)(**choices), *batches).compute()
        ours = updated(getattr(classification, name)(**choices), *batches).compute()
        for found, expected in zip(ours, theirs, strict=True):
            assert found.dtype == expected.dtype
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("thresholds", [None, 9])
@pytest.mark.parametrize("average", [None, "micro", "macro"])
def test_equal_error_rates_equal_torchmetrics(task: str, thresholds: Any, average: str | None) -> None:
    for seed in range(3):
        batch = batch_of(task, seed)
        mean = {"average": average} if task == "Multiclass" and average != "micro" else {}
        theirs = updated(getattr(tm, f"{task}EER")(thresholds=thresholds, **TASKS[task], **mean), batch).compute()
        ours = updated(EER(thresholds=thresholds, **TASKS[task], **mean), batch).compute()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_the_pooled_equal_error_rate_is_that_of_scikit_learns_curve() -> None:
    scores, target = batch_of("Multiclass", 3)
    fpr, tpr, _ = sk.roc_curve(np.eye(3)[target.numpy()].ravel(), scores.numpy().ravel(), drop_intermediate=False)
    nearest = np.abs(fpr - (1 - tpr)).argmin()
    result = updated(EER(3, average="micro"), (scores, target)).result()
    assert result.values["EER"] == pytest.approx((fpr[nearest] + 1 - tpr[nearest]) / 2, abs=1e-12)


def test_a_limit_that_is_a_fraction_of_counts_is_reached_exactly() -> None:
    """1 of 10 negatives is right: 1 - 0.9 is less than 0.1 in float64, 1 / 10 is not."""
    scores = torch.tensor([*(i / 16 for i in range(1, 11)), 0.03125])
    target = torch.tensor([0] * 10 + [1])
    metric = updated(classification.SensitivityAtSpecificity(min_specificity=0.1), (scores + 0.0, target))
    assert metric.result().values["specificity"] == 1.0
    low = updated(classification.SensitivityAtSpecificity(min_specificity=0.1), (scores, 1 - target))
    assert low.result().values["SensitivityAtSpecificity"] == 1.0
    tight = torch.tensor([0.0625, *(i / 16 for i in range(3, 12)), 0.125])
    found = updated(classification.SensitivityAtSpecificity(min_specificity=0.1), (tight, target)).result()
    assert found.values["SensitivityAtSpecificity"] == 1.0 and found.values["specificity"] == 0.1


@pytest.mark.parametrize("name", [*LIMITS, "EER"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_of_every_dtype_and_only_one_have_a_point(name: str, dtype: torch.dtype) -> None:
    least = {LIMITS[name]: 0.5} if name in LIMITS else {}
    generator = torch.Generator().manual_seed(2)
    several = (torch.randint(9, (40,), generator=generator) / 8, torch.randint(2, (40,), generator=generator))
    for scores, target in (several, (torch.tensor([0.5, 0.5]), torch.tensor([0, 1]))):
        ours = updated(getattr(classification, name)(score_dtype=dtype, **least), (scores.to(dtype), target))
        theirs = updated(getattr(tm, f"Binary{name}")(**least), (scores, target))
        found, expected = (value if least else (value,) for value in (ours.compute(), theirs.compute()))
        assert [float(part) for part in found] == pytest.approx(
            [float(part) for part in expected], abs=1e-6, nan_ok=True
        )


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("columns", [{}, {"num_labels": 2}])
def test_where_every_element_is_ignored_there_is_no_point(name: str, columns: dict[str, int]) -> None:
    shape = (3, 2) if columns else (3,)
    metric = getattr(classification, name)(**columns, **{LIMITS[name]: 0.5}, ignore_index=-1)
    metric.update(torch.rand(shape), torch.full(shape, -1))
    assert all(bool(part.isnan().all()) for part in metric.compute())
    assert metric.result().counts == {"samples": 3, "ignored": 3 * max(1, *columns.values(), 1)}


def test_of_equally_near_points_the_highest_threshold_has_the_equal_error_rate() -> None:
    """|0 - 2/3| at 0.75 is |1 - 1/3| at 0.5; in float64, with 1 - tpr for the rate of false negatives, it is not."""
    scores, target = torch.tensor([0.75, 0.5, 0.5, 0.5, 0.5, 0.25]), torch.tensor([1, 0, 0, 0, 1, 1])
    for thresholds in (None, [0.25, 0.5, 0.75]):
        assert updated(EER(thresholds=thresholds), (scores, target)).result().values["EER"] == 1 / 3


def test_a_limit_reached_where_nothing_is_predicted_leaves_no_precision() -> None:
    metric = updated(
        classification.PrecisionAtFixedRecall(min_recall=0, thresholds=[0.75, 0.9]),
        (torch.tensor([0.25, 0.5]), torch.tensor([0, 1])),
    )
    assert all(math.isnan(part) for part in metric.compute())
    assert "or there is nothing to divide by" in metric.result().reason("PrecisionAtFixedRecall")


def test_results_name_both_reasons_where_classes_differ_in_theirs() -> None:
    """Class 0 reaches no such precision, and class 2 has no sample."""
    scores = torch.tensor([[0.1, 0.9, 0.0], [0.6, 0.4, 0.0], [0.7, 0.2, 0.1]])
    name, lack = "RecallAtFixedPrecision", "no threshold reaches min_precision=0.9"
    some = updated(RecallAtFixedPrecision(num_classes=3, min_precision=0.9), (scores, torch.tensor([0, 1, 1])))
    assert np.isnan(some.result().values[name]).all()
    assert some.result().reason(name) == f"{lack}, or there is nothing to divide by"
    every = updated(RecallAtFixedPrecision(num_classes=2, min_precision=0.9), (scores[:, :2], torch.tensor([0, 1, 1])))
    assert every.result().reason(name) == lack


def test_results_name_the_limit_that_no_threshold_reaches() -> None:
    scores, target = torch.tensor([0.9, 0.5, 0.25]), torch.tensor([0, 1, 0])
    metric = updated(RecallAtFixedPrecision(min_precision=0.75), (scores, target))
    value, threshold = metric.compute()
    assert float(value) == 0 and math.isnan(threshold)
    result = metric.result()
    assert math.isnan(result.values["RecallAtFixedPrecision"])
    assert result.reason("RecallAtFixedPrecision") == "no threshold reaches min_precision=0.75"
    assert result.signature["min_precision"] == 0.75
    found = updated(RecallAtFixedPrecision(min_precision=0.5), (scores, target)).result().values
    assert (found["RecallAtFixedPrecision"], found["precision"], found["threshold"]) == (1, 0.5, 0.5)
    coarse = updated(SpecificityAtSensitivity(min_sensitivity=0.5, thresholds=[0.95, 1.0]), (scores, target))
    assert [float(part) for part in coarse.compute()] == [0, 1e6]
    assert coarse.result().reason("threshold") == "no threshold reaches min_sensitivity=0.5"


def test_a_class_without_a_curve_has_no_point() -> None:
    scores, target = batch_of("Multiclass", 4)
    target[target == 2] = 0
    for name, least in LIMITS.items():
        metric = updated(getattr(classification, name)(num_classes=3, **{least: 0.5}), (scores, target))
        value, threshold = metric.compute()
        assert value.isnan().tolist() == threshold.isnan().tolist() == [False, False, True]
        assert metric.result().reason(name)
    rates = updated(EER(3), (scores, target))
    assert rates.compute().isnan().tolist() == [False, False, True]
    assert rates.result().reason("EER") == "there are no positives or no negatives"
    alone = updated(EER(3, average="macro"), (scores, target)).compute()
    assert 0 < float(alone) < 1


def test_one_update_serves_points_curves_and_areas() -> None:
    together = MetricCollection([ROC(3), ROCAUC(3), EER(3), RecallAtFixedPrecision(3, min_precision=0.5),
                                 SpecificityAtSensitivity(3, min_sensitivity=0.5)])  # fmt: skip
    together.update(*batch_of("Multiclass", 5))
    assert len(together.compute_groups) == 1


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("limit", [-0.1, 1.5, math.nan, True, "0.5", None])
def test_limits_out_of_range_raise(name: str, limit: Any) -> None:
    with pytest.raises(InputError, match=f"{LIMITS[name]} must be a number from 0 to 1 but got"):
        getattr(classification, name)(**{LIMITS[name]: limit})


def test_points_take_no_average_and_have_no_picture() -> None:
    with pytest.raises(InputError, match="average must be left out: every class has a threshold of its own"):
        RecallAtFixedPrecision(3, min_precision=0.5, average="micro")
    metric = updated(RecallAtFixedPrecision(3, min_precision=0.5), batch_of("Multiclass", 6))
    pytest.importorskip("matplotlib")
    with pytest.raises(InputError, match="plot needs a result with a picture"):
        metric.plot()
