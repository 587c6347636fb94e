"""Kinds of observations of detections at one IoU threshold, at all scores at once.

A row is an observation of a kind at the scores s with ``low < s <= high``: a detection up to its own score, a ground
truth that nothing finds from the score above which it is lost. Counts are then histograms, and examples the first rows
whose interval holds s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from valor_gpu.ops.overlaps import Overlaps, Ranked

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

GROUND_TRUTHS, DETECTIONS = 0, 1


@dataclass(frozen=True)
class Kind:
    """The observations of one kind.

    Attributes:
        outcome, name: such as ``fp`` and ``hallucinations``.
        side: ``GROUND_TRUTHS`` or ``DETECTIONS``.
        rows: int64 ``[N]``, of the columns of the side.
        labels: int64 ``[N]``, of each row.
        low, high: float64 ``[N]``, the scores at which it is one.
    """

    outcome: str
    name: str
    side: int
    rows: Integers
    labels: Integers
    low: Floats
    high: Floats

    def counts(self, scores: Floats, num_labels: int) -> Integers:
        """How many there are, int64 ``[num_labels, S]``.

        Args:
            scores: S thresholds in ascending order.
            num_labels: labels are 0 to ``num_labels - 1``.
        """
        return self._reaching(self.high, scores, num_labels) - self._reaching(self.low, scores, num_labels)

    def _reaching(self, values: Floats, scores: Floats, num_labels: int) -> Integers:
        steps = len(scores) + 1
        codes = self.labels * steps + np.searchsorted(scores, values, side="right")
        counts = np.bincount(codes, minlength=num_labels * steps).reshape(num_labels, steps)
        return counts[:, :0:-1].cumsum(axis=1)[:, ::-1]

    def of_label(self, label: int) -> Kind:
        """Those of one label."""
        mask = self.labels == label
        columns = (self.rows[mask], self.labels[mask], self.low[mask], self.high[mask])
        return Kind(self.outcome, self.name, self.side, *columns)

    def first(self, score: float, limit: int) -> list[int]:
        """The first rows, at most ``limit``, that are observations at a score."""
        found: list[int] = self.rows[(self.low < score) & (score <= self.high)][:limit].tolist()
        return found


@dataclass(frozen=True)
class OverlapTable:
    """Columns of overlaps and of their ranks as numpy arrays, and what the kinds are made of.

    Attributes:
        labels, scores, best, ious, before, others: ``[D]``, of detections.
        gt_labels: ``[G]``.
        pair_detections, pair_ground_truths, pair_ious: ``[P]``.
        datums, gt_datums: ``[D]`` and ``[G]``, running numbers.
    """

    labels: Integers
    scores: Floats
    best: Integers
    ious: Floats
    before: Floats
    others: Floats
    gt_labels: Integers
    pair_detections: Integers
    pair_ground_truths: Integers
    pair_ious: Floats
    datums: Integers
    gt_datums: Integers

    @classmethod
    def of(cls, overlaps: Overlaps, ranked: Ranked) -> OverlapTable:
        """The columns, copied to the host."""
        columns = (
            overlaps.labels, overlaps.scores, *ranked, overlaps.gt_labels, overlaps.detections(),
            overlaps.ground_truths, overlaps.ious, *overlaps.datums(),
        )  # fmt: skip
        return cls(*(column.cpu().numpy() for column in columns))

    def hits(self, iou: float) -> Mask:
        """Whether each detection is a true positive at an IoU, bool ``[D]``."""
        found: Mask = (self.scores > 0) & (self.before < iou) & (iou <= self.ious)
        return found

    def largest(self, chosen: Mask) -> Floats:
        """The largest score of the detections of these pairs by ground truth, float64 ``[G]``; -inf for none."""
        found = np.full(len(self.gt_labels), -np.inf)
        np.maximum.at(found, self.pair_ground_truths[chosen], self.scores[self.pair_detections[chosen]])
        return found

    @cached_property
    def same_label(self) -> Mask:
        """Whether the two labels of each pair are one, bool ``[P]``."""
        found: Mask = self.labels[self.pair_detections] == self.gt_labels[self.pair_ground_truths]
        return found

    @cached_property
    def has_own(self) -> Mask:
        """Whether the datum of each detection has a ground truth of its label, bool ``[D]``."""
        return self.first_own >= 0

    @cached_property
    def first_own(self) -> Integers:
        """The first ground truth of the datum and label of each detection, int64 ``[D]``; -1 for none."""
        size = int(max(self.labels.max(initial=0), self.gt_labels.max(initial=0))) + 1
        codes, first = np.unique(self.gt_datums * size + self.gt_labels, return_index=True)
        wanted = self.datums * size + self.labels
        place = np.minimum(np.searchsorted(codes, wanted), max(len(codes) - 1, 0))
        if len(codes) == 0:
            return np.full(len(wanted), -1, np.int64)
        return np.where(codes[place] == wanted, first[place], -1)

    def detections(self, outcome: str, name: str, chosen: Mask) -> Kind:
        """Detections that are of a kind at scores up to their own."""
        rows = np.flatnonzero(chosen)
        low = np.full(len(rows), -np.inf)
        return Kind(outcome, name, DETECTIONS, rows, self.labels[rows], low, self.scores[rows])

    def ground_truths(self, name: str, low: Floats, high: Floats) -> Kind:
        """Ground truths that are false negatives at scores above ``low`` up to ``high``, where that is any."""
        rows = np.flatnonzero(low < high)
        return Kind("fn", name, GROUND_TRUTHS, rows, self.gt_labels[rows], low[rows], high[rows])

    def missed(self, found: Floats, confused: Floats) -> list[Kind]:
        """The two kinds of false negatives.

        Args:
            found: float64 ``[G]``, the score up to which each ground truth is found.
            confused: float64 ``[G]``, the largest score of another label that overlaps it.
        """
        lost = np.maximum(found, confused)
        return [
            self.ground_truths("misclassifications", found, confused),
            self.ground_truths("no_predictions", lost, np.full(len(lost), np.inf)),
        ]


def exact_kinds(table: OverlapTable, iou: float, duplicates: bool = False) -> list[Kind]:
    """True positives, kinds of false positives and kinds of false negatives, see docs/design/018-valor-detection.md.

    Args:
        table: the overlaps.
        iou: the threshold.
        duplicates: whether detections of a ground truth that is taken are a kind of their own.
    """
    hits = table.hits(iou)
    confusing = ~hits & (table.others >= iou)
    repeated = ~hits & ~confusing & (table.ious >= iou) & duplicates
    found = np.full(len(table.gt_labels), -np.inf)
    found[table.best[hits]] = table.scores[hits]
    confused = table.largest(~table.same_label & (table.pair_ious >= iou))
    kinds = [
        table.detections("tp", "all", hits),
        table.detections("fp", "hallucinations", ~hits & ~confusing & ~repeated),
        table.detections("fp", "misclassifications", confusing),
    ]
    if duplicates:
        kinds.append(table.detections("fp", "duplicates", repeated))
    return [*kinds, *table.missed(found, confused)]


def total(kinds: Sequence[Kind], outcome: str, scores: Floats, num_labels: int) -> Integers:
    """How many observations of an outcome there are, int64 ``[num_labels, S]``."""
    found: Integers = np.zeros((num_labels, len(scores)), np.int64)
    for kind in kinds:
        if kind.outcome == outcome:
            found += kind.counts(scores, num_labels)
    return found
