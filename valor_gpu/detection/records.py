"""The state of detection metrics: row tables of detections, ground truths and images.

Row layouts: docs/design/001-detection-records.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.detection.record_checks import RecordChoices, check_detections, check_ground_truths, check_images
from valor_gpu.digests import DataHashes
from valor_gpu.ops.accumulate.types import Totals
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS, Matched, MatchRule
from valor_gpu.reduce.doubtful_boxes import BoxSide, count_doubtful_boxes
from valor_gpu.row_digests import multiset_hash
from valor_gpu.state import State, array_of, joined

_ID, _HAS_ID, _TRUTHS, _RECORDS = map(IMAGE_COLUMNS.index, ("ID", "HAS_ID", "GROUND_TRUTH_HASH", "RECORD_HASH"))


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
    hashed: ClassVar[str | None] = "images"

    def hashes(self) -> DataHashes:
        """Returns the hashes of :func:`images_hashes`."""
        return images_hashes(self.images)

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


def doubtful_boxes(totals: Totals) -> dict[str, int]:
    """Counts boxes that are mostly mistakes, by kind; see :func:`count_doubtful_boxes`."""
    return count_doubtful_boxes(
        BoxSide(totals.detections, totals.negative_detections, totals.detections_reach),
        BoxSide(totals.ground_truths, totals.negative_ground_truths, totals.ground_truths_reach),
    )


def images_hashes(images: Tensor) -> DataHashes:
    """Returns the hashes of the images table of :class:`DetectionRecords`.

    Of an image count its id, or that it has none, and the hashes that matching leaves: that of its ground truths in any
    order (geometry, label, area, flags), and that of its detections in their order (geometry, score, label). Copies of
    an image count once, as in the numbers.

    Args:
        images: int64 ``[I, 8 * T]`` of T geometries.
    """
    parts = array_of(images).reshape(len(images), images.shape[1] // len(IMAGE_COLUMNS), len(IMAGE_COLUMNS))
    parts = parts[_first_copies(parts[:, 0])]
    named = parts[:, 0, _HAS_ID]
    ids = np.where(named, parts[:, 0, _ID], 0)  # of an image without one, its content
    truths = {"named": named, "id": ids, "hash": parts[:, :, _TRUTHS]}
    predictions = {**truths, "hash": parts[:, :, [_TRUTHS, _RECORDS]]}
    return DataHashes("images", multiset_hash("truths", truths), multiset_hash("predictions", predictions))


def _first_copies(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of the images that count: of the copies of an id the one with the smallest record hash."""
    named = np.flatnonzero(table[:, _HAS_ID])
    order = named[np.lexsort((table[named, _RECORDS], table[named, _ID]))]
    again = np.flatnonzero(table[order[1:], _ID] == table[order[:-1], _ID]) + 1
    return np.delete(np.arange(len(table)), order[again])
