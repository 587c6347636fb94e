"""Label maps and masks for the op that measures distances between boundaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing.datasets import BoxDataset
from testing.examples_pixels import labels_of, maps_load

Arguments = tuple[Any, ...]
SHAPES = ((1, 1), (1, 40), (40, 1), (2, 2), (23, 34), (33, 64), (5, 129), (1, 9, 11), (7, 1, 10), (4, 9, 33))
SPACINGS = (0.3, 0.7, 1.0, 2.5, 1e3)


def side_of(rng: np.random.Generator, images: int, size: tuple[int, ...], classes: int) -> Tensor:
    """Labels or masks: regions, specks, noise, all and nothing."""
    shape, kind = (images, *size), int(rng.integers(5))
    if kind == 0:
        return labels_of(rng, shape, classes, 9, torch.int32)
    if kind == 1:
        return torch.from_numpy(rng.integers(-1, classes + 1, shape).astype(np.int32))
    if kind == 2:
        return torch.where(torch.from_numpy(rng.random(shape) < 0.03), labels_of(rng, shape, classes), -1).int()
    masks = torch.from_numpy(rng.random((images, classes, *size)) < rng.choice([0, 0.01, 0.3, 0.9, 1]))
    if kind == 4 and masks.numel():
        masks[..., : size[-1] // 2] = True
    return masks


def arguments(rng: np.random.Generator, size: tuple[int, ...], unit: bool) -> Arguments:
    """Arguments of the op for two images of this size."""
    classes = int(rng.integers(1, 4))
    spacing = [1.0] * len(size) if unit else rng.choice(SPACINGS, len(size)).tolist()
    rule = [int(rng.integers(3)), int(rng.integers(classes)), classes]
    numbers = [*spacing, float(rng.choice([0, 0.3, 0.5, 0.95, 1])), float(rng.choice([0, 1, 2.5]))]
    return side_of(rng, 2, size, classes), side_of(rng, 2, size, classes), rule, numbers


def examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``surface_distances``."""
    rng = np.random.default_rng(15)
    for size in SHAPES:
        for unit in (True, False):
            yield f"{size}, spacing {'of 1' if unit else 'given'}", arguments(rng, size, unit)
    for metric in range(3):
        for size in ((30, 41), (6, 20, 17)):
            sides = [labels_of(rng, (2, *size), 3, 9, torch.int32) for _ in range(2)]
            yield f"metric {metric} of {size}", (*sides, [metric, 0, 3], [*[1.0] * len(size), 0.95, 1.5])
    maps = labels_of(rng, (0, 4, 5), 3, 9, torch.int32)
    yield "no image", (maps, maps, [0, 0, 3], [1.0, 1.0, 0.95, 0.0])
    noise, corner = torch.from_numpy(rng.random((1, 1, 40, 150)) < 0.5), torch.zeros(1, 1, 40, 150, dtype=torch.bool)
    corner[..., -1, -1] = True
    yield "noise and a far pixel", (noise, corner, [0, 0, 1], [1.0, 1.0, 0.95, 0.0])
    if not quick:
        big = [labels_of(rng, (1, 120, 250), 19, 60, torch.int32) for _ in range(2)]
        yield "large", (*big, [0, 0, 19], [1.0, 1.0, 0.95, 2.0])


def load(scene: BoxDataset) -> Arguments:
    """Label maps of 19 classes, as for the op that counts pixels."""
    preds, target = maps_load(scene)
    return preds.int(), target.int(), [0, 0, 19], [1.0, 1.0, 0.95, 2.0]
