"""Seeded masks for tests and benchmarks: shapes that are dense, sparse, full, empty, thin or made by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHAPES = ((1, 1), (1, 9), (9, 1), (7, 5), (8, 8), (3, 64), (64, 3), (65, 33), (17, 130), (48, 64))


def random_mask(rng: np.random.Generator, height: int, width: int) -> NDArray[np.uint8]:
    """One mask of a random kind, 0 and 1."""
    mask = np.zeros((height, width), np.uint8)
    kind = rng.integers(7)
    if kind == 0:
        mask[:] = rng.integers(2)
    elif kind == 1:
        mask[rng.integers(height), rng.integers(width)] = 1
    elif kind == 2:
        mask[:] = rng.random((height, width)) < rng.random()
    elif kind == 3:  # whole columns or rows
        (mask if rng.integers(2) else mask.T)[rng.integers(min(height, width)) :: 3] = 1
    else:  # ellipses that overlap or leave the image
        y, x = np.mgrid[:height, :width]
        for _ in range(int(rng.integers(1, 4))):
            centre, radius = rng.random(2) * (height, width), 0.5 + rng.random(2) * (height, width) / 2
            mask |= ((y - centre[0]) / radius[0]) ** 2 + ((x - centre[1]) / radius[1]) ** 2 < 1
    return mask


def random_counts(rng: np.random.Generator, pixels: int) -> list[int]:
    """Runs that add up to ``pixels``, some of them 0 long where no encoder would write one."""
    cuts = np.sort(rng.integers(0, pixels + 1, int(rng.integers(0, 12))))
    return np.diff([0, *cuts, pixels]).tolist()
