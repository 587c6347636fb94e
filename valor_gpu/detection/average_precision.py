"""Average precision by Valor's rules, per label and averaged over labels, at IoU thresholds and over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.detection.ranked_metric import (
    IOU_THRESHOLDS,
    NO_GROUND_TRUTHS,
    RankedMetric,
    by_label,
    grids,
    missing_labels,
    read_iou_thresholds,
    threshold_names,
)
from valor_gpu.detection.rankings import Ranking, once
from valor_gpu.reduce.label_means import mean_of_labels, mean_of_thresholds
from valor_gpu.reduce.overlap_curves import average_precision, curve_101
from valor_gpu.reduce.precision_recall_plot import plot_precision_recall
from valor_gpu.result import Result
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

_RECALLS = np.linspace(0.0, 1.0, 101)


class _AveragePrecision(RankedMetric):
    """What the metrics of this file share: thresholds, AP of every label, and the curves of a result.

    Args:
        iou_thresholds: T different IoUs at which a detection is a true positive, above 0 and at most 1.
    """

    def __init__(
        self,
        box_format: str,
        iou_type: str,
        iou_thresholds: Sequence[float],
        matching: str,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        self.iou_thresholds = read_iou_thresholds(iou_thresholds)
        super().__init__(box_format, iou_type, matching, **kwargs)

    def _precision(self, ranking: Ranking) -> Tensor:
        """float64 ``[C, T]``, NaN for labels without ground truth."""
        thresholds = torch.tensor(self.iou_thresholds, dtype=torch.float64, device=ranking.classes.device)
        found = once(
            ranking.derived, ("precision", *self.iou_thresholds),
            lambda: average_precision(ranking.ranked, ranking.overlaps, ranking.classes, thresholds)[0],
        )  # fmt: skip
        return found.clone()

    def _report(
        self,
        state: OverlapRecords,
        intervals: int | Bootstrap | None,
        reasons_of: Callable[[Mapping[str, Any]], dict[str, str]],
        **choices: Any,
    ) -> Result:
        """The result of the numbers with what its picture needs."""
        ranking = self._ranking(state)
        numbers = self._numbers(ranking)
        values, reasons = dict(numbers), reasons_of(numbers)
        thresholds = torch.tensor(self.iou_thresholds, dtype=torch.float64, device=ranking.classes.device)
        curves = curve_101(ranking.ranked, ranking.overlaps, ranking.classes, thresholds)[0]
        present = torch.isin(ranking.classes, ranking.overlaps.gt_labels)
        values["precision"] = mean_of_labels(curves, present).cpu().numpy()
        values["iou_thresholds"] = np.array(self.iou_thresholds)
        values["recall_thresholds"] = _RECALLS
        made = {**grids(iou_thresholds=self.iou_thresholds), "matching": self.matching, **choices}
        reasons = {**reasons, "precision": NO_GROUND_TRUTHS}
        resampled = self._resampled(state, ranking)
        result = self._result_of(ranking.images, values, made, reasons, plot_precision_recall, resampled)
        return result if intervals is None else result.with_intervals(intervals)


def _missing(numbers: Mapping[str, Any]) -> dict[str, str]:
    """The reasons of numbers of labels that do not exist."""
    return {key: text for name, of_labels in numbers.items() for key, text in missing_labels(name, of_labels).items()}


class AP(_AveragePrecision):
    """Computes the average precision of every label at IoU thresholds, by Valor's rules.

    A detection looks at the one ground truth of its label with the largest IoU. Detections of a label go by score over
    all images, equal scores by IoU; at a threshold, the first with that IoU or more and a score above 0 is the true
    positive of its ground truth, and every other detection is a false positive, on images without the label too. AP is
    the mean over the recalls 0, 0.01, ..., 1 of the largest precision at that recall or more. All labels, images and
    thresholds are ranked in one pass. COCO's rules are others (limits of detections, second choices, crowds): take
    :class:`MeanAveragePrecision` for numbers to compare with COCO's.

    Source: Valor, docs/metrics.md, Average Precision; docs/valor.md says where its document and its engines differ.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10]]),
        ...           "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 2])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6], [20, 0, 30, 10]]), "labels": torch.tensor([1, 2])}]
        >>> metric = AP()
        >>> metric.update(preds, target)
        >>> {name: value.tolist() for name, value in metric.compute().items()}  # the first IoU is 0.6
        {'ap_50': [1.0, 1.0], 'ap_75': [0.0, 1.0], 'classes': [1, 2]}
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_thresholds: Sequence[float] = (0.5, 0.75),
        matching: str = "valor",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        super().__init__(box_format, iou_type, iou_thresholds, matching, **kwargs)

    def compute(self) -> dict[str, Tensor]:
        """Returns float64 ``ap_50``, ``ap_75``, ... ``[C]``, NaN without ground truth, and int64 ``classes [C]``."""
        ranking = self._ranking(self.state())
        return {**self._named(self._precision(ranking)), "classes": ranking.classes}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns AP of every label by threshold, with curves, signature and counts; NaN, with a reason, where none.

        ``precision`` ``[T, 101]`` is the mean over labels with ground truths at recalls ``recall_thresholds``.
        """
        with self.synced_state() as state:
            return self._report(state, intervals, _missing)

    def _numbers(self, ranking: Ranking) -> dict[str, Any]:
        named = self._named(self._precision(ranking))
        return {name: by_label(ranking.classes, column) for name, column in named.items()}

    def _named(self, precision: Tensor) -> dict[str, Tensor]:
        names = threshold_names("ap", self.iou_thresholds)
        return dict(zip(names, precision.unbind(1)))


class APAveragedOverIOUs(_AveragePrecision):
    """Computes the average precision of every label, averaged over IoU thresholds, by Valor's rules; see :class:`AP`.

    Source: Valor, docs/metrics.md, Average Precision.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "scores": torch.tensor([0.9]),
        ...           "labels": torch.tensor([1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 7]]), "labels": torch.tensor([1])}]
        >>> metric = APAveragedOverIOUs()
        >>> metric.update(preds, target)
        >>> float(metric.compute()["ap"])  # a hit at 0.5, 0.55, 0.6, 0.65 and 0.7
        0.5
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_thresholds: Sequence[float] = IOU_THRESHOLDS,
        matching: str = "valor",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        super().__init__(box_format, iou_type, iou_thresholds, matching, **kwargs)

    def compute(self) -> dict[str, Tensor]:
        """Returns float64 ``ap`` ``[C]``, NaN without ground truth, and int64 ``classes [C]``."""
        ranking = self._ranking(self.state())
        return {"ap": mean_of_thresholds(self._precision(ranking)), "classes": ranking.classes}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns AP of every label, with curves, signature and counts; NaN, with a reason, where there is none."""
        with self.synced_state() as state:
            return self._report(state, intervals, _missing)

    def _numbers(self, ranking: Ranking) -> dict[str, Any]:
        return {"ap": by_label(ranking.classes, mean_of_thresholds(self._precision(ranking)))}


class _MeanAveragePrecision(_AveragePrecision):
    """AP averaged over labels.

    Args:
        include_prediction_only_labels: labels without ground truth count as 0, as in valor-lite; by default they have
            no part in the mean.
    """

    def __init__(
        self,
        box_format: str,
        iou_type: str,
        iou_thresholds: Sequence[float],
        matching: str,
        include_prediction_only_labels: bool,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_type("include_prediction_only_labels", include_prediction_only_labels, bool)
        self.include_prediction_only_labels = include_prediction_only_labels
        super().__init__(box_format, iou_type, iou_thresholds, matching, **kwargs)

    def _means(self, ranking: Ranking) -> Tensor:
        """float64 ``[T]``, NaN where no label counts."""
        precision = self._precision(ranking)
        present = ~precision.isnan().any(1)
        return mean_of_labels(precision, present, self.include_prediction_only_labels)

    def _values(self, means: Tensor) -> dict[str, Tensor]:
        """Named numbers."""
        raise NotImplementedError

    def compute(self) -> dict[str, Tensor]:
        """Returns float64 numbers by name, NaN without ground truths."""
        return self._values(self._means(self._ranking(self.state())))

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the numbers of ``compute`` with curves, signature and counts; NaN, with a reason, where none."""
        included = {"include_prediction_only_labels": self.include_prediction_only_labels}
        with self.synced_state() as state:
            return self._report(state, intervals, lambda numbers: dict.fromkeys(numbers, NO_GROUND_TRUTHS), **included)

    def _numbers(self, ranking: Ranking) -> dict[str, Any]:
        return {name: float(value) for name, value in self._values(self._means(ranking)).items()}


class mAP(_MeanAveragePrecision):
    """Computes mean average precision over labels at IoU thresholds, by Valor's rules; see :class:`AP`.

    Source: Valor, docs/metrics.md, Mean Average Precision.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 10]]), "scores": torch.tensor([0.9, 0.8]),
        ...           "labels": torch.tensor([1, 2])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6]]), "labels": torch.tensor([1])}]
        >>> metric, strict = mAP(), mAP(include_prediction_only_labels=True)
        >>> metric.update(preds, target)
        >>> strict.update(preds, target)
        >>> [{name: float(value) for name, value in m.compute().items()} for m in (metric, strict)]
        [{'map_50': 1.0, 'map_75': 0.0}, {'map_50': 0.5, 'map_75': 0.0}]
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_thresholds: Sequence[float] = (0.5, 0.75),
        matching: str = "valor",
        include_prediction_only_labels: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        super().__init__(box_format, iou_type, iou_thresholds, matching, include_prediction_only_labels, **kwargs)

    def _values(self, means: Tensor) -> dict[str, Tensor]:
        names = threshold_names("map", self.iou_thresholds)
        return dict(zip(names, means.unbind()))


class mAPAveragedOverIOUs(_MeanAveragePrecision):
    """Computes mean average precision over labels and IoU thresholds, by Valor's rules; see :class:`AP`.

    Source: Valor, docs/metrics.md, Mean Average Precision.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "scores": torch.tensor([0.9]),
        ...           "labels": torch.tensor([1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 7]]), "labels": torch.tensor([1])}]
        >>> metric = mAPAveragedOverIOUs()
        >>> metric.update(preds, target)
        >>> float(metric.compute()["map"])
        0.5
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_thresholds: Sequence[float] = IOU_THRESHOLDS,
        matching: str = "valor",
        include_prediction_only_labels: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        super().__init__(box_format, iou_type, iou_thresholds, matching, include_prediction_only_labels, **kwargs)

    def _values(self, means: Tensor) -> dict[str, Tensor]:
        return {"map": mean_of_thresholds(means)}
