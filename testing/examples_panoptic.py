"""Panoptic segmentations made by hand, for the op that counts their segments, and predictions made from others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from testing.datasets import BoxDataset
from testing.examples_pixels import INTS

Arguments = tuple[Any, ...]
CATEGORIES = (0, 1, 17, 6, 7, 90)
"""Three things, then three kinds of stuff."""

THINGS = 3
UNKNOWN = 5


def scene_of(rng: np.random.Generator, height: int, width: int, shapes: int = 8) -> NDArray[np.int64]:
    """Category and instance ``[H, W, 2]``: bands of stuff and void, and rectangles of things upon them."""
    bands = np.sort(rng.integers(0, height + 1, 3))
    kinds = np.array([*CATEGORIES[THINGS:], UNKNOWN])
    scene = np.zeros((height, width, 2), np.int64)
    scene[..., 0] = rng.permutation(kinds)[np.searchsorted(bands, np.arange(height), "right")][:, None]
    scene[..., 1] = rng.integers(0, 3, (height, width))  # instances of stuff, which do not matter
    for number in range(shapes if height * width else 0):
        top, left = rng.integers(0, height), rng.integers(0, width)
        part = scene[top : top + rng.integers(1, height // 2 + 2), left : left + rng.integers(1, width // 2 + 2)]
        part[...] = rng.choice(CATEGORIES[:THINGS]), number - 3
    return scene


def predicted_from(rng: np.random.Generator, scene: NDArray[np.int64]) -> NDArray[np.int64]:
    """A prediction that merges, splits, shifts, recategorises and voids some segments of a scene."""
    preds = np.roll(scene, int(rng.integers(0, 3)), axis=int(rng.integers(0, 2)))
    rows, columns = np.indices(scene.shape[:2])
    for category, instance in np.unique(preds.reshape(-1, 2), axis=0):
        chosen = (preds[..., 0] == category) & (preds[..., 1] == instance)
        step = rng.integers(0, 7)
        if step == 0:
            preds[chosen, 1] += 1  # with the next one
        elif step == 1:
            preds[chosen & (columns % 7 < 3), 1] += 1000
        elif step == 2:
            preds[chosen, 0] = rng.choice(CATEGORIES)
        elif step == 3:
            preds[chosen & (rows % 5 < 3), 0] = UNKNOWN
        elif step == 4:
            preds[chosen, 1] = -(2**40) * (instance + 4)
    return preds


def batch_of(seed: int, images: int, height: int, width: int, shapes: int = 8) -> tuple[Tensor, Tensor]:
    """Predictions and ground truths int64 ``[B, H, W, 2]``."""
    rng = np.random.default_rng([seed, images, height, width])
    scenes = [scene_of(rng, height, width, shapes) for _ in range(images)]
    preds = [predicted_from(rng, scene) for scene in scenes]
    empty = torch.zeros((0, height, width, 2), dtype=torch.int64)
    return tuple(torch.from_numpy(np.stack(side)) if images else empty for side in (preds, scenes))  # type: ignore[return-value]


def narrow(side: Tensor, dtype: torch.dtype) -> Tensor:
    """The pixels in a narrow dtype, with instances that it holds."""
    low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, min(torch.iinfo(dtype).max, 2**40))
    instances = side[..., 1].abs() % 50 if low < 0 or high > 50 else side[..., 1] % 2
    categories = side[..., 0] % 2 if dtype == torch.bool else side[..., 0]
    return torch.stack([categories, instances], -1).to(dtype)


def panoptic_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``count_panoptic``."""
    choices = (CATEGORIES, THINGS)
    for images, height, width in ((1, 1, 1), (0, 3, 4), (2, 0, 5), (1, 1, 33), (3, 17, 31), (2, 40, 70)):
        batch = batch_of(1, images, height, width)
        for modified in (False, True):
            yield f"{images} of {height} x {width}, modified {modified}", (*batch, *choices, modified, True)
    for number, dtype in enumerate(INTS):
        preds, target = batch_of(2, 2, 12, 33)
        yield f"{dtype}", (narrow(preds, dtype), narrow(target, INTS[-1 - number]), *choices, False, True)
    preds, target = batch_of(3, 2, 20, 30)
    yield "unknown categories", (preds, target, *choices, False, False)
    yield "one dimension", (preds.flatten(1, 2), target.flatten(1, 2), *choices, False, True)
    yield "channels first", (preds.movedim(-1, 1).contiguous().movedim(1, -1), target, *choices, False, True)
    yield "transposed", (preds.transpose(1, 2), target.transpose(1, 2), *choices, True, True)
    yield "a part", (preds[:, 3:17, 5:29:2], target[:, 3:17, 5:29:2], *choices, False, True)
    yield "all void", (torch.full_like(preds, UNKNOWN), torch.full_like(target, 99), *choices, True, True)
    yield "void predicted", (torch.full_like(preds, UNKNOWN), target, *choices, False, True)
    yield "nothing but stuff", (preds, target, CATEGORIES, 0, False, True)
    yield "nothing but things", (preds, target, CATEGORIES, 6, True, True)
    huge = (-(2**63), 2**63 - 1, 17)
    large = torch.tensor(huge)[target[..., 0] % 3]
    yield "huge categories", (torch.stack([large, preds[..., 1]], -1), torch.stack([large, target[..., 1]], -1), huge,
                              2, False, False)  # fmt: skip
    pixels = torch.arange(2 * 60 * 90).reshape(2, 60, 90)
    alone = torch.stack([pixels % 2, pixels], -1)
    yield "every pixel a segment", (alone, alone.flip(1), (0, 1), 2, False, False)
    many = tuple(range(500))
    yield "many categories", (alone % 500, alone.flip(2) % 500, many, 250, True, False)
    if not quick:
        yield "large", (*batch_of(4, 3, 300, 400, 40), *choices, False, True)


def panoptic_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``count_panoptic``: 133 categories, 16 images of 480 x 640 for every 500, else one of 240 x 320."""
    frames = len(scene.image_ids) // 500
    preds, target = batch_of(5, 16, 480, 640, 20) if frames else batch_of(5, 1, 240, 320, 20)
    known = (*CATEGORIES[:THINGS], *range(1000, 1077), *CATEGORIES[THINGS:], *range(2000, 2050))
    return preds, target, known, 80, False, True
