"""Data of a detection result with one kind of error mended, each kind alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from valor_gpu._frozen import frozen
from valor_gpu.analysis.rows import Bools, Floats, Ints, Rows
from valor_gpu.analysis.tide_curves import Points, State, points_of
from valor_gpu.analysis.tide_kinds import CLASSIFICATION, DETECTION_KINDS, LOCALIZATION, ErrorKinds

MAIN_KINDS = (*DETECTION_KINDS, "missed")
"""Kinds of errors, each of a detection or a ground truth."""

GAIN_NAMES = (*MAIN_KINDS, "false_positives", "false_negatives")
"""Names of gains: of the main kinds, and of all false positives and all false negatives."""


@frozen
class Judged:
    """Detections of an evaluation with their errors.

    Attributes:
        rows: detections and ground truths.
        kept: bool ``[D]``: within the limit.
        hits: bool ``[D]``: true positives.
        counted: bool ``[D]``: hits and false positives; an ignored detection is neither.
        found: bool ``[G]``: ground truths with a hit.
        errors: kinds of errors.
        order: int64, hits and errors by descending score; what decides among equal scores is the protocol's.
        mended_order: likewise, once errors are mended.
    """

    rows: Rows
    kept: Bools
    hits: Bools
    counted: Bools
    found: Bools
    errors: ErrorKinds
    order: Ints
    mended_order: Ints

    def positives(self, left: Bools | None = None) -> Ints:
        """int64 ``[K]``: ground truths that count, and are ``left``, by class."""
        rows = self.rows
        chosen = rows.gt_counts if left is None else rows.gt_counts & left
        return np.bincount(rows.gt_labels[chosen], minlength=len(rows.classes))

    def counts(self) -> Ints:
        """int64 ``[K, 2, kinds + 1]``: detections by class, whether counted, kind; the last kind stands for none."""
        width = len(DETECTION_KINDS) + 1
        codes = self.rows.labels * (2 * width) + self.errors.kinds % width
        codes[self.counted] += width
        shape = len(self.rows.classes), 2, width
        return np.bincount(codes, minlength=shape[0] * 2 * width).reshape(shape)


def descending(scores: Floats, rows: Ints) -> Ints:
    """Returns ``rows`` by descending score; equal scores as they were."""
    values = -scores[rows]
    order = np.argsort(values)  # several times faster than a stable sort
    first = _runs(values[order]) * len(rows)
    keys = first + order
    keys.sort()
    found: Ints = rows[keys - first]
    return found


def errors_first(scores: Floats, order: Ints, hits: Bools) -> Ints:
    """Returns detections by descending score with errors before hits of the same score, else as ``order`` has them."""
    keys = (_runs(scores[order]) * 2 + hits[order]) * len(order) + np.arange(len(order))
    keys.sort()
    found: Ints = order[keys % max(len(order), 1)]
    return found


def _runs(values: Floats) -> Ints:
    """int64 ``[N]``: 0, 1, ... for the runs of equal values; NaN, which come last, equal each other."""
    runs = np.zeros(len(values), np.int64)
    np.cumsum((values[1:] != values[:-1]) & ~np.isnan(values[:-1]), out=runs[1:])
    return runs


class Mended:
    """States of an evaluation: as it is, and with each kind of error mended.

    Args:
        judged: detections with their errors.
    """

    def __init__(self, judged: Judged) -> None:
        self.judged = judged
        kinds = judged.errors.kinds
        repaired = _repaired(judged)
        moved = repaired[kinds[repaired] == CLASSIFICATION]
        own = judged.hits.copy()
        own[repaired[kinds[repaired] == LOCALIZATION]] = True
        false = np.where(judged.counted, kinds, np.int8(-1))
        targets = judged.rows.gt_labels[judged.errors.targets[moved]]
        arguments = judged.rows.labels, false, len(DETECTION_KINDS), own, moved, targets
        self.base_points = points_of(judged.order, *arguments)
        same = judged.mended_order is judged.order
        self.points = self.base_points if same else points_of(judged.mended_order, *arguments)
        counts = judged.counts()[:, 1]
        self.false, self.true = counts[:, :-1], counts[:, -1]
        self.positives = judged.positives()

    def base(self) -> State:
        """Returns the data as they are."""
        return self._state(self.base_points, None, self.positives)

    def mended(self) -> Iterator[tuple[str, State]]:
        """Yields the name of each gain, and the data once its errors are mended.

        - classification, localization: of all detections of both kinds with the same ground truth that has no hit, the
          one of the highest score becomes a hit if it is of the kind, and all others of the kind are removed
        - both, duplicate, background: removed
        - false positives: get a score below that of every hit, which is as good as removed in a class with hits
        - missed, false negatives: the ground truths are removed
        """
        points, judged = self.points, self.judged
        for code, name in enumerate(DETECTION_KINDS):
            yield name, self._state(points, code, self.positives)
        yield "missed", self._state(points, None, judged.positives(~judged.errors.missed))
        hits = np.flatnonzero(judged.hits[points.rows])
        none_before = np.zeros(len(hits), np.int64)
        yield (
            "false_positives",
            State(points.labels[hits], none_before, self.positives, self.true + self.false.sum(axis=1)),
        )
        yield "false_negatives", self._state(points, None, judged.positives(judged.found))

    def _state(self, points: Points, mended: int | None, positives: Ints) -> State:
        """The state where the detections of one kind are mended; None: of no kind."""
        errors, hits = self.judged.errors, self.judged.hits[points.rows]
        if mended in (CLASSIFICATION, LOCALIZATION):
            hits |= errors.kinds[points.rows] == mended
        at = np.flatnonzero(hits)
        left = [code for code in range(len(points.false_before)) if code != mended]
        false = self.false.sum(axis=1) - (0 if mended is None else self.false[:, mended])
        labels = points.labels[at]
        true = np.bincount(labels, minlength=len(positives))
        return State(labels, points.false_before[left][:, at].sum(axis=0), positives, true + false)


def _repaired(judged: Judged) -> Ints:
    """Rows of the errors of the highest score, of equal ones the first, on each usable ground truth."""
    errors = judged.errors
    about = np.flatnonzero((errors.kinds == CLASSIFICATION) | (errors.kinds == LOCALIZATION))
    about = about[errors.usable[errors.targets[about]]]
    rows = descending(judged.rows.scores, about)
    _, first = np.unique(errors.targets[rows], return_index=True)
    found: Ints = rows[first]
    return found
