"""Arguments of the ops of rotated boxes, for testing/registry.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing import formats
from testing.datasets import BoxDataset
from valor_gpu.ops.pairs.cpu import Found
from valor_gpu.ops.rotated.cpu import CORNERS, DEGREES, DEGREES_CLOCKWISE, RADIANS, RADIANS_CLOCKWISE

Pairs = tuple[str, tuple[Any, ...]]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def corners(rows: Tensor) -> Tensor:
    """Rows of degrees counterclockwise as corners, float64 ``[N, 8]``, by torch's sine and cosine."""
    x, y, w, h, angle = rows.double().unbind(1)
    c, s = torch.cos(torch.deg2rad(angle)), torch.sin(torch.deg2rad(angle))
    out = []
    for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        out += [x + a * w / 2 * c + b * h / 2 * s, y - a * w / 2 * s + b * h / 2 * c]
    return torch.stack(out, 1)


def rows(count: int, seed: int, code: int = DEGREES, spread: float = 20.0) -> Tensor:
    """float64 rows on a coarse grid: edges coincide, some are aligned, some have no area."""
    rng = np.random.default_rng([seed, count])
    box = np.round(rng.random((count, 5)) * [spread, spread, 12, 12, 0])
    box[:, 4] = rng.choice([0, 30, 45, 90, -135, 17.3, 1e-9], count)
    return corners(torch.from_numpy(box)) if code == CORNERS else torch.from_numpy(box)


def iou_examples(quick: bool) -> Iterator[Pairs]:
    """Arguments of ``rotated_iou``."""
    for code in (CORNERS, DEGREES, DEGREES_CLOCKWISE, RADIANS, RADIANS_CLOCKWISE):
        yield f"format {code}", (rows(33, 1, code), rows(31, 2, code), torch.arange(31) % 3 == 0, code)
    for dtype in FLOATS:
        yield f"{dtype}", (rows(31, 3).to(dtype), rows(33, 4).to(dtype), None, DEGREES)
    for n, m in ((0, 0), (0, 3), (3, 0), (1, 1), (1, 1000 if quick else 5000)):
        yield f"{n} and {m}", (rows(n, 5), rows(m, 6), None, DEGREES)


MakeRows = Callable[[int, int, int], Tensor]
"""Makes so many rows, of a seed and a format."""


def pair_arguments(
    sizes: list[tuple[int, int]], code: int = DEGREES, lowest: float = 0.5, dtype: torch.dtype = torch.float64,
    make: MakeRows = rows,
) -> tuple[Any, ...]:  # fmt: skip
    """Arguments of ``rotated_pairs``, or ``box_pairs``, for images of so many detections and ground truths."""
    lengths = torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    n, m = (int(total) for total in lengths.sum(1))
    rng = np.random.default_rng([n, m])
    labels, gt_labels, flags = (torch.from_numpy(rng.integers(0, 3, count)) for count in (n, m, m))
    boxes = [make(count, seed, code).to(dtype) for seed, count in ((7, n), (8, m))]
    return [boxes[0]], [labels], [boxes[1]], [gt_labels], [flags // 2], lengths, None, None, code, code, lowest, False


def pair_examples(
    quick: bool,
    make: MakeRows = rows,
    codes: Sequence[int] = (DEGREES, CORNERS, RADIANS_CLOCKWISE),
    least: float = 0.5,
) -> Iterator[Pairs]:
    """Arguments of ``rotated_pairs``, or ``box_pairs``."""
    sizes = [(n, m) for n in (0, 1, 31, 33) for m in (0, 1, 31, 33)]
    usual = codes[0]
    for code in codes:
        yield f"format {code}", pair_arguments(sizes[: 8 if quick else 16], code, least, make=make)
    for dtype in FLOATS:
        yield f"{dtype}", pair_arguments([(9, 7), (0, 3)], usual, least, dtype, make)
    yield "every pair", pair_arguments([(9, 7), (5, 40)], usual, lowest=0.0, make=make)
    yield "no image", pair_arguments([], usual, least, make=make)
    padded = list(pair_arguments([(9, 7)] * 3, usual, least, make=make))
    padded[6:8] = torch.tensor([9, 0, 4]), torch.tensor([3, 7, 0])
    yield "padded", tuple(padded)


def defined(result: Any) -> tuple[Tensor, ...]:
    """The outputs of an op that finds pairs without the unused part of rooms, whose sizes differ between devices."""
    found = Found(*result)
    first, counts = found.offsets[:-1], found.counts.long()
    place = torch.arange(len(found.similarities), device=counts.device)
    row = torch.searchsorted(found.offsets, place, right=True) - 1
    used = place - first[row] < counts[row] if len(first) else place < 0
    return found.counts, found.ground_truths[used], found.similarities[used], *found[4:]


def _turned(boxes: Tensor) -> Tensor:
    """xyxy boxes as cxcywha with an angle of their own."""
    wide = boxes.double()
    size = wide[:, 2:] - wide[:, :2]
    angle = torch.arange(len(boxes)) * 37.0 % 360
    return torch.cat((wide[:, :2] + size / 2, size, angle[:, None]), 1).to(boxes.dtype)


def iou_load(scene: BoxDataset) -> tuple[Any, ...]:
    """2,000 detections and 1,000 ground truths, whatever their images."""
    whole = formats.columns(scene)
    return _turned(whole.boxes[:2000]), _turned(whole.gt_boxes[:1000]), None, DEGREES


def pair_load(scene: BoxDataset) -> tuple[Any, ...]:
    """Every box of the scene, turned."""
    return scene_arguments(scene, _turned, DEGREES, 0.5, False)


def scene_arguments(
    scene: BoxDataset, change: Callable[[Tensor], Tensor], code: int, lowest: float, agnostic: bool
) -> tuple[Any, ...]:
    """Every box of the scene, after a change, with its label and crowd."""
    whole = formats.columns(scene)
    gt_rows, rows = (np.diff(ends) for ends in formats.row_ends(scene))
    lengths = torch.from_numpy(np.stack([rows, gt_rows]))
    boxes, gt_boxes = [change(whole.boxes)], [change(whole.gt_boxes)]
    labels, gt_labels, crowd = [whole.labels], [whole.gt_labels], [whole.crowd]
    return boxes, labels, gt_boxes, gt_labels, crowd, lengths, None, None, code, code, lowest, agnostic
