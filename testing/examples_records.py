"""Detection records made by hand, for the ops that order them and read curves from them.

Row layout: docs/design/001-detection-records.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing import formats
from testing.datasets import BoxDataset
from valor_gpu.detection.choices import AREA_RANGES
from valor_gpu.ops.accumulate.op import count_ground_truths, order_records
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS, PADDING_BUCKET, USER_INPUT, MatchBatch, Matched, MatchRule
from valor_gpu.ops.assign.op import assign

Arguments = tuple[Any, ...]
SMALL = (2, 3, 2)  # T, A, M
COCO = (10, 4, 3)
CLASSES = 5


def records(
    rng: np.random.Generator, count: int, sizes: tuple[int, int, int] = SMALL, classes: int = CLASSES
) -> Tensor:
    """uint8 ``[count, 13 + 2B]``: tied scores, some 0, -0.0 or infinite; random labels, buckets and bits."""
    thresholds, areas, limits = sizes
    settings = thresholds * areas
    scores = rng.integers(-3, 12, count) / 4
    scores[rng.random(count) < 0.05] = -0.0
    scores[rng.random(count) < 0.02] = np.inf
    buckets = rng.choice([*range(limits + 1), PADDING_BUCKET], count)
    bits = rng.random((2, count, settings)) < [[[0.4]], [[0.2]]]
    packed = [np.packbits(field, axis=1, bitorder="little") for field in bits]
    columns = [
        scores.astype(np.float64).view(np.uint8).reshape(-1, 8),
        (3 * rng.integers(0, classes, count) - 4).astype(np.int32).view(np.uint8).reshape(-1, 4),
        buckets.astype(np.uint8)[:, None],
        *packed,
    ]
    return torch.from_numpy(np.concatenate(columns, 1))


def labels(classes: int = CLASSES) -> Tensor:
    """The labels of :func:`records`, int64 ``[classes]``."""
    return 3 * torch.arange(classes) - 4


def _images(rng: np.random.Generator, count: int, images: int) -> tuple[Tensor, Tensor]:
    """First row and row count of ``images`` images that share ``count`` rows, in a random order of images."""
    ends = np.sort(rng.integers(0, count + 1, images - 1))
    starts = np.concatenate([[0], ends])
    order = rng.permutation(images)
    lengths = np.diff([*starts, count])
    return torch.from_numpy(starts[order]), torch.from_numpy(lengths[order])


def order_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``order_records``."""
    rng = np.random.default_rng(11)
    for count in (0, 1, 31, 33, 1000):
        yield f"{count} records", (records(rng, count), *_images(rng, count, 7), labels(), SMALL[2], False)
    rows = records(rng, 1000)
    starts, lengths = _images(rng, 1000, 33)
    yield "some labels wanted", (rows, starts, lengths, labels()[[1, 3]], SMALL[2], False)
    yield "no label wanted", (rows, starts, lengths, labels()[:0], SMALL[2], False)
    yield "some images left out", (rows, starts[::2], lengths[::2], labels(), SMALL[2], False)
    yield "class-agnostic", (rows, starts, lengths, labels()[:1], SMALL[2], True)
    yield "no image", (rows, starts[:0], lengths[:0], labels(), SMALL[2], False)
    huge = 20_000 if quick else 300_000
    yield "one huge class", (records(rng, huge, classes=1), *_images(rng, huge, 1000), labels(1), SMALL[2], False)
    wide = records(rng, huge // 4, COCO, classes=1203)
    yield "1,203 classes", (wide, *_images(rng, huge // 4, 1000), labels(1203), COCO[2], False)


def _curve_arguments(
    rng: np.random.Generator,
    count: int,
    sizes: tuple[int, int, int] = SMALL,
    classes: int = CLASSES,
    grid: Tensor | None = None,
    full: bool = True,
    ties: int = 0,
) -> Arguments:
    rows = records(rng, count, sizes, classes)
    whole = torch.tensor([0]), torch.tensor([count])
    ordered = order_records(rows, *whole, labels(classes), sizes[2])
    positives = torch.from_numpy(rng.integers(0, 2 + count // max(classes, 1), (classes, sizes[1])))
    positives[classes // 2] = 0
    grid = torch.linspace(0, 1, 101, dtype=torch.float64) if grid is None else grid
    return rows, *ordered, positives, grid, list(sizes), full, ties


def curve_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``precision_recall``."""
    rng = np.random.default_rng(12)
    for count in (0, 1, 31, 33, 1000):
        yield f"{count} records", _curve_arguments(rng, count)
    for ties in (1, 2):
        yield f"order of ties {ties}", _curve_arguments(rng, 1000, ties=ties)
    yield "last limit alone", _curve_arguments(rng, 1000, full=False)
    unsorted = torch.tensor([0.5, 0.0, 1.0, 0.5, 1.5, 0.25], dtype=torch.float64)
    yield "recall samples unsorted, repeated, unreachable", _curve_arguments(rng, 1000, grid=unsorted)
    yield "no recall sample", _curve_arguments(rng, 33, grid=unsorted[:0])
    yield "COCO's settings", _curve_arguments(rng, 2000, COCO, classes=1 if quick else 12)
    yield "one huge class", _curve_arguments(rng, 20_000 if quick else 300_000, classes=1)


def _ground_truths(rng: np.random.Generator, count: int, areas: int) -> Tensor:
    """uint8 ``[count, 4 + ceil((areas + 2) / 8)]``: random labels and bits."""
    names = (3 * rng.integers(0, CLASSES, count) - 4).astype(np.int32).view(np.uint8).reshape(-1, 4)
    bits = np.packbits(rng.random((count, areas + 2)) < 0.5, axis=1, bitorder="little")
    return torch.from_numpy(np.concatenate([names, bits], 1))


def count_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``count_ground_truths``."""
    rng = np.random.default_rng(13)
    for count in (0, 1, 31, 33, 1000, 20_000 if quick else 1_000_000):
        yield f"{count} ground truths", (_ground_truths(rng, count, 4), labels(), 4, False)
    yield "13 area ranges", (_ground_truths(rng, 1000, 13), labels(), 13, False)
    yield "some labels wanted", (_ground_truths(rng, 1000, 4), labels()[[1, 3]], 4, False)
    yield "no label wanted", (_ground_truths(rng, 33, 4), labels()[:0], 4, False)
    yield "class-agnostic", (_ground_truths(rng, 1000, 4), labels()[:1], 4, True)


def label_counts_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``label_counts``."""
    rng = np.random.default_rng(17)
    for count in (0, 1, 31, 33, 1000, 20_000 if quick else 1_000_000):
        yield f"{count} rows", (records(rng, count, COCO), _ground_truths(rng, count, 4), 4)
    yield "13 area ranges", (records(rng, 50), _ground_truths(rng, 1000, 13), 13)
    far = records(rng, 9000, COCO)
    far[:, 8:12] = torch.from_numpy(rng.integers(0, 256, (9000, 4), np.uint8))
    yield "9,000 labels of any size", (far, _ground_truths(rng, 33, 4), 4)


def means_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``present_means``."""
    rng = np.random.default_rng(19)
    for classes in (0, 1, 31, 33, 200 if quick else 1203):
        recalls = 7 if classes else 1
        precision, recall = rng.random((3, recalls, classes, 2, 1)), rng.random((3, classes, 2, 3))
        absent = rng.random((classes, 2)) < 0.25
        precision[:, :, absent] = recall[:, absent] = -1.0
        picks = torch.tensor([[0, 0, 0, 0, 3], [0, 1, 0, 3, 1], [1, 0, 2, 0, 3], [1, 1, 0, 0, 0]])
        arrays = torch.from_numpy(precision), torch.from_numpy(recall)
        yield f"{classes} classes", (*arrays, picks, torch.tensor([0, 1, 2, 1]))


def images_table(detections: Tensor, ground_truths: Tensor, ids: Sequence[int | None]) -> Tensor:
    """int64 ``[I, 8]`` of images with these ids (None: without), over which the rows are spread evenly."""
    table = np.zeros((len(ids), len(IMAGE_COLUMNS)), np.int64)
    for image, key in enumerate(ids):
        ends = [[len(rows) * i // len(ids) for i in (image, image + 1)] for rows in (detections, ground_truths)]
        name = 7 * image % 5 - 2**63 if key is None else key
        table[image, :4] = name, key is not None, ~name, image % 3
        table[image, 4:6] = [last - first for first, last in ends]
        table[image, 6:] = image + (image << 32), 0x3F80_0000_4080_0000 + image
    return torch.from_numpy(table)


def accumulate_arguments(
    rng: np.random.Generator, count: int, ids: Sequence[int | None], sizes: tuple[int, int, int] = SMALL,
    *, ties: Sequence[int] = (0,), by_key: bool = True, agnostic: bool = False, full: bool = True,
    wanted: Tensor | None = None, images: Tensor | None = None, classes: int = CLASSES,
) -> Arguments:  # fmt: skip
    """Arguments of ``accumulate`` for so many records of images with these ids (None: without)."""
    rows, ground_truths = records(rng, count, sizes, classes), _ground_truths(rng, count // 3, sizes[1])
    grid = torch.tensor([0.0, 0.25, 0.5, 1.0], dtype=torch.float64)
    picks = torch.tensor([[0, 0, 0, 0, sizes[0]], [0, sizes[1] - 1, 0, 1, 1], [1, 0, sizes[2] - 1, 0, sizes[0]]])
    table = images_table(rows, ground_truths, ids)
    rest = picks, torch.arange(sizes[0]), list(ties), [by_key, agnostic, full], wanted, images
    return rows, ground_truths, table, grid, list(sizes), *rest


def accumulate_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``accumulate``."""
    rng, ids = np.random.default_rng(23), [4, None, -3, 11, None, 0]
    for count in (0, 1, 31, 33, 1000):
        yield f"{count} records", accumulate_arguments(rng, count, ids)
    yield "no image", accumulate_arguments(rng, 0, [])
    yield "images by arrival", accumulate_arguments(rng, 1000, ids, by_key=False)
    yield "orders of ties", accumulate_arguments(rng, 1000, ids, ties=(2, 0, 1))
    yield "last limit alone", accumulate_arguments(rng, 1000, ids, full=False, ties=(0, 1))
    yield "class-agnostic", accumulate_arguments(rng, 1000, ids, agnostic=True)
    yield "some labels wanted", accumulate_arguments(rng, 1000, ids, wanted=labels()[[1, 3]])
    yield "no label wanted", accumulate_arguments(rng, 100, ids, wanted=labels()[:0], agnostic=True)
    yield "some images wanted", accumulate_arguments(rng, 1000, ids, images=torch.tensor([4, 0, 5]))
    yield "COCO's settings", accumulate_arguments(rng, 2000 if quick else 20_000, ids, COCO, full=False)


# ------------------------------------------------------------------------------------------- at the scale of a dataset


def matched(scene: BoxDataset) -> tuple[Matched, Tensor]:
    """The records of a dataset under COCO's choices, and the rows of each image (int64 ``[I]``)."""
    whole = formats.columns(scene)
    gt_rows, rows = (np.diff(ends) for ends in formats.row_ends(scene))
    batch = MatchBatch(
        torch.from_numpy(np.stack([rows, gt_rows])), [whole.boxes], [whole.scores], [whole.labels],
        gt_boxes=[whole.gt_boxes], gt_labels=[whole.gt_labels], gt_flags=[whole.crowd],
    )  # fmt: skip
    rule = MatchRule.make(np.linspace(0.5, 0.95, 10).tolist(), list(AREA_RANGES.values()), [1, 10, 100], USER_INPUT)
    return assign(batch, rule), batch.lengths[0]


def order_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``order_records`` for all detections of ``scene``."""
    rows, lengths = matched(scene)
    return rows.detections, lengths.cumsum(0) - lengths, lengths, torch.from_numpy(scene.category_ids), COCO[2], False


def curve_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``precision_recall`` for all detections of ``scene``, as ``MeanAveragePrecision`` reads them."""
    rows, lengths = matched(scene)
    names = torch.from_numpy(scene.category_ids)
    ordered = order_records(rows.detections, lengths.cumsum(0) - lengths, lengths, names, COCO[2])
    positives = count_ground_truths(rows.ground_truths, names, COCO[1])
    grid = torch.from_numpy(np.linspace(0, 1, 101))
    return rows.detections, *ordered, positives, grid, list(COCO), False, 0


def label_counts_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``label_counts`` for all rows of ``scene``."""
    rows = matched(scene)[0]
    return rows.detections, rows.ground_truths, COCO[1]


def accumulate_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``accumulate`` for the summary of ``scene``."""
    whole = matched(scene)[0]
    rows = [[0, area, 0, 0, COCO[0]] for area in range(COCO[1])] + [[1, 0, m, 0, COCO[0]] for m in range(COCO[2])]
    rest = torch.tensor(rows), torch.arange(COCO[0]), [0], [True, False, False], None, None
    grid = torch.from_numpy(np.linspace(0, 1, 101))
    return whole.detections, whole.ground_truths, whole.images, grid, list(COCO), *rest


def count_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``count_ground_truths`` for all ground truths of ``scene``."""
    return matched(scene)[0].ground_truths, torch.from_numpy(scene.category_ids), COCO[1], False


def means_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``present_means`` for the summary of ``scene``."""
    precision, recall, _ = torch.ops.valor_gpu.precision_recall(*curve_load(scene))
    rows = [[0, area, 0, 0, COCO[0]] for area in range(COCO[1])] + [[1, 0, m, 0, COCO[0]] for m in range(COCO[2])]
    return precision, recall, torch.tensor(rows), torch.arange(COCO[0])


def outcome_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``count_outcomes``: classes out of range, scores on the edges of bins, filled tables."""
    rng = np.random.default_rng(11)
    for (octaves, bits), sizes in zip(((1, 0), (10, 7), (64, 2), (3, 12)), (SMALL, COCO, (1, 1, 1), (40, 2, 2))):
        for count in (0, 1, 33, 300 if quick else 3000):
            yield f"{octaves} octaves, {bits} bits, {count}", _outcomes(rng, count, sizes, octaves, bits)


def _outcomes(rng: np.random.Generator, count: int, sizes: tuple[int, int, int], octaves: int, bits: int) -> Arguments:
    rows = records(rng, count, sizes)
    edges = np.array(
        [0.5, np.nextafter(0.5, 0), 1.0, np.nextafter(1.0, 0), 2.0**-octaves, 5e-324, 0.75, np.inf, -np.inf]
    )
    scores = np.where(rng.random(count) < 0.5, rng.choice(edges, count), rng.random(count) ** 3)
    rows[:, :8] = torch.from_numpy(scores.view(np.uint8).reshape(-1, 8))
    classes = torch.from_numpy(rng.integers(-1, CLASSES + 1, count).astype(np.int32))
    settings = sizes[0] * sizes[1]
    shapes = (CLASSES, (octaves << bits) + 2, 2, settings), (CLASSES, sizes[2], settings)
    tables = (torch.from_numpy(rng.integers(0, 9, shape)) for shape in shapes)
    return rows, classes, *tables, octaves, bits


def outcome_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``count_outcomes`` for a scene under COCO's rule."""
    found = matched(scene)[0].detections
    kinds = np.unique(scene.dt_category, return_inverse=True)[1].astype(np.int32)
    size, settings = len(scene.category_ids), COCO[0] * COCO[1]
    tables = torch.zeros((size, 1282, 2, settings)).long(), torch.zeros((size, COCO[2], settings)).long()
    return found, torch.from_numpy(kinds), *tables, 10, 7
