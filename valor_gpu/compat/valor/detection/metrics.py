"""Metrics of one label key of a detection, in the dicts of valor_core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from valor_gpu.compat.valor import metrics
from valor_gpu.compat.valor.detection import confusion
from valor_gpu.compat.valor.detection.examples import Examples
from valor_gpu.compat.valor.enums import MetricType
from valor_gpu.compat.valor.labels import Label
from valor_gpu.valor.classification.curves import THRESHOLDS
from valor_gpu.valor.detection.confusion import Confusion, Cut
from valor_gpu.valor.detection.key_numbers import KeyNumbers
from valor_gpu.valor.detection.numbers import DetectionNumbers
from valor_gpu.valor.detection.rules import DetectionRequest
from valor_gpu.valor.detection.scene import DetectionScene

Metric = dict[str, Any]


@dataclass(frozen=True)
class DetectionKey:
    """The metrics of a label key; what several of them need is in ``numbers``.

    Attributes:
        key: the label key.
        labels: places of its labels in ``Columns.labels``.
        scene: the data.
        numbers: of all labels.
        reasons: where to note why a value is None.
    """

    key: str
    labels: list[int]
    scene: DetectionScene
    numbers: DetectionNumbers
    reasons: dict[str, str]

    @cached_property
    def means(self) -> KeyNumbers:
        """Numbers of the key."""
        return KeyNumbers(self.labels, self.numbers)

    @cached_property
    def true(self) -> list[int]:
        """Labels with ground truths."""
        return self.means.true

    @property
    def request(self) -> DetectionRequest:
        """What is asked for."""
        return self.numbers.request

    def value(self, label: int) -> str:
        """The value of a label."""
        return self.scene.columns.labels[label][1]

    def label(self, label: int) -> Label:
        """A label."""
        return Label(self.key, self.value(label))

    def average_precision(self) -> Iterator[Metric]:
        """AP of each label with ground truths, at each threshold that is shown."""
        for label in self.true:
            for iou in self.request.shown_ious:
                value = self.number("AP", self.means.precision([label], iou), label)
                yield metrics.APMetric(self.label(label), value, iou).to_dict()

    def average_over_ious(self) -> Iterator[Metric]:
        """AP of each label with ground truths, mean over thresholds."""
        for label in self.true:
            value = self.number("APAveragedOverIOUs", self.means.precision([label]), label)
            yield metrics.APMetricAveragedOverIOUs(self.label(label), value, set(self.request.ious)).to_dict()

    def mean_average_precision(self) -> Iterator[Metric]:
        """Mean of AP over labels with ground truths, at each threshold that is shown."""
        for iou in self.request.shown_ious if self._has_means("mAP") else ():
            value = self.number("mAP", self.means.precision(self.true, iou))
            yield metrics.mAPMetric(self.key, value, iou).to_dict()

    def mean_over_ious(self) -> Iterator[Metric]:
        """Mean of AP over labels with ground truths and thresholds."""
        if self._has_means("mAPAveragedOverIOUs"):
            value = self.number("mAPAveragedOverIOUs", self.means.precision(self.true))
            yield metrics.mAPMetricAveragedOverIOUs(self.key, value, set(self.request.ious)).to_dict()

    def recall(self) -> Iterator[Metric]:
        """AR of each label."""
        for label in self.labels:
            value = self.number("AR", self.means.recall([label]), label)
            yield metrics.ARMetric(self.label(label), self._peers(value), set(self.request.ious)).to_dict()

    def mean_recall(self) -> Iterator[Metric]:
        """Mean of AR over labels with ground truths."""
        value = self.number("mAR", self.means.recall(self.true))
        yield metrics.mARMetric(self.key, self._peers(value), set(self.request.ious)).to_dict()

    def recall_over_scores(self) -> Iterator[Metric]:
        """AR of each label, mean over the score thresholds."""
        for label in self.labels:
            value = self._peers(self.number("ARAveragedOverScores", self.means.recall_at([label]), label))
            yield self._cell("ARAveragedOverScores", label, self._averaged_over(), value)

    def mean_recall_over_scores(self) -> Iterator[Metric]:
        """Mean of AR over labels with ground truths and the score thresholds."""
        value = self._peers(self.number("mARAveragedOverScores", self.means.recall_at(self.true)))
        parameters = {"label_key": self.key, **self._averaged_over()}
        yield {"parameters": parameters, "value": value, "type": "mARAveragedOverScores"}

    def _averaged_over(self) -> Metric:
        return {"ious": sorted(self.request.ious), "score_thresholds": list(self.request.scores)}

    def _peers(self, value: float | None) -> float | None:
        """-1 where a release has that for what does not exist."""
        return -1.0 if value is None and self.request.compat is not None else value

    def _has_means(self, name: str) -> bool:
        """The releases have no mean over no labels, where others have None."""
        return bool(self.true) or self.request.compat is None

    def number(self, name: str, value: float, label: int | None = None, reason: str = "") -> float | None:
        """A number, or None and its reason.

        Args:
            name: of the metric.
            value: NaN stands for None.
            label: that it belongs to; None: it belongs to the key.
            reason: why there may be none, default: what AP and AR lack.
        """
        if value == value:
            return float(value)
        place = f"{name}/{self.key}" if label is None else f"{name}/{self.key}/{self.value(label)}"
        lacking = "no ground truth of this " + ("key" if label is None else "label")
        if not reason and (bool(self.true) if label is None else label in self.true):
            lacking = "no detection has a score above 0"
        self.reasons[place] = reason or lacking
        return None

    def ratio(self, name: str) -> Iterator[Metric]:
        """Precision, recall or F1 of each label at each threshold of IoU and score."""
        values = self.means.ratios(name)
        for label, parameters, (row, iou, score) in self._cells():
            value = values[row][iou][score]
            reason = "no detection reaches the score" if name == "Precision" else ""
            yield self._cell(name, label, parameters, self.number(name, value, label, reason))

    def counts(self) -> Iterator[Metric]:
        """tp, fp and fn of each label at each threshold of IoU and score."""
        counts = self.means.counts()
        for label, parameters, (row, iou, score) in self._cells():
            shown = {name: column[row][iou][score] for name, column in counts.items()}
            yield self._cell("Counts", label, parameters, shown)

    def _cells(self) -> Iterator[tuple[int, Metric, tuple[int, int, int]]]:
        ious = [(iou, self.means.iou_place(iou)) for iou in self.request.shown_ious]
        for label in self.labels:
            for iou, row in ious:
                for place, score in enumerate(self.request.scores):
                    yield label, {"iou": iou, "score_threshold": score}, (label, row, place)

    def _cell(self, name: str, label: int, parameters: Metric, value: Any) -> Metric:
        return {
            "label": {"key": self.key, "value": self.value(label)},
            "parameters": parameters,
            "value": value,
            "type": name,
        }

    def curve(self) -> Iterator[Metric]:
        """Counts and ratios at scores from 0.05 to 0.95."""
        points = self.means.curve()
        value = {self.value(label): dict(zip(THRESHOLDS.tolist(), points[label])) for label in self.labels}
        yield metrics.PrecisionRecallCurve(self.key, value, self.request.curve_iou).to_dict()

    def detailed_curve(self) -> Iterator[Metric]:
        """Counts and examples of each kind of observation at scores from 0.05 to 0.95."""
        examples = Examples(self.scene, self.request)
        value = {self.value(label): examples.curve(self.numbers.kinds, label) for label in self.labels}
        yield metrics.DetailedPrecisionRecallCurve(self.key, value, self.request.curve_iou).to_dict()

    @property
    def confusion(self) -> Confusion:
        """The pairs of the confusion matrix."""
        return Confusion(self.scene, self.numbers, self.labels)

    def _cuts(self) -> Iterator[tuple[Cut, Metric]]:
        for cut in self.confusion.cuts(self.request.shown_ious, self.request.scores):
            yield cut, {"label_key": self.key, "iou": cut.iou, "score_threshold": cut.score}

    def matrix(self) -> Iterator[Metric]:
        """Pairs of each true and predicted label, and what has no partner."""
        for cut, parameters in self._cuts():
            yield {"parameters": parameters, "value": confusion.matrix(cut), "type": "ConfusionMatrix"}

    def matrix_with_examples(self) -> Iterator[Metric]:
        """The same, each cell with what it counts."""
        for cut, parameters in self._cuts():
            shown = confusion.matrix_with_examples(cut)
            yield {"parameters": parameters, "value": shown, "type": "ConfusionMatrixWithExamples"}

    def examples(self) -> Iterator[Metric]:
        """What was right and wrong in each datum of the page."""
        for cut, parameters in self._cuts():
            for shown in confusion.examples(cut, self.request.page):
                yield {"parameters": parameters, "value": shown, "type": "Examples"}

    def entries(self) -> Iterator[Metric]:
        """The matrices as ``Evaluation.confusion_matrices`` holds them."""
        for cut, parameters in self._cuts():
            found = metrics.ConfusionMatrix(
                self.key, [metrics.ConfusionMatrixEntry(*cell) for cell in cut.cells()]
            ).to_dict()
            yield {**found, "parameters": {name: parameters[name] for name in ("iou", "score_threshold")}}


METRICS: dict[MetricType, Callable[[DetectionKey], Iterator[Metric]]] = {
    MetricType.AP: DetectionKey.average_precision,
    MetricType.AR: DetectionKey.recall,
    MetricType.mAP: DetectionKey.mean_average_precision,
    MetricType.APAveragedOverIOUs: DetectionKey.average_over_ious,
    MetricType.mAR: DetectionKey.mean_recall,
    MetricType.mAPAveragedOverIOUs: DetectionKey.mean_over_ious,
    MetricType.PrecisionRecallCurve: DetectionKey.curve,
    MetricType.DetailedPrecisionRecallCurve: DetectionKey.detailed_curve,
    MetricType.Precision: lambda key: key.ratio("Precision"),
    MetricType.Recall: lambda key: key.ratio("Recall"),
    MetricType.F1: lambda key: key.ratio("F1"),
    MetricType.Counts: DetectionKey.counts,
    MetricType.ARAveragedOverScores: DetectionKey.recall_over_scores,
    MetricType.mARAveragedOverScores: DetectionKey.mean_recall_over_scores,
    MetricType.ConfusionMatrix: DetectionKey.matrix,
    MetricType.ConfusionMatrixWithExamples: DetectionKey.matrix_with_examples,
    MetricType.Examples: DetectionKey.examples,
}
