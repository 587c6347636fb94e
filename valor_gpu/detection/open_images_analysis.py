"""What results of OpenImagesAveragePrecision answer: all that needs outcomes, and no pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.detection import DetectionAnalysis
from valor_gpu.analysis.images import Ints
from valor_gpu.analysis.rows import IGNORED, Matching, Pairs, Rows
from valor_gpu.argument_docs import documented
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.cpu import setting_bits
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS, PADDING_BUCKET

if TYPE_CHECKING:
    from valor_gpu.result import Result

_ID, _HAS_ID, _DETECTIONS, _GROUND_TRUTHS = (
    IMAGE_COLUMNS.index(name) for name in ("ID", "HAS_ID", "DETECTIONS", "GROUND_TRUTHS")
)


@documented
class OpenImagesAnalysis(DetectionAnalysis):
    """Answers from the outcomes of detections at the IoU thresholds of the metric, after expansion.

    Questions about pairs, such as kinds of errors, are errors: the state keeps none, and a group, of which the first
    detection is a true positive and others are ignored, has no part in their definitions.

    Args:
        tables: uint8 rows of detections and of ground truths, and int64 rows of images.
        images: int64, rows of the images that count, in the order that breaks ties of scores.
        name: gives the name of a label.
        iou_thresholds: of the metric.
        choices: of the signature, such as the hierarchy and ``group_weight``.
        result_of: returns the result of rows of images.
    """

    metric = "OpenImagesAveragePrecision"
    recall_thresholds = np.linspace(0.0, 1.0, 101)

    def __init__(
        self,
        tables: Sequence[NDArray[Any]],
        images: NDArray[np.int64],
        name: Callable[[int], str],
        iou_thresholds: Sequence[float],
        choices: Mapping[str, Any],
        result_of: Callable[[Ints], Result],
    ) -> None:
        self._tables, self._places, self._name, self.choices = tables, images, name, choices
        self._result_of = result_of
        self.iou_thresholds = list(iou_thresholds)
        table = tables[2][images]
        self.image_ids = table[:, _ID].tolist() if bool(table[:, _HAS_ID].all()) else None
        self.images = len(table)

    def _taken(self, side: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Rows of the images that count, without padding, and how many each has."""
        sizes = self._tables[2][:, (_DETECTIONS, _GROUND_TRUTHS)[side]]
        lengths: NDArray[np.int64] = sizes[self._places]
        begins = (sizes.cumsum() - sizes)[self._places] - (lengths.cumsum() - lengths)
        rows = self._tables[side][np.repeat(begins, lengths) + np.arange(int(lengths.sum()))]
        real = rows[:, 12] != PADDING_BUCKET if side == 0 else (rows[:, 4] & 2) != 0
        owners = np.repeat(np.arange(len(lengths)), lengths)[real]
        return rows[real], np.bincount(owners, minlength=len(lengths))

    def make_rows(self) -> Rows:
        """See :class:`DetectionAnalysis`; ground truths of no account, as groups of weight 0 are, are ignored."""
        (rows, lengths), (truths, gt_lengths) = self._taken(0), self._taken(1)
        labels, gt_labels = (
            np.ascontiguousarray(side[:, begin : begin + 4]).view(np.int32)[:, 0].astype(np.int64)
            for side, begin in ((rows, 8), (truths, 0))
        )
        classes = np.unique(np.concatenate((labels, gt_labels)))
        none = np.zeros(len(rows), np.bool_)
        ids = self._places.tolist() if self.image_ids is None else self.image_ids
        return Rows(
            ids, [self._name(label) for label in classes.tolist()], np.stack((lengths, gt_lengths)),
            np.ascontiguousarray(rows[:, :8]).view(np.float64)[:, 0], np.searchsorted(classes, labels), ~none, none,
            np.searchsorted(classes, gt_labels), np.where(truths[:, 4] & 1, 0, IGNORED).astype(np.uint8),
            file_order=lambda: self._places,
        )  # fmt: skip

    def make_pairs(self) -> Pairs:
        """Raises :class:`InputError`, as the state keeps none."""
        raise self._without_pairs("a question about pairs")

    def errors(
        self, iou: float | Sequence[float] = 0.5, background: float | Sequence[float] = 0.1, protocol: str = "coco"
    ) -> NoReturn:
        """Raises :class:`InputError`."""
        raise self._without_pairs("errors()")

    def olrp(self, iou: float = 0.5) -> NoReturn:
        """Raises :class:`InputError`."""
        raise self._without_pairs("olrp()")

    def match_table(self, **choices: Any) -> NoReturn:
        """Raises :class:`InputError`."""
        raise self._without_pairs("matches()")

    def result_of(self, images: Ints) -> Result:
        """See :class:`valor_gpu.analysis.base.Analysis`."""
        return self._result_of(self._places[np.asarray(images, np.int64)])

    def _without_pairs(self, name: str) -> InputError:
        return InputError(
            f"{name} is not defined for results of {self.metric}, whose state keeps outcomes alone and whose groups"
            " have no partner: operating_points(), images() and by() are"
        )

    def matching(self, iou: float = 0.5) -> Matching:
        """Returns the outcomes at one of the IoU thresholds of the metric.

        Raises:
            InputError: ``iou`` is none of them.
        """
        known, asked = self.iou_thresholds, iou
        if (iou := self.threshold_of(iou)) not in known:
            raise InputError(f"iou must be one of iou_thresholds of the metric, {known}, but got {asked}")
        if iou not in self._matchings:
            rows, place, settings = self._taken(0)[0], known.index(iou), len(known)
            matched, ignored = (setting_bits(rows, place, field, settings) for field in (0, 1))
            self._matchings[iou] = Matching(self.rows, iou, matched & ~ignored, ~matched & ~ignored)
        return self._matchings[iou]
