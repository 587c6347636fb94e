"""Matching of stored pairs at one IoU threshold by COCO's rule, with the matcher that every metric uses."""

from __future__ import annotations

import numpy as np

from valor_gpu import native
from valor_gpu.analysis.rows import CROWD, ID_ZERO, IGNORED, Matching, Pairs, Rows
from valor_gpu.ops.assign.match_batch import FREE, UNMATCHED_IGNORED, WANT_MATCHES, MatchBatch, MatchRule
from valor_gpu.ops.assign.match_batch import Pairs as StoredPairs

_EVERY_AREA = [[0.0, 1.0]]


def match_rows(rows: Rows, pairs: Pairs, iou: float) -> Matching:
    """Matches detections to ground truths of their class at one IoU threshold.

    Detections of an (image, class) cell are taken by descending score, equal ones as they came.

    Args:
        rows: detections and ground truths.
        pairs: of any classes; those whose IoU is below ``iou`` are not looked at.
        iou: at least ``pairs.lowest``, above 0.
    """
    near = np.flatnonzero(pairs.ious >= min(iou, 1 - 1e-10))
    detections, stored, overlaps = pairs.detections[near], pairs.ground_truths[near], pairs.ious[near]
    same = (rows.labels[detections] == rows.gt_labels[stored]) & rows.kept[detections]
    detections, stored, overlaps = detections[same], stored[same], overlaps[same]
    counts = np.bincount(detections, minlength=len(rows.labels))
    first = rows.lengths[1].cumsum() - rows.lengths[1]
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    places = _assigned(rows, StoredPairs(
        offsets, counts.astype(np.int32), (stored - first[rows.gt_images[stored]]).astype(np.int32), overlaps,
    ), iou)  # fmt: skip
    takers = np.flatnonzero(places >= 0)
    taken = places[takers] + first[rows.images[takers]]
    hidden, counting = (rows.gt_flags[taken] & ID_ZERO) != 0, rows.gt_counts[taken]
    ignored, hits = rows.unmatched_ignored.copy(), np.zeros(len(rows.labels), np.bool_)
    ignored[takers] = ~counting | (hidden & ignored[takers])
    hits[takers] = counting & ~hidden
    partners = np.full(len(hits), -1)
    partners[takers] = np.where(hits[takers], taken, -1)
    own = partners[detections] == stored
    ious = np.full(len(hits), np.nan)
    ious[detections[own]] = overlaps[own]
    found = np.zeros(len(rows.gt_flags), np.bool_)
    found[partners[hits]] = True
    return Matching(rows, iou, hits, rows.kept & ~hits & ~ignored, partners, ious, found)


def _assigned(rows: Rows, pairs: StoredPairs, iou: float) -> np.ndarray:
    """int64 ``[D]``: the ground truth of each detection by its place in the image, -1 for none."""
    limit = int(rows.lengths[0].max(initial=1))
    rule = MatchRule.make([iou], _EVERY_AREA, [limit], WANT_MATCHES)
    free = np.uint8(0) if rows.free is None else rows.free.astype(np.uint8) * np.uint8(FREE)
    zeros, gt_zeros = np.zeros(len(rows.labels)), np.zeros(len(rows.gt_labels))
    batch = MatchBatch(
        rows.lengths,
        scores=[rows.scores], labels=[rows.labels], areas=[zeros],
        flags=[rows.unmatched_ignored.astype(np.uint8) * np.uint8(UNMATCHED_IGNORED) | free],
        gt_labels=[rows.gt_labels], gt_flags=[rows.gt_flags & np.uint8(CROWD | IGNORED)], gt_areas=[gt_zeros],
        gt_own_areas=[gt_zeros], pairs=pairs,
    )  # fmt: skip
    if native.usable("valor_cpu"):
        from valor_gpu.ops.assign.cpu import assign

        return np.asarray(assign(batch, rule).matches)[:, 0].astype(np.int64)
    from valor_gpu.analysis._matching_torch import assigned

    return assigned(batch, rule)
