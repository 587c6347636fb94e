"""Numbers of one label key of a detection: means over labels and thresholds, ratios, curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from valor_gpu.valor.detection.numbers import DetectionNumbers, Floats, Integers
from valor_gpu.valor.ratios import RATIOS, mean_of

_CURVE = ("tp", "fp", "fn", "tn", "precision", "recall", "accuracy", "f1_score")


@dataclass(frozen=True)
class KeyNumbers:
    """Numbers of one label key; a mean over values of which one does not exist is NaN.

    Attributes:
        labels: places of its labels in ``Columns.labels``.
        numbers: of all labels.
        missing: value of a number that does not exist, and of a mean over nothing.
    """

    labels: list[int]
    numbers: DetectionNumbers
    missing: float = float("nan")

    @cached_property
    def true(self) -> list[int]:
        """Labels with ground truths."""
        return [label for label in self.labels if self.numbers.ground_truths[label] > 0]

    @cached_property
    def _precisions(self) -> dict[int, list[float]]:
        return self._listed(self.numbers.average_precision)

    @cached_property
    def _recalls(self) -> dict[int, list[float]]:
        return self._listed(self.numbers.recall[:, None])

    @cached_property
    def _recalls_at_scores(self) -> dict[int, list[float]]:
        return self._listed(self.numbers.recalls(self.numbers.request.scores))

    def _listed(self, values: Floats) -> dict[int, Any]:
        """Returns the values of each label of the key, by its place."""
        own = values[self.labels]
        return dict(zip(self.labels, np.where(np.isnan(own), self.missing, own).tolist()))

    def precision(self, labels: Sequence[int], iou: float | None = None) -> float:
        """Returns the mean of AP over labels, at an IoU threshold; None: over all thresholds."""
        return self._mean(self._precisions, labels, None if iou is None else self.iou_place(iou))

    def recall(self, labels: Sequence[int]) -> float:
        """Returns the mean of AR over labels."""
        return self._mean(self._recalls, labels)

    def recall_at(self, labels: Sequence[int], place: int | None = None) -> float:
        """Returns the mean of AR over labels, at the score threshold of this place; None: over all thresholds."""
        return self._mean(self._recalls_at_scores, labels, place)

    def _mean(self, values: Mapping[int, list[float]], labels: Sequence[int], place: int | None = None) -> float:
        rows = [values[label] for label in labels]
        found = mean_of([row[place] for row in rows] if place is not None else [*chain.from_iterable(rows)])
        return self.missing if found is None else found

    def iou_place(self, iou: float) -> int:
        """Returns the place of an IoU threshold."""
        return self.numbers.request.ious.index(iou)

    def ratios(self, name: str) -> dict[int, list[list[float]]]:
        """Returns Precision, Recall or F1 of each label, IoU and score threshold.

        A ratio whose denominator is 0 is ``missing``.
        """
        part, whole = RATIOS[name](*self.numbers.counts)
        return self._listed(np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole != 0))

    def counts(self) -> dict[str, dict[int, list[list[int]]]]:
        """Returns tp, fp and fn of each label, IoU and score threshold."""
        columns = self.numbers.counts._asdict()
        return {name: dict(zip(self.labels, column[self.labels].tolist())) for name, column in columns.items()}

    def curve(self) -> dict[int, list[dict[str, Any]]]:
        """Returns counts and ratios of each label and score of PrecisionRecallCurve."""
        rules = self.numbers.request.rules
        tp, fp = (self.numbers.curve(outcome)[self.labels] for outcome in ("tp", "fp"))
        columns = curve_columns(tp, fp, self.numbers.ground_truths[self.labels, None] - tp, rules.undefined)
        if rules.curve == "core":
            columns["fn"] = np.maximum(columns["fn"], 0)
        columns |= dict.fromkeys(("tn", "accuracy"), np.full(tp.shape, None))
        rows = zip(*(columns[name].tolist() for name in _CURVE))
        return {label: [dict(zip(_CURVE, point)) for point in zip(*row)] for label, row in zip(self.labels, rows)}


def curve_columns(tp: Integers, fp: Integers, fn: Integers, undefined: float) -> dict[str, np.ndarray[Any, Any]]:
    """Returns counts and ratios of a curve.

    Args:
        tp: ``[C, S]``, likewise ``fp`` and ``fn``.
        fp: false positives.
        fn: false negatives.
        undefined: a ratio whose denominator is 0, and F1 without true positives.
    """

    def ratio(name: str) -> Floats:
        part, whole = RATIOS[name](tp, fp, fn)
        return np.where(whole > 0, part / np.maximum(whole, 1), undefined)

    f1 = np.where(tp > 0, ratio("F1"), undefined)
    return {"tp": tp, "fp": fp, "fn": fn, "precision": ratio("Precision"), "recall": ratio("Recall"), "f1_score": f1}
