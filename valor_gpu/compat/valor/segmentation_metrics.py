"""Metrics of one label key of a segmentation, by the rules of Valor's server and of valor-lite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from valor_gpu.compat.valor import metrics
from valor_gpu.compat.valor.enums import MetricType
from valor_gpu.compat.valor.labels import Label
from valor_gpu.valor.pixel_keys import KeyPixels
from valor_gpu.valor.ratios import mean_of

Metric = dict[str, Any]


class SegmentationKey:
    """The metrics of a label key by the definitions of Valor's server.

    Args:
        pixels: of the key.
        reasons: where to note why a value is None.
    """

    def __init__(self, pixels: KeyPixels, reasons: dict[str, str]) -> None:
        self._pixels, self._reasons = pixels, reasons

    @cached_property
    def _shown(self) -> list[int]:
        """Labels with true pixels; others have no metrics."""
        shown = []
        for label, (true, labelled) in enumerate(zip(self._pixels.counts[2].tolist(), self._pixels.labelled.tolist())):
            if true:
                shown.append(label)
            elif labelled:
                name = f"{self._pixels.key}/{self._pixels.values[label]}"
                self._reasons[name] = "no pixel of this label is true: no metrics, no part in mIOU"
        return shown

    def ratio(self, name: str, kind: type[Any]) -> Iterator[Metric]:
        """A ratio of each label."""
        values = self._pixels.ratios(name)
        for label in self._shown:
            yield kind(Label(self._pixels.key, self._pixels.values[label]), values[label]).to_dict()

    def mean_iou(self) -> Iterator[Metric]:
        """Mean over labels of IOU."""
        ious = self._pixels.ratios("iou")
        values = [ious[label] for label in self._shown]
        if not values:
            self._reasons[f"mIOU/{self._pixels.key}"] = "no pixel of this key is true"
        yield metrics.mIOUMetric(self._pixels.key, mean_of(values)).to_dict()

    def accuracy(self) -> Iterator[Metric]:
        """Fraction of pixels whose labels agree."""
        if self._pixels.pixels == 0:
            self._reasons[f"Accuracy/{self._pixels.key}"] = "no pixels"
        yield metrics.AccuracyMetric(self._pixels.key, self._pixels.agreement()).to_dict()

    def matrix(self) -> Iterator[Metric]:
        """IOU of each true with each predicted label."""
        parameters = {"label_key": self._pixels.key}
        yield {"parameters": parameters, "value": self._matrix(), "type": MetricType.ConfusionMatrix.value}

    def _matrix(self) -> Metric:
        """0 where there is nothing to divide by, as in valor-lite."""
        values = self._pixels.values
        ious: dict[str, dict[str, dict[str, float]]] = {a: {b: {"iou": 0.0} for b in values} for a in values}
        missed, untrue = ({a: {"ratio": 0.0} for a in values} for _ in range(2))
        for a, b, _, value in self._pixels.numbers():
            if b == len(values):
                missed[values[a]] = {"ratio": value}
            elif a == len(values):
                untrue[values[b]] = {"ratio": value}
            else:
                ious[values[a]][values[b]] = {"iou": value}
        return {"confusion_matrix": ious, "unmatched_predictions": untrue, "unmatched_ground_truths": missed}

    def entries(self) -> Metric:
        """Pixels of each true and predicted label, as ``Evaluation.confusion_matrices`` holds them."""
        values = self._pixels.values
        size = len(values)
        pairs = ((values[b], values[a], number) for a, b, number, _ in self._pixels.numbers() if a < size and b < size)
        found = [metrics.ConfusionMatrixEntry(*pair) for pair in sorted(pairs)]
        return metrics.ConfusionMatrix(self._pixels.key, found).to_dict()


class LiteKey(SegmentationKey):
    """The same in the dicts of valor-lite: every label has metrics, 0 where it has nothing to divide by."""

    def ratio(self, name: str, kind: type[Any]) -> Iterator[Metric]:
        """A ratio of each label."""
        for label, value in zip(self._pixels.values, self._pixels.ratios(name)):
            yield self._metric(kind.__type__, _or_zero(value), label=label)

    def mean_iou(self) -> Iterator[Metric]:
        """Mean over all labels of IOU, also those that are only predicted."""
        yield self._metric("mIOU", mean_of([*map(_or_zero, self._pixels.ratios("iou"))]) or 0.0)

    def accuracy(self) -> Iterator[Metric]:
        """Fraction of all pixels, also those of no label."""
        yield self._metric("Accuracy", self._pixels.agreement() or 0.0)

    def matrix(self) -> Iterator[Metric]:
        """IOU of each true with each predicted label."""
        yield self._metric("ConfusionMatrix", self._matrix())

    def _metric(self, name: str, value: Any, **parameters: str) -> Metric:
        return {"type": name, "value": value, "parameters": {**parameters, "label_key": self._pixels.key}}


def _or_zero(value: float) -> float:
    return 0.0 if value != value else value


METRICS: dict[MetricType, Callable[[SegmentationKey], Iterator[Metric]]] = {
    MetricType.IOU: lambda key: key.ratio("iou", metrics.IOUMetric),
    MetricType.mIOU: lambda key: key.mean_iou(),
    MetricType.Precision: lambda key: key.ratio("precision", metrics.PrecisionMetric),
    MetricType.Recall: lambda key: key.ratio("recall", metrics.RecallMetric),
    MetricType.F1: lambda key: key.ratio("f1", metrics.F1Metric),
    MetricType.Accuracy: lambda key: key.accuracy(),
    MetricType.ConfusionMatrix: lambda key: key.matrix(),
}
"""The metrics of a segmentation. Those of Valor's server are all but the last two."""
