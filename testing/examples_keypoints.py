"""Arguments of the ops of keypoints, for testing/registry.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing import formats
from testing.datasets import BoxDataset
from testing.examples_rotated import defined as defined_pairs
from valor_gpu.ops.keypoints.cpu import COCO_SIGMAS

Named = tuple[str, tuple[Any, ...]]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def rows(count: int, keypoints: int, seed: int, spread: float = 60.0) -> Tensor:
    """float64 ``[count, keypoints, 3]``: people near one another, one in five without visible keypoints."""
    rng = np.random.default_rng([seed, count, keypoints])
    points = np.round(rng.random((count, 1, 2)) * spread + rng.normal(0, 8, (count, keypoints, 2)), 1)
    seen = rng.integers(0, 3, (count, keypoints, 1)) * (rng.random((count, 1, 1)) < 0.8)
    return torch.from_numpy(np.concatenate((points, seen), 2))


def boxes_of(points: Tensor) -> Tensor:
    """xywh of the extent of each row."""
    if not len(points):
        return torch.zeros(0, 4, dtype=torch.float64)
    low, high = points.double()[:, :, :2].amin(1), points.double()[:, :, :2].amax(1)
    return torch.cat((low, high - low), 1)


def sigmas_of(keypoints: int) -> list[float]:
    """COCO's, or as many others."""
    return list(COCO_SIGMAS) if keypoints == 17 else np.linspace(0.02, 0.2, keypoints).tolist()


def _sides(n: int, m: int, keypoints: int, dtype: torch.dtype = torch.float64, boxes: bool = True) -> tuple[Any, ...]:
    points, gts = rows(n, keypoints, 1).to(dtype), rows(m, keypoints, 2).to(dtype)
    if n and m:
        points[0] = gts[0]
    areas = boxes_of(gts)[:, 2:].prod(1) * 0.6 + 1
    return points, gts, boxes_of(gts) if boxes else None, areas, sigmas_of(keypoints)


def similarity_examples(quick: bool) -> Iterator[Named]:
    """Arguments of ``keypoint_similarity``."""
    for keypoints in (1, 2, 7, 8, 17, 133, 294, 1000):
        yield f"{keypoints} keypoints", _sides(4, 5, keypoints)
    for dtype in FLOATS:
        yield f"{dtype}", _sides(9, 7, 17, dtype, boxes=False)
    for n, m in ((0, 0), (0, 3), (3, 0), (1, 33 if quick else 300)):
        yield f"{n} and {m}", _sides(n, m, 3)


def pair_arguments(
    sizes: list[tuple[int, int]], keypoints: int = 17, lowest: float = 0.5, dtype: torch.dtype = torch.float64,
    boxes: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    """Arguments of ``keypoint_pairs`` for images of so many detections and ground truths."""
    lengths = torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    n, m = (int(total) for total in lengths.sum(1))
    rng = np.random.default_rng([n, m])
    labels, gt_labels, flags = (torch.from_numpy(rng.integers(0, 3, count)) for count in (n, m, m))
    given = _sides(n, m, keypoints, dtype, boxes)
    return *given, [labels], [gt_labels], [flags // 2], lengths, None, None, lowest, False, True


def pair_examples(quick: bool) -> Iterator[Named]:
    """Arguments of ``keypoint_pairs``."""
    sizes = [(n, m) for n in (0, 1, 5, 33) for m in (0, 1, 33, 4)]
    yield "COCO", pair_arguments(sizes[: 8 if quick else 16])
    for dtype in FLOATS:
        yield f"{dtype}", pair_arguments([(9, 7), (0, 3)], dtype=dtype, boxes=False)
    yield "every pair", pair_arguments([(9, 7), (5, 40)], 5, lowest=0.0)
    yield "no image", pair_arguments([])
    yield "294 keypoints", pair_arguments([(2, 3), (3, 2)], 294, lowest=0.0)
    padded = list(pair_arguments([(9, 7)] * 3, 133))
    padded[9:11] = torch.tensor([9, 0, 4]), torch.tensor([3, 7, 0])
    yield "padded", tuple(padded)


def defined(result: Any) -> tuple[Tensor, ...]:
    """The outputs of ``keypoint_pairs`` without the unused part of rooms, whose sizes differ between devices."""
    *pairs, flags = result
    return *defined_pairs(pairs), flags


def _people(boxes: Tensor) -> Tensor:
    """17 keypoints in each xyxy box, all visible."""
    places = torch.from_numpy(np.random.default_rng(5).random((17, 2)))
    low, high = boxes.double()[:, None, :2], boxes.double()[:, None, 2:]
    points = low + places * (high - low)
    return torch.cat((points, torch.full_like(points[:, :, :1], 2)), 2)


def similarity_load(scene: BoxDataset) -> tuple[Any, ...]:
    """2,000 detections and 300 ground truths, whatever their images."""
    whole = formats.columns(scene)
    points, gts = _people(whole.boxes[:2000]), _people(whole.gt_boxes[:300])
    return points, gts, None, boxes_of(gts)[:, 2:].prod(1) + 1, list(COCO_SIGMAS)


def pair_load(scene: BoxDataset) -> tuple[Any, ...]:
    """A person in every box of the scene."""
    whole = formats.columns(scene)
    gt_rows, detections = (np.diff(ends) for ends in formats.row_ends(scene))
    lengths = torch.from_numpy(np.stack([detections, gt_rows]))
    gts = _people(whole.gt_boxes)
    given = (_people(whole.boxes), gts, None, boxes_of(gts)[:, 2:].prod(1) + 1, list(COCO_SIGMAS))
    columns = [whole.labels], [whole.gt_labels], [whole.crowd.to(torch.uint8)]
    return *given, *columns, lengths, None, None, 0.5, False, True
