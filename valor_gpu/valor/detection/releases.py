"""What Valor's server and valor_core count otherwise in curves of detections, bugs included.

The server keeps one pair of each detection: with the ground truth of its label of the largest IoU where the datum has
one of that label, else with that of the largest IoU of all of the key.
"""

from __future__ import annotations

import numpy as np

from valor_gpu.valor.detection.kinds import Kind, OverlapTable, exact_kinds


def server_kinds(table: OverlapTable, iou: float) -> list[Kind]:
    """Kinds of the server 0.33: duplicates are misclassifications, and only the kept pair of a detection counts."""
    hits = table.hits(iou)
    overlapping = np.where(table.has_own, table.ious, table.others) >= iou
    found = np.full(len(table.gt_labels), -np.inf)
    found[table.best[hits]] = table.scores[hits]
    rows = table.pair_detections
    first = np.diff(rows, prepend=-1) > 0  # pairs of a detection go by IoU descending
    confused = table.largest(first & ~table.has_own[rows] & (table.pair_ious >= iou))
    return [
        table.detections("tp", "all", hits),
        table.detections("fp", "hallucinations", ~hits & ~overlapping),
        table.detections("fp", "misclassifications", ~hits & overlapping),
        *table.missed(found, confused),
    ]


def server_curve(table: OverlapTable, iou: float) -> list[Kind]:
    """Positives of the server 0.33: pairs below the threshold and detections without a pair, but no duplicates.

    A detection without a pair counts twice where its label has a ground truth on another datum.
    """
    alone = ~table.has_own
    return [
        table.detections("tp", "all", table.hits(iou)),
        table.detections("fp", "alone", alone),
        table.detections("fp", "again", alone & np.isin(table.labels, table.gt_labels)),
        table.detections("fp", "low", table.has_own & (table.ious < iou)),
    ]


def core_kinds(table: OverlapTable, iou: float) -> list[Kind]:
    """Kinds of valor_core 0.33.9.

    Every detection that reaches the threshold is a true positive, also of a ground truth that is taken, and may be a
    misclassification as well. Without any true positive at all nothing is a false negative.
    """
    reaching = table.pair_ious >= iou
    hits = table.ious >= iou
    confusing = table.others >= iou
    found = table.largest(reaching & table.same_label)
    missed = table.missed(found, table.largest(reaching & ~table.same_label))
    if not np.any(hits & (table.scores >= 0.05)):
        missed = [kind.of_label(-1) for kind in missed]
    return [
        table.detections("tp", "all", hits),
        table.detections("fp", "misclassifications", confusing),
        table.detections("fp", "hallucinations", ~hits & ~confusing),
        *missed,
    ]


def core_curve(table: OverlapTable, iou: float) -> list[Kind]:
    """Positives of valor_core 0.33.9: a ground truth is found by the first of its detections or by none.

    A detection that overlaps no ground truth of its label is one of the first of these on its datum.
    """
    owner = np.where(table.best >= 0, table.best, table.first_own)
    order = np.lexsort((-table.ious, -table.scores, owner))
    first = np.zeros(len(order), np.bool_)
    first[order] = np.diff(owner[order], prepend=-2) > 0
    hits = first & (table.ious >= iou)
    return [table.detections("tp", "all", hits), table.detections("fp", "all", ~hits)]


CURVES = {"exact": exact_kinds, "api": server_curve, "core": core_curve}
KINDS = {"exact": exact_kinds, "api": server_kinds, "core": core_kinds}
