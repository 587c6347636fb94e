"""The state of detection metrics: row tables of detections, ground truths and images, and how they are ordered.

Row layouts: docs/design/001-detection-records.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.detection.record_checks import RecordChoices, check_detections, check_ground_truths, check_images
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate_types import Curves, Ordered, RecordShape
from valor_gpu.ops.census import census
from valor_gpu.ops.curves import count_truths, order_records, precision_recall
from valor_gpu.ops.match_batch import IMAGE_COLUMNS, Matched, MatchRule
from valor_gpu.reduce.doubtful_boxes import BoxSide, count_doubtful_boxes
from valor_gpu.state import State, joined

_ID, _HAS_ID, _GROUND_TRUTH_HASH, _RECORD_HASH, _DETECTIONS, _GROUND_TRUTHS = range(6)
_NEGATIVE, _REACH = slice(6, 7), slice(7, 8)  # two words of 32 bits: of the detections, of the ground truths


@dataclass(frozen=True)
class DetectionRecords(State):
    """Matched batches.

    Attributes:
        detections: uint8 ``[D, 13 + 2B]``.
        ground_truths: uint8 ``[G, 4 + ceil((A + 2) / 8)]``.
        images: int64 ``[I, 8]``.
    """

    detections: Tensor = joined()
    ground_truths: Tensor = joined()
    images: Tensor = joined()

    def check(self, rule: RecordChoices) -> None:
        """Raises :class:`InputError` unless the tables are such as matching by ``rule`` leaves."""
        check_images(self.images, len(self.detections), len(self.ground_truths))
        check_detections("detections", self.detections, rule.rule)
        check_ground_truths(self.ground_truths, rule.rule.area_ranges.shape[0])

    @classmethod
    def none(cls, rule: MatchRule) -> DetectionRecords:
        """The records of no image under ``rule``."""
        return cls(
            torch.empty((0, rule.detection_bytes), dtype=torch.uint8),
            torch.empty((0, rule.ground_truth_bytes), dtype=torch.uint8),
            torch.empty((0, len(IMAGE_COLUMNS)), dtype=torch.int64),
        )

    @classmethod
    def of(cls, matched: Matched) -> DetectionRecords:
        """The records that matching left."""
        return cls(matched.detections, matched.ground_truths, matched.images)


@dataclass(frozen=True)
class ImageOrder:
    """The images that count, in the order that breaks ties of scores.

    Attributes:
        kept: int64 ``[I']`` rows of the images table.
        repeated: how many images were left out because their id and ground truth came again.
        table: int64 ``[I, 8]``, the images table on the host.
    """

    kept: NDArray[np.int64]
    repeated: int
    table: NDArray[np.int64]

    @classmethod
    def of(cls, images: Tensor, by_key: bool) -> ImageOrder:
        """Takes repeated images out and orders the rest by key, or by arrival.

        Args:
            images: int64 ``[I, 8]``.
            by_key: order by image id (or content hash), not by arrival.

        Raises:
            InputError: an image id came with two different ground truths.
        """
        table = images.cpu().numpy()
        kept = _without_repeats(table)
        if by_key:
            kept = kept[np.lexsort((table[kept, _ID], table[kept, _HAS_ID]))]
        return cls(kept, len(table) - len(kept), table)

    def rows(self, column: int) -> tuple[Tensor, Tensor]:
        """int64 ``[I']`` first row and row count of the kept images in a table whose row counts stand in ``column``."""
        lengths = self.table[:, column]
        starts = np.cumsum(lengths) - lengths
        return torch.from_numpy(starts[self.kept]), torch.from_numpy(lengths[self.kept])

    def doubtful_boxes(self, detections: int, ground_truths: int) -> dict[str, int]:
        """Boxes of the kept images that are mostly mistakes, of so many detections and ground truths, by kind."""
        kept = self.table[self.kept]
        negative = kept[:, _NEGATIVE].copy().view(np.int32).sum(0, dtype=np.int64).tolist()
        reach = kept[:, _REACH].copy().view(np.float32).max(0, initial=0).tolist()
        return count_doubtful_boxes(*map(BoxSide, (detections, ground_truths), negative, reach))

    def select(self, rows: Tensor, column: int) -> Tensor:
        """The rows of a table, whose row counts stand in ``column``, that belong to kept images."""
        if self.repeated == 0:
            return rows
        keep = np.zeros(len(self.table), bool)
        keep[self.kept] = True
        return rows[torch.from_numpy(np.repeat(keep, self.table[:, column])).to(rows.device)]


def _without_repeats(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of the images table that count: of the copies of an id, the one with the smallest record hash."""
    named = np.flatnonzero(table[:, _HAS_ID])
    order = named[np.lexsort((named, table[named, _RECORD_HASH], table[named, _ID]))]
    again = np.flatnonzero(table[order[1:], _ID] == table[order[:-1], _ID]) + 1
    for index in again:
        first, second = order[index - 1], order[index]
        if table[first, _GROUND_TRUTH_HASH] != table[second, _GROUND_TRUTH_HASH]:
            raise InputError(
                f"target: image_id {table[first, _ID]} must name one image but came with two different ground truths"
            )
    _warn_of_other_copies(table, order[again - 1], order[again])
    return np.setdiff1d(np.arange(len(table)), order[again])


def _warn_of_other_copies(table: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
    """Copies that a sampler adds to fill a batch have the same detections; others may be other images."""
    other = table[first, _RECORD_HASH] != table[second, _RECORD_HASH]
    if other.any():
        warnings.warn(
            f"{int(other.sum())} images were left out since their image_id (the first is {table[first[other][0], _ID]})"
            " came before with the same ground truth but other detections: are the ids different for every image?",
            stacklevel=2,
        )


@dataclass(frozen=True)
class Tally:
    """What a state comes to: labels, ordered records and counts, from which curves are read.

    Attributes:
        labels: int64 ``[K]`` ascending labels of all detections and ground truths of the images that count.
        positives: int64 ``[K, A]`` ground truths that count.
        images: images that count.
        repeated: repeated images left out.
        truths: ground truths that count in no or some area range; ``ignored`` of them are crowds or ignored.
        detections: detections within or beyond the max-detection limits.
        order: which images count, and what their boxes look like.
    """

    records: DetectionRecords
    ordered: Ordered
    labels: Tensor
    positives: Tensor
    shape: RecordShape
    images: int
    repeated: int
    truths: int
    ignored: int
    detections: int
    order: ImageOrder

    @classmethod
    def of(cls, records: DetectionRecords, rule: MatchRule, *, by_key: bool = True, agnostic: bool = False) -> Tally:
        """Order the records of ``records`` and count its ground truths."""
        shape = RecordShape(rule.thresholds.shape[0], rule.area_ranges.shape[0], rule.limits.shape[0])
        images = ImageOrder.of(records.images, by_key)
        truths = images.select(records.ground_truths, _GROUND_TRUTHS)
        labels, totals = census(images.select(records.detections, _DETECTIONS), truths, shape.areas)
        classes = labels[:1] if agnostic else labels
        starts, lengths = images.rows(_DETECTIONS)
        ordered = order_records(records.detections, starts, lengths, classes, shape.limits, agnostic)
        positives = count_truths(truths, classes, shape.areas, agnostic)
        found, true, ignored = totals.tolist()
        counts = (len(images.kept), images.repeated, true, ignored, found, images)
        return cls(records, ordered, labels, positives, shape, *counts)

    def doubtful_boxes(self) -> dict[str, int]:
        """Counts boxes that are mostly mistakes, by kind; see :func:`count_doubtful_boxes`."""
        return self.order.doubtful_boxes(self.detections, self.truths)

    def curves(self, recall_thresholds: Tensor, full: bool = False, ties: str = "given") -> Curves:
        """Precision, recall and scores arrays; see :func:`valor_gpu.ops.curves.precision_recall`."""
        return precision_recall(
            self.records.detections, self.ordered, self.positives, recall_thresholds, self.shape, full, ties
        )
