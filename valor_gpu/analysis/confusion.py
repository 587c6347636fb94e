"""Which classes are detected as which: detections and ground truths matched whatever their classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from valor_gpu._frozen import frozen
from valor_gpu.analysis.matched import MatchedDetections
from valor_gpu.analysis.matching import match_rows
from valor_gpu.analysis.rows import Ints
from valor_gpu.checks import check_number
from valor_gpu.errors import InputError


@frozen
class ClassConfusion:
    """Counts of pairs of classes; K, one past the last class, stands for no object.

    Attributes:
        classes: names of K classes.
        truths: int64 ``[N]``: class of the ground truth, K for a detection without one.
        guesses: int64 ``[N]``: class of the detection, K for a ground truth that is missed.
        counts: int64 ``[N]``, all above 0; the cells come by truth, then by guess.
        iou: from which on a detection matches.
        score: below which detections are left out.
    """

    classes: list[str]
    truths: Ints
    guesses: Ints
    counts: Ints
    iou: float
    score: float


def class_confusion(analysis: MatchedDetections, iou: float = 0.5, score: float = 0.0) -> ClassConfusion:
    """Counts which classes are detected as which, what is detected where nothing is, and what is missed.

    Detections are matched by the rule of COCO as if all classes were one, by descending score in each image, so that a
    box of another class is a confusion. A detection that matches an ignored ground truth, such as a crowd, counts
    nowhere.

    Args:
        analysis: of a detection result.
        iou: threshold of a match, above 0.
        score: detections below it are left out.

    Raises:
        InputError: ``iou`` is out of range, or the result keeps no pairs of different classes.
    """
    check_number("iou", iou, 0, 1)
    if not iou:
        raise InputError(f"iou must be above 0 and at most 1 but got {iou}")
    rows = analysis.rows
    kept = rows.kept & (rows.scores >= score)
    labels, gt_labels = np.zeros_like(rows.labels), np.zeros_like(rows.gt_labels)
    pooled = replace(rows, classes=["all"], labels=labels, gt_labels=gt_labels, kept=kept)
    found = match_rows(pooled, analysis.pairs_from(iou), analysis.threshold_of(iou))
    assert found.partners is not None and found.found is not None
    missed = rows.gt_labels[rows.gt_counts & ~found.found]
    alone = rows.labels[found.false_positives]
    none = len(rows.classes)
    truths = np.concatenate([rows.gt_labels[found.partners[found.hits]], np.full(len(alone), none), missed])
    guesses = np.concatenate([rows.labels[found.hits], alone, np.full(len(missed), none)])
    cells, counts = np.unique(truths * (none + 1) + guesses, return_counts=True)
    return ClassConfusion(list(rows.classes), cells // (none + 1), cells % (none + 1), counts, iou, score)
