"""Metrics of one label key of a detection by the rules and in the dicts of valor-lite.

Labels have keys here, as everywhere in this package, so that ``parameters`` name the key as well. A label that is only
predicted has 0 and is part of means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

from valor_gpu.compat.valor.detection import confusion
from valor_gpu.compat.valor.detection.metrics import DetectionKey, Metric
from valor_gpu.compat.valor.enums import MetricType
from valor_gpu.valor.detection.confusion import Cut
from valor_gpu.valor.detection.key_numbers import KeyNumbers


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

    @cached_property
    def means(self) -> KeyNumbers:
        """Numbers of the key, 0 where they do not exist."""
        return KeyNumbers(self.labels, self.numbers, missing=0.0)

    def _means(
        self, name: str, label_metric: bool, mean: Callable[[list[int]], float], **about: Any
    ) -> Iterator[Metric]:
        """A mean of each label, or of all labels."""
        if not label_metric:
            yield self._metric(name, mean(self.labels), **about)
            return
        for label in self.labels:
            yield self._metric(name, mean([label]), label=self.value(label), **about)

    def precisions(self, name: str, label_metric: bool) -> Iterator[Metric]:
        """AP or mAP at each IoU threshold."""
        for iou in self._ious:
            yield from self._means(name, label_metric, partial(self.means.precision, iou=iou), iou_threshold=iou)

    def averaged_precisions(self, name: str, label_metric: bool) -> Iterator[Metric]:
        """AP or mAP, mean over IoU thresholds."""
        yield from self._means(name, label_metric, self.means.precision, iou_thresholds=self._ious)

    def average_recalls(self, name: str, label_metric: bool) -> Iterator[Metric]:
        """AR or mAR at each score threshold."""
        for place, score in enumerate(self._scores):
            mean = partial(self.means.recall_at, place=place)
            yield from self._means(name, label_metric, mean, iou_thresholds=self._ious, score_threshold=score)

    def averaged_recalls(self, name: str, label_metric: bool) -> Iterator[Metric]:
        """AR or mAR, mean over score thresholds."""
        about = {"iou_thresholds": self._ious, "score_thresholds": self._scores}
        yield from self._means(name, label_metric, self.means.recall_at, **about)

    def ratio(self, name: str) -> Iterator[Metric]:
        """Precision, recall or F1, 0 where the denominator is 0."""
        values = self.means.ratios(name)
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

    def confusion_metric(self, name: str, kind: Callable[[Cut], Metric]) -> Iterator[Metric]:
        """ConfusionMatrix or ConfusionMatrixWithExamples."""
        for cut in self.confusion.cuts(self._ious, self._scores):
            yield self._metric(name, kind(cut), score_threshold=cut.score, iou_threshold=cut.iou)

    def examples(self) -> Iterator[Metric]:
        """What was right and wrong in each datum of the page."""
        for cut in self.confusion.cuts(self._ious, self._scores):
            for shown in confusion.examples(cut, self.request.page):
                yield self._metric("Examples", shown, score_threshold=cut.score, iou_threshold=cut.iou)


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
    MetricType.ConfusionMatrix: lambda key: key.confusion_metric("ConfusionMatrix", confusion.matrix),
    MetricType.ConfusionMatrixWithExamples: lambda key: key.confusion_metric(
        "ConfusionMatrixWithExamples", confusion.matrix_with_examples
    ),
    MetricType.Examples: LiteDetectionKey.examples,
}
