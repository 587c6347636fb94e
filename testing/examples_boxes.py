"""Arguments of the op that stores the pairs of upright boxes, for testing/registry.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing import examples_rotated
from testing.datasets import BoxDataset
from testing.examples_rotated import Pairs
from valor_gpu.ops.native_types import BOX_FORMATS

XYXY, XYWH, CXCYWH = map(BOX_FORMATS.index, ("xyxy", "xywh", "cxcywh"))


def rows(count: int, seed: int, code: int = XYXY) -> Tensor:
    """float64 rows on a coarse grid: edges coincide, some are equal, some have no area or a negative size."""
    rng = np.random.default_rng([seed, count])
    x, y, w, h = np.round(rng.random((count, 4)) * [8, 8, 13, 13] - [0, 0, 1, 1]).T
    columns = {XYXY: (x, y, x + w, y + h), XYWH: (x, y, w, h), CXCYWH: (x + w / 2, y + h / 2, w, h)}[code]
    return torch.from_numpy(np.stack(columns, 1))


def examples(quick: bool) -> Iterator[Pairs]:
    """Arguments of ``box_pairs``."""
    return examples_rotated.pair_examples(quick, rows, (XYXY, XYWH, CXCYWH), 0.1)


def load(scene: BoxDataset) -> tuple[Any, ...]:
    """Every pair of boxes of the scene that overlap, whatever their labels."""
    smallest = float(np.nextafter(0.0, 1.0))
    return examples_rotated.scene_arguments(scene, Tensor.contiguous, XYXY, smallest, True)
