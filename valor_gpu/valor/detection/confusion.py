"""Confusion matrices of detections: pairs of any label, counted by label or listed by datum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from valor_gpu.valor.detection.kinds import DETECTIONS, GROUND_TRUTHS, Integers, Mask
from valor_gpu.valor.detection.numbers import DetectionNumbers
from valor_gpu.valor.detection.scene import DetectionScene
from valor_gpu.valor.metrics import ConfusionMatrixEntry


@dataclass(frozen=True)
class Confusion:
    """The pairs of one label key.

    Attributes:
        scene: the data.
        numbers: of all labels.
        labels: of the key.
    """

    scene: DetectionScene
    numbers: DetectionNumbers
    labels: Sequence[int]

    def cuts(self, ious: Sequence[float], scores: Sequence[float]) -> Iterator[Cut]:
        """The pairs at each score threshold of each IoU threshold.

        Args:
            ious: thresholds among those of the request.
            scores: thresholds.
        """
        table = self.numbers.table
        places = np.full(self.numbers.num_labels, -1, np.int64)
        places[list(self.labels)] = np.arange(len(self.labels))
        names = [self.scene.columns.labels[label][1] for label in self.labels]
        for iou in ious:
            partners = self.numbers.partners[self.numbers.request.ious.index(iou)]
            for score in scores:
                there = table.scores >= max(score, np.nextafter(self.numbers.request.rules.least_score, np.inf))
                rows = np.flatnonzero(there & (places[table.labels] >= 0))
                rows = rows[np.lexsort((rows, partners[rows]))]
                truths = np.flatnonzero(places[table.gt_labels] >= 0)
                yield Cut(
                    self.scene, names, iou, score, rows, partners[rows], truths, places[table.labels],
                    places[table.gt_labels],
                )  # fmt: skip


@dataclass(frozen=True)
class Cut:
    """The pairs at one threshold of IoU and of score.

    Attributes:
        scene: the data.
        names: values of the labels.
        iou, score: the thresholds.
        rows: detections of the key that reach the score, by their ground truths.
        partners: the ground truth of each of them, -1 for none.
        truths: ground truths of the key.
        label, gt_label: place in ``names`` of every detection and of every ground truth.
    """

    scene: DetectionScene
    names: Sequence[str]
    iou: float
    score: float
    rows: Integers
    partners: Integers
    truths: Integers
    label: Integers
    gt_label: Integers

    @property
    def _paired(self) -> Mask:
        return self.partners >= 0

    def _counts(self) -> tuple[Integers, Integers, Integers]:
        """Pairs ``[true, predicted]``, and what has no partner."""
        size = len(self.names)
        paired = self._paired
        codes = self.gt_label[self.partners[paired]] * size + self.label[self.rows[paired]]
        pairs = np.bincount(codes, minlength=size * size).reshape(size, size)
        untrue = np.bincount(self.label[self.rows[~paired]], minlength=size)
        missed = np.bincount(self.gt_label[self._missed()], minlength=size)
        return pairs, untrue, missed

    def _missed(self) -> Integers:
        return np.setdiff1d(self.truths, self.partners[self._paired], assume_unique=True)

    def matrix(self) -> dict[str, Any]:
        """``{gt: {pd: n}}``, and the numbers without a partner by label."""
        pairs, untrue, missed = (column.tolist() for column in self._counts())
        return {
            "confusion_matrix": {name: dict(zip(self.names, row)) for name, row in zip(self.names, pairs)},
            "unmatched_predictions": dict(zip(self.names, untrue)),
            "unmatched_ground_truths": dict(zip(self.names, missed)),
        }

    def entries(self) -> list[ConfusionMatrixEntry]:
        """The cells that are not zero, in the order of prediction, then ground truth."""
        pairs = self._counts()[0]
        found = [
            ConfusionMatrixEntry(self.names[b], self.names[a], int(pairs[a, b])) for a, b in np.argwhere(pairs).tolist()
        ]
        return sorted(found, key=lambda entry: (entry.prediction, entry.groundtruth))

    def matrix_with_examples(self) -> dict[str, Any]:
        """The matrix, each cell with the pairs or rows in it."""
        cells: dict[str, dict[str, list[Any]]] = {a: {b: [] for b in self.names} for a in self.names}
        untrue: dict[str, list[Any]] = {name: [] for name in self.names}
        missed: dict[str, list[Any]] = {name: [] for name in self.names}
        for row, partner in zip(self.rows.tolist(), self.partners.tolist()):
            shown: dict[str, Any] = {"datum_id": self.scene.uid(DETECTIONS, row)}
            name = self.names[self.label[row]]
            if partner >= 0:
                shown["ground_truth_id"] = self.scene.name(GROUND_TRUTHS, partner)
            shown["prediction_id"] = self.scene.name(DETECTIONS, row)
            (cells[self.names[self.gt_label[partner]]][name] if partner >= 0 else untrue[name]).append(shown)
        for row in self._missed().tolist():
            shown = {"datum_id": self.scene.uid(GROUND_TRUTHS, row)}
            missed[self.names[self.gt_label[row]]].append(
                {**shown, "ground_truth_id": self.scene.name(GROUND_TRUTHS, row)}
            )
        return {
            "confusion_matrix": {a: {b: _cell(found) for b, found in row.items()} for a, row in cells.items()},
            "unmatched_predictions": {name: _cell(found) for name, found in untrue.items()},
            "unmatched_ground_truths": {name: _cell(found) for name, found in missed.items()},
        }

    def examples(self, page: tuple[int, int | None]) -> Iterator[dict[str, Any]]:
        """What is right and wrong in each datum that has anything.

        Args:
            page: the first datum, by its place in the evaluation, and how many; None: all that follow.
        """
        right = self._paired.copy()
        right[right] = self.gt_label[self.partners[right]] == self.label[self.rows[right]]
        hits = self.partners[right]
        lost = np.setdiff1d(self.truths, hits, assume_unique=True)
        datums = [self.scene.rows(side).datum for side in (GROUND_TRUTHS, DETECTIONS)]
        found: dict[int, dict[str, list[Any]]] = {}
        for name, side, rows in (
            ("true_positives", DETECTIONS, self.rows[right]),
            ("false_positives", DETECTIONS, np.sort(self.rows[~right])),
            ("false_negatives", GROUND_TRUTHS, lost),
        ):
            for place, row in enumerate(rows.tolist()):
                shown: Any = self.scene.name(side, row)
                if name == "true_positives":
                    shown = [self.scene.name(GROUND_TRUTHS, int(hits[place])), shown]
                found.setdefault(int(datums[side][row]), {}).setdefault(name, []).append(shown)
        last = None if page[1] is None else page[0] + page[1]
        for datum in sorted(found):
            if page[0] <= datum and (last is None or datum < last):
                kinds = ("true_positives", "false_positives", "false_negatives")
                listed = {name: found[datum].get(name, []) for name in kinds}
                yield {"datum_id": self.scene.columns.datums[datum], **listed}


def _cell(found: list[Any]) -> dict[str, Any]:
    return {"count": len(found), "examples": found}
