"""The state of detection metrics: row tables of detections, ground truths and images.

Row layouts: docs/design/001-detection-records.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from valor_gpu.detection.data_hashes import images_hashes
from valor_gpu.detection.record_checks import RecordChoices, check_detections, check_ground_truths, check_images
from valor_gpu.digests import DataHashes
from valor_gpu.ops.accumulate.types import Totals
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS, Matched, MatchRule
from valor_gpu.reduce.doubtful_boxes import BoxSide, count_doubtful_boxes
from valor_gpu.state import State, joined


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
