"""Confusion matrices of detections: pairs of any label, counted by label or listed by datum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from valor_gpu.reduce.overlap_confusion import ConfusionCounts, confusion_counts, taken_pairs
from valor_gpu.valor.detection.numbers import DetectionNumbers, Integers
from valor_gpu.valor.detection.scene import DETECTIONS, GROUND_TRUTHS, DetectionScene

_CELLS = 1 << 22  # counts of a block


class Listed(NamedTuple):
    """Rows of one label key at a threshold of IoU and one of score, int64.

    Attributes:
        detections: those with a partner, by their ground truths.
        ground_truths: their partners, ascending.
        alone: detections without a partner, ascending.
        missed: ground truths without one, ascending.
    """

    detections: Integers
    ground_truths: Integers
    alone: Integers
    missed: Integers


@dataclass(frozen=True)
class Confusion:
    """The pairs of one label key.

    Attributes:
        scene: the data.
        numbers: of all labels.
        labels: of the key, ascending.
    """

    scene: DetectionScene
    numbers: DetectionNumbers
    labels: Sequence[int]

    def cuts(self, ious: Sequence[float], scores: Sequence[float]) -> Iterator[Cut]:
        """The pairs at each score threshold of each IoU threshold.

        Args:
            ious: thresholds among those of the request.
            scores: the score thresholds of the request.
        """
        places = [self.numbers.request.ious.index(iou) for iou in ious]
        step = max(_CELLS // ((len(scores) + 1) * (len(self.labels) + 1) ** 2), 1)
        for first in range(0, len(ious), step):
            block = Block(self, places[first : first + step])
            for row, iou in enumerate(ious[first : first + step]):
                for place, score in enumerate(scores):
                    yield Cut(block, row, iou, score, place)

    @cached_property
    def names(self) -> list[str]:
        """Values of the labels."""
        return [self.scene.columns.labels[label][1] for label in self.labels]

    @cached_property
    def places(self) -> Integers:
        """Place of each label of the data in ``names``, -1 for one of another key."""
        places = np.full(self.numbers.num_labels, -1, np.int64)
        places[list(self.labels)] = np.arange(len(self.labels))
        return places

    @cached_property
    def row_places(self) -> tuple[Integers, Integers]:
        """Place in ``names`` of the label of each ground truth and of each detection, -1 for one of another key."""
        overlaps = self.numbers.overlaps
        gt_places, places = (self.places[labels.cpu().numpy()] for labels in (overlaps.gt_labels, overlaps.labels))
        return gt_places, places


@dataclass(frozen=True)
class Block:
    """The pairs of a key at some IoU thresholds, counted at once.

    Attributes:
        confusion: of the key.
        places: of the thresholds among those of the request.
    """

    confusion: Confusion
    places: list[int]

    @cached_property
    def counts(self) -> ConfusionCounts:
        """Counts at these thresholds and at the score thresholds of the request, on the host."""
        numbers = self.confusion.numbers
        partners, labels = numbers.partners[self.places], torch.tensor(self.confusion.labels)
        counts = confusion_counts(numbers.overlaps, partners, labels.to(partners.device), numbers.score_levels)
        return ConfusionCounts(*(part.cpu() for part in counts))

    def listed(self, row: int, score_place: int) -> Listed:
        """The rows behind the counts.

        Args:
            row: which of the IoU thresholds of the block.
            score_place: of the score threshold among those of the request.
        """
        numbers, (gt_label, label) = self.confusion.numbers, self.confusion.row_places
        taken = taken_pairs(numbers.overlaps, numbers.partners[self.places[row]], numbers.score_levels[score_place])
        rows, partners, alone, missed = (part.cpu().numpy() for part in taken)
        own = np.flatnonzero(label[rows] >= 0)
        own = own[np.argsort(partners[own], kind="stable")]
        return Listed(rows[own], partners[own], alone[label[alone] >= 0], missed[gt_label[missed] >= 0])


@dataclass(frozen=True)
class Cut:
    """The pairs at one threshold of IoU and of score.

    Attributes:
        block: the pairs at this and other IoU thresholds.
        row: of this one in the block.
        iou: the threshold.
        score: threshold of the score.
        place: of the latter among those of the request.
    """

    block: Block
    row: int
    iou: float
    score: float
    place: int

    @cached_property
    def listed(self) -> Listed:
        """The rows behind the counts."""
        return self.block.listed(self.row, self.place)

    def counts(self) -> tuple[list[list[int]], list[int], list[int]]:
        """Returns pairs by true and predicted label, and rows without a partner, of predictions and ground truths."""
        pairs, untrue, missed = (part[self.row, self.place].tolist() for part in self.block.counts)
        return pairs, untrue, missed

    def cells(self) -> list[tuple[str, str, int]]:
        """Returns prediction, ground truth and count of the cells that are not zero, by name."""
        pairs, names = self.block.counts.matrix[self.row, self.place], self.block.confusion.names
        return sorted((names[b], names[a], int(pairs[a, b])) for a, b in pairs.nonzero().tolist())

    def outcomes(self) -> dict[int, dict[str, list[tuple[int, ...]]]]:
        """Returns by datum, ascending, the rows of each outcome; of true positives the ground truth comes first."""
        scene, listed, (gt_label, label) = self.block.confusion.scene, self.listed, self.block.confusion.row_places
        same = gt_label[listed.ground_truths] == label[listed.detections]
        untrue = np.sort(np.concatenate([listed.detections[~same], listed.alone]))
        missed = np.sort(np.concatenate([listed.ground_truths[~same], listed.missed]))
        datums = [scene.rows(side).datum for side in (GROUND_TRUTHS, DETECTIONS)]
        found: dict[int, dict[str, list[tuple[int, ...]]]] = {}
        for name, side, columns in (
            ("true_positives", DETECTIONS, (listed.ground_truths[same], listed.detections[same])),
            ("false_positives", DETECTIONS, (untrue,)),
            ("false_negatives", GROUND_TRUTHS, (missed,)),
        ):
            of_rows = datums[side][columns[-1]].tolist()
            for datum, rows in zip(of_rows, zip(*(column.tolist() for column in columns))):
                found.setdefault(datum, {}).setdefault(name, []).append(rows)
        return dict(sorted(found.items()))
