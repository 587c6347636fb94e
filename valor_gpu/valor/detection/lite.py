"""Metrics of one label key of a detection by the rules and in the dicts of valor-lite.

Labels have keys here, as everywhere in this package, so that ``parameters`` name the key as well. A label that is only
predicted has 0 and is part of means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from valor_gpu.valor.detection.metrics import RATIOS, DetectionKey, Metric
from valor_gpu.valor.detection.numbers import Floats
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.means import mean_of


class LiteDetectionKey(DetectionKey):
    """The metrics of a label key in the dicts of valor-lite."""

    def _metric(self, name: str, value: Any, **parameters: Any) -> Metric:
        return {"type": name, "value": value, "parameters": {**parameters, "label_key": self.key}}

    @property
    def _ious(self) -> list[float]:
        return list(self.request.ious)

    @property
    def _scores(self) -> list[float]:
        return list(self.request.scores)

    def _by_label(self, name: str, values: Floats, **parameters: Any) -> Iterator[Metric]:
        """The mean of the values of each label."""
        for label in self.labels:
            yield self._metric(name, _mean(values[label]), label=self.value(label), **parameters)

    def _of_key(self, name: str, values: Floats, **parameters: Any) -> Iterator[Metric]:
        """The mean of the values of all labels."""
        yield self._metric(name, _mean(values[self.labels]), **parameters)

    def precisions(self, name: str, label_metric: bool) -> Iterator[Metric]:
        """AP or mAP at each IoU threshold."""
        for place, iou in enumerate(self._ious):
            shown = self._by_label if label_metric else self._of_key
            yield from shown(name, self.numbers.average_precision[:, place], iou_threshold=iou)

    def averaged_precisions(self, name: str, label_metric: bool) -> Iterator[Metric]:
        """AP or mAP, mean over IoU thresholds."""
        shown = self._by_label if label_metric else self._of_key
        yield from shown(name, self.numbers.average_precision, iou_thresholds=self._ious)

    def average_recalls(self, name: str, label_metric: bool) -> Iterator[Metric]:
        """AR or mAR at each score threshold."""
        recalls = self.numbers.recalls(self.request.scores)
        shown = self._by_label if label_metric else self._of_key
        for place, score in enumerate(self._scores):
            yield from shown(name, recalls[:, place], iou_thresholds=self._ious, score_threshold=score)

    def averaged_recalls(self, name: str, label_metric: bool) -> Iterator[Metric]:
        """AR or mAR, mean over score thresholds."""
        shown = self._by_label if label_metric else self._of_key
        recalls = self.numbers.recalls(self.request.scores)
        yield from shown(name, recalls, iou_thresholds=self._ious, score_thresholds=self._scores)

    def ratio(self, name: str) -> Iterator[Metric]:
        """Precision, recall or F1, 0 where the denominator is 0."""
        part, whole = RATIOS[name](*self.numbers.counts)
        values = np.divide(part, whole, out=np.zeros(whole.shape), where=whole != 0).tolist()
        for label, parameters, (row, iou, score) in self._cells():
            yield self._cell(name, label, parameters, values[row][iou][score])

    def _cell(self, name: str, label: int, parameters: Metric, value: Any) -> Metric:
        scores = {"iou_threshold": parameters["iou"], "score_threshold": parameters["score_threshold"]}
        return self._metric(name, value, label=self.value(label), **scores)

    def points(self) -> Iterator[Metric]:
        """Precision and score at the recalls 0, 0.01, ... 1."""
        precisions, scores = self.numbers.curve_points
        for label in self.labels:
            for place, iou in enumerate(self._ious):
                value = {"precisions": precisions[label, place].tolist(), "scores": scores[label, place].tolist()}
                yield self._metric("PrecisionRecallCurve", value, iou_threshold=iou, label=self.value(label))

    def confusion_metric(self, name: str, kind: str) -> Iterator[Metric]:
        """ConfusionMatrix or ConfusionMatrixWithExamples."""
        for cut in self.confusion.cuts(self._ious, self._scores):
            yield self._metric(name, getattr(cut, kind)(), score_threshold=cut.score, iou_threshold=cut.iou)

    def examples(self) -> Iterator[Metric]:
        """What was right and wrong in each datum of the page."""
        for cut in self.confusion.cuts(self._ious, self._scores):
            for shown in cut.examples(self.request.page):
                yield self._metric("Examples", shown, score_threshold=cut.score, iou_threshold=cut.iou)


def _mean(values: Floats) -> float:
    """The mean; what does not exist counts as 0."""
    return mean_of(np.nan_to_num(np.asarray(values)).reshape(-1).tolist()) or 0.0


LITE_METRICS: dict[MetricType, Callable[[LiteDetectionKey], Iterator[Metric]]] = {
    MetricType.AP: lambda key: key.precisions("AP", True),
    MetricType.mAP: lambda key: key.precisions("mAP", False),
    MetricType.APAveragedOverIOUs: lambda key: key.averaged_precisions("APAveragedOverIOUs", True),
    MetricType.mAPAveragedOverIOUs: lambda key: key.averaged_precisions("mAPAveragedOverIOUs", False),
    MetricType.AR: lambda key: key.average_recalls("AR", True),
    MetricType.mAR: lambda key: key.average_recalls("mAR", False),
    MetricType.ARAveragedOverScores: lambda key: key.averaged_recalls("ARAveragedOverScores", True),
    MetricType.mARAveragedOverScores: lambda key: key.averaged_recalls("mARAveragedOverScores", False),
    MetricType.Counts: lambda key: key.counts(),
    MetricType.Precision: lambda key: key.ratio("Precision"),
    MetricType.Recall: lambda key: key.ratio("Recall"),
    MetricType.F1: lambda key: key.ratio("F1"),
    MetricType.PrecisionRecallCurve: LiteDetectionKey.points,
    MetricType.ConfusionMatrix: lambda key: key.confusion_metric("ConfusionMatrix", "matrix"),
    MetricType.ConfusionMatrixWithExamples: lambda key: key.confusion_metric(
        "ConfusionMatrixWithExamples", "matrix_with_examples"
    ),
    MetricType.Examples: LiteDetectionKey.examples,
}
