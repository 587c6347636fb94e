"""The metrics of one label key by the rules of Valor's server and of valor_core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from valor_gpu.compat.valor import metrics
from valor_gpu.compat.valor.classification.curves import curve_values, detailed_values
from valor_gpu.compat.valor.enums import MetricType
from valor_gpu.compat.valor.labels import Label
from valor_gpu.valor.classification.key_numbers import KeyNumbers
from valor_gpu.valor.classification.rules import Request


class KeyMetrics:
    """The metrics of one label key.

    Args:
        numbers: of the label key.
        request: the choices of the evaluation.
        uids: of ``Columns.datums``.
        reasons: where to note why a value is None.
    """

    def __init__(self, numbers: KeyNumbers, request: Request, uids: Sequence[str], reasons: dict[str, str]) -> None:
        self._numbers, self._request, self._uids, self._reasons = numbers, request, uids, reasons

    def accuracy(self) -> list[dict[str, Any]]:
        """Fraction of ground truths that are right."""
        value = self._numbers.hard.accuracy()
        if value is None:
            self._reasons[f"Accuracy/{self._numbers.rows.key}"] = "no ground truth of this key"
        return [metrics.AccuracyMetric(self._numbers.rows.key, value).to_dict()]

    def ratio(self, name: str, kind: type[Any]) -> list[dict[str, Any]]:
        """Precision, recall or F1 of each label."""
        values = dict(zip(self._numbers.rows.values, getattr(self._numbers.hard, name)()))
        values |= dict.fromkeys(self._numbers.untrue, -1.0)
        return [kind(Label(self._numbers.rows.key, value), number).to_dict() for value, number in values.items()]

    def roc(self) -> list[dict[str, Any]]:
        """The mean area of the labels; valor_core has none for a key without predictions where another key has some."""
        if self._request.rules.count_rows and self._numbers.any_found and len(self._numbers.rows.datum) == 0:
            return []
        value = self._numbers.mean_area()
        if value is None:
            self._reasons[f"ROCAUC/{self._numbers.rows.key}"] = self._no_area()
        return [metrics.ROCAUCMetric(self._numbers.rows.key, value).to_dict()]

    def roc_per_label(self) -> list[dict[str, Any]]:
        """The area of each label."""
        shown = []
        for value, area in zip(self._numbers.rows.values, self._numbers.areas.tolist()):
            exists = area == area
            if not exists:
                self._reasons[f"ROCAUCPerLabel/{self._numbers.rows.key}/{value}"] = self._no_area()
            label = Label(self._numbers.rows.key, value)
            shown.append(metrics.ROCAUCPerLabelMetric(label, area if exists else None).to_dict())
        return shown

    def _no_area(self) -> str:
        if len(self._numbers.rows.datum) == 0:
            return "no prediction of this key"
        return "positives or negatives are missing"

    def curve(self) -> list[dict[str, Any]]:
        """Counts at thresholds."""
        values = curve_values(self._numbers.curves)
        return [metrics.PrecisionRecallCurve(self._numbers.rows.key, values, None).to_dict()]

    def detailed_curve(self) -> list[dict[str, Any]]:
        """Counts and examples at thresholds."""
        values = detailed_values(self._numbers.curves, self._uids, self._request.max_examples)
        return [metrics.DetailedPrecisionRecallCurve(self._numbers.rows.key, values, None).to_dict()]


METRICS: dict[MetricType, Callable[[KeyMetrics], list[dict[str, Any]]]] = {
    MetricType.Accuracy: KeyMetrics.accuracy,
    MetricType.Precision: lambda key: key.ratio("precision", metrics.PrecisionMetric),
    MetricType.Recall: lambda key: key.ratio("recall", metrics.RecallMetric),
    MetricType.F1: lambda key: key.ratio("f1", metrics.F1Metric),
    MetricType.ROCAUC: KeyMetrics.roc,
    MetricType.ROCAUCPerLabel: KeyMetrics.roc_per_label,
    MetricType.PrecisionRecallCurve: KeyMetrics.curve,
    MetricType.DetailedPrecisionRecallCurve: KeyMetrics.detailed_curve,
}
