"""Arguments of the ops of masks as run lengths, for testing/registry.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing import formats
from testing.datasets import BoxDataset
from testing.masks import random_counts, random_mask
from valor_gpu.ops.runs import cpu as _runs_cpu
from valor_gpu.ops.runs.op import Runs

Example = tuple[str, tuple[Any, ...]]
SIZES = ((12, 17), (17, 12), (33, 5))


def random_runs(rng: np.random.Generator, count: int, sizes: tuple[tuple[int, int], ...] = SIZES[:1]) -> Runs:
    """Masks of random kinds and sizes: some without runs, some with runs of length 0."""
    parts = [Runs.empty([])]
    for _ in range(count):
        size = sizes[int(rng.integers(len(sizes)))]
        kind = rng.integers(12)
        if kind > 1:
            parts.append(_runs_cpu.from_masks(random_mask(rng, *size)[None]))
            continue
        counts = random_counts(rng, size[0] * size[1]) if kind else []
        parts.append(Runs(np.array(counts, np.int32), np.array([0, len(counts)]), np.array([size], np.int32)))
    return Runs.join(parts)


def tensors(runs: Runs) -> list[Tensor]:
    return [torch.from_numpy(array) for array in (runs.counts, runs.offsets, runs.sizes)]


def pair_arguments(
    lengths: list[tuple[int, int]], lowest: float = 0.5, boundaries: bool = False, seed: int = 0,
    sizes: tuple[tuple[int, int], ...] = SIZES[:1], agnostic: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Arguments of ``run_pairs`` for images of so many detections and ground truths."""
    rows = torch.tensor(lengths, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    n, m = (int(total) for total in rows.sum(1))
    rng = np.random.default_rng([seed, n, m])
    labels, gt_labels, flags = (torch.from_numpy(rng.integers(0, 3, count)) for count in (n, m, m))
    masks = [tensors(random_runs(rng, count, sizes)) for count in (n, m, *((n, m) if boundaries else ()))]
    edges = [array for side in masks[2:] for array in side]
    return [labels], [gt_labels], [flags // 2], rows, None, None, masks[0], masks[1], edges, lowest, agnostic


def pair_examples(quick: bool) -> Iterator[Example]:
    """Arguments of ``run_pairs``."""
    lengths = [(n, m) for n in (0, 1, 31, 33) for m in (0, 1, 31, 33)]
    yield "sizes", pair_arguments(lengths[: 8 if quick else 16])
    yield "boundaries", pair_arguments([(9, 7), (0, 3), (5, 40)], 0.1, boundaries=True)
    yield "masks of other sizes", pair_arguments([(20, 9)], -1.0, sizes=SIZES)
    yield "every pair", pair_arguments([(9, 7), (5, 40)], 0.0)
    yield "no image", pair_arguments([])
    padded = list(pair_arguments([(9, 7)] * 3))
    padded[4:6] = torch.tensor([9, 0, 4]), torch.tensor([3, 7, 0])
    yield "padded", tuple(padded)


def ellipses(boxes: np.ndarray[Any, Any], size: tuple[int, int]) -> Runs:
    """Ellipses that fill xyxy boxes, as run lengths of one run a column."""
    height, width = size
    low = np.clip(np.floor(boxes[:, 0]), 0, width - 1).astype(np.int64)
    high = np.clip(np.ceil(boxes[:, 2]), low + 1, width).astype(np.int64)
    columns = high - low
    row = np.repeat(np.arange(len(boxes)), columns)
    x = np.arange(columns.sum()) - np.repeat(np.cumsum(columns) - columns, columns) + low[row]
    middle, radius = (boxes[:, :2] + boxes[:, 2:]) / 2, np.maximum((boxes[:, 2:] - boxes[:, :2]) / 2, 0.5)
    half = radius[row, 1] * np.sqrt(np.clip(1 - ((x + 0.5 - middle[row, 0]) / radius[row, 0]) ** 2, 0.01, 1))
    begin = np.clip(np.round(middle[row, 1] - half), 0, height - 1).astype(np.int64)
    end = np.clip(np.round(middle[row, 1] + half), begin + 1, height).astype(np.int64)
    places = np.stack([x * height + begin, x * height + end], 1).reshape(-1)
    first = 2 * (np.cumsum(columns) - columns)
    counts = np.diff(places, prepend=0)
    counts[first] = places[first]
    last = height * width - places[first + 2 * columns - 1]
    counts = np.insert(counts, np.append(first[1:], len(counts)), last)
    offsets = np.concatenate([[0], np.cumsum(2 * columns + 1)])
    return Runs(counts.astype(np.int32), offsets, np.tile(np.array(size, np.int32), (len(boxes), 1)))


def pair_load(scene: BoxDataset) -> tuple[Any, ...]:
    """An ellipse in every box of the scene, in images of 640 x 640 pixels."""
    whole = formats.columns(scene)
    gt_rows, rows = (np.diff(ends) for ends in formats.row_ends(scene))
    lengths = torch.from_numpy(np.stack([rows, gt_rows]))
    masks, gt_masks = (tensors(ellipses(b.double().numpy(), (640, 640))) for b in (whole.boxes, whole.gt_boxes))
    return [whole.labels], [whole.gt_labels], [whole.crowd], lengths, None, None, masks, gt_masks, [], 0.5, False
