"""Detection records of groups of images, for the op that computes the numbers of each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from testing import examples_records as made
from testing.datasets import BoxDataset
from valor_gpu.ops.accumulate.types import Pick, PickTable, RecordShape

Arguments = tuple[Any, ...]
COCO_GRID = np.linspace(0, 1, 101)


def random_arguments(
    rng: np.random.Generator,
    count: int,
    groups: Sequence[Sequence[int]],
    sizes: tuple[int, int, int] = made.SMALL,
    grid: Any = COCO_GRID,
    agnostic: bool = False,
    full: bool = False,
    wanted: torch.Tensor | None = None,
    images: int = 6,
    classes: int = made.CLASSES,
) -> Arguments:
    """Arguments of ``grouped_means`` for so many records of images in a random order.

    Args:
        rng: source of all.
        count: records.
        groups: positions of the images of each group.
        sizes: T, A and M.
        grid: recall thresholds.
        agnostic: as of the choices.
        full: likewise.
        wanted: labels; None: all.
        images: how many there are; one of them belongs to no unit.
        classes: of the records.
    """
    rows, ground_truths, table = made.accumulate_arguments(rng, count, range(images), sizes, classes=classes)[:3]
    shape, units = RecordShape(*sizes), rng.permutation(images)[: images - 1]
    offsets = np.cumsum([0, *(len(group) for group in groups)])
    members = np.array([unit for group in groups for unit in group], np.int64)
    tables = [PickTable.of(picks, shape, shape.limits if full else 1) for picks in (_picks(shape), _class_picks(shape))]
    names = made.labels(classes) if wanted is None else wanted
    numbers = map(torch.from_numpy, (units, offsets, members))
    rest = (torch.from_numpy(array) for pair in tables for array in pair)
    return (
        rows, ground_truths, table, *numbers, names, torch.from_numpy(np.asarray(grid, np.float64)), list(sizes), *rest,
        [agnostic, full],
    )  # fmt: skip


def _picks(shape: RecordShape) -> Iterator[Pick]:
    every, last = range(shape.thresholds), shape.thresholds - 1
    for area in range(shape.areas):
        yield from (Pick("precision", area, -1, every), Pick("recall", area, -1, every))
    yield from (Pick("recall", 0, m, [last, 0]) for m in range(shape.limits))
    yield from (Pick("precision", 0, 0, [last, 0]), Pick("precision", -1, 0, []), Pick("recall", 0, 0, [0, 0, last]))


def _class_picks(shape: RecordShape) -> Iterator[Pick]:
    every, last = range(shape.thresholds), shape.thresholds - 1
    yield from (Pick("precision", 0, -1, every), Pick("recall", 0, -1, every), Pick("precision", -1, 0, [last, 0]))
    yield from (Pick("recall", -1, 0, [last]), Pick("precision", 0, 0, []))


def grouped_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``grouped_means``."""
    rng, groups = np.random.default_rng(29), [[0, 3], [1], [2, 4], [], [0, 1, 2, 3, 4], [1, 3]]
    for count in (0, 1, 31, 33, 400):
        yield f"{count} records", random_arguments(rng, count, groups)
    yield "no group", random_arguments(rng, 60, [])
    yield "empty groups", random_arguments(rng, 60, [[], []])
    yield "all limits", random_arguments(rng, 400, groups, full=True)
    yield "pooled classes", random_arguments(rng, 400, groups, agnostic=True)
    yield "some labels", random_arguments(rng, 400, groups, wanted=made.labels()[[1, 3]])
    yield "no label", random_arguments(rng, 60, groups, wanted=made.labels()[:0], agnostic=True)
    for grid in ([0.5, 0.0, 1.0, 0.5, 1.5, 0.25], [], [0.0], [np.nan, 0.1, -1.0, 0.9, np.inf]):
        yield f"recalls {grid}", random_arguments(rng, 100, groups, grid=grid)
    yield "one setting", random_arguments(rng, 90, groups, (1, 1, 1))
    yield "60 thresholds", random_arguments(rng, 90, groups[:2], (60, 2, 1))
    yield "COCO's settings", random_arguments(rng, 200 if quick else 2000, groups[:4], made.COCO)
    pairs = [[int(i), int(i) + 1] for i in rng.integers(0, 30, 20)]
    yield "many classes and groups", random_arguments(rng, 500, pairs, images=40, classes=60)


def grouped_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``grouped_means`` for the summary of groups of five images of ``scene``."""
    whole = made.matched(scene)[0]
    images, shape = len(whole.images), RecordShape(*made.COCO)
    tables = [PickTable.of(picks, shape, 1) for picks in (_picks(shape), list(_class_picks(shape))[:2])]
    offsets = np.append(np.arange(0, images, 5), images)
    rest = (torch.from_numpy(array) for pair in tables for array in pair)
    return (
        whole.detections, whole.ground_truths, whole.images, torch.arange(images), torch.from_numpy(offsets),
        torch.arange(images), torch.from_numpy(scene.category_ids), torch.from_numpy(COCO_GRID), list(made.COCO), *rest,
        [False, False],
    )  # fmt: skip
