"""Results of curve metrics in the shape of Valor's curves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from valor_gpu.classification import DetailedPrecisionRecallCurve, ThresholdCounts
from valor_gpu.classification.threshold_counts import VALOR_THRESHOLDS
from valor_gpu.errors import InputError
from valor_gpu.valor import detailed_curve, threshold_curve

ANIMALS = ["bee", "cat", "dog"]
SCORES = torch.tensor(
    [[0.228, 0.446, 0.326], [0.445, 0.407, 0.148], [0.403, 0.25, 0.347], [0.55, 0.2, 0.25]], dtype=torch.float64
)
TRUTH = torch.tensor([1, 0, 1, 0])


def test_curve_of_valor() -> None:
    metric = ThresholdCounts(num_classes=3, score_dtype=torch.float64)
    metric.update(SCORES, TRUTH)
    value = threshold_curve(metric.result(), ANIMALS)
    assert list(value) == ANIMALS and list(value["cat"]) == list(VALOR_THRESHOLDS)
    assert value["cat"][0.25] == {
        "tp": 2, "fp": 1, "fn": 0, "tn": 1, "precision": 2 / 3, "recall": 1.0, "accuracy": 0.75, "f1_score": 0.8
    }  # fmt: skip
    nothing = {"tp": 0, "fp": 0, "fn": 2, "tn": 2, "precision": -1, "recall": 0.0, "accuracy": 0.5, "f1_score": -1}
    assert value["cat"][0.5] == nothing
    assert value["dog"][0.05]["recall"] == value["dog"][0.95]["precision"] == -1
    assert all(isinstance(value["bee"][0.5][name], int) for name in ("tp", "fp", "fn", "tn"))
    assert list(threshold_curve(metric.result())) == ["0", "1", "2"]
    with pytest.raises(InputError, match="labels must have 3 names, one per class, but got 1"):
        threshold_curve(metric.result(), ["cat"])
    result = metric.result()
    assert np.isnan(result.values["precision"][1, -1])
    assert result.values["f1_score"][1, -1] == 0.0
    assert result.reason("precision") == "0 is divided by 0 at these thresholds"
    assert result.values["thresholds"].tolist() == list(VALOR_THRESHOLDS)


def test_detailed_curve_of_valor() -> None:
    metric = DetailedPrecisionRecallCurve(num_classes=3, max_examples=2, score_dtype=torch.float64)
    metric.update(SCORES, TRUTH)
    value = detailed_curve(metric.result(), ANIMALS, [["uid0"], ["uid1"], ["uid2"], ["uid3"]])
    assert value["cat"][0.3] == {
        "tp": {"total": 1, "observations": {"all": {"count": 1, "examples": [["uid0"]]}}},
        "tn": {"total": 1, "observations": {"all": {"count": 1, "examples": [["uid3"]]}}},
        "fp": {"total": 1, "observations": {"misclassifications": {"count": 1, "examples": [["uid1"]]}}},
        "fn": {
            "total": 1,
            "observations": {
                "misclassifications": {"count": 1, "examples": [["uid2"]]},
                "no_predictions": {"count": 0, "examples": []},
            },
        },
    }
    missed = value["cat"][0.45]["fn"]
    assert missed["total"] == 2 and missed["observations"]["no_predictions"]["examples"] == [["uid0"], ["uid2"]]
    assert detailed_curve(metric.result())["2"][0.95]["tn"]["observations"]["all"] == {"count": 4, "examples": [0, 1]}
    with pytest.raises(InputError, match="samples must have 4 entries, one per sample, but got 1"):
        detailed_curve(metric.result(), ANIMALS, ["uid0"])
    without = DetailedPrecisionRecallCurve(num_classes=3, max_examples=0, score_dtype=torch.float64)
    without.update(SCORES, TRUTH)
    value = detailed_curve(without.result(), ANIMALS)
    assert value["bee"][0.05]["tp"] == {"total": 2, "observations": {"all": {"count": 2, "examples": []}}}


def test_the_binary_task_and_other_results() -> None:
    metric = ThresholdCounts(thresholds=[0.5])
    metric.update(torch.tensor([0.2, 0.7]), torch.tensor([1, 1]))
    assert threshold_curve(metric.result(), ["yes"])["yes"][0.5]["fn"] == 1
    detailed = DetailedPrecisionRecallCurve(thresholds=[0.5])
    detailed.update(torch.tensor([0.2, 0.7]), torch.tensor([1, 1]))
    assert detailed_curve(detailed.result())["0"][0.5]["tp"]["observations"]["all"] == {"count": 1, "examples": [1]}
    with pytest.raises(InputError, match=r"result must have tp, fp, fn, tn, .* and thresholds but has tp/all, tn/all"):
        threshold_curve(detailed.result())
    with pytest.raises(InputError, match=r"result must have tp/all, .* and thresholds but has tp, fp"):
        detailed_curve(metric.result())
