"""Valor's curves over score thresholds at one IoU threshold: ratios, and kinds of errors with examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_int, check_number, check_type
from valor_gpu.detection.outcome_metrics import OutcomeMetric, detection_precision, detection_recall
from valor_gpu.detection.ranked_metric import SCORE_THRESHOLDS, reached_by, read_iou_thresholds
from valor_gpu.detection.rankings import Ranking
from valor_gpu.errors import InputTypeError
from valor_gpu.reduce.overlap_counts import OutcomeCounts
from valor_gpu.reduce.overlap_examples import Choice, first_examples, places_of_rows
from valor_gpu.reduce.ratios import Ratio
from valor_gpu.reduce.score_curves_plot import plot_kinds, plot_ratios
from valor_gpu.result import Result
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

_COUNTS = {
    "tp/all": "tp",
    "fp/hallucinations": "hallucinations",
    "fp/misclassifications": "misclassifications",
    "fp/duplicates": "duplicates",
    "fn/no_predictions": "no_predictions",
    "fn/misclassifications": "fn_misclassifications",
}
"""Kinds in Valor's words, and the fields of their counts."""


class _ScoreCurve(OutcomeMetric):
    """Counts at one IoU threshold.

    Args:
        iou_threshold: above 0 and at most 1.
        score_thresholds: S different numbers from 0 to 1, by default 0.05, 0.10, ..., 0.95; a score that equals one
            reaches it.
    """

    higher_is_better = None  # type: ignore[assignment]

    def __init__(
        self,
        box_format: str,
        iou_type: str,
        iou_threshold: float,
        score_thresholds: Sequence[float],
        matching: str,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_number("iou_threshold", iou_threshold, 0, 1)
        read_iou_thresholds([iou_threshold], "iou_threshold")
        super().__init__(
            box_format, iou_type, iou_thresholds=[iou_threshold], score_thresholds=score_thresholds, matching=matching,
            **kwargs,
        )  # fmt: skip
        self.iou_threshold = self.iou_thresholds[0]

    def _grids(self) -> dict[str, Any]:
        return {"score_thresholds": np.array(self.score_thresholds)}

    def _choices(self) -> dict[str, Any]:
        choices = super()._choices()
        del choices["iou_thresholds"]
        return {"iou_threshold": self.iou_threshold, **choices}


class DetectionPrecisionRecallCurve(_ScoreCurve):
    """Computes counts, precision, recall and F1 of every label at score thresholds, as Valor's PrecisionRecallCurve.

    It shows which score threshold to run a detector with; the area under a precision-recall curve is :class:`AP`.
    There are no true negatives in detection, hence neither these nor accuracy.

    Source: Valor, docs/metrics.md, Precision-Recall Curves; docs/valor.md says where its engines count otherwise.

    Args:
        zero_division: what ``compute`` gives for a ratio that does not exist, and for F1 without true positives: -1 as
            Valor's server, 0 as valor_core, or NaN, which is what ``result`` has.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10]]),
        ...           "scores": torch.tensor([0.9, 0.6]), "labels": torch.tensor([1, 1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6]]), "labels": torch.tensor([1])}]
        >>> metric = DetectionPrecisionRecallCurve(score_thresholds=[0.5, 0.75, 0.95])
        >>> metric.update(preds, target)
        >>> curve = metric.compute()
        >>> curve["fp"].tolist(), curve["precision"].tolist(), curve["recall"].tolist()
        ([[1, 0, 0]], [[0.5, 1.0, -1.0]], [[1.0, 1.0, 0.0]])
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_threshold: float = 0.5,
        score_thresholds: Sequence[float] = SCORE_THRESHOLDS,
        zero_division: float = -1.0,
        matching: str = "valor",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        if isinstance(zero_division, bool) or not isinstance(zero_division, (int, float)):
            raise InputTypeError(f"zero_division must be a number but got {zero_division!r}")
        self.zero_division = float(zero_division)
        super().__init__(box_format, iou_type, iou_threshold, score_thresholds, matching, **kwargs)

    def compute(self) -> dict[str, Tensor]:
        """Returns int64 ``tp``, ``fp`` and ``fn``, float64 ``precision``, ``recall`` and ``f1_score``, all ``[C, S]``.

        ``classes`` is int64 ``[C]``, all labels of detections and ground truths, ascending.
        """
        ranking = self._ranking(self.state())
        return {**self._ratios(self._outcomes(ranking), self.zero_division), "classes": ranking.classes}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the arrays of ``compute`` with thresholds, signature and counts; NaN, with a reason, for 0 / 0."""
        with self.synced_state() as state:
            result = self._report(state, plot_ratios)
        return result if intervals is None else result.with_intervals(intervals)

    def _values(self, counts: OutcomeCounts) -> dict[str, Tensor]:
        return self._ratios(counts, math.nan)

    def _ratios(self, counts: OutcomeCounts, zero: float) -> dict[str, Tensor]:
        tp = counts.tp.double()
        whole = torch.where(counts.tp > 0, 2 * counts.tp + counts.fp + counts.fn, 0)
        ratios = {"precision": detection_precision(counts), "recall": detection_recall(counts),
                  "f1_score": Ratio(2 * tp, whole.double())}  # fmt: skip
        parts = {"tp": counts.tp, "fp": counts.fp, "fn": counts.fn}
        parts |= {name: ratio.value(zero) for name, ratio in ratios.items()}
        return {name: part[:, 0] for name, part in parts.items()}


class DetectionDetailedPrecisionRecallCurve(_ScoreCurve):
    """Counts right and wrong detections and missed objects of every label by cause at score thresholds, with examples.

    A detection whose score reaches the threshold is a true positive (``tp/all``), else ``fp/misclassifications`` where
    a ground truth of another label overlaps it by the IoU threshold or more, else, if asked for, ``fp/duplicates``
    where one of its label does, else ``fp/hallucinations``. A ground truth without a true positive counts as
    ``fn/misclassifications`` where a detection of another label that reaches the score overlaps it enough, else as
    ``fn/no_predictions``. Examples are the first images in order of arrival (of ranks, in a distributed run), never a
    random choice.

    Source: Valor, docs/metrics.md, DetailedPrecisionRecallCurve; docs/valor.md says where its engines count otherwise.

    Args:
        max_examples: k, examples of each kind, label and score threshold; 0 for none.
        duplicates: count further detections of an object apart from hallucinations.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10]]),
        ...           "scores": torch.tensor([0.9, 0.6]), "labels": torch.tensor([2, 1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6]]), "labels": torch.tensor([1]), "image_id": 17}]
        >>> metric = DetectionDetailedPrecisionRecallCurve(score_thresholds=[0.5])
        >>> metric.update(preds, target)
        >>> curve = metric.compute()
        >>> curve["fn/misclassifications"].tolist(), curve["fp/hallucinations"].tolist()
        ([[1], [0]], [[1], [0]])
        >>> curve["fp/hallucinations/examples"][0, 0].tolist()  # image 17, its second detection
        [[17, 1]]
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_threshold: float = 0.5,
        score_thresholds: Sequence[float] = SCORE_THRESHOLDS,
        max_examples: int = 1,
        duplicates: bool = False,
        matching: str = "valor",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_int("max_examples", max_examples)
        check_type("duplicates", duplicates, bool)
        self.max_examples, self.duplicates = max_examples, duplicates
        super().__init__(box_format, iou_type, iou_threshold, score_thresholds, matching, **kwargs)

    def compute(self) -> dict[str, Tensor]:
        """Returns int64 counts ``[C, S]`` and examples ``[C, S, k, 2]`` by kind, and ``classes [C]``.

        The examples of ``tp/all`` are ``tp/all/examples``: the image and the row in it of a detection, in kinds of
        ``fn`` of a ground truth. Images go by ``image_id`` where all have one, else by their place in order of arrival,
        from 0. Where there are fewer than k, image and row are -1.
        """
        return self._arrays(self._ranking(self.state()))

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the arrays of ``compute`` with thresholds, signature and counts."""
        with self.synced_state() as state:
            ranking = self._ranking(state)
            values = {name: part.cpu().numpy() for name, part in self._arrays(ranking).items()}
            choices = {**self._choices(), "max_examples": self.max_examples, "duplicates": self.duplicates}
            result = self._result_of(ranking.images, {**values, **self._grids()}, choices, None, plot_kinds)
        return result if intervals is None else result.with_intervals(intervals)

    def _arrays(self, ranking: Ranking) -> dict[str, Tensor]:
        counts = self._outcomes(ranking, self.duplicates)
        kinds = [kind for kind in _COUNTS if self.duplicates or kind != "fp/duplicates"]
        arrays = {kind: getattr(counts, _COUNTS[kind])[:, 0] for kind in kinds}
        if self.max_examples:
            scores = reached_by(ranking.overlaps.scores, self.score_thresholds)
            choice = Choice(self.iou_threshold, scores, self.max_examples, self.duplicates)
            rows = first_examples(ranking.overlaps, ranking.ranked, ranking.classes, choice)
            places = places_of_rows(ranking.overlaps, ranking.images.names)
            for kind in kinds:
                table = places.ground_truths if kind.startswith("fn/") else places.detections
                arrays[f"{kind}/examples"] = _at(table, rows[kind])
        return {**arrays, "classes": ranking.classes}


def _at(table: Tensor, rows: Tensor) -> Tensor:
    """``[..., 2]``: rows of ``table``, -1 for the row -1."""
    padded = torch.cat((table, table.new_full((1, 2), -1)))
    found: Tensor = padded[rows]  # -1 is the last row
    return found
