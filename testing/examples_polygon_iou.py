"""Polygons of every kind, and arguments of the ops that compare them, for testing/registry.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from testing import formats
from testing.datasets import BoxDataset
from valor_gpu.ops.polygon_areas.op import on_device
from valor_gpu.ops.polygon_sets.op import PolygonSet

Named = tuple[str, tuple[Any, ...]]
_CPU = torch.device("cpu")


def star(rng: np.random.Generator, points: int, centre: Any, radius: float) -> Any:
    """A ring that does not cross itself, float64 ``[points, 2]``, with two decimals as COCO's."""
    angles = (np.arange(points) + 0.8 * rng.random(points)) * 2 * np.pi / points
    reach = radius * (0.7 + 0.3 * rng.random() * np.sin(rng.integers(2, 6) * angles + 6 * rng.random()))
    return np.round(np.stack((np.cos(angles), 0.8 * np.sin(angles)), 1) * reach[:, None] + centre, 2)


def random_item(rng: np.random.Generator, spread: float) -> list[Any]:
    """A star, one with a hole, several that may overlap, a scribble on a grid, a box, one without area, or nothing."""
    centre, radius = rng.random(2) * spread, spread * (0.1 + 0.3 * rng.random())
    outer = star(rng, int(rng.integers(3, 40)), centre, radius)
    grid = np.round(rng.random((int(rng.integers(3, 9)), 2)) * spread / 2 + centre / 2)
    low, high = np.floor(centre), np.ceil(centre + radius)
    box = [[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]]
    return [
        [[outer]], [[outer, (outer - centre) / 2 + centre]], [[outer], [outer[:5] + radius / 2]], [[grid]],
        [[box]], [[[centre, centre, outer[0]]]], [],
    ][rng.choice(7, p=[0.35, 0.15, 0.15, 0.2, 0.09, 0.03, 0.03])]  # fmt: skip


def random_set(count: int, seed: int, spread: float = 20.0) -> PolygonSet:
    """Items of every kind, whose bounds often meet."""
    rng = np.random.default_rng([seed, count])
    return PolygonSet.of([random_item(rng, spread) for _ in range(count)])


def tensors(polygons: PolygonSet) -> list[torch.Tensor]:
    """Edges, offsets, shapes and hashes."""
    placed = on_device(polygons, _CPU)
    return [placed.edges, placed.offsets, placed.shapes, placed.hashes]


def iou_arguments(first: PolygonSet, second: PolygonSet, crowd: torch.Tensor | None = None) -> tuple[Any, ...]:
    """Arguments of ``polygon_iou``."""
    return *tensors(first)[:3], *tensors(second)[:3], crowd


def iou_examples(quick: bool) -> Iterator[Named]:
    """Arguments of ``polygon_iou``."""
    yield "crowds", iou_arguments(random_set(17, 1), random_set(9, 2), torch.arange(9) % 3 == 0)
    for n, m in ((0, 0), (0, 3), (3, 0), (1, 1), (1, 40 if quick else 200)):
        yield f"{n} and {m}", iou_arguments(random_set(n, 3), random_set(m, 4))
    rng = np.random.default_rng(5)
    many = PolygonSet.of([[[star(rng, points, (50, 50), 30)]] for points in (31, 33, 100 if quick else 1000)])
    yield "many points", iou_arguments(many, random_set(3, 6, 100.0))


def pair_arguments(
    sizes: list[tuple[int, int]], lowest: float = 0.3, agnostic: bool = False, seed: int = 7
) -> tuple[Any, ...]:
    """Arguments of ``polygon_pairs`` for images of so many detections and ground truths."""
    lengths = torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    n, m = (int(total) for total in lengths.sum(1))
    rng = np.random.default_rng([n, m])
    labels, gt_labels, flags = (torch.from_numpy(rng.integers(0, 3, count)) for count in (n, m, m))
    sides = [tensors(random_set(count, side)) for side, count in ((seed, n), (seed + 1, m))]
    return [labels], [gt_labels], [flags // 2], lengths, None, None, *sides, lowest, agnostic


def pair_examples(quick: bool) -> Iterator[Named]:
    """Arguments of ``polygon_pairs``."""
    sizes = [(n, m) for n in (0, 1, 5, 33) for m in (0, 1, 7)]
    yield "ragged", pair_arguments(sizes[: 9 if quick else 12])
    yield "every pair", pair_arguments([(9, 7), (5, 4)], 0.0)
    yield "all classes", pair_arguments([(9, 7), (0, 3)], 0.1, True)
    yield "no image", pair_arguments([])
    padded = list(pair_arguments([(9, 7)] * 3))
    padded[4:6] = torch.tensor([9, 0, 4]), torch.tensor([3, 7, 0])
    yield "padded", tuple(padded)


def stars(boxes: Any, seed: int = 0) -> PolygonSet:
    """A star of 10 to 59 points in every box xywh."""
    rng = np.random.default_rng(seed)
    return PolygonSet.of([
        [[star(rng, int(rng.integers(10, 60)), (x + w / 2, y + h / 2), max(w, h) / 2)]]
        for x, y, w, h in np.asarray(boxes, np.float64).tolist()
    ])  # fmt: skip


def iou_load(scene: BoxDataset) -> tuple[Any, ...]:
    """1,000 detections and 1,000 ground truths, whatever their images."""
    return iou_arguments(stars(scene.dt_box[:1000]), stars(scene.gt_box[:1000], 1))


def pair_load(scene: BoxDataset) -> tuple[Any, ...]:
    """A star in every box of the first 400 images."""
    whole = formats.columns(scene)
    gt_rows, rows = (np.diff(ends)[:400] for ends in formats.row_ends(scene))
    n, m = int(rows.sum()), int(gt_rows.sum())
    lengths = torch.from_numpy(np.stack([rows, gt_rows]))
    sides = tensors(stars(scene.dt_box[:n])), tensors(stars(scene.gt_box[:m], 1))
    return [whole.labels[:n]], [whole.gt_labels[:m]], [whole.crowd[:m]], lengths, None, None, *sides, 0.5, False
