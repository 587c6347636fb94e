"""Images with boxes, rotated boxes, masks and keypoints for the rows of detection in tests/contract.py."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing.scenes import Scene, random_scene

Batch = tuple[Any, ...]

AP_CHOICES: dict[str, dict[str, Any]] = {
    "plain": {},
    "arrival": {"tie_order": "arrival"},
    "errors": {"errors": True},
    "pooled-extended": {"average": "micro", "class_metrics": True, "extended_summary": True},
}


LOW = np.linspace(0.3, 0.75, 10).tolist()
SHAPE_CHOICES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "masks": ({"iou_type": ("bbox", "segm"), **AP_CHOICES["pooled-extended"]}, {"iou_thresholds": LOW}),
    "masks-errors": ({"iou_type": ("bbox", "segm"), "errors": True}, {"iou_thresholds": LOW}),
    "boundary": ({"iou_type": "boundary"}, {"iou_type": "segm"}),
    "polygon": ({"iou_type": "polygon", **AP_CHOICES["pooled-extended"]}, {"iou_thresholds": LOW}),
    "keypoints": ({"iou_type": "keypoints", "sigmas": (0.2, 0.3, 0.1)}, {"sigmas": (0.2, 0.3, 0.2)}),
}


@functools.cache
def _scene(seed: int, images: int) -> Scene:
    """Shared by all batches of a number: that no metric writes to its inputs is a check of its own."""
    return random_scene(np.random.default_rng([seed, 5]), images=images, most=12)


def boxes_batch(seed: int, images: int = 4, ids: bool = False) -> Batch:
    """Images with tied scores; with ids, batches of different numbers share no id."""
    scene = _scene(seed, images)
    preds = [
        dict(boxes=b, scores=(s * 4).round() / 4, labels=k) for b, s, k in zip(scene.boxes, scene.scores, scene.labels)
    ]
    truths = zip(scene.gt_boxes, scene.gt_labels, scene.crowds, scene.areas)
    target = [dict(boxes=b, labels=k, iscrowd=c, area=a) for b, k, c, a in truths]
    if ids:
        target = [dict(item, image_id=1000 * seed + i) for i, item in enumerate(target)]
    return preds, target


def turned(batch: Batch) -> Batch:
    """The same images with xywh boxes of any size as cxcywha in degrees."""

    def turned(boxes: Tensor) -> Tensor:
        size, angle = boxes[:, 2:].double().abs(), torch.arange(len(boxes)) * 20.0 % 90
        return torch.cat((boxes[:, :2] + size / 2, size, angle[:, None]), 1)

    return tuple([dict(item, boxes=turned(item["boxes"].reshape(-1, 4))) for item in side] for side in batch)


def turned_batch(seed: int, images: int = 4) -> Batch:
    return turned(boxes_batch(seed, images, ids=True))


_HEXAGON = torch.tensor([[0.0, 0.3], [0.5, 0.0], [1.0, 0.3], [1.0, 0.8], [0.4, 1.0], [0.0, 0.8]], dtype=torch.float64)


def drawn(batch: Batch) -> Batch:
    """The same images with a mask in each box, on a canvas of 40 x 50 pixels, a hexagon, and three keypoints."""
    rows, columns = torch.arange(40)[:, None], torch.arange(50)

    def drawn(item: dict[str, Any]) -> dict[str, Any]:
        boxes = item["boxes"].reshape(-1, 4).double()
        x, y, w, h = (side[:, None, None] / 4 for side in boxes.abs().unbind(1))
        masks = (columns >= x) & (columns <= x + w) & (rows >= y) & (rows <= y + h)
        points = torch.stack([boxes[:, :2] + part * boxes[:, 2:] for part in (0.0, 0.4, 1.0)], 1)
        points = torch.cat((points, torch.full_like(points[..., :1], 2)), 2)
        polygons = [[[hexagon]] for hexagon in (boxes[:, None, :2] + _HEXAGON * boxes[:, None, 2:]).tolist()]
        areas = {"area": item["area"].abs() + 1} if "area" in item else {}
        return {**item, "masks": masks, "polygons": polygons, "keypoints": points, **areas}

    return tuple([drawn(item) for item in side] for side in batch)


def drawn_batch(seed: int, images: int = 4) -> Batch:
    return drawn(boxes_batch(seed, images, ids=True))


def bad_boxes() -> Batch:
    preds, target = boxes_batch(3)
    return [*preds[:-1], dict(preds[-1], scores=preds[-1]["scores"] * math.nan)], target


PAIR_CHOICES: dict[str, dict[str, Any]] = {
    "IntersectionOverUnion": {"class_metrics": True},
    "GeneralizedIntersectionOverUnion": {},
    "DistanceIntersectionOverUnion": {"respect_labels": False},
    "CompleteIntersectionOverUnion": {"class_metrics": True},
}
"""Arguments of the metrics of pairs of boxes."""


def infinite_boxes() -> Batch:
    preds, target = boxes_batch(3)
    return [*preds[:-1], dict(preds[-1], boxes=preds[-1]["boxes"] * math.inf)], target


def open_images_batch(seed: int, images: int = 4) -> Batch:
    """Images with groups, one class whose parent is another, and some classes that nobody looked for."""
    preds, target = boxes_batch(seed, images, ids=True)
    keys = ("boxes", "labels", "image_id")
    changed = [dict({key: item[key] for key in keys}, is_group_of=item["iscrowd"]) for item in target]
    return preds, [dict(item, negative_labels=torch.tensor([1])) if i % 2 else item for i, item in enumerate(changed)]


def bad_groups() -> Batch:
    preds, target = open_images_batch(3)
    return preds, [dict(item, is_group_of=item["is_group_of"] + 2) for item in target]
