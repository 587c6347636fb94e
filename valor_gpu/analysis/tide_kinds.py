"""Kinds of errors of detections: TIDE, Bolya et al. 2020 (ECCV, arXiv 2008.08115)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.analysis.rows import Bools, Floats, Ints, Pairs, Rows
from valor_gpu.checks import check_number
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.analysis.matched import MatchedDetections

DETECTION_KINDS = ("classification", "localization", "both", "duplicate", "background")
"""Names of the kinds of false positives, by their code."""

CLASSIFICATION, LOCALIZATION, BOTH, DUPLICATE, BACKGROUND = range(5)
NO_ERROR = -1


@frozen
class ErrorKinds:
    """Errors of the detections and ground truths of an analysis.

    Attributes:
        kinds: int8 ``[D]``: the place in ``DETECTION_KINDS`` of each false positive, ``NO_ERROR`` of others.
        targets: int64 ``[D]``: the ground truth that decided the kind, a row among all: of the own class for
            localization and duplicate, of another class for classification and both; -1 of background and of no error.
        ious: float64 ``[D]``: IoU with the target; NaN without a target.
        usable: bool ``[G]``: ground truths that count, have no hit and are the target of a classification or
            localization error.
        missed: bool ``[G]``: ground truths that count, have no hit and are not usable.
    """

    kinds: NDArray[np.int8]
    targets: Ints
    ious: Floats
    usable: Bools
    missed: Bools


def kinds_of(analysis: MatchedDetections, iou: float = 0.5, background: float = 0.1) -> ErrorKinds:
    """Returns the kind of each false positive and the missed ground truths of the protocol ``coco``.

    The first rule that holds decides, with the best IoU among the ground truths that count:

    - localization: with the own class at least ``background`` and below ``iou``
    - classification: with another class at least ``iou``
    - duplicate: with the own class at least ``iou``
    - background: with every class at most ``background``
    - both: the rest

    Args:
        analysis: of a detection result.
        iou: from which on a detection matches a ground truth; above 0, at most 1.
        background: above 0, below ``iou``.

    Raises:
        InputError: a threshold is out of range, or the result knows no pairs from ``background`` on.
    """
    check_thresholds(analysis, iou, background)
    matching = analysis.matching(iou)
    assert matching.found is not None
    iou = matching.iou
    return told_apart(analysis.rows, analysis.pairs, matching.false_positives, matching.found, iou, background, False)


def check_thresholds(analysis: MatchedDetections, iou: float, background: float) -> None:
    """Raises :class:`InputError` unless errors at these thresholds are known; has their pairs found."""
    check_number("iou", iou, 0, 1)
    check_number("background", background, 0, 1)
    if not iou:
        raise InputError(f"iou must be above 0 and at most 1 but got {iou}")
    if not 0 < background < iou:
        raise InputError(f"background must be above 0 and below iou, which is {iou:g}, but got {background}")
    analysis.pairs_from(background)


def told_apart(
    rows: Rows, pairs: Pairs, errors: Bools, found: Bools, iou: float, background: float, closed: bool
) -> ErrorKinds:
    """Returns the kinds of the detections in ``errors``.

    Args:
        rows: detections and ground truths.
        pairs: of which the first of each detection, among those of the same IoU, decides.
        errors: bool ``[D]``, detections to tell apart.
        found: bool ``[G]``, ground truths with a hit.
        iou: threshold of matching.
        background: threshold of background.
        closed: whether an IoU of exactly ``iou`` with the own class is localization, not duplicate.
    """
    about, (target, own), (aside, other) = _best_of_both(rows, pairs, errors, background)
    rules = {
        LOCALIZATION: (own >= background) & ((own <= iou) if closed else (own < iou)),
        CLASSIFICATION: other >= iou,
        DUPLICATE: own >= iou,
        BACKGROUND: np.maximum(own, other) <= background,
    }
    found_kinds = np.select(list(rules.values()), [np.int8(code) for code in rules], np.int8(BOTH))
    by_own = (found_kinds == LOCALIZATION) | (found_kinds == DUPLICATE)
    somewhere = found_kinds != BACKGROUND
    kinds = np.where(errors, np.int8(BACKGROUND), np.int8(NO_ERROR))
    targets, target_ious = np.full(len(errors), -1), np.full(len(errors), np.nan)
    kinds[about] = found_kinds
    targets[about] = np.where(somewhere, np.where(by_own, target, aside), -1)
    target_ious[about] = np.where(somewhere, np.where(by_own, own, other), np.nan)
    usable = np.zeros(len(found), np.bool_)
    usable[targets[(kinds == LOCALIZATION) | (kinds == CLASSIFICATION)]] = True
    usable &= rows.gt_counts & ~found
    return ErrorKinds(kinds, targets, target_ious, usable, rows.gt_counts & ~found & ~usable)


def _best_of_both(
    rows: Rows, pairs: Pairs, errors: Bools, background: float
) -> tuple[Ints, tuple[Ints, Floats], tuple[Ints, Floats]]:
    """Errors that overlap a ground truth by ``background``, and the best of their own class and of others."""
    near = np.flatnonzero(pairs.ious >= background)
    detections, ground_truths = pairs.detections[near], pairs.ground_truths[near]
    used = errors[detections] & rows.gt_counts[ground_truths]
    detections, ground_truths, ious = detections[used], ground_truths[used], pairs.ious[near[used]]
    same = rows.labels[detections] == rows.gt_labels[ground_truths]
    starts = _starts(detections)
    about = detections[starts]
    places = np.repeat(np.arange(len(about)), np.diff(np.r_[starts, len(detections)]))
    own = _best(len(about), places[same], ground_truths[same], ious[same])
    return about, own, _best(len(about), places[~same], ground_truths[~same], ious[~same])


def _starts(values: Ints) -> Ints:
    """int64: where each run of equal values begins."""
    first = np.ones(len(values), np.bool_)
    first[1:] = values[1:] != values[:-1]
    return np.flatnonzero(first)


def _best(count: int, places: Ints, ground_truths: Ints, ious: Floats) -> tuple[Ints, Floats]:
    """Ground truth and IoU of the first pair of each place; -1 and 0 without a pair."""
    starts = _starts(places)
    target, best = np.full(count, -1), np.zeros(count)
    target[places[starts]], best[places[starts]] = ground_truths[starts], ious[starts]
    return target, best
