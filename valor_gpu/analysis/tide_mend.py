"""Data of a detection result with one kind of error mended, each kind alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from valor_gpu._frozen import frozen
from valor_gpu.analysis.rows import Bools, Ints, Rows
from valor_gpu.analysis.tide_curves import State, by_class
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
        order: int64, rows of hits and errors by descending score; what decides among equal scores is the protocol's.
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

    def positives(self, left: Bools) -> Ints:
        """int64 ``[K]``: ground truths that count and are ``left``, by class."""
        rows = self.rows
        return np.bincount(rows.gt_labels[rows.gt_counts & left], minlength=len(rows.classes))


def descending(scores: np.ndarray, rows: Ints) -> Ints:
    """Returns ``rows`` by descending score; equal scores as they were."""
    order: Ints = rows[np.argsort(-scores[rows], kind="stable")]
    return order


def base_state(judged: Judged) -> State:
    """Returns the data as they are."""
    rows = by_class(judged.rows.labels, judged.order)
    everything = np.ones(len(judged.rows.gt_labels), np.bool_)
    return State(rows, judged.rows.labels[rows], judged.counted[rows], judged.hits[rows], judged.positives(everything))


def mended_states(judged: Judged, base: State) -> Iterator[tuple[str, State]]:
    """Yields the name of each gain, and the data once its errors are mended.

    - classification, localization: of all detections of both kinds with the same ground truth that has no hit, the one
      of the highest score becomes a hit if it is of the kind, and all others of the kind are removed
    - both, duplicate, background: removed
    - false positives: get a score below that of every hit, which is as good as removed in a class with hits
    - missed, false negatives: the ground truths are removed
    """
    kinds, labels = judged.errors.kinds, judged.rows.labels
    rows = base.rows if judged.mended_order is judged.order else by_class(labels, judged.mended_order)
    own, counted, hits, kind = labels[rows], judged.counted[rows], judged.hits[rows], kinds[rows]
    repaired = np.zeros(len(labels), np.bool_)
    repaired[_repaired(judged)] = True
    for code, name in enumerate(DETECTION_KINDS):
        of_kind = kind == code
        if code == CLASSIFICATION:
            yield name, _with_own_classes(judged, repaired & (kinds == code), base.positives)
        elif code == LOCALIZATION:
            right = of_kind & repaired[rows]
            yield name, State(rows, own, (counted & ~of_kind) | right, hits | right, base.positives)
        else:
            yield name, State(rows, own, counted & ~of_kind, hits, base.positives)
    yield "missed", State(rows, own, counted, hits, judged.positives(~judged.errors.missed))
    yield "false_positives", _with_hits_first(judged, base.positives)
    yield "false_negatives", State(rows, own, counted, hits, judged.positives(judged.found))


def _repaired(judged: Judged) -> Ints:
    """Rows of the errors of the highest score, of equal ones the first, on each usable ground truth."""
    errors = judged.errors
    of_kinds = (errors.kinds == CLASSIFICATION) | (errors.kinds == LOCALIZATION)
    rows = judged.order[of_kinds[judged.order]]
    rows = rows[errors.usable[errors.targets[rows]]]
    _, first = np.unique(errors.targets[rows], return_index=True)
    found: Ints = rows[first]
    return found


def _with_own_classes(judged: Judged, right: Bools, positives: Ints) -> State:
    """The data where the detections ``right`` have the class of their ground truth, and others of the kind are gone."""
    errors, labels = judged.errors, judged.rows.labels.copy()
    labels[right] = judged.rows.gt_labels[errors.targets[right]]
    rows = by_class(labels, judged.mended_order)
    counted = ((judged.counted & (errors.kinds != CLASSIFICATION)) | right)[rows]
    return State(rows, labels[rows], counted, (judged.hits | right)[rows], positives)


def _with_hits_first(judged: Judged, positives: Ints) -> State:
    order = judged.mended_order
    rows = by_class(judged.rows.labels, np.concatenate([order[judged.hits[order]], order[~judged.hits[order]]]))
    return State(rows, judged.rows.labels[rows], judged.counted[rows], judged.hits[rows], positives)
