"""Batches of stored pairs for tests: random similarity tables full of ties, and the tables of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.ops.assign.match_batch import AGNOSTIC, CROWD, USER_INPUT, MatchBatch, MatchRule, Pairs

Array = NDArray[Any]


def pairs_of(
    tables: Sequence[Array], labels: Sequence[Array], gt_labels: Sequence[Array], rule: MatchRule, room: int = 0
) -> Pairs:
    """The pairs of similarity tables, one table for each image.

    Args:
        tables: float64 ``[D_i, G_i]``.
        labels: ``[D_i]``.
        gt_labels: ``[G_i]``.
        rule: whose lowest threshold pairs must reach, and whether classes are one.
        room: unused entries, with values that must not be read, in the room of each detection.
    """
    lowest, counts, positions, similarities = rule.thresholds.min(), [], [], []
    for table, found, gt in zip(tables, labels, gt_labels):
        for row, label in zip(table, found):
            keep = (row >= lowest) & ((gt == label) | bool(rule.options & AGNOSTIC))
            (kept,) = np.nonzero(keep)
            order = kept[np.lexsort((-kept, -row[kept]))]
            counts.append(len(order))
            positions.append(np.concatenate([order, np.full(room, -7)]))
            similarities.append(np.concatenate([row[order], np.full(room, np.nan)]))
    none = [np.zeros(0)]
    return Pairs(
        np.concatenate([[0], np.cumsum(np.array(counts, np.int64) + room)]).astype(np.int64),
        np.array(counts, np.int32),
        np.concatenate(none + positions).astype(np.int32),
        np.concatenate(none + similarities),
    )


def random_pairs(
    rng: np.random.Generator, rule: MatchRule, images: int = 6, classes: int = 3, most: int = 25, room: int = 0
) -> MatchBatch:
    """A batch of random tables, as numpy arrays: similarities of few values, every flag, empty images.

    With ``USER_INPUT`` ground truths have crowd flags alone and some areas that are not positive.
    """
    sizes = [rng.integers(0, most, images) * (rng.random(images) < 0.85), rng.integers(0, 12, images)]
    detections, ground_truths = (int(side.sum()) for side in sizes)
    levels = int(rng.choice([4, 10, 20]))
    tables = [rng.integers(0, levels + 1, (d, g)) / levels for d, g in zip(*sizes)]
    labels = [rng.integers(0, classes, size) for size in sizes[0]]
    gt_labels = [rng.integers(0, classes, size) for size in sizes[1]]
    user = bool(rule.options & USER_INPUT)
    some_areas = np.array([-1.0, 0.0, 50.0, 1024.0, 5000.0, 9216.0, 1e5])
    return MatchBatch(
        np.stack(sizes).astype(np.int64),
        scores=[rng.choice([0.0, 0.25, 0.5, 0.75, 0.9], detections)],
        labels=[_whole(labels)],
        areas=[rng.choice(some_areas, detections)],
        flags=[rng.integers(0, 4, detections).astype(np.uint8) * np.uint8(rng.random() < 0.7)],
        hashes=[rng.integers(-(2**63), 2**63 - 1, detections)],
        gt_labels=[_whole(gt_labels)],
        gt_flags=[rng.integers(0, 2 if user else 8, ground_truths) * (rng.random(ground_truths) < 0.4)],
        gt_areas=[rng.choice(some_areas, ground_truths)] if rng.random() < 0.7 else [],
        gt_own_areas=[rng.choice(some_areas, ground_truths)],
        gt_hashes=[rng.integers(-(2**63), 2**63 - 1, ground_truths)],
        image_ids=[np.arange(images)] if rng.random() < 0.5 else [],
        pairs=pairs_of(tables, labels, gt_labels, rule, room),
    )


def _whole(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


def box_table(boxes: Array, gt_boxes: Array, crowd: Array) -> Array:
    """float64 ``[D, G]`` IoU of xywh boxes, step by step as csrc/core/boxes.h; over the detection's area for crowds."""
    x, y, w, h = (boxes[:, None, i] for i in range(4))
    gx, gy, gw, gh = (gt_boxes[None, :, i] for i in range(4))
    width = np.minimum(w + x, gw + gx) - np.maximum(x, gx)
    height = np.minimum(h + y, gh + gy) - np.maximum(y, gy)
    with np.errstate(divide="ignore", invalid="ignore"):
        intersection = width * height
        area = w * h
        iou = intersection / np.where(crowd, area, area + gw * gh - intersection)
    return np.where((width <= 0) | (height <= 0), 0.0, iou)


def stored(batch: MatchBatch, rule: MatchRule, room: int = 0) -> MatchBatch:
    """A batch of float64 xywh boxes as stored pairs, without hashes; numpy arrays in and out."""
    lengths = batch.lengths
    cuts = [np.cumsum(side)[:-1] for side in lengths]

    def split(name: str, side: int, width: int = 1) -> list[Array]:
        parts = [np.asarray(part).reshape((-1, width) if width > 1 else -1) for part in getattr(batch, name)]
        whole = np.concatenate([np.zeros((0, width) if width > 1 else 0), *parts])
        return np.split(whole, cuts[side])

    boxes, gt_boxes = split("boxes", 0, 4), split("gt_boxes", 1, 4)
    none = [np.zeros(len(part)) for part in gt_boxes]
    crowds = [part.astype(int) & CROWD != 0 for part in (split("gt_flags", 1) if batch.gt_flags else none)]
    tables = [box_table(*image) for image in zip(boxes, gt_boxes, crowds)]
    areas, own = (np.concatenate([np.zeros(0), *(b[:, 2] * b[:, 3] for b in side)]) for side in (boxes, gt_boxes))
    return replace(
        batch,
        boxes=[],
        gt_boxes=[],
        areas=batch.areas or [areas],
        gt_own_areas=[own],
        pairs=pairs_of(tables, split("labels", 0), split("gt_labels", 1), rule, room),
    )


def converted(batch: MatchBatch, convert: Any) -> MatchBatch:
    """The batch with ``convert`` applied to every array."""

    def there(value: Any) -> Any:
        if isinstance(value, Pairs):
            return Pairs(*(convert(getattr(value, f.name)) for f in fields(Pairs)))
        if isinstance(value, list):
            return [convert(part) for part in value]
        return value if value is None or isinstance(value, int) else convert(value)

    return MatchBatch(**{f.name: there(getattr(batch, f.name)) for f in fields(MatchBatch)})


def to_tensors(batch: MatchBatch) -> MatchBatch:
    """The batch as CPU tensors, which share memory with its arrays."""
    return converted(batch, torch.from_numpy)


def to_arrays(batch: MatchBatch) -> MatchBatch:
    """The batch as numpy arrays, which share memory with its CPU tensors."""
    return converted(batch, torch.Tensor.numpy)
