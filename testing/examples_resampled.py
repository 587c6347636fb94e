"""Ordered detection records with units and weights, for the op that resamples them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing import examples_records as made
from testing.datasets import BoxDataset
from valor_gpu.detection.choices import AREA_RANGES
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick, PickTable, RecordShape
from valor_gpu.ops.resampled_means.op import ResampledRecords, resampled_records
from valor_gpu.ops.resampling.op import weights
from valor_gpu.reduce.coco_summary import summary_picks
from valor_gpu.stats.draws import Draws

Arguments = tuple[Any, ...]
COCO_GRID = np.linspace(0, 1, 101)


def arguments(records: ResampledRecords, columns: Tensor) -> Arguments:
    """Arguments of the op for records and their weights."""
    choices, shape = records.choices, records.choices.shape
    picks = map(torch.from_numpy, choices.pick_table())
    return (
        records.detections, records.order, records.offsets, records.record_units, records.truths,
        records.truth_offsets, records.truth_units, columns, torch.from_numpy(choices.recall_thresholds),
        [shape.thresholds, shape.areas, shape.limits], *picks, [choices.full],
    )  # fmt: skip


def random_arguments(
    rng: np.random.Generator,
    classes: list[int],
    sizes: tuple[int, int, int] = made.SMALL,
    replicates: int = 3,
    units: int = 9,
    grid: Any = COCO_GRID,
    full: bool = False,
    most: int = 3,
    scores: int = 15,
) -> Arguments:
    """Records of classes of the given sizes, whose units, scores and bits are random.

    Args:
        rng: source of all.
        classes: records of each class.
        sizes: T, A and M.
        replicates: L.
        units: U.
        grid: recall thresholds.
        full: as of the choices.
        most: largest weight.
        scores: how many scores there are: few make ties within and across units.
    """
    total = sum(classes)
    rows = made.records(rng, total, sizes)
    rows[:, :8] = torch.from_numpy((rng.integers(0, scores, total) / 8).view(np.uint8).reshape(-1, 8))
    rows[:, 12] = torch.from_numpy(rng.integers(0, sizes[2], total).astype(np.uint8))
    names, owners = np.repeat(np.arange(len(classes)), classes), rng.integers(0, units, total)
    values = rows[:, :8].numpy().copy().view(np.float64)[:, 0]
    order = np.lexsort((owners, -values, names))
    true = np.sort(rng.integers(0, max(1, len(classes)), 4 * len(classes)))
    true = true[true != len(classes) // 2]  # a class without ground truths
    truths = rng.integers(0, 256, (len(true), -(-(sizes[1] + 2) // 8)), np.uint8)
    ends = [np.cumsum([0, *classes]), np.searchsorted(true, np.arange(len(classes) + 1))]
    shape = RecordShape(*sizes)
    picks = PickTable.of(_picks(shape), shape, shape.limits if full else 1)
    columns = rng.integers(0, most + 1, (units, replicates)).astype(np.uint8)
    columns[:, : replicates // 3] = rng.integers(0, 2, (units, replicates // 3))
    numbers = [order, ends[0], owners[order].astype(np.int32), truths, ends[1]]
    numbers += [rng.integers(0, units, len(true)).astype(np.int32), columns, np.asarray(grid, np.float64)]
    return rows, *map(torch.from_numpy, numbers), list(sizes), *map(torch.from_numpy, picks), [full]


def _picks(shape: RecordShape) -> Any:
    every, last = range(shape.thresholds), shape.thresholds - 1
    for area in range(shape.areas):
        yield from (Pick("precision", area, -1, every), Pick("recall", area, -1, every))
    yield from (Pick("recall", 0, m, [last, 0]) for m in range(shape.limits))
    yield from (Pick("precision", 0, 0, [last]), Pick("precision", -1, 0, []), Pick("recall", 0, 0, [0, 0, last]))


def resampled_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``resampled_means``."""
    rng = np.random.default_rng(13)
    for classes in ([], [0], [1], [31, 0, 33], [32, 64, 1, 95]):
        yield f"classes of {classes} records", random_arguments(rng, classes)
    for replicates in (0, 1, 33) if quick else (0, 1, 31, 32, 33, 65):
        yield f"{replicates} replicates", random_arguments(rng, [40, 7, 20], replicates=replicates)
    yield "all limits", random_arguments(rng, [70, 0, 33], full=True)
    yield "few scores", random_arguments(rng, [130, 60], scores=2, units=4)
    yield "one score, one unit", random_arguments(rng, [40, 70], scores=1, units=1)
    yield "few ties", random_arguments(rng, [200, 60], scores=1 << 20, units=50)
    yield "no weight", random_arguments(rng, [40, 7, 20], most=0)
    yield "large weights", random_arguments(rng, [40, 7, 20], most=255, units=30)
    for grid in ([0.5, 0.0, 1.0, 0.5, 1.5, 0.25], [], [0.0], [np.nan, 0.1, -1.0, 0.9]):
        yield f"recalls {grid}", random_arguments(rng, [60, 9], grid=grid)
    yield "many classes", random_arguments(rng, [3] * 300, replicates=2)
    yield "COCO's settings", random_arguments(rng, [90, 30], made.COCO, replicates=2)
    yield "one setting", random_arguments(rng, [90, 30], (1, 1, 1))


def resampled_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``resampled_means`` for 64 replicates of the summary of ``scene``."""
    return arguments(load_records(scene), weights(Draws(len(scene.image_ids), 64)))


def load_records(scene: BoxDataset, device: torch.device | str = "cpu") -> ResampledRecords:
    """Records of the summary of ``scene`` under COCO's rule, on a device."""
    whole = made.matched(scene)[0]
    picks = summary_picks(np.linspace(0.5, 0.95, 10).tolist(), [1, 10, 100], list(AREA_RANGES))
    choices = AccumulateChoices(RecordShape(*made.COCO), COCO_GRID, tuple(picks.values()))
    tables = (table.to(device) for table in (whole.detections, whole.ground_truths, whole.images))
    return resampled_records(*tables, choices)
