"""The confusion matrix of detections, and the pairs behind it, image by image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_int, check_type
from valor_gpu.detection.ranked_metric import DetectionMetric, grids, reached_by, read_iou_thresholds, read_thresholds
from valor_gpu.detection.rankings import Evaluated, classes_of, evaluated
from valor_gpu.errors import InputError
from valor_gpu.ops.overlaps.op import Overlaps, confuse_overlaps
from valor_gpu.reduce.confusion_plot import plot_detection_confusion
from valor_gpu.reduce.overlap_confusion import PAIR_KINDS, confusion_counts, paired_rows
from valor_gpu.result import Result
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions


class _PairedMetric(DetectionMetric):
    """Thresholds, and the pairs of detections and ground truths of any label.

    Args:
        iou_thresholds: T different minimum IoUs of a pair, above 0 and at most 1.
        score_thresholds: S different minimum scores from 0 to 1; a score that equals its minimum counts.
    """

    higher_is_better = None

    def __init__(
        self,
        box_format: str,
        iou_type: str,
        iou_thresholds: Sequence[float],
        score_thresholds: Sequence[float],
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        self.iou_thresholds = read_iou_thresholds(iou_thresholds)
        self.score_thresholds = read_thresholds("score_thresholds", score_thresholds)
        super().__init__(box_format, iou_type, **kwargs)

    def _pairs(self, images: Evaluated) -> tuple[Overlaps, Tensor, Tensor]:
        """The overlaps, the partner ``[T, D]`` of each detection, and the score thresholds."""
        overlaps = images.overlaps
        scores = reached_by(overlaps.scores, self.score_thresholds)
        return overlaps, confuse_overlaps(overlaps, self.iou_thresholds), scores

    def _tables(self, images: Evaluated) -> dict[str, Tensor]:
        """Every outcome of every image, see :meth:`DetectionExamples.compute`."""
        return paired_rows(*self._pairs(images), images.names)

    def _choices(self) -> dict[str, Any]:
        return grids(iou_thresholds=self.iou_thresholds, score_thresholds=self.score_thresholds)

    def _grids(self) -> dict[str, Any]:
        return {"iou_thresholds": np.array(self.iou_thresholds), "score_thresholds": np.array(self.score_thresholds)}


class DetectionConfusionMatrix(_PairedMetric):
    """Counts which labels are detected as which, what is detected where nothing is, and what is missed.

    At an IoU and a score threshold, pairs of any labels that overlap by that IoU or more, of detections with that score
    or more, go by score, then by IoU, then as ground truths and detections came; a pair is taken where both are free.
    This pairing does not prefer equal labels, hence its diagonal need not be the true positives of
    :class:`DetectionCounts`. The matrices take ``8 T S C (C + 1)`` bytes.

    Source: Valor, docs/metrics.md, Confusion Matrix; valor-lite pairs before it looks at the IoU threshold, which
    docs/valor.md explains.

    Args:
        examples: ``result`` also lists every pair and every detection and ground truth without partner, as
            :class:`DetectionExamples` does.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10]]),
        ...           "scores": torch.tensor([0.9, 0.6]), "labels": torch.tensor([2, 1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6]]), "labels": torch.tensor([1])}]
        >>> metric = DetectionConfusionMatrix()
        >>> metric.update(preds, target)
        >>> found = metric.compute()
        >>> found["confusion_matrix"][0, 0].tolist(), found["unmatched_predictions"][0, 0].tolist()
        ([[0, 1], [0, 0]], [1, 0])
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_thresholds: Sequence[float] = (0.5,),
        score_thresholds: Sequence[float] = (0.5,),
        examples: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_type("examples", examples, bool)
        self.examples = examples
        super().__init__(box_format, iou_type, iou_thresholds, score_thresholds, **kwargs)

    def compute(self) -> dict[str, Tensor]:
        """Returns ``confusion_matrix [T, S, C, C]`` and what has no partner, by label, all int64.

        Rows of the matrix are labels of ground truths, columns of detections. ``unmatched_predictions [T, S, C]``
        counts hallucinations, ``unmatched_ground_truths [T, S, C]`` missed objects; ``classes [C]`` are all labels,
        ascending.
        """
        return self._values(evaluated(self.state()))

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the arrays of ``compute`` with thresholds, signature and counts, and with ``examples`` its tables.

        These are ``examples/true_positives`` and so on, see :meth:`DetectionExamples.compute`.

        Args:
            intervals: raises :class:`InputError`, since only single numbers have them.
        """
        with self.synced_state() as state:
            images = evaluated(state)
            arrays = self._values(images)
            if self.examples:
                arrays |= {f"examples/{kind}": table for kind, table in self._tables(images).items()}
            values = {name: part.cpu().numpy() for name, part in arrays.items()}
            result = self._result_of(
                images, {**values, **self._grids()}, self._choices(), None, plot_detection_confusion
            )
        return result if intervals is None else result.with_intervals(intervals)

    def _values(self, images: Evaluated) -> dict[str, Tensor]:
        overlaps, partners, scores = self._pairs(images)
        classes = classes_of(overlaps)
        counts = confusion_counts(overlaps, partners, classes, scores)
        names = ("confusion_matrix", "unmatched_predictions", "unmatched_ground_truths")
        return {**dict(zip(names, counts)), "classes": classes}


class DetectionExamples(_PairedMetric):
    """Lists which detection was paired with which ground truth, image by image: what to look at after a bad number.

    Pairs are those of :class:`DetectionConfusionMatrix`. A pair of equal labels is a true positive, another one a
    misclassification; detections without partner are hallucinations, ground truths without one are missed.

    Source: Examples of valor-lite, whose false positives are misclassifications and hallucinations together, and whose
    false negatives are misclassifications and missed ones.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10]]),
        ...           "scores": torch.tensor([0.9, 0.6]), "labels": torch.tensor([1, 1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 10, 6]]), "labels": torch.tensor([1]), "image_id": 17}]
        >>> metric = DetectionExamples()
        >>> metric.update(preds, target)
        >>> metric.page(limit=10)
        [{'image': 17, 'iou_threshold': 0.5, 'score_threshold': 0.5, 'true_positives': [(0, 0)], \
'misclassifications': [], 'hallucinations': [1], 'missed': []}]
    """

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        iou_thresholds: Sequence[float] = (0.5,),
        score_thresholds: Sequence[float] = (0.5,),
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        super().__init__(box_format, iou_type, iou_thresholds, score_thresholds, **kwargs)

    def compute(self) -> dict[str, Tensor]:
        """Returns int64 ``[N, 5]`` ``true_positives``, ``misclassifications``, ``hallucinations`` and ``missed``.

        Columns are IoU threshold and score threshold by index, image, row of the ground truth and row of the detection
        in that image, -1 where there is none. Images go by ``image_id`` where all have one, else by their place in
        order of arrival (of ranks, in a distributed run), from 0. Rows go by threshold, then by image.
        """
        return self._tables(evaluated(self.state()))

    def page(self, limit: int | None = None, offset: int = 0) -> list[dict[str, Any]]:
        """Returns some of the images as lists: for each, one dict for every pair of thresholds. Collective.

        Pairs are (row of the ground truth, row of the detection); images without any row are left out.

        Args:
            limit: how many images at most, in order of arrival; None for all.
            offset: how many to skip first.

        Raises:
            InputError: one of them is negative.
        """
        check_int("offset", offset)
        if limit is not None:
            check_int("limit", limit)
        with self.synced_state() as state:
            images = evaluated(state)
            last = len(images.names) if limit is None else min(offset + limit, len(images.names))
            places = torch.arange(len(images.names), device=images.names.device)
            tables = paired_rows(*self._pairs(images), places)
            shown = {kind: rows[(rows[:, 2] >= offset) & (rows[:, 2] < last)].tolist() for kind, rows in tables.items()}
            return self._listed(shown, images.names.tolist())

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Raises :class:`InputError`: lists of rows have no picture.

        Args:
            val: must be left out.
            ax: matplotlib axes.
        """
        raise InputError(
            "plot needs numbers to draw but DetectionExamples lists rows: DetectionConfusionMatrix counts them"
        )

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the tables of ``compute`` with thresholds, signature and counts.

        Args:
            intervals: raises :class:`InputError`, since only single numbers have them.
        """
        with self.synced_state() as state:
            images = evaluated(state)
            tables = {kind: rows.cpu().numpy() for kind, rows in self._tables(images).items()}
            result = self._result_of(images, {**tables, **self._grids()}, self._choices())
        return result if intervals is None else result.with_intervals(intervals)

    def _listed(self, shown: dict[str, list[list[int]]], names: list[int]) -> list[dict[str, Any]]:
        """Rows of tables by image and pair of thresholds."""
        found: dict[tuple[int, int, int], dict[str, Any]] = {}
        for kind, rows in shown.items():
            for iou, score, place, gt, detection in rows:
                empty: dict[str, Any] = {
                    "image": names[place], "iou_threshold": self.iou_thresholds[iou],
                    "score_threshold": self.score_thresholds[score], **{name: [] for name in PAIR_KINDS},
                }  # fmt: skip
                entry = found.setdefault((place, iou, score), empty)
                entry[kind].append((gt, detection) if gt >= 0 and detection >= 0 else max(gt, detection))
        return [found[key] for key in sorted(found)]
