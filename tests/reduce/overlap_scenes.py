"""Random overlaps with ties, and plain counts and curves of them by the rules of Valor."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from valor_gpu.ops.overlaps.op import Overlaps

KINDS = (
    "tp", "fp", "fn", "ground_truths", "hallucinations", "misclassifications", "duplicates", "fn_misclassifications",
    "no_predictions",
)  # fmt: skip


@dataclass
class Scene:
    """A datum: labels and scores of detections, labels of ground truths, and their IoUs ``[D, G]``."""

    labels: list[int]
    scores: list[float]
    gt_labels: list[int]
    ious: Any


def random_scenes(seed: int, datums: int = 12, labels: int = 3) -> list[Scene]:
    """Few different scores and IoUs, some scores of 0 and less, datums without one side."""
    rng = np.random.default_rng(seed)
    scenes = []
    for _ in range(datums):
        found, true = int(rng.integers(0, 7)), int(rng.integers(0, 5))
        scores = rng.choice([-0.5, 0.0, 0.25, 0.5, 0.75, 0.8, 1.0], found).tolist()
        ious = rng.choice([0.0, 0.0, 0.2, 0.5, 0.6, 0.75, 0.9, 1.0], (found, true))
        scenes.append(
            Scene(rng.integers(0, labels, found).tolist(), scores, rng.integers(0, labels, true).tolist(), ious)
        )
    return scenes


def overlaps_of(scenes: Sequence[Scene]) -> Overlaps:
    """Pairs of a detection by IoU descending, of equal ones the later ground truth first."""
    counts, ground_truths, ious, first = [], [], [], 0
    for scene in scenes:
        for row in range(len(scene.labels)):
            pairs = sorted(
                (-float(scene.ious[row][g]), -g) for g in range(len(scene.gt_labels)) if scene.ious[row][g] > 0
            )
            counts.append(len(pairs))
            ious += [-iou for iou, _ in pairs]
            ground_truths += [first - g for _, g in pairs]
        first += len(scene.gt_labels)
    sizes = [[len(s.labels) for s in scenes], [len(s.gt_labels) for s in scenes]]
    return Overlaps(
        torch.tensor(sizes, dtype=torch.int64),
        torch.tensor([x for s in scenes for x in s.labels], dtype=torch.int64),
        torch.tensor([x for s in scenes for x in s.scores], dtype=torch.float64),
        torch.tensor([x for s in scenes for x in s.gt_labels], dtype=torch.int64),
        torch.tensor(counts, dtype=torch.int64),
        torch.tensor(ground_truths, dtype=torch.int64),
        torch.tensor(ious, dtype=torch.float64),
    )


@dataclass
class Detection:
    """A detection at one IoU threshold: what it found, or what it is instead."""

    label: int
    score: float
    iou: float
    other: float
    kind: str
    ground_truth: int = -1


def walk(scene: Scene, threshold: float) -> list[Detection]:
    """Detections in order; each looks at its best ground truth alone, and takes it if nobody has."""
    rows = []
    for row, (label, score) in enumerate(zip(scene.labels, scene.scores)):
        same = [(scene.ious[row][g], -g) for g, name in enumerate(scene.gt_labels) if name == label]
        other = [scene.ious[row][g] for g, name in enumerate(scene.gt_labels) if name != label]
        best, place = max((pair for pair in same if pair[0] > 0), default=(0.0, 1))
        rows.append((-score, -best, row, label, -place, max(other, default=0.0)))
    taken: set[int] = set()
    found = []
    for score, iou, _, label, ground_truth, other in sorted(rows):
        hit = score < 0 and -iou >= threshold and ground_truth not in taken
        taken |= {ground_truth} if hit else set()
        wrong = "misclassifications" if other >= threshold else "duplicates" if -iou >= threshold else "hallucinations"
        found.append(Detection(label, -score, -iou, other, "tp" if hit else wrong, ground_truth if hit else -1))
    return found


def plain_counts(scenes: Sequence[Scene], label: int, threshold: float, least: float, duplicates: bool) -> Counter[str]:
    """Counts of one cell by the names of ``OutcomeCounts``."""
    counts: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    for scene in scenes:
        found = [d for d in walk(scene, threshold) if d.score >= least]
        for detection in (d for d in found if d.label == label):
            kind = detection.kind if duplicates or detection.kind != "duplicates" else "hallucinations"
            counts.update([kind] if kind == "tp" else [kind, "fp"])
        for place, name in enumerate(scene.gt_labels):
            if name != label:
                continue
            counts["ground_truths"] += 1
            if any(d.ground_truth == place for d in found):
                continue
            columns = zip(scene.labels, scene.scores, scene.ious)
            confused = any(x != label and s >= least and ious[place] >= threshold for x, s, ious in columns)
            counts.update(["fn", "fn_misclassifications" if confused else "no_predictions"])
    return counts


def plain_curve(scenes: Sequence[Scene], label: int, threshold: float, order: str) -> tuple[list[float], list[float]]:
    """Precision and score at the recalls 0, 0.01, ..., 1; NaN precisions without ground truths."""
    found = [d for scene in scenes for d in walk(scene, threshold) if d.label == label]
    positives = sum(scene.gt_labels.count(label) for scene in scenes)

    def key(d: Detection) -> tuple[float, float, bool]:
        return -d.score, -(d.other if order == "lite" and d.iou == 0 else d.iou), d.kind != "tp"

    points, true = [], 0
    for rank, detection in enumerate(sorted(found, key=key), 1):
        true += detection.kind == "tp"
        if detection.kind == "tp":
            points.append((true / positives, true / rank, detection.score))
    top = max([d.score for d in found] + [0.0])
    reached = [[p for p in points if reaches(p[0], place, order)] for place in range(101)]
    precisions = [max((p[1] for p in some), default=0.0) if positives else math.nan for some in reached]
    scores = [max((p[2] for p in some), default=0.0) for some in reached]
    return precisions, [top, *scores[1:]]


def reaches(recall: float, place: int, order: str) -> bool:
    """Whether a recall reaches ``place / 100``."""
    if order == "lite":
        return math.floor(recall * 100) >= place
    return recall >= place / 100 or math.isclose(recall, place / 100, rel_tol=1e-9)


def mean(values: Iterable[float]) -> float:
    """Mean; NaN of none."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
