"""What Valor's server and valor_core count otherwise in curves of detections, bugs included.

The server keeps one pair of each detection: with the ground truth of its label of the largest IoU where the datum has
one of that label, else with that of the largest IoU of all of the key.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from valor_gpu.ops.overlaps.op import Overlaps, Ranked
from valor_gpu.reduce.overlap_counts import found_scores, largest_scores, same_labels, true_positives
from valor_gpu.reduce.overlap_kinds import Kind, exact_kinds, of_detections, of_missed


def server_kinds(overlaps: Overlaps, ranked: Ranked, iou: float) -> dict[str, Kind]:
    """Kinds of the server 0.33: duplicates are misclassifications, and only the kept pair of a detection counts."""
    hits, has_own = true_positives(ranked, overlaps.scores, iou), _first_own(overlaps) >= 0
    overlapping = torch.where(has_own, ranked.ious, ranked.others) >= iou
    rows = overlaps.detections()
    first = torch.ones_like(rows, dtype=torch.bool)
    first[1:] = rows[1:] != rows[:-1]  # pairs of a detection go by IoU descending
    confused = largest_scores(overlaps, first & ~has_own[rows] & (overlaps.ious >= iou))
    return {
        "tp/all": of_detections(overlaps, hits),
        "fp/hallucinations": of_detections(overlaps, ~hits & ~overlapping),
        "fp/misclassifications": of_detections(overlaps, ~hits & overlapping),
        **of_missed(overlaps, found_scores(ranked, overlaps, iou), confused),
    }


def server_curve(overlaps: Overlaps, ranked: Ranked, iou: float) -> dict[str, Kind]:
    """Positives of the server 0.33: pairs below the threshold and detections without a pair, but no duplicates.

    A detection without a pair counts twice where its label has a ground truth on another datum.
    """
    alone = _first_own(overlaps) < 0
    return {
        "tp/all": of_detections(overlaps, true_positives(ranked, overlaps.scores, iou)),
        "fp/alone": of_detections(overlaps, alone),
        "fp/again": of_detections(overlaps, alone & torch.isin(overlaps.labels, overlaps.gt_labels)),
        "fp/low": of_detections(overlaps, ~alone & (ranked.ious < iou)),
    }


def core_kinds(overlaps: Overlaps, ranked: Ranked, iou: float) -> dict[str, Kind]:
    """Kinds of valor_core 0.33.9.

    Every detection that reaches the threshold is a true positive, also of a ground truth that is taken, and may be a
    misclassification as well. Without any true positive at all nothing is a false negative.
    """
    reaching, same = overlaps.ious >= iou, same_labels(overlaps)
    hits, confusing = ranked.ious >= iou, ranked.others >= iou
    found, confused = (largest_scores(overlaps, reaching & pairs) for pairs in (same, ~same))
    missed = of_missed(overlaps, found, confused)
    if not bool((hits & (overlaps.scores >= 0.05)).any()):
        missed = {name: Kind(*(column[:0] for column in kind)) for name, kind in missed.items()}
    return {
        "tp/all": of_detections(overlaps, hits),
        "fp/misclassifications": of_detections(overlaps, confusing),
        "fp/hallucinations": of_detections(overlaps, ~hits & ~confusing),
        **missed,
    }


def core_curve(overlaps: Overlaps, ranked: Ranked, iou: float) -> dict[str, Kind]:
    """Positives of valor_core 0.33.9: a ground truth is found by the first of its detections or by none.

    A detection that overlaps no ground truth of its label is one of the first of these on its datum.
    """
    owner = torch.where(ranked.best >= 0, ranked.best, _first_own(overlaps))
    order = torch.arange(len(owner), device=owner.device)
    for key in (-ranked.ious, -overlaps.scores, owner):  # stable sorts, from the least key to the first
        order = order[torch.sort(key[order], stable=True).indices]
    sorted_owner, first = owner[order], torch.ones_like(owner, dtype=torch.bool)
    first[order[1:]] = sorted_owner[1:] != sorted_owner[:-1]
    hits = first & (ranked.ious >= iou)
    return {"tp/all": of_detections(overlaps, hits), "fp/all": of_detections(overlaps, ~hits)}


def _first_own(overlaps: Overlaps) -> Tensor:
    """int64 ``[D]``, the first ground truth of the datum and label of each detection; -1 for none."""
    if not len(overlaps.gt_labels):
        return torch.full_like(overlaps.labels, -1)
    size = int(torch.cat((overlaps.labels, overlaps.gt_labels)).max()) + 1
    datums, gt_datums = overlaps.datums()
    codes, order = torch.sort(gt_datums * size + overlaps.gt_labels, stable=True)
    wanted = datums * size + overlaps.labels
    place = torch.searchsorted(codes, wanted).clamp_(max=len(codes) - 1)
    return torch.where(codes[place] == wanted, order[place], -1)


_Find = Callable[[Overlaps, Ranked, float], dict[str, Kind]]

CURVES: dict[str, _Find] = {"exact": exact_kinds, "api": server_curve, "core": core_curve}
KINDS: dict[str, _Find] = {"exact": exact_kinds, "api": server_kinds, "core": core_kinds}
