"""Metrics of one label key of a segmentation, by the rules of Valor's server and of valor-lite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.reduce.regions import region_value
from valor_gpu.valor import metrics
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.labels import Label
from valor_gpu.valor.means import mean_of
from valor_gpu.valor.pixel_keys import KeyPixels

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
    def _shown(self) -> NDArray[np.int64]:
        """Labels with true pixels; others have no metrics."""
        true = self._pixels.counts[2]
        for label in np.flatnonzero((true == 0) & self._pixels.labelled).tolist():
            name = f"{self._pixels.key}/{self._pixels.values[label]}"
            self._reasons[name] = "no pixel of this label is true: no metrics, no part in mIOU"
        return np.flatnonzero(true > 0)

    def ratio(self, name: str, kind: type[Any]) -> Iterator[Metric]:
        """A ratio of each label."""
        values = self._values(name)
        for label in self._shown.tolist():
            yield kind(Label(self._pixels.key, self._pixels.values[label]), float(values[label])).to_dict()

    def mean_iou(self) -> Iterator[Metric]:
        """Mean over labels of IOU."""
        values = self._values("iou")[self._shown].tolist()
        if not values:
            self._reasons[f"mIOU/{self._pixels.key}"] = "no pixel of this key is true"
        yield metrics.mIOUMetric(self._pixels.key, mean_of(values)).to_dict()

    def accuracy(self) -> Iterator[Metric]:
        """Fraction of pixels whose labels agree."""
        if self._pixels.pixels == 0:
            self._reasons[f"Accuracy/{self._pixels.key}"] = "no pixels"
        yield metrics.AccuracyMetric(self._pixels.key, self._agreeing()).to_dict()

    def matrix(self) -> Iterator[Metric]:
        """IOU of each true with each predicted label."""
        parameters = {"label_key": self._pixels.key}
        yield {"parameters": parameters, "value": self._matrix(), "type": MetricType.ConfusionMatrix.value}

    def _values(self, name: str) -> NDArray[np.float64]:
        return region_value(name, self._pixels.counts, None)

    def _agreeing(self) -> float | None:
        return self._pixels.agreeing / self._pixels.pixels if self._pixels.pixels else None

    def _matrix(self) -> Metric:
        """0 where there is nothing to divide by, as in valor-lite."""
        values, (_, predicted, true) = self._pixels.values, self._pixels.counts.tolist()
        labels = len(values)
        ious: dict[str, dict[str, dict[str, float]]] = {a: {b: {"iou": 0.0} for b in values} for a in values}
        missed, untrue = ({a: {"ratio": 0.0} for a in values} for _ in range(2))
        for code, number in zip(*(column.tolist() for column in self._pixels.pairs())):
            a, b = divmod(code, labels + 1)
            if a < labels and b < labels:
                ious[values[a]][values[b]] = {"iou": number / (true[a] + predicted[b] - number)}
            elif a < labels:
                missed[values[a]] = {"ratio": number / true[a]}
            elif b < labels:
                untrue[values[b]] = {"ratio": number / predicted[b]}
        return {"confusion_matrix": ious, "unmatched_predictions": untrue, "unmatched_ground_truths": missed}

    def entries(self) -> Metric:
        """Pixels of each true and predicted label, as ``Evaluation.confusion_matrices`` holds them."""
        values, found = self._pixels.values, []
        for code, number in zip(*(column.tolist() for column in self._pixels.pairs())):
            a, b = divmod(code, len(values) + 1)
            if a < len(values) and b < len(values):
                found.append(metrics.ConfusionMatrixEntry(values[b], values[a], number))
        found.sort(key=lambda entry: (entry.prediction, entry.groundtruth))
        return metrics.ConfusionMatrix(self._pixels.key, found).to_dict()


class LiteKey(SegmentationKey):
    """The same in the dicts of valor-lite: every label has metrics, 0 where it has nothing to divide by."""

    @cached_property
    def _shown(self) -> NDArray[np.int64]:
        return np.arange(len(self._pixels.values))

    def _values(self, name: str) -> NDArray[np.float64]:
        return np.nan_to_num(super()._values(name))

    def ratio(self, name: str, kind: type[Any]) -> Iterator[Metric]:
        """A ratio of each label."""
        for label, value in zip(self._pixels.values, self._values(name).tolist()):
            yield self._metric(kind.__type__, value, label=label)

    def mean_iou(self) -> Iterator[Metric]:
        """Mean over all labels of IOU, also those that are only predicted."""
        yield self._metric("mIOU", mean_of(self._values("iou").tolist()) or 0.0)

    def accuracy(self) -> Iterator[Metric]:
        """Fraction of all pixels, also those of no label."""
        yield self._metric("Accuracy", self._agreeing() or 0.0)

    def matrix(self) -> Iterator[Metric]:
        """IOU of each true with each predicted label."""
        yield self._metric("ConfusionMatrix", self._matrix())

    def _metric(self, name: str, value: Any, **parameters: str) -> Metric:
        return {"type": name, "value": value, "parameters": {**parameters, "label_key": self._pixels.key}}


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
