"""The metrics of one label key by the rules of Valor's server and of valor_core."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.valor import metrics
from valor_gpu.valor.classification.curves import KeyCurves, curve_values, detailed_values
from valor_gpu.valor.classification.hard import HardCounts, count_hard
from valor_gpu.valor.classification.keys import KeyRows
from valor_gpu.valor.classification.roc import AREAS
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.labels import Label
from valor_gpu.valor.request import Request


class KeyMetrics:
    """The metrics of one label key; what several of them need is counted once.

    Args:
        rows: of the label key.
        request: what is asked for.
        uids: of ``Columns.datums``.
        reasons: where to note why a value is None.
        untrue: label values whose precision, recall and F1 are -1, see ``Rules.count_rows``.
        any_true: whether the evaluation has any true positive.
        any_found: whether it has any prediction.
    """

    def __init__(
        self,
        rows: KeyRows,
        request: Request,
        uids: Sequence[str],
        reasons: dict[str, str],
        untrue: Collection[str] = (),
        any_true: bool = True,
        any_found: bool = False,
    ) -> None:
        self._rows, self._request, self._uids, self._reasons = rows, request, uids, reasons
        self._untrue, self._any_true, self._any_found = untrue, any_true, any_found
        self.hard: HardCounts = count_hard(rows, request.rules)

    def accuracy(self) -> list[dict[str, Any]]:
        """Fraction of ground truths that are right."""
        value = self.hard.accuracy()
        if value is None:
            self._reasons[f"Accuracy/{self._rows.key}"] = "no ground truth of this key"
        return [metrics.AccuracyMetric(self._rows.key, value).to_dict()]

    def ratio(self, name: str, kind: type[Any]) -> list[dict[str, Any]]:
        """Precision, recall or F1 of each label."""
        values = dict(zip(self._rows.values, getattr(self.hard, name)()))
        values |= dict.fromkeys(self._untrue, -1.0)
        return [kind(Label(self._rows.key, value), number).to_dict() for value, number in values.items()]

    def roc(self) -> list[dict[str, Any]]:
        """The mean area of the labels; valor_core has none for a key without predictions where another key has some."""
        if self._request.rules.count_rows and self._any_found and len(self._rows.datum) == 0:
            return []
        value = self._mean_area()
        if value is None:
            self._reasons[f"ROCAUC/{self._rows.key}"] = self._no_area()
        return [metrics.ROCAUCMetric(self._rows.key, value).to_dict()]

    def roc_per_label(self) -> list[dict[str, Any]]:
        """The area of each label."""
        shown = []
        for value, area in zip(self._rows.values, self._areas.tolist()):
            exists = area == area
            if not exists:
                self._reasons[f"ROCAUCPerLabel/{self._rows.key}/{value}"] = self._no_area()
            label = Label(self._rows.key, value)
            shown.append(metrics.ROCAUCPerLabelMetric(label, area if exists else None).to_dict())
        return shown

    def _no_area(self) -> str:
        if len(self._rows.datum) == 0:
            return "no prediction of this key"
        return "positives or negatives are missing"

    @cached_property
    def _areas(self) -> NDArray[np.float64]:
        return AREAS[self._request.rules.roc](self._rows)

    def _mean_area(self) -> float | None:
        """Means over: labels with both classes; in valor_api labels that are true, in valor_core those listed."""
        kind = self._request.rules.roc
        if len(self._rows.datum) == 0:
            return None if kind == "exact" else 0.0
        areas = self._areas
        if kind == "api":
            areas = areas[np.unique(self._rows.true_label)]
            if np.isnan(areas).any():
                return -1.0
        present = areas[~np.isnan(areas)].tolist()
        if not present:
            return None if kind == "exact" else -1.0
        return math.fsum(present) / len(present)  # rounded once, so that the order of the labels does not matter

    @cached_property
    def _curves(self) -> KeyCurves:
        rules = self._request.rules
        rows = self._rows if rules.count_rows else self._rows.merged
        counted = np.ones(len(rows.true_datum), np.bool_)
        if not rules.count_unpredicted:
            counted = rows.winner[rows.true_datum] >= 0
        missing = self._any_true or not rules.count_rows
        return KeyCurves(rows, rows.num_datums, counted, rules.count_pairs, rules.count_rows, missing)

    def curve(self) -> list[dict[str, Any]]:
        """Counts at thresholds."""
        return [metrics.PrecisionRecallCurve(self._rows.key, curve_values(self._curves), None).to_dict()]

    def detailed_curve(self) -> list[dict[str, Any]]:
        """Counts and examples at thresholds."""
        values = detailed_values(self._curves, self._uids, self._request.max_examples)
        return [metrics.DetailedPrecisionRecallCurve(self._rows.key, values, None).to_dict()]


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
