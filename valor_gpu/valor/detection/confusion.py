"""Confusion matrices of detections: pairs of any label, counted by label or listed by datum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from valor_gpu.reduce.overlap_confusion import ConfusionCounts, confusion_counts, taken_pairs
from valor_gpu.valor.detection.numbers import DetectionNumbers, Integers
from valor_gpu.valor.detection.scene import DETECTIONS, GROUND_TRUTHS, DetectionScene
from valor_gpu.valor.metrics import ConfusionMatrixEntry

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

    @property
    def _confusion(self) -> Confusion:
        return self.block.confusion

    @property
    def _listed(self) -> Listed:
        return self.block.listed(self.row, self.place)

    def matrix(self) -> dict[str, Any]:
        """``{gt: {pd: n}}``, and the numbers without a partner by label."""
        names = self._confusion.names
        pairs, untrue, missed = (part[self.row, self.place].tolist() for part in self.block.counts)
        return {
            "confusion_matrix": {name: dict(zip(names, row)) for name, row in zip(names, pairs)},
            "unmatched_predictions": dict(zip(names, untrue)),
            "unmatched_ground_truths": dict(zip(names, missed)),
        }

    def entries(self) -> list[ConfusionMatrixEntry]:
        """The cells that are not zero, in the order of prediction, then ground truth."""
        pairs, names = self.block.counts.matrix[self.row, self.place], self._confusion.names
        found = [ConfusionMatrixEntry(names[b], names[a], int(pairs[a, b])) for a, b in pairs.nonzero().tolist()]
        return sorted(found, key=lambda entry: (entry.prediction, entry.groundtruth))

    def matrix_with_examples(self) -> dict[str, Any]:
        """The matrix, each cell with the pairs or rows in it."""
        names, scene, listed = self._confusion.names, self._confusion.scene, self._listed
        gt_label, label = self._confusion.row_places
        cells: dict[str, dict[str, list[Any]]] = {a: {b: [] for b in names} for a in names}
        untrue: dict[str, list[Any]] = {name: [] for name in names}
        missed: dict[str, list[Any]] = {name: [] for name in names}
        for row, partner in zip(listed.detections.tolist(), listed.ground_truths.tolist()):
            shown = {"ground_truth_id": scene.name(GROUND_TRUTHS, partner)}
            cells[names[gt_label[partner]]][names[label[row]]].append(self._prediction(row, shown))
        for row in listed.alone.tolist():
            untrue[names[label[row]]].append(self._prediction(row, {}))
        for row in listed.missed.tolist():
            shown = {"datum_id": scene.uid(GROUND_TRUTHS, row), "ground_truth_id": scene.name(GROUND_TRUTHS, row)}
            missed[names[gt_label[row]]].append(shown)
        return {
            "confusion_matrix": {a: {b: _cell(found) for b, found in row.items()} for a, row in cells.items()},
            "unmatched_predictions": {name: _cell(found) for name, found in untrue.items()},
            "unmatched_ground_truths": {name: _cell(found) for name, found in missed.items()},
        }

    def _prediction(self, row: int, shown: dict[str, Any]) -> dict[str, Any]:
        scene = self._confusion.scene
        return {"datum_id": scene.uid(DETECTIONS, row), **shown, "prediction_id": scene.name(DETECTIONS, row)}

    def examples(self, page: tuple[int, int | None]) -> Iterator[dict[str, Any]]:
        """What is right and wrong in each datum that has anything.

        Args:
            page: the first datum, by its place in the evaluation, and how many; None: all that follow.
        """
        scene, listed, (gt_label, label) = self._confusion.scene, self._listed, self._confusion.row_places
        same = gt_label[listed.ground_truths] == label[listed.detections]
        hits = listed.ground_truths[same]
        datums = [scene.rows(side).datum for side in (GROUND_TRUTHS, DETECTIONS)]
        found: dict[int, dict[str, list[Any]]] = {}
        for name, side, rows in (
            ("true_positives", DETECTIONS, listed.detections[same]),
            ("false_positives", DETECTIONS, np.sort(np.concatenate([listed.detections[~same], listed.alone]))),
            ("false_negatives", GROUND_TRUTHS, np.sort(np.concatenate([listed.ground_truths[~same], listed.missed]))),
        ):
            for place, row in enumerate(rows.tolist()):
                shown: Any = scene.name(side, row)
                if name == "true_positives":
                    shown = [scene.name(GROUND_TRUTHS, int(hits[place])), shown]
                found.setdefault(int(datums[side][row]), {}).setdefault(name, []).append(shown)
        last = None if page[1] is None else page[0] + page[1]
        for datum in sorted(found):
            if page[0] <= datum and (last is None or datum < last):
                kinds = ("true_positives", "false_positives", "false_negatives")
                listed_by_name = {name: found[datum].get(name, []) for name in kinds}
                yield {"datum_id": scene.columns.datums[datum], **listed_by_name}


def _cell(found: list[Any]) -> dict[str, Any]:
    return {"count": len(found), "examples": found}
