"""Open Images' average precision from its written definition, in plain Python: one image, one class, one box at a time.

Source: https://storage.googleapis.com/openimages/web/evaluation.html#object_detection_eval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Box = tuple[float, ...]


def intersection(a: Box, b: Box) -> float:
    """Area that two xyxy boxes share."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(width, 0) * max(height, 0)


def area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def iou(a: Box, b: Box) -> float:
    shared = intersection(a, b)
    return shared / (area(a) + area(b) - shared) if shared else 0.0


def inside(detection: Box, group: Box) -> float:
    """The fraction of the detection that lies in the group."""
    shared = intersection(detection, group)
    return shared / area(detection) if shared else 0.0


def ancestors(parents: Mapping[int, Sequence[int]], label: int) -> set[int]:
    above = set(parents.get(label, ()))
    return above.union(*(ancestors(parents, parent) for parent in above))


def judge(
    detections: Sequence[Box], singles: Sequence[Box], groups: Sequence[Box], threshold: float, weight: int
) -> list[str]:
    """``true``, ``false`` or ``ignored`` for detections of one class in one image, by descending score."""
    verdicts = []
    held: set[int] = set()
    entered: set[int] = set()
    for box in detections:
        overlaps = [iou(box, single) for single in singles]
        best = overlaps.index(max(overlaps)) if overlaps else -1
        if best >= 0 and overlaps[best] >= threshold and best not in held:
            held.add(best)
            verdicts.append("true")
            continue
        shares = [inside(box, group) for group in groups]
        best = shares.index(max(shares)) if shares else -1
        if best < 0 or shares[best] < threshold:
            verdicts.append("false")
        else:
            verdicts.append("ignored" if best in entered or weight == 0 else "true")
            entered.add(best)
    return verdicts


def area_under_curve(verdicts: Sequence[str], positives: int) -> float:
    """Area under precision, made not to rise with recall, as VOC 2010 computes it."""
    counting = [verdict == "true" for verdict in verdicts if verdict != "ignored"]
    hits = [sum(counting[: i + 1]) for i in range(len(counting))]
    recall = [0.0, *(h / positives for h in hits), 1.0]
    precision = [0.0, *(h / (i + 1) for i, h in enumerate(hits)), 0.0]
    for i in range(len(precision) - 2, -1, -1):
        precision[i] = max(precision[i], precision[i + 1])
    return sum((recall[i] - recall[i - 1]) * precision[i] for i in range(1, len(recall)))


@dataclass
class Answer:
    """AP by (threshold, class) for classes with ground truth, and counts."""

    precision: dict[tuple[float, int], float] = field(default_factory=dict)
    unverified: int = 0
    ignored: dict[float, int] = field(default_factory=dict)


def evaluate(
    preds: Sequence[Mapping[str, Any]],
    target: Sequence[Mapping[str, Any]],
    parents: Mapping[int, Sequence[int]],
    thresholds: Sequence[float],
    weight: int,
    expand: bool,
) -> Answer:
    """Evaluates lists of dicts; images must have ids, boxes are xyxy."""
    answer = Answer(ignored=dict.fromkeys(thresholds, 0))
    ranked: dict[tuple[float, int], list[tuple[float, int, int, str]]] = {}
    positives: dict[int, int] = {}
    for pred, true in sorted(zip(preds, target), key=lambda pair: int(pair[1]["image_id"])):
        singles, groups = _ground_truths(true, parents)
        verified = _verified(true, {*singles, *groups}, parents)
        for label, boxes in singles.items():
            positives[label] = positives.get(label, 0) + len(boxes)
        for label, boxes in groups.items():
            positives[label] = positives.get(label, 0) + weight * len(boxes)
        found, unverified = _found(pred, parents if expand else {}, verified)
        answer.unverified += unverified
        for label, rows in found.items():
            rows.sort(key=lambda row: row[:2])
            for t in thresholds:
                boxes = [row[2] for row in rows]
                verdicts = judge(boxes, singles.get(label, ()), groups.get(label, ()), t, weight)
                answer.ignored[t] += verdicts.count("ignored")
                entries = ((row[0], int(true["image_id"]), row[1], verdict) for row, verdict in zip(rows, verdicts))
                ranked.setdefault((t, label), []).extend(entries)
    for label, count in positives.items():
        for t in thresholds:
            verdicts = [row[3] for row in sorted(ranked.get((t, label), ()))]
            if count:
                answer.precision[t, label] = area_under_curve(verdicts, count)
    return answer


def _found(
    pred: Mapping[str, Any], parents: Mapping[int, Sequence[int]], verified: Any
) -> tuple[dict[int, list[tuple[float, int, Box]]], int]:
    """(-score, index, box) by class, and how many detections nobody verified the class of."""
    found: dict[int, list[tuple[float, int, Box]]] = {}
    unverified = 0
    for i, (box, score, label) in enumerate(zip(*(pred[key].tolist() for key in ("boxes", "scores", "labels")))):
        for name in (label, *sorted(ancestors(parents, label))):
            if verified is None or verified(name):
                found.setdefault(name, []).append((-score, i, tuple(box)))
            else:
                unverified += 1
    return found, unverified


def _ground_truths(
    true: Mapping[str, Any], parents: Mapping[int, Sequence[int]]
) -> tuple[dict[int, list[Box]], dict[int, list[Box]]]:
    """Boxes by class, ancestors included: those of one object, and groups."""
    singles: dict[int, list[Box]] = {}
    groups: dict[int, list[Box]] = {}
    for box, label, group in zip(*(true[key].tolist() for key in ("boxes", "labels", "is_group_of"))):
        for name in (label, *sorted(ancestors(parents, label))):
            (groups if group else singles).setdefault(name, []).append(tuple(box))
    return singles, groups


def _verified(true: Mapping[str, Any], boxed: set[int], parents: Mapping[int, Sequence[int]]) -> Any:
    """Whether somebody looked for a class in the image; None if the image does not say."""
    if "positive_labels" not in true and "negative_labels" not in true:
        return None
    there = set(boxed)
    for label in true["positive_labels"].tolist() if "positive_labels" in true else ():
        there |= {label, *ancestors(parents, label)}
    missing = set(true["negative_labels"].tolist() if "negative_labels" in true else ())
    return lambda label: label in there or bool(({label} | ancestors(parents, label)) & missing)
