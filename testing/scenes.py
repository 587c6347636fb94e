"""Seeded random batches of boxes with what has changed results: ties, crowds, empty images, thresholds hit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from valor_gpu.ops.assign.match_batch import MatchBatch

COCO_AREAS = [[0, 1e10], [0, 1024], [1024, 9216], [9216, 1e10]]
COCO_THRESHOLDS = np.linspace(0.5, 0.95, 10)


@dataclass
class Scene:
    """Lists with one tensor per image; boxes float64 xywh."""

    boxes: list[torch.Tensor]
    scores: list[torch.Tensor]
    labels: list[torch.Tensor]
    gt_boxes: list[torch.Tensor]
    gt_labels: list[torch.Tensor]
    crowds: list[torch.Tensor]
    areas: list[torch.Tensor]

    def batch(self, **changes: object) -> MatchBatch:
        lengths = torch.tensor([[len(x) for x in self.labels], [len(x) for x in self.gt_labels]], dtype=torch.int64)
        fields = dict(
            boxes=self.boxes, scores=self.scores, labels=self.labels, gt_boxes=self.gt_boxes,
            gt_labels=self.gt_labels, lengths=lengths.reshape(2, -1), gt_flags=self.crowds,
            gt_areas=self.areas, box_format=1, gt_box_format=1,
        )  # fmt: skip
        return MatchBatch(**{**fields, **changes})  # type: ignore[arg-type]


def _boxes(rng: np.random.Generator, count: int, grid: float) -> np.ndarray:
    sizes = np.exp(rng.normal(3, 1.1, (count, 2))).clip(1, 200)
    return np.round(np.concatenate([rng.uniform(0, 200, (count, 2)), sizes], 1) / grid) * grid


def _detections(
    rng: np.random.Generator, gt_boxes: np.ndarray, labels: np.ndarray, count: int, classes: int, grid: float
):
    boxes, names = _boxes(rng, count, grid), rng.integers(0, classes, count)
    for i in range(count):
        if len(gt_boxes) and rng.random() < 0.75:
            j = rng.integers(len(gt_boxes))
            shift = rng.normal(size=4) * rng.choice([0, 0.02, 0.15, 0.5]) * np.tile(gt_boxes[j, 2:], 2)
            boxes[i] = np.round((gt_boxes[j] + shift) / grid) * grid
            boxes[i, 2:] = boxes[i, 2:].clip(grid)
            names[i] = labels[j] if rng.random() < 0.85 else names[i]
    scores = np.array([round(v, int(rng.choice([1, 2, 9]))) for v in rng.random(count)])
    return boxes, names, scores


def random_scene(
    rng: np.random.Generator, images: int = 6, classes: int = 4, most: int = 25, dtype=torch.float64
) -> Scene:
    """A batch of ``images`` images, some of them empty on one side or both."""
    scene = Scene([], [], [], [], [], [], [])
    grid = rng.choice([1.0, 0.5, 0.01])
    for _ in range(images):
        empty = rng.random() < 0.15
        num = 0 if empty else int(rng.integers(0, 12))
        gt_boxes, labels = _boxes(rng, num, grid), rng.integers(0, classes, num)
        found = 0 if empty and rng.random() < 0.5 else int(rng.integers(0, most))
        boxes, names, scores = _detections(rng, gt_boxes, labels, found, classes, grid)
        area = np.where(rng.random(num) < 0.7, gt_boxes[:, 2] * gt_boxes[:, 3], rng.choice([1024.0, 9216.0], num))
        scene.boxes.append(torch.tensor(boxes).to(dtype))
        scene.scores.append(torch.tensor(scores).to(dtype))
        scene.labels.append(torch.tensor(names))
        scene.gt_boxes.append(torch.tensor(gt_boxes).to(dtype))
        scene.gt_labels.append(torch.tensor(labels))
        scene.crowds.append(torch.tensor((rng.random(num) < 0.12).astype(np.int64)))
        scene.areas.append(torch.tensor(area))
    return scene
