"""Counts, precision, recall and F1 of every label at IoU and score thresholds, by Valor's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.detection.ranked_metric import RankedMetric, grids, reached_by, read_iou_thresholds, read_thresholds
from valor_gpu.detection.rankings import Ranking, once
from valor_gpu.reduce.label_bars_plot import plot_label_bars
from valor_gpu.reduce.overlap_counts import OutcomeCounts, count_outcomes
from valor_gpu.reduce.ratios import Ratio
from valor_gpu.result import Result
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions


class OutcomeMetric(RankedMetric):
    """Base class of metrics over counts at every pair of IoU and score thresholds.

    Args:
        iou_thresholds: T different numbers, above 0 and at most 1.
        score_thresholds: S different numbers from 0 to 1; a score that equals one reaches it.
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_thresholds: Sequence[float] = (0.5, 0.75),
        score_thresholds: Sequence[float] = (0.5,),
        matching: str = "valor",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        self.iou_thresholds = read_iou_thresholds(iou_thresholds)
        self.score_thresholds = read_thresholds("score_thresholds", score_thresholds)
        super().__init__(box_format, iou_type, matching, **kwargs)

    def compute(self) -> dict[str, Tensor]:
        """Returns ``[C, T, S]`` arrays by name, float64 ratios or int64 counts, and int64 ``classes [C]``.

        A ratio 0 / 0 is NaN.
        """
        ranking = self._ranking(self.state())
        return {**self._values(self._outcomes(ranking)), "classes": ranking.classes}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the arrays of ``compute`` with thresholds, signature and counts; NaN, with a reason, for 0 / 0.

        Args:
            intervals: raises :class:`InputError`, since only single numbers have them.
        """
        with self.synced_state() as state:
            result = self._report(state, plot_label_bars)
        return result if intervals is None else result.with_intervals(intervals)

    def _values(self, counts: OutcomeCounts) -> dict[str, Tensor]:
        """Arrays by name."""
        raise NotImplementedError

    def _outcomes(self, ranking: Ranking, duplicates: bool = False) -> OutcomeCounts:
        """Counts ``[C, T, S]``."""
        ious = torch.tensor(self.iou_thresholds, dtype=torch.float64, device=ranking.classes.device)
        scores = reached_by(ranking.overlaps.scores, self.score_thresholds)
        counts = once(
            ranking.derived, ("outcomes", duplicates, *self.iou_thresholds, None, *self.score_thresholds),
            lambda: count_outcomes(
                ranking.ranked, ranking.overlaps, ranking.classes, ious, scores, duplicates=duplicates
            ),
        )  # fmt: skip
        return OutcomeCounts(*(part[0].clone() for part in counts))

    def _report(self, state: OverlapRecords, plotter: Any) -> Result:
        ranking = self._ranking(state)
        values = {name: part.cpu().numpy() for name, part in self._values(self._outcomes(ranking)).items()}
        reasons = {name: "0 is divided by 0 for these labels and thresholds" for name in values}
        axes = {"classes": ranking.classes.cpu().numpy(), **self._grids()}
        return self._result_of(ranking.images, {**values, **axes}, self._choices(), reasons, plotter)

    def _grids(self) -> dict[str, Any]:
        return {"iou_thresholds": np.array(self.iou_thresholds), "score_thresholds": np.array(self.score_thresholds)}

    def _choices(self) -> dict[str, Any]:
        thresholds = grids(iou_thresholds=self.iou_thresholds, score_thresholds=self.score_thresholds)
        return {**thresholds, "matching": self.matching}


def detection_precision(counts: OutcomeCounts) -> Ratio:
    """Tp / (tp + fp)."""
    return Ratio(counts.tp.double(), (counts.tp + counts.fp).double())


def detection_recall(counts: OutcomeCounts) -> Ratio:
    """Tp / (tp + fn)."""
    return Ratio(counts.tp.double(), (counts.tp + counts.fn).double())


def detection_f1(counts: OutcomeCounts) -> Ratio:
    """2 tp / (2 tp + fp + fn)."""
    return Ratio(2.0 * counts.tp, (2 * counts.tp + counts.fp + counts.fn).double())


class DetectionCounts(OutcomeMetric):
    """Counts true positives, false positives and false negatives of every label at IoU and score thresholds.

    A detection counts where its score is at least the score threshold. It is a true positive by the rule of
    :class:`AP`, else a false positive; a ground truth without a true positive is a false negative.

    Source: Counts of valor-lite; docs/design/018-valor-detection.md has the rules.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 10]]),
        ...           "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6], [20, 0, 30, 10]]), "labels": torch.tensor([1, 2])}]
        >>> metric = DetectionCounts(iou_thresholds=[0.5], score_thresholds=[0.5, 0.85])
        >>> metric.update(preds, target)
        >>> {name: value.tolist() for name, value in metric.compute().items()}
        {'tp': [[[1, 1]], [[0, 0]]], 'fp': [[[1, 0]], [[0, 0]]], 'fn': [[[0, 0]], [[1, 1]]], \
'ground_truths': [1, 1], 'classes': [1, 2]}
    """

    higher_is_better = None  # type: ignore[assignment]
    plot_upper_bound = None

    def _values(self, counts: OutcomeCounts) -> dict[str, Tensor]:
        return {"tp": counts.tp, "fp": counts.fp, "fn": counts.fn, "ground_truths": counts.ground_truths}


class DetectionPrecision(OutcomeMetric):
    """Computes precision, tp / (tp + fp), of every label at IoU and score thresholds; see :class:`DetectionCounts`.

    NaN where no detection of the label reaches the score threshold.

    Source: Precision of valor-lite.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 10]]),
        ...           "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6]]), "labels": torch.tensor([1])}]
        >>> metric = DetectionPrecision(iou_thresholds=[0.5], score_thresholds=[0.5, 0.85, 0.95])
        >>> metric.update(preds, target)
        >>> metric.compute()["precision"].tolist()
        [[[0.5, 1.0, nan]]]
    """

    def _values(self, counts: OutcomeCounts) -> dict[str, Tensor]:
        return {"precision": detection_precision(counts).value()}


class DetectionRecall(OutcomeMetric):
    """Computes recall, tp / (tp + fn), of every label at IoU and score thresholds; see :class:`DetectionCounts`.

    NaN for a label without ground truth.

    Source: Recall of valor-lite.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "scores": torch.tensor([0.9]),
        ...           "labels": torch.tensor([1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6], [20, 0, 30, 10]]), "labels": torch.tensor([1, 1])}]
        >>> metric = DetectionRecall(score_thresholds=[0.5, 0.95])
        >>> metric.update(preds, target)
        >>> metric.compute()["recall"].tolist()  # at IoU 0.5 and 0.75
        [[[0.5, 0.0], [0.0, 0.0]]]
    """

    def _values(self, counts: OutcomeCounts) -> dict[str, Tensor]:
        return {"recall": detection_recall(counts).value()}


class DetectionF1(OutcomeMetric):
    """Computes F1, 2 tp / (2 tp + fp + fn), of every label at IoU and score thresholds; see :class:`DetectionCounts`.

    NaN for a label without ground truth and without a detection that reaches the score threshold.

    Source: F1 of valor-lite.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "scores": torch.tensor([0.9]),
        ...           "labels": torch.tensor([1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6], [20, 0, 30, 10], [40, 0, 50, 10]]),
        ...            "labels": torch.tensor([1, 1, 1])}]
        >>> metric = DetectionF1(iou_thresholds=[0.5])
        >>> metric.update(preds, target)
        >>> float(metric.compute()["f1"])
        0.5
    """

    def _values(self, counts: OutcomeCounts) -> dict[str, Tensor]:
        return {"f1": detection_f1(counts).value()}
