"""A program with ``import valor_gpu as torchmetrics`` is right for mypy --strict too; a wrong name is an error of both.

mypy fails on a ``type: ignore`` without an error.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import valor_gpu as torchmetrics
from valor_gpu import MetricCollection, MetricTracker, MulticlassAccuracy
from valor_gpu.aggregation import MeanMetric
from valor_gpu.wrappers import Running


class Hits(torchmetrics.Metric):
    """As torchmetrics' documentation has it."""

    right: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("right", default=torch.tensor(0), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        self.right = self.right + (preds == target).sum()

    def compute(self) -> Tensor:
        return self.right


def scores() -> MetricCollection:
    return torchmetrics.MetricCollection(
        {"accuracy": torchmetrics.Accuracy(task="multiclass", num_classes=3), "f1": torchmetrics.MulticlassF1Score(3)}
    )


TAKEN: list[Callable[[], object]] = [
    scores,
    lambda: MetricTracker(scores(), maximize=[True, True]),
    lambda: torchmetrics.MetricTracker(MulticlassAccuracy(num_classes=3)),
    lambda: Running(torchmetrics.Precision(task="binary", threshold=0.25), window=3),
    lambda: MeanMetric().update(1.0),
    lambda: torchmetrics.wrappers.MinMaxMetric(torchmetrics.Recall(3)),
    lambda: torchmetrics.functional.accuracy([0, 1], [0, 1], task="binary"),
    lambda: torchmetrics.text.ROUGEScore(rouge_keys="rouge1"),
    lambda: torchmetrics.ROUGEScore(),
    lambda: torchmetrics.MeanAveragePrecision(iou_type="bbox"),
    lambda: Hits()(torch.tensor([1]), torch.tensor([1])),
]

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: torchmetrics.Acuracy(3), "did you mean 'Accuracy'"),  # type: ignore[attr-defined]
    (lambda: torchmetrics.PeakSignalNoiseRatio(), "from torchmetrics import Peak"),  # type: ignore[attr-defined]
    (lambda: torchmetrics.stem("runs"), "valor_gpu.text.stem is there"),  # type: ignore[attr-defined]
    (lambda: torchmetrics.Accuracy(3, averag="macro"), "averag"),  # type: ignore[call-overload]
    (lambda: torchmetrics.MulticlassF1Score(3, averag="macro"), "averag"),  # type: ignore[call-arg]
    (lambda: torchmetrics.functional.word_error_rate("a", "a", 1), "positional"),  # type: ignore[call-arg]
    (lambda: torchmetrics.functional.text.squad([], [], 1), "positional"),  # type: ignore[call-arg]
    (lambda: torchmetrics.functional.segmentation.dice_score(averag="macro"), "averag"),  # type: ignore[call-arg]
    (lambda: torchmetrics.functional.detection.panoptic_quality(thing=[1]), "thing"),  # type: ignore[call-arg]
]


@pytest.mark.parametrize("call", TAKEN)
def test_right_programs_run(call: Callable[[], object]) -> None:
    call()


@pytest.mark.parametrize(("call", "named"), REFUSED)
def test_wrong_ones_say_why(call: Callable[[], object], named: str) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError), match=named):
        call()
