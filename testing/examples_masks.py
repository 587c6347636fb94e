"""Arguments of the ops of dense masks, for testing/registry.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from testing.datasets import BoxDataset

Pairs = tuple[str, tuple[Any, ...]]
Size = tuple[int, int, int, int]
"""Detections, ground truths, height and width of an image."""


def _masks(shape: tuple[int, int, int], dtype: torch.dtype = torch.bool) -> tuple[Any, ...]:
    rng = np.random.default_rng(sum(shape))
    return (torch.from_numpy(rng.integers(0, 3, shape, np.uint8)).to(dtype),)


def pack_examples(quick: bool) -> Iterator[Pairs]:
    """Arguments of ``pack_masks``."""
    for count in (0, 1, 31, 33, 1000):
        yield f"{count} masks", _masks((count, 5, 13))
    for shape in ((1, 1, 1), (3, 0, 5), (2, 31, 33), (2, 1, 64), (1, 1000, 33)):
        yield f"uint8 {shape}", _masks(shape, torch.uint8)
    huge = (1, 300, 401) if quick else (1, 4000, 4001)
    yield "one huge mask", _masks(huge)


def pack_load(scene: BoxDataset) -> tuple[Any, ...]:
    """100 masks of 1080 x 1920, whatever the scene."""
    return _masks((100, 1080, 1920))


def _boxes(rng: np.random.Generator, count: int, height: int, width: int) -> torch.Tensor:
    """Boolean masks ``[count, height, width]``, each a rectangle; larger ones are rarer."""
    out = torch.zeros((count, height, width), dtype=torch.bool)
    for mask in out:
        part = rng.random() ** 2
        h, w = (min(n, 1 + int(n * part**0.5)) for n in (height, width))
        y, x = rng.integers(0, height - h + 1), rng.integers(0, width - w + 1)
        mask[y : y + h, x : x + w] = True
    return out


def pair_arguments(sizes: list[Size], lowest: float = 0.5, classes: int = 3, rims: bool = False) -> tuple[Any, ...]:
    """Arguments of ``dense_pairs``; with ``rims`` some pixels of the masks are their boundaries."""
    rng = np.random.default_rng([len(sizes), *(n for size in sizes for n in size)])
    lengths = torch.tensor([size[:2] for size in sizes], dtype=torch.int64).reshape(-1, 2).T.contiguous()
    sides = [[_boxes(rng, size[side], *size[2:]) for size in sizes] for side in range(2)]
    inner = [[mask & _boxes(rng, *mask.shape) for mask in side] if rims else [] for side in sides]
    n, m = (int(total) for total in lengths.sum(1))
    labels, gt_labels, flags = (torch.from_numpy(rng.integers(0, classes, count)) for count in (n, m, m))
    flags = (flags == 0).long() if classes == 3 else torch.zeros_like(flags)
    return *sides, *inner, [labels], [gt_labels], [flags], lengths, None, None, lowest, False


def pair_examples(quick: bool) -> Iterator[Pairs]:
    """Arguments of ``dense_pairs``."""
    sizes: list[Size] = [(n, m, 9 + n, 7 + m) for n in (0, 1, 5) for m in (0, 1, 35)]
    yield "ragged", pair_arguments(sizes, 0.1)
    yield "every pair", pair_arguments(sizes[3:], 0.0)
    yield "boundaries", pair_arguments(sizes[4:], 0.1, rims=True)
    yield "one class, many tiles", pair_arguments([(3, 40, 130, 129)], classes=1)
    yield "no image", pair_arguments([])
    if not quick:
        yield "large", pair_arguments([(20, 9, 425, 600), (5, 5, 1080, 1921)])


def pair_load(scene: BoxDataset) -> tuple[Any, ...]:
    """At most 16 images of 425 x 600, with 100 detections and 7 ground truths of 80 classes."""
    return pair_arguments([(100, 7, 425, 600)] * min(16, 1 + len(scene.image_ids) // 100), classes=80)


def boundary_examples(quick: bool) -> Iterator[Pairs]:
    """Arguments of ``mask_boundary``."""
    rng = np.random.default_rng(6)
    for shape in ((0, 4, 4), (2, 0, 3), (1, 1, 1), (3, 31, 33), (2, 65, 64), *(() if quick else ((2, 1080, 1921),))):
        for distance in (1, 2, 16):
            yield f"{shape} at {distance}", (_boxes(rng, *shape).to(torch.uint8) * 5, distance)


def boundary_load(scene: BoxDataset) -> tuple[Any, ...]:
    """100 masks of 480 x 640, whatever the scene."""
    return _boxes(np.random.default_rng(7), 100, 480, 640), 16
