"""Valor's detection metrics from their written rules, in plain Python: one datum, one label, one threshold at a time.

Rules: docs/design/018-valor-detection.md. Nothing here ranks all thresholds at once, as the package does: a walk over
the detections is made anew for each IoU threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Row = tuple[int, int]  # datum, row in the datum


class Detection(NamedTuple):
    """A detection: its label, score, and IoU with every ground truth of its datum."""

    label: int
    score: float
    ious: tuple[float, ...]


@dataclass(frozen=True)
class Datum:
    """One image: its detections and the labels of its ground truths."""

    detections: tuple[Detection, ...]
    gt_labels: tuple[int, ...]


def box_iou(a: Sequence[float], b: Sequence[float]) -> float:
    """IoU of two xyxy boxes; 0 where one of them has no area."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return shared / (areas[0] + areas[1] - shared) if shared and min(areas) > 0 else 0.0


def datums_of(preds: Sequence[dict[str, Any]], target: Sequence[dict[str, Any]]) -> list[Datum]:
    """Datums of the arguments of ``update``, boxes in xyxy."""
    datums = []
    for found, true in zip(preds, target):
        gt_boxes = true["boxes"].double().reshape(-1, 4).tolist()
        rows = zip(found["labels"].tolist(), found["scores"].double().tolist(), found["boxes"].double().tolist())
        ious = [(label, score, tuple(box_iou(box, gt) for gt in gt_boxes)) for label, score, box in rows]
        datums.append(Datum(tuple(Detection(*row) for row in ious), tuple(true["labels"].tolist())))
    return datums


def best_ground_truth(detection: Detection, gt_labels: Sequence[int]) -> tuple[int, float]:
    """The ground truth of its label with the largest IoU above 0, of equal ones the earlier; -1 for none."""
    best, largest = -1, 0.0
    for gt, (label, iou) in enumerate(zip(gt_labels, detection.ious)):
        if label == detection.label and iou > largest:
            best, largest = gt, iou
    return best, largest


def true_positives(datums: Sequence[Datum], threshold: float) -> dict[Row, Row]:
    """Detection to ground truth, at one IoU threshold and every score."""
    found: dict[Row, Row] = {}
    for place, datum in enumerate(datums):
        best = [best_ground_truth(d, datum.gt_labels) for d in datum.detections]
        ranks = range(len(best))
        used: set[int] = set()
        for row in sorted(ranks, key=lambda row: (-datum.detections[row].score, -best[row][1])):
            gt, iou = best[row]
            if datum.detections[row].score > 0 and gt >= 0 and iou >= threshold and gt not in used:
                used.add(gt)
                found[place, row] = place, gt
    return found


def labels_of(datums: Sequence[Datum]) -> list[int]:
    """All labels of detections and ground truths, ascending."""
    return sorted({label for d in datums for label in (*d.gt_labels, *(row.label for row in d.detections))})


def num_ground_truths(datums: Sequence[Datum], label: int) -> int:
    return sum(datum.gt_labels.count(label) for datum in datums)


def average_precision(datums: Sequence[Datum], label: int, threshold: float) -> float:
    """Mean over recalls 0, 0.01, ..., 1 of the largest precision at that recall or more."""
    total = num_ground_truths(datums, label)
    if not total:
        return math.nan
    found = true_positives(datums, threshold)
    ranked = []
    for place, datum in enumerate(datums):
        for row, detection in enumerate(datum.detections):
            if detection.label == label:
                iou = best_ground_truth(detection, datum.gt_labels)[1]
                ranked.append((-detection.score, -iou, (place, row) not in found))
    points, hits = [], 0
    for rank, (_, _, missed) in enumerate(sorted(ranked), 1):
        hits += not missed
        points.append((hits / total, hits / rank))
    levels = [step / 100 for step in range(101)]
    reached = [[p for r, p in points if r >= level or math.isclose(r, level)] for level in levels]
    return sum(max(precisions, default=0.0) for precisions in reached) / 101


def outcomes(datums: Sequence[Datum], label: int, threshold: float, score: float) -> dict[str, list[Row]]:
    """Rows of every kind: of detections for tp and fp, of ground truths for fn."""
    found = {d: g for d, g in true_positives(datums, threshold).items() if datums[d[0]].detections[d[1]].score >= score}
    kinds: dict[str, list[Row]] = {name: [] for name in KINDS}
    for place, datum in enumerate(datums):
        qualified = [row for row, d in enumerate(datum.detections) if d.score >= score]
        for row in qualified:
            detection = datum.detections[row]
            reached = {name for name, iou in zip(datum.gt_labels, detection.ious) if iou >= threshold}
            if detection.label != label:
                continue
            if (place, row) in found:
                kinds["tp/all"].append((place, row))
            elif reached - {label}:
                kinds["fp/misclassifications"].append((place, row))
            elif label in reached:
                kinds["fp/duplicates"].append((place, row))
            else:
                kinds["fp/hallucinations"].append((place, row))
        for gt, name in enumerate(datum.gt_labels):
            if name != label or (place, gt) in found.values():
                continue
            others = [row for row in qualified if datum.detections[row].label != label]
            confused = any(datum.detections[row].ious[gt] >= threshold for row in others)
            kinds["fn/misclassifications" if confused else "fn/no_predictions"].append((place, gt))
    return kinds


KINDS = (
    "tp/all",
    "fp/hallucinations",
    "fp/misclassifications",
    "fp/duplicates",
    "fn/no_predictions",
    "fn/misclassifications",
)


def count(datums: Sequence[Datum], label: int, threshold: float, score: float) -> tuple[int, int, int]:
    """True positives, false positives and false negatives."""
    kinds = outcomes(datums, label, threshold, score)
    return tuple(  # type: ignore[return-value]
        sum(len(rows) for name, rows in kinds.items() if name.startswith(side)) for side in ("tp", "fp", "fn")
    )


def confusion(datums: Sequence[Datum], threshold: float, score: float) -> dict[str, list[tuple[int, int, int]]]:
    """Datum, ground truth and detection of pairs of any labels, -1 for none: pairs, what is left of either side."""
    pairs, extra, missed = [], [], []
    for place, datum in enumerate(datums):
        detections = datum.detections
        qualified = [row for row, d in enumerate(detections) if d.score >= score]
        every = [
            (-detections[row].score, -iou, gt, row)
            for row in qualified
            for gt, iou in enumerate(detections[row].ious)
            if iou >= threshold
        ]
        rows: set[int] = set()
        gts: set[int] = set()
        for _, _, gt, row in sorted(every):
            if row not in rows and gt not in gts:
                rows.add(row)
                gts.add(gt)
                pairs.append((place, gt, row))
        extra += [(place, -1, row) for row in qualified if row not in rows]
        missed += [(place, gt, -1) for gt in range(len(datum.gt_labels)) if gt not in gts]
    return {"pairs": pairs, "hallucinated": extra, "missed": missed}
