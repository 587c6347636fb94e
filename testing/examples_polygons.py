"""Arguments of the op of polygons, for testing/registry.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing.datasets import BoxDataset
from valor_gpu.ops.polygons.cpu import RULES, Polygons, ends_of, rooms_of

Named = tuple[str, tuple[Any, ...]]


def arguments(rings: list[list[Any]], sizes: list[tuple[int, int]], rule: int) -> tuple[Any, ...]:
    """Arguments of ``rasterise`` for the rings, each ``[n, 2]``, of masks."""
    parts = [np.asarray(ring, np.float64).reshape(-1, 2) for mask in rings for ring in mask]
    polygons = Polygons(
        np.concatenate([*parts, np.zeros((0, 2))]), ends_of([len(part) for part in parts]),
        ends_of([len(mask) for mask in rings]), np.array(sizes, np.int32).reshape(-1, 2),
    )  # fmt: skip
    firsts = ends_of(rooms_of(polygons, rule, 1))
    return *(torch.from_numpy(part) for part in (*polygons, firsts)), int(firsts[-1]), rule


def random_rings(rng: np.random.Generator, count: int, height: int, width: int) -> list[Any]:
    """Rings in and around a mask, on a grid of half pixels, of fifths, or none."""
    found = []
    for _ in range(count):
        ring = rng.uniform(-0.4, 1.4, (int(rng.integers(3, 14)), 2)) * [width, height]
        step = (0.0, 0.5, 0.2)[rng.integers(3)]
        found.append(np.round(ring / step) * step if step else ring)
    return found


def masks(seed: int, counts: list[int], size: tuple[int, int]) -> tuple[list[Any], list[tuple[int, int]]]:
    """Masks of one size with so many rings."""
    rng = np.random.default_rng([seed, *size])
    return [random_rings(rng, count, *size) for count in counts], [size] * len(counts)


def examples(quick: bool) -> Iterator[Named]:
    """Arguments of ``rasterise``."""
    counts = [1, 2, 0, 5, 1, 1]
    for rule, name in enumerate(RULES):
        for size in ((1, 1), (7, 5), (33, 31), (0, 4), (4, 0)):
            yield f"{name}, {size[0]} x {size[1]}", arguments(*masks(1, counts, size), rule)
        yield f"{name}, no mask", arguments([], [], rule)
        yield f"{name}, long edges", arguments(*masks(2, [1, 3], (40, 300 if quick else 1000)), rule)
        yield f"{name}, many crossings", arguments(*masks(3, [40, 1], (30, 200)), rule)


def load(scene: BoxDataset) -> tuple[Any, ...]:
    """A star of 24 vertices in every ground truth box of the scene, in 640 x 640 pixels, by COCO's rule."""
    corner, extent = scene.gt_box[:, None, :2], scene.gt_box[:, None, 2:]
    rng, count = np.random.default_rng(0), len(corner)
    angles = np.arange(24) / 12 * np.pi
    rays = np.stack((np.cos(angles), np.sin(angles)), 1) * rng.uniform(0.6, 1.0, (count, 24, 1))
    return arguments([[star] for star in corner + (1 + rays) * extent / 2], [(640, 640)] * count, 0)


def defined(result: Any) -> tuple[Tensor, ...]:
    """The outputs of ``rasterise`` without the unused end of counts, whose size differs between devices."""
    counts, offsets = result
    return counts[: int(offsets[-1])], offsets
