"""Average precision of detections that are mended: precision at recall samples from the ranks of hits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.analysis.rows import Bools, Floats, Ints


@frozen
class Rule:
    """How a protocol makes one number of a state of the data.

    Attributes:
        recalls: float64 ``[R]``, at which precision is read.
        least: added to the denominator of precision.
        empty_counts: whether a class with detections and no ground truth counts, with an AP of 0.
    """

    recalls: Floats
    least: float
    empty_counts: bool


@frozen
class State:
    """Hits of the data as they are, or with one kind of error mended.

    Attributes:
        labels: int64 ``[N]``, ascending; hits of a class by descending score.
        false_before: int64 ``[N]``: false positives of the class that come before each hit.
        positives: int64 ``[K]`` ground truths.
        detections: int64 ``[K]`` hits and false positives.
    """

    labels: Ints
    false_before: Ints
    positives: Ints
    detections: Ints

    def average_precision(self, rule: Rule) -> tuple[float, Floats]:
        """Returns the mean over classes, and float64 ``[K]``; NaN where no class, or no ground truth, is left."""
        samples = self.sampled_precision(rule)
        present = self.positives > 0
        samples[~present] = 0
        if rule.empty_counts:
            present = present | (self.detections > 0)
        if not present.any() or not len(rule.recalls):
            return np.nan, np.full(len(present), np.nan)
        # In the order of COCOeval's array of precision, which decides the last bit of the mean.
        mean = np.ascontiguousarray(samples.T[:, present]).ravel().mean()
        return float(mean), np.where(present, samples.mean(axis=1), np.nan)

    def sampled_precision(self, rule: Rule) -> Floats:
        """Computes the largest precision at or above each recall of each class, 0 above the last recall.

        Returns:
            float64 ``[K, R]``; the row of a class without ground truths says nothing.
        """
        labels, recalls, classes = self.labels, rule.recalls, len(self.positives)
        found = np.bincount(labels, minlength=classes)
        true = np.arange(len(labels)) - (found.cumsum() - found)[labels] + 1
        precision = true / ((true + self.false_before) + rule.least)
        places = np.argsort(recalls, kind="stable")
        needed = _hits_needed(self.positives, recalls[places])
        # The samples that a hit reaches are a prefix, so it counts at the last of them, and so for all before it.
        span = int(max(needed.max(initial=0), true.max(initial=0))) + 1
        keys = (needed + np.arange(classes)[:, None] * span).ravel()
        cells = np.searchsorted(keys, labels * span + true, side="right") - 1
        reached = cells >= labels * len(recalls)
        cells, precision = cells[reached], precision[reached]
        table = np.zeros((classes, len(recalls)))
        if len(cells):
            first = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
            table.ravel()[cells[first]] = np.maximum.reduceat(precision, first)
        samples = np.empty_like(table)
        samples[:, places] = np.maximum.accumulate(table[:, ::-1], axis=1)[:, ::-1]
        return samples


def _hits_needed(positives: Ints, recalls: Floats) -> Ints:
    """int64 ``[K, R]``: the smallest number of hits, at least 1, whose float64 recall reaches each ascending recall."""
    total = np.maximum(positives, 1)[:, None]
    needed = np.maximum(np.ceil(recalls * total), 1).astype(np.int64)
    needed -= (needed > 1) & ((needed - 1) / total >= recalls)
    needed += needed / total < recalls
    return needed


@frozen
class Points:
    """Detections that are hits before or after mending, class after class, by descending score.

    Attributes:
        rows: int64 ``[N]`` of detections.
        labels: int64 ``[N]``: the class that each has as a hit.
        moved: bool ``[N]``: whether that is not its own.
        false_before: int64 ``[kinds, N]``: false positives of each kind and of that class that come before it.
    """

    rows: Ints
    labels: Ints
    moved: Bools
    false_before: Ints


def points_of(
    order: Ints, labels: Ints, kinds: NDArray[np.int8], count: int, own: Bools, moved: Ints, moved_labels: Ints
) -> Points:
    """Returns the points of detections.

    Args:
        order: int64, detections by descending score.
        labels: int64 ``[D]``, own class of each.
        kinds: int8 ``[D]``: 0, 1, ... of false positives, -1 of others.
        count: of kinds.
        own: bool ``[D]``: points of their own class.
        moved: int64, detections that are points of another class.
        moved_labels: int64, that class of each.
    """
    size = len(order)
    ranks = np.empty(len(labels), np.int64)
    ranks[order] = np.arange(size)
    keys = np.concatenate([(labels[order] * size + np.arange(size)) * 2, (moved_labels * size + ranks[moved]) * 2 + 1])
    keys.sort()
    both, elsewhere = keys >> 1, (keys & 1).astype(np.bool_)
    classes = both // max(size, 1)
    rows = order[both - classes * size]
    at = np.flatnonzero(elsewhere | own[rows])
    first = np.searchsorted(classes, classes[at])
    of_kind = np.where(elsewhere, np.int8(-1), kinds[rows])
    before = np.empty((count, len(at)), np.int64)
    upto = np.zeros(len(keys) + 1, np.int64)
    for kind, counts in enumerate(before):
        np.cumsum(of_kind == kind, out=upto[1:])
        counts[:] = upto[at] - upto[first]
    return Points(rows[at], classes[at], elsewhere[at], before)
