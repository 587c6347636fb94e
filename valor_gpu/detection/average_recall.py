"""Average recall by Valor's rules, per label and averaged over labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from valor_gpu.checks import check_number, check_type
from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.detection.ranked_metric import (
    IOU_THRESHOLDS,
    NO_GROUND_TRUTHS,
    RankedMetric,
    by_label,
    grids,
    missing_labels,
    reached_by,
    read_iou_thresholds,
    read_thresholds,
)
from valor_gpu.detection.rankings import Ranking, once
from valor_gpu.errors import InputError
from valor_gpu.reduce.label_bars_plot import plot_label_bars
from valor_gpu.reduce.label_means import mean_of_labels, mean_of_thresholds
from valor_gpu.reduce.overlap_curves import average_recall
from valor_gpu.result import Result
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions


class _AverageRecall(RankedMetric):
    """What both metrics share: thresholds and the recall of every label.

    Args:
        iou_thresholds: different IoUs over which recall is averaged, above 0 and at most 1.
        recall_score_threshold: from 0 to 1; a score that equals it counts, one of 0 or less never does.
        score_thresholds: several values of ``recall_score_threshold`` to average over, in its place.
    """

    _by_rank = False

    def __init__(
        self,
        box_format: str,
        iou_type: str,
        iou_thresholds: Sequence[float],
        recall_score_threshold: float,
        score_thresholds: Sequence[float] | None,
        matching: str,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        self.iou_thresholds = read_iou_thresholds(iou_thresholds)
        check_number("recall_score_threshold", recall_score_threshold, 0, 1)
        self.recall_score_threshold = float(recall_score_threshold)
        self.score_thresholds = [self.recall_score_threshold]
        if score_thresholds is not None:
            if recall_score_threshold:
                raise InputError("recall_score_threshold must be left out where score_thresholds are given")
            self.score_thresholds = read_thresholds("score_thresholds", score_thresholds)
        super().__init__(box_format, iou_type, matching, **kwargs)

    def _recall(self, ranking: Ranking) -> Tensor:
        """float64 ``[C]``, NaN for labels without ground truth."""
        thresholds = torch.tensor(self.iou_thresholds, dtype=torch.float64, device=ranking.classes.device)
        scores = reached_by(ranking.overlaps.scores, self.score_thresholds)
        recall = once(
            ranking.derived, ("recall", *self.iou_thresholds, None, *self.score_thresholds),
            lambda: average_recall(ranking.ranked, ranking.overlaps, ranking.classes, thresholds, scores),
        )  # fmt: skip
        return mean_of_thresholds(recall[0])

    def _report(self, state: OverlapRecords, intervals: int | Bootstrap | None, choices: dict[str, Any]) -> Result:
        ranking = self._ranking(state)
        values = self._numbers(ranking)
        reasons: dict[str, str] = {}
        for name, value in values.items():
            reasons |= missing_labels(name, value) if isinstance(value, dict) else {name: NO_GROUND_TRUTHS}
        resampled = self._resampled(state, ranking)
        result = self._result_of(ranking.images, values, choices, reasons, plot_label_bars, resampled)
        return result if intervals is None else result.with_intervals(intervals)

    def _choices(self) -> dict[str, Any]:
        thresholds = grids(iou_thresholds=self.iou_thresholds, score_thresholds=self.score_thresholds)
        return {**thresholds, "matching": self.matching}


class AR(_AverageRecall):
    """Computes the average recall of every label, by Valor's rules.

    Recall at an IoU threshold is the share of the ground truths of a label that have a true positive (see :class:`AP`)
    with a score of ``recall_score_threshold`` or more; AR is its mean over IoU thresholds, and over score thresholds
    where several are given. No limit of detections cuts it: this is not COCO's AR.

    Source: Valor, docs/metrics.md, Average Recall; of ``score_thresholds``: ARAveragedOverScores of valor-lite.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10]]),
        ...           "scores": torch.tensor([0.9, 0.2]), "labels": torch.tensor([1, 2])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 7], [20, 0, 30, 10]]), "labels": torch.tensor([1, 2])}]
        >>> metric = AR(recall_score_threshold=0.5)
        >>> metric.update(preds, target)
        >>> {name: value.tolist() for name, value in metric.compute().items()}
        {'ar': [0.5, 0.0], 'classes': [1, 2]}
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_thresholds: Sequence[float] = IOU_THRESHOLDS,
        recall_score_threshold: float = 0.0,
        score_thresholds: Sequence[float] | None = None,
        matching: str = "valor",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        super().__init__(
            box_format, iou_type, iou_thresholds, recall_score_threshold, score_thresholds, matching, **kwargs
        )

    def compute(self) -> dict[str, Tensor]:
        """Returns float64 ``ar`` ``[C]``, NaN without ground truth, and int64 ``classes [C]``."""
        ranking = self._ranking(self.state())
        return {"ar": self._recall(ranking), "classes": ranking.classes}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns AR of every label with signature and counts; NaN, with a reason, where there is no ground truth."""
        with self.synced_state() as state:
            return self._report(state, intervals, self._choices())

    def _numbers(self, ranking: Ranking) -> dict[str, Any]:
        return {"ar": by_label(ranking.classes, self._recall(ranking))}


class mAR(_AverageRecall):
    """Computes mean average recall over labels, by Valor's rules; see :class:`AR`.

    Source: Valor, docs/metrics.md, Mean Average Recall; of ``score_thresholds``: mARAveragedOverScores of valor-lite.

    Args:
        include_prediction_only_labels: labels without ground truth count with a recall of 0, as in valor-lite; by
            default they have no part in the mean.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10]]),
        ...           "scores": torch.tensor([0.9, 0.2]), "labels": torch.tensor([1, 2])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 7], [20, 0, 30, 10]]), "labels": torch.tensor([1, 2])}]
        >>> metric = mAR(score_thresholds=[0.1, 0.5])
        >>> metric.update(preds, target)
        >>> float(metric.compute()["mar"])
        0.5
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_thresholds: Sequence[float] = IOU_THRESHOLDS,
        recall_score_threshold: float = 0.0,
        score_thresholds: Sequence[float] | None = None,
        matching: str = "valor",
        include_prediction_only_labels: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_type("include_prediction_only_labels", include_prediction_only_labels, bool)
        self.include_prediction_only_labels = include_prediction_only_labels
        super().__init__(
            box_format, iou_type, iou_thresholds, recall_score_threshold, score_thresholds, matching, **kwargs
        )

    def compute(self) -> dict[str, Tensor]:
        """Returns float64 ``mar`` ``[]``, NaN without ground truths."""
        return {"mar": self._mean(self._recall(self._ranking(self.state())))}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns ``mar`` and recall by label with signature and counts; NaN, with a reason, without ground truths."""
        choices = {**self._choices(), "include_prediction_only_labels": self.include_prediction_only_labels}
        with self.synced_state() as state:
            return self._report(state, intervals, choices)

    def _numbers(self, ranking: Ranking) -> dict[str, Any]:
        recall = self._recall(ranking)
        return {"mar": float(self._mean(recall)), "ar_per_class": by_label(ranking.classes, recall)}

    def _mean(self, recall: Tensor) -> Tensor:
        return mean_of_labels(recall, ~recall.isnan(), self.include_prediction_only_labels)
