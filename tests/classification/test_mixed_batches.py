"""A metric that took batches for probabilities and for logits says so, wherever its number depends on it."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

from valor_gpu import classification as c
from valor_gpu.classification.task_metric import TaskMetric
from valor_gpu.errors import InputError
from valor_gpu.plans import checked_only

SAID = r"took 1 of 3 batches for logits, .* and the others for probabilities, .*activation="
BINARY = (torch.tensor([0.2, 0.7, 0.4]), torch.tensor([0, 1, 1]))
LABELS = (torch.tensor([[0.2, 0.7], [0.6, 0.4]]), torch.tensor([[0, 1], [1, 0]]))
CLASSES = (torch.tensor([[0.2, 0.8], [0.6, 0.4]]), torch.tensor([1, 0]))
DEPENDENT: dict[str, tuple[Any, Any]] = {
    "accuracy": (lambda **more: c.Accuracy(**more), BINARY),
    "named": (lambda **more: c.BinaryF1Score(**more), BINARY),
    "samplewise": (lambda **more: c.MultilabelRecall(2, multidim_average="samplewise", **more), LABELS),
    "stat scores": (lambda **more: c.StatScores(num_labels=2, **more), LABELS),
    "confusion": (lambda **more: c.ConfusionMatrix(**more), BINARY),
    "examples": (lambda **more: c.ConfusionMatrix(num_labels=2, max_examples=1, **more), LABELS),
    "exact match": (lambda **more: c.ExactMatch(num_labels=2, **more), LABELS),
    "roc auc": (lambda **more: c.ROCAUC(thresholds=9, **more), BINARY),
    "bins": (lambda **more: c.AveragePrecision(num_labels=2, bins=4, **more), LABELS),
    "curve": (lambda **more: c.PrecisionRecallCurve(2, thresholds=9, **more), CLASSES),
    "threshold counts": (lambda **more: c.ThresholdCounts(2, **more), CLASSES),
    "hardmax": (lambda **more: c.ThresholdCounts(2, hardmax=True, **more), CLASSES),
    "equal error": (lambda **more: c.EER(thresholds=9, **more), BINARY),
    "calibration": (lambda **more: c.CalibrationError(**more), BINARY),
    "calibration of classes": (lambda **more: c.CalibrationError(2, **more), CLASSES),
}


def fed(metric: Any, batch: Any, *scales: float, weighted: bool = False) -> Any:
    scores, target = batch
    for scale in scales:
        weight = (torch.ones(len(target)),) if weighted else ()
        metric.update(scores * scale, target, *weight)
    return metric


def silent(metric: Any) -> None:
    """``compute`` and ``result`` say nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.compute()
        metric.result()


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("name", DEPENDENT)
def test_batches_that_disagree_are_said(name: str, checked: bool) -> None:
    make, batch = DEPENDENT[name]
    for weighted in (False, True):
        if checked:
            with checked_only():
                metric = fed(make(), batch, 1, 9, 1, weighted=weighted)
        else:
            metric = fed(make(), batch, 1, 9, 1, weighted=weighted)
        with pytest.warns(UserWarning, match=f"{type(metric).__name__} {SAID}"):
            metric.compute()
        with pytest.warns(UserWarning, match=SAID):
            metric.result()
        silent(fed(make(), batch, 1, 1, 1, weighted=weighted))
        silent(fed(make(), batch, 9, 9, 9, weighted=weighted))
    how = "softmax" if metric.task.kind == "multiclass" else "sigmoid"
    silent(fed(make(activation=how), batch, 1, 9, 1))
    metric.reset()
    silent(fed(metric, batch, 9))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_dtype_has_marks(dtype: torch.dtype) -> None:
    scores, target = BINARY
    for metric in (c.Accuracy(), c.ROCAUC(thresholds=5), c.CalibrationError()):
        fed(metric, (scores.to(dtype), target), 1, 9, 1, 1)
        assert metric.seen.tolist() == [12, 0, 1, 4]


def test_metrics_of_exact_ranks_and_of_the_argmax_depend_on_nothing() -> None:
    for metric, batch in (
        (c.AUROC(), BINARY), (c.ROC(), BINARY), (c.AveragePrecision(2), CLASSES), (c.Accuracy(2), CLASSES),
        (c.ConfusionMatrix(2), CLASSES), (c.ExactMatch(2), CLASSES), (c.MultilabelRankingLoss(2), LABELS),
        (c.Accuracy(2, top_k=2), CLASSES),
    ):  # fmt: skip
        silent(fed(metric, batch, 1, 9, 1))


def test_labels_empty_batches_and_ignored_ones_decide_nothing() -> None:
    metric = c.Accuracy(ignore_index=-1)
    metric.update(torch.tensor([3.0, -2.0]), torch.tensor([1, 0]))
    metric.update(torch.tensor([1, 0]), torch.tensor([1, 0]))
    metric.update(torch.zeros(0), torch.zeros(0, dtype=torch.long))
    metric.update(torch.tensor([0.5, 7.0]), torch.tensor([-1, -1]))
    with checked_only():
        metric.update(torch.tensor([0.5, 7.0]), torch.tensor([-1, -1]))
    assert metric.seen.tolist() == [8, 4, 1, 1]
    silent(metric)
    metric.update(torch.tensor([0.5, 7.0]), torch.tensor([1, -1]))
    with pytest.warns(UserWarning, match="took 1 of 2 batches"):
        metric.compute()


def test_marks_travel() -> None:
    """Between shards of which each is of one mind, in state files, checkpoints, copies and collections."""
    ours, theirs = fed(c.BinaryF1Score(), BINARY, 1, 1), fed(c.BinaryF1Score(), BINARY, 9)
    silent(ours)
    silent(theirs)
    ours.merge_state(theirs.to_bytes())
    ours.persistent(True)
    loaded = c.BinaryF1Score()
    loaded.load_state_dict(ours.state_dict())
    group = MetricCollection([c.BinaryF1Score(), c.BinaryPrecision(), c.AUROC()])
    for scale in (1, 9, 1):
        group.update(BINARY[0] * scale, BINARY[1])
    for metric in (ours, loaded, copy.deepcopy(ours), c.BinaryF1Score().from_bytes(ours.to_bytes()), group):
        with pytest.warns(UserWarning, match=SAID):
            metric.compute()


def test_a_state_with_impossible_marks_is_rejected() -> None:
    for make, empty in ((c.Accuracy, 0), (lambda: c.ExactMatch(num_labels=2), 0)):
        metric = make()
        seen = metric.seen.clone()
        seen[-2:] = torch.tensor([2, 1])
        with pytest.raises(InputError, match="seen must count at most 1 batches as logits but counts 2"):
            make().merge_state({**metric.metric_state, "seen": seen})
        assert metric.seen.sum() == empty


def test_forward_says_nothing_of_its_batch() -> None:
    metric: TaskMetric[Any] = c.Accuracy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (1, 9):
            metric(BINARY[0] * scale, BINARY[1])
    with pytest.warns(UserWarning, match="took 1 of 2 batches"):
        metric.compute()
