"""Errors as the program tidecv 1.0.1 by Bolya et al. tells them apart and orders them."""

from __future__ import annotations

import numpy as np

from valor_gpu._frozen import replaced
from valor_gpu.analysis.matching import match_rows
from valor_gpu.analysis.rows import Bools, Ints, Pairs, Rows
from valor_gpu.analysis.tide_curves import Rule
from valor_gpu.analysis.tide_kinds import told_apart
from valor_gpu.analysis.tide_mend import Judged, descending, errors_first

_LIMIT = 100
"""Detections of an image, of all classes together."""

RULE = Rule(np.arange(101) / 100, 0.0, True)
"""Its recall samples are quotients: 35 / 100 is the number of a recall of 7 of 20, numpy.linspace has one above it."""


def judged_by_program(rows: Rows, pairs: Pairs, iou: float, background: float) -> Judged:
    """Returns the detections of the best ``_LIMIT`` scores of each image with their errors.

    Args:
        rows: detections and ground truths; ``kept`` and ``unmatched_ignored`` have no part.
        pairs: of any classes, from ``background`` on.
        iou: threshold of matching.
        background: threshold of background.
    """
    used = rows.gt_counts[pairs.ground_truths] & (pairs.ious >= background)
    counting = _earlier_first(_subset(pairs, used))
    kept = _within_limit(rows)
    hits, found = _matched(rows, counting, kept, iou)
    errors = told_apart(rows, counting, kept & ~hits, found, iou, background, True)
    counted = kept & ~_in_crowds(rows, pairs, kept & ~hits, iou)
    images = _in_file_order(rows)
    order = descending(rows.scores, images[kept[images]])
    return Judged(rows, kept, hits, counted, found, errors, order, errors_first(rows.scores, order, hits))


def _subset(pairs: Pairs, used: Bools) -> Pairs:
    counts = np.bincount(pairs.detections[used], minlength=len(pairs.counts))
    return Pairs(pairs.lowest, counts, pairs.ground_truths[used], pairs.ious[used])


def _earlier_first(pairs: Pairs) -> Pairs:
    """The pairs with runs of equal IoU of a detection turned: the earlier ground truth first."""
    new = np.ones(len(pairs.ious), np.bool_)
    new[1:] = (pairs.ious[1:] != pairs.ious[:-1]) | (pairs.detections[1:] != pairs.detections[:-1])
    if new.all():
        return pairs
    first = np.flatnonzero(new)
    sizes = np.diff(np.r_[first, len(new)])
    turned = np.repeat(2 * first + sizes - 1, sizes) - np.arange(len(new))
    return Pairs(pairs.lowest, pairs.counts, pairs.ground_truths[turned], pairs.ious)


def _within_limit(rows: Rows) -> Bools:
    """Bool ``[D]``: among the best of their image, of equal scores the first."""
    if rows.lengths[0].max(initial=0) <= _LIMIT:
        return np.ones(len(rows.scores), np.bool_)
    order = descending(rows.scores, np.arange(len(rows.scores)))
    order = order[np.argsort(rows.images[order], kind="stable")]
    first = rows.lengths[0].cumsum() - rows.lengths[0]
    kept = np.zeros(len(order), np.bool_)
    kept[order] = np.arange(len(order)) - first[rows.images[order]] < _LIMIT
    return kept


def _matched(rows: Rows, pairs: Pairs, kept: Bools, iou: float) -> tuple[Bools, Bools]:
    """Hits, and ground truths that have one; of ground truths with the same IoU the first is taken."""
    first = rows.lengths[1].cumsum() - rows.lengths[1]
    # The matcher takes the later of equals: it gets the ground truths of every image the other way round.
    turned = (2 * first + rows.lengths[1] - 1)[rows.gt_images] - np.arange(len(rows.gt_labels))
    reach = _subset(pairs, pairs.ious >= iou)
    opposite = replaced(
        rows, kept=kept, unmatched_ignored=np.zeros_like(kept), gt_labels=rows.gt_labels[turned],
        gt_flags=np.zeros_like(rows.gt_flags), free=None,
    )  # fmt: skip
    found = match_rows(opposite, Pairs(reach.lowest, reach.counts, turned[reach.ground_truths], reach.ious), iou)
    assert found.found is not None
    return found.hits, found.found[turned]


def _in_crowds(rows: Rows, pairs: Pairs, unmatched: Bools, iou: float) -> Bools:
    """Bool ``[D]``: unmatched detections that lie by more than ``iou`` in a region of their class that is ignored."""
    inside = ~rows.gt_counts[pairs.ground_truths] & (pairs.ious > iou)
    detections, regions = pairs.detections[inside], pairs.ground_truths[inside]
    ignored = np.zeros(len(unmatched), np.bool_)
    ignored[detections[rows.labels[detections] == rows.gt_labels[regions]]] = True
    return ignored & unmatched


def _in_file_order(rows: Rows) -> Ints:
    """int64 ``[D]``: rows of detections, image after image as the file of ground truths has them."""
    if rows.file_order is None:
        return np.arange(len(rows.scores))
    found: Ints = np.argsort(rows.file_order()[rows.images], kind="stable")
    return found
