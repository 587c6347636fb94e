"""Arguments of the op ``box_iou``, for testing/registry.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing import formats
from testing.datasets import BoxDataset
from valor_gpu.ops.native_types import BOX_FORMATS

Arguments = tuple[Any, ...]
SIZES = (0, 1, 31, 33)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _grid_boxes(rng: np.random.Generator, count: int) -> Tensor:
    """float64 xyxy on a coarse grid: edges and IoUs coincide, some boxes are empty or inverted."""
    corner, size = rng.integers(0, 40, (count, 2)), rng.integers(-1, 12, (count, 2))
    return torch.from_numpy(np.concatenate([corner, corner + size], 1) / 2)


def _iou_arguments(
    sizes: list[tuple[int, int]], dtypes: tuple[torch.dtype, torch.dtype], box_format: str = "xyxy", crowd: bool = True
) -> Arguments:
    rng = np.random.default_rng(len(sizes))
    lengths = np.array(sizes, np.int64).reshape(-1, 2)
    ends = np.cumsum([np.zeros(3, np.int64), *(np.array([n, m, n * m]) for n, m in lengths)], axis=0).T
    rows, columns = ends[:2, -1]
    return (
        _grid_boxes(rng, int(rows)).to(dtypes[0]),
        _grid_boxes(rng, int(columns)).to(dtypes[1]),
        torch.from_numpy(np.ascontiguousarray(ends)),
        torch.from_numpy(rng.random(int(columns)) < 0.3) if crowd else None,
        BOX_FORMATS.index(box_format),
    )


def examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``box_iou``."""
    sizes = [(n, m) for n in SIZES for m in SIZES]
    for dtype in FLOATS:
        yield (f"{dtype}", _iou_arguments(sizes, (dtype, dtype)))
    for box_format in BOX_FORMATS:
        yield (box_format, _iou_arguments(sizes, (torch.float32, torch.float16), box_format, crowd=False))
    yield ("no segment", _iou_arguments([], (torch.float32, torch.float32)))
    huge = [(0, 3), (1, 1000), (1000, 33), (1000 if quick else 3000, 1000)]
    yield ("one huge segment", _iou_arguments(huge, (torch.float32, torch.float64)))


def load(scene: BoxDataset) -> Arguments:
    """All pairs of boxes of the images of ``scene``."""
    whole = formats.columns(scene)
    gt_rows, rows = (np.diff(ends) for ends in formats.row_ends(scene))
    ends = [np.cumsum([0, *counts]) for counts in (rows, gt_rows, rows * gt_rows)]
    return whole.boxes, whole.gt_boxes, torch.from_numpy(np.stack(ends)), whole.crowd.bool(), 0
