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
    from valor_gpu.analysis.detection import DetectionAnalysis

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


def kinds_of(analysis: DetectionAnalysis, iou: float = 0.5, background: float = 0.1) -> ErrorKinds:
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
    return told_apart(analysis.rows, analysis.pairs, matching.false_positives, matching.found, iou, background, False)


def check_thresholds(analysis: DetectionAnalysis, iou: float, background: float) -> None:
    """Raises :class:`InputError` unless errors at these thresholds are known."""
    check_number("iou", iou, 0, 1)
    check_number("background", background, 0, 1)
    if not iou:
        raise InputError(f"iou must be above 0 and at most 1 but got {iou}")
    if not 0 < background < iou:
        raise InputError(f"background must be above 0 and below iou, which is {iou:g}, but got {background}")
    if background < analysis.pairs.lowest:
        raise InputError(f"background must be at least {analysis.pairs.lowest:g} but got {background}")


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
    used = pairs.ious >= background
    used &= errors[pairs.detections]
    used &= rows.gt_counts[pairs.ground_truths]
    detections, ground_truths, ious = pairs.detections[used], pairs.ground_truths[used], pairs.ious[used]
    own = rows.labels[detections] == rows.gt_labels[ground_truths]
    own_target, own_iou = _best(len(errors), detections[own], ground_truths[own], ious[own])
    other_target, other_iou = _best(len(errors), detections[~own], ground_truths[~own], ious[~own])
    localization = (own_iou >= background) & ((own_iou <= iou) if closed else (own_iou < iou))
    best = np.maximum(own_iou, other_iou)
    rules = [~errors, localization, other_iou >= iou, own_iou >= iou, best <= background]
    codes = [NO_ERROR, LOCALIZATION, CLASSIFICATION, DUPLICATE, BACKGROUND]
    kinds = np.select(rules, np.array(codes, np.int8), np.int8(BOTH)).astype(np.int8)
    by_own = (kinds == LOCALIZATION) | (kinds == DUPLICATE)
    targets = np.where(by_own, own_target, other_target)
    nowhere = (kinds == NO_ERROR) | (kinds == BACKGROUND)
    targets[nowhere] = -1
    target_ious = np.where(targets >= 0, np.where(by_own, own_iou, other_iou), np.nan)
    usable = np.zeros(len(found), np.bool_)
    usable[targets[(kinds == LOCALIZATION) | (kinds == CLASSIFICATION)]] = True
    usable &= rows.gt_counts & ~found
    return ErrorKinds(kinds, targets, target_ious, usable, rows.gt_counts & ~found & ~usable)


def _best(count: int, detections: Ints, ground_truths: Ints, ious: Floats) -> tuple[Ints, Floats]:
    """Ground truth and IoU of the first pair of each detection; -1 and 0 without a pair."""
    first = np.ones(len(detections), np.bool_)
    first[1:] = detections[1:] != detections[:-1]
    target, best = np.full(count, -1), np.zeros(count)
    target[detections[first]], best[detections[first]] = ground_truths[first], ious[first]
    return target, best
