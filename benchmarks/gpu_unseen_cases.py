"""Arguments of ops for ``benchmarks/gpu_unseen.py``: many blocks that hit few counters, and many small items."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from testing import (
    examples_boxes,
    examples_cosines,
    examples_keypoints,
    examples_masks,
    examples_panoptic,
    examples_polygon_iou,
    examples_polygons,
    examples_rotated,
    examples_runs,
)
from testing import examples_grouped as grouped
from testing import examples_histogram as sweeps
from testing import examples_labels as labels
from testing import examples_moments as moments
from testing import examples_one_hot as one_hot
from testing import examples_overlaps as overlaps
from testing import examples_pixels as pixels
from testing import examples_queries as queries
from testing import examples_ranks as ranked
from testing import examples_records as recorded
from testing import examples_resampled as resampled
from testing import examples_resampling as resampling
from testing import examples_tokens as tokens
from valor_gpu.ops.assign.match_batch import MatchBatch, MatchRule, to_arguments
from valor_gpu.ops.moments.kinds import WIDE, Kind
from valor_gpu.ops.overlaps.op import Overlaps
from valor_gpu.ops.rotated.cpu import DEGREES
from valor_gpu.stats.draws import Draws

Case = tuple[str, str, tuple[Any, ...]]
"""An op, what is special about its arguments, and these."""


@dataclass(frozen=True)
class Extent:
    """How large the arguments are.

    Attributes:
        rows: of tables whose rows meet in few counters.
        items: small ones, each of which takes a block or a row of a grid.
        pairs: detections and ground truths of one image, of which every pair is compared.
        sorts: numbers of records that are sorted.
        repeats: of a call, each of which must give the same bits.
    """

    rows: int
    items: int
    pairs: int
    sorts: tuple[int, ...]
    repeats: int


_SORTS = (0, 1, 2, 31, 32, 33, 1023, 1024, 1025)
FULL = Extent(1 << 19, 70_000, 300, (*_SORTS, 65_535, 65_536, 65_537, (1 << 20) + 3, 2_000_003), 20)
"""More blocks than any GPU holds at once, and more items than the 65,535 of a grid's y and z."""
SMALL = Extent(1 << 11, 90, 9, _SORTS, 2)
"""For a dry run on the CPU."""


def few_counters(extent: Extent) -> Iterator[Case]:
    """Rows whose counts meet in a handful of counters: all blocks add to them at the same time."""
    rng, rows = np.random.default_rng(71), extent.rows
    yield from _label_cases(rng, rows)
    yield from _histogram_cases(rng, rows)
    yield from _pixel_cases(rng, rows // 64)
    records = recorded.records(rng, rows, recorded.SMALL, classes=1)
    settings = recorded.SMALL[0] * recorded.SMALL[1]
    tables = torch.zeros((1, 1282, 2, settings)).long(), torch.zeros((1, recorded.SMALL[2], settings)).long()
    yield "count_outcomes", "one class", (records, torch.zeros(rows, dtype=torch.int32), *tables, 10, 7)
    scores = ranked.scores(rng, rows, 2)
    for op in ("auroc_and_ap", "rank_curves"):
        yield op, "few scores", (scores, ranked.indices(rng, rows, 2), None, None)
        yield op, "few scores, weights", (scores, ranked.multi_hot(rng, rows, 2), None, ranked.weights(rng, rows))
    many, one = [(30, 9)] * (rows >> 12), [(rows >> 9, 60)]
    for name, sizes in (("many datums", many), ("one datum", one)):
        columns = overlaps.random_overlaps(sizes, 5, labels=2).columns()
        yield "rank_overlaps", name, (*columns, True)
        yield "confuse_overlaps", name, (*columns, torch.tensor([0.5, 0.75], dtype=torch.float64), False)
    documents = queries.documents(rng, rows, 2)
    yield "query_order", "two queries", documents[:2]
    for measure in ("ndcg", "err", "auroc"):
        yield "query_scores", f"two queries, {measure}", queries.arguments(measure, documents)
    logits = tokens.logits_of(rng, (rows // 8, 5))
    yield "draw_weights", "few units", resampling.arguments(Draws(60, rows >> 8, seed=3))
    yield "sum_token_losses", "short rows", (logits, tokens.tokens_of(rng, (rows // 8,), 5), 3)
    yield from _moment_cases(rng, rows)


def _label_cases(rng: np.random.Generator, rows: int) -> Iterator[Case]:
    preds, target = labels.labels_of(rng, rows, 1), labels.labels_of(rng, rows, 2)
    for op in ("count_labels", "count_pairs"):
        yield op, "two classes", (preds, target, 2, 2, None)
        yield op, "two classes, weights", (preds, target, 2, 2, labels.weights_of(rng, rows))
    scores, target = labels.scores_of(rng, rows, 3), labels.labels_of(rng, rows, 3)
    yield "count_top", "three classes", (scores, target, 1, 3, None)
    yield "count_top", "three classes, top 2, weights", (scores, target, 2, 3, labels.weights_of(rng, rows))
    yield "confuse_scores", "three classes", (scores, target, 3)
    yield "first_in_cells", "three cells", (labels.labels_of(rng, rows, 4) - 1, 3, 3)


def _moment_cases(rng: np.random.Generator, rows: int) -> Iterator[Case]:
    for kind, dtype in itertools.product((Kind.VARIANCE, Kind.PRODUCTS, Kind.LOG_COSH), (torch.float32, torch.float64)):
        yield "moments", f"{kind.name}, {dtype}", (*moments.pair(rng, kind, (rows,), dtype), int(kind), 0.0, WIDE)
    for columns in (3, 20):
        wild = [moments.wild(rng, (rows // 32, columns)) for _ in range(2)]
        yield "moments", f"every exponent, {columns} columns", (*wild, int(Kind.PRODUCTS), 0.0, WIDE)


def _histogram_cases(rng: np.random.Generator, rows: int) -> Iterator[Case]:
    scores, hot = sweeps.probabilities(rng, rows, 1), sweeps.multi_hot(rng, rows, 1, torch.int8)
    for name in ("even", "crowded", "one", "float order, many"):
        yield "score_histogram", f"{name}, labels", (scores, hot, sweeps.grids()[name], sweeps.IGNORED, None)
    three, target = sweeps.probabilities(rng, rows // 2, 3), labels.labels_of(rng, rows // 2, 3)
    yield "score_histogram", "three classes", (three, target, sweeps.grids()["even"], 3, None)
    weight = labels.weights_of(rng, rows // 2)
    yield "score_histogram", "three classes, weights", (three, target, sweeps.grids()["even"], 3, weight)
    # One score outside of [0, 1] makes all of them logits: which block sees it first is chance.
    for name, place in (("none", None), ("the first", 0), ("the last", -1), ("one in the middle", rows // 5)):
        logits = three.clone()
        if place is not None:
            logits[place, 1] = 1.5
        choices = sweeps.grids()["even"], 3, None, "auto"
        yield "score_histogram", f"{name} is a logit", (logits, target, *choices)


def _pixel_cases(rng: np.random.Generator, columns: int) -> Iterator[Case]:
    shape = (8, 8, columns)
    maps, target = (pixels.labels_of(rng, shape, 2) for _ in range(2))
    yield "count_pixels", "two classes", (maps, target, 2, None, False, True)
    yield "count_pixels", "one class", (maps * 0, target * 0, 1, None, False, False)
    yield "count_logits", "two classes", (pixels.logits_of(rng, (8, 2, 8, columns)), target, None, False, False)
    hot = one_hot.hot_of(rng, shape, 2)
    yield "count_one_hot", "two classes", (hot, target, 2, None, False)
    known = examples_panoptic.CATEGORIES, examples_panoptic.THINGS
    batch = examples_panoptic.batch_of(5, 2, 64, columns // 16, 3)
    yield "count_panoptic", "few segments", (*batch, *known, False, True)
    place = torch.arange(64 * (columns // 16)).reshape(1, 64, -1)
    alone = torch.stack([place % 2, place], -1)
    yield "count_panoptic", "every pixel a segment", (alone, alone.flip(1), (0, 1), 2, False, False)
    packed = torch.from_numpy(rng.random((columns // 32, 64, 65)) < 0.5)
    yield "pack_masks", "many masks", (packed,)
    sides = [pixels.labels_of(rng, (4, 32, columns // 32), 3, 9, torch.int32) for _ in range(2)]
    yield "surface_distances", "four images", (*sides, [0, 0, 3], [1.0, 1.0, 0.95, 1.5])


def errors_everywhere(extent: Extent) -> Iterator[Case]:
    """Arguments in which every row is wrong: the error names the first, whichever block reports last."""
    rng, rows = np.random.default_rng(72), extent.rows
    nan, target = torch.full((rows, 3), torch.nan), labels.labels_of(rng, rows, 2)
    yield "count_top", "NaN in every row", (nan, target, 1, None, None)
    yield "confuse_scores", "NaN in every row", (nan, target, None)
    yield "count_labels", "no label in range", (target - 9, target + 9, 3, None, None)
    yield "score_histogram", "NaN in every row", (nan, target, sweeps.grids()["even"], None, None)
    maps = (target + 5).reshape(8, -1)
    yield "count_pixels", "no label in range", (maps, maps, 3, None, False, False)
    yield "sum_token_losses", "NaN in every row", (nan[: rows // 8], target[: rows // 8], None)
    yield "moments", "no term in any row", (target - 9, target - 9, int(Kind.TWEEDIE), 1.5, WIDE)


def chains(extent: Extent) -> Iterator[Case]:
    """Accumulations: each launch reads what all blocks of those before it wrote, at sizes around whole waves."""
    rng, ids = np.random.default_rng(73), [*range(997), None]
    for count in (extent.rows >> 4, (extent.rows >> 3) - 1, (extent.rows >> 3) + 1):
        for classes in (1, 80):
            arguments = recorded.accumulate_arguments(rng, count, ids, recorded.COCO, ties=(0, 1), classes=classes)
            yield "accumulate", f"{count} records of {classes} classes", arguments
            every = [count // classes] * classes
            resamples = resampled.random_arguments(rng, every, recorded.COCO, 1, units=997, scores=1 << 20)
            yield "resampled_means", f"{count} records of {classes} classes", resamples
            halves = [[*range(0, 990, 2)], [*range(1, 990, 2)], [7]]
            dealt = grouped.random_arguments(rng, count, halves, recorded.COCO, images=997, classes=classes)
            yield "grouped_means", f"{count} records of {classes} classes", dealt


def sorts(extent: Extent) -> Iterator[Case]:
    """Sorts by merging, and by CUB of float64 scores and of many: ends of warps, blocks, strips and tiles."""
    rng = np.random.default_rng(74)
    for number, count in enumerate(extent.sorts):
        for classes, wide in ((1, False), (600, False), (4, True)):
            if count > 1 << 16 and (number + classes) % 2:
                continue  # half of the large ones, which take a second on the CPU
            ids = _extreme_ids(min(count, 20_000))
            arguments = recorded.accumulate_arguments(rng, count, ids, classes=classes, ties=(0, 1))
            values = [0.1, -0.0, 0.0, np.inf, -np.inf, 5e-324, -1e-300, 1 / 3, np.nan, -np.nan] if wide else [np.nan]
            chosen = np.flatnonzero(rng.random(count) < (1.0 if wide else 0.01))  # a float32 holds no 0.1
            some = rng.choice(values, len(chosen)).view(np.uint8).reshape(-1, 8)
            arguments[0][torch.from_numpy(chosen), :8] = torch.from_numpy(some)
            yield "accumulate", f"{count} records, {classes} classes{', float64 scores' if wide else ''}", arguments
        for kind in ("near", "far"):
            documents = queries.documents(rng, count, count // 30 + 1, kind)[:2]
            yield "query_order", f"{count} documents, {kind}", documents


def _extreme_ids(count: int) -> list[int | None]:
    """Ids in no order, the least and the largest among them; every third image has none."""
    ids: list[int | None] = [(7919 * i % 65_537 - 30_000) << 20 if i % 3 else None for i in range(count)]
    ids[1:3] = [-(2**63), 2**63 - 1][: max(count - 1, 0)]
    return ids


def many_items(extent: Extent) -> Iterator[Case]:
    """More items than the 65,535 rows of a grid: images, segments, masks, classes and pairs, each tiny."""
    rng, items = np.random.default_rng(75), extent.items
    yield from _many_boxes(items)
    yield from _many_images(rng, items)
    yield from _many_pairs(extent.pairs)
    scores, target = ranked.scores(rng, 2, items), ranked.indices(rng, 2, items)
    yield "auroc_and_ap", "classes", (scores, target, None, None)
    yield "rank_curves", "classes", (scores, ranked.multi_hot(rng, 2, items), None, None)
    wide = sweeps.probabilities(rng, 3, items)
    grid = sweeps.grids()["hit"]
    yield "score_histogram", "classes", (wide, labels.labels_of(rng, 3, items), grid, items, None)
    where, grades = torch.arange(items), queries.grades(rng, items)
    documents = where.repeat(2), torch.from_numpy(rng.random(2 * items)), torch.cat((grades, grades.flip(0)))
    order, offsets, *_ = queries.ranked(documents)
    yield "query_order", "queries", documents[:2]
    yield "query_scores", "queries", queries.arguments("ndcg_exp", documents, 1)
    yield "query_hits", "queries", (order, offsets, documents[2], 3)
    yield "top_classes", "rows", (labels.scores_of(rng, 10 * items, 2), 2)
    precision = torch.from_numpy(rng.random((3, 1, items, 2, 1)))
    picks = torch.tensor([[0, 0, 0, 0, 3], [1, 1, 0, 0, 0]])
    means = precision, torch.from_numpy(rng.random((3, items, 2, 3))), picks, torch.tensor([0, 1, 2])
    yield "present_means", "classes", means
    few = resampled.random_arguments(rng, [1] * items, (1, 1, 1), 1, grid=[0.0, 0.5, 1.0])
    yield "resampled_means", "classes", few
    yield "draw_weights", "units", resampling.arguments(Draws(items, 2, kind="half"))
    records = recorded.accumulate_arguments(rng, 2 * items, [5, 3, None], classes=items)
    yield "accumulate", "classes", records
    one = torch.ones(items, dtype=torch.int64)
    names, gt_names = (torch.from_numpy(rng.integers(0, 2, items)) for _ in range(2))
    values = torch.from_numpy(rng.integers(1, 5, items) / 4)
    columns = Overlaps(torch.stack([one, one]), names, values, gt_names, one, torch.arange(items), values).columns()
    yield "rank_overlaps", "datums", (*columns, False)
    yield "confuse_overlaps", "datums", (*columns, torch.tensor([0.5], dtype=torch.float64), True)


def _many_boxes(items: int) -> Iterator[Case]:
    boxes, gt_boxes = (examples_boxes.rows(items, seed, examples_boxes.XYWH) for seed in (1, 2))
    ends = torch.arange(items + 1).expand(3, -1).contiguous()
    yield "box_iou", "segments", (boxes.float(), gt_boxes.float(), ends, None, 1)
    lengths, kinds = torch.ones((2, items), dtype=torch.int64), torch.arange(items) % 2
    batch = MatchBatch(
        lengths, [boxes], [torch.arange(items).double() % 5 / 4], [kinds], gt_boxes=[gt_boxes], gt_labels=[kinds * 0],
        gt_flags=[(kinds == 0).long()], box_format=1, gt_box_format=1,
    )  # fmt: skip
    rule = MatchRule.make([0.25, 0.5], [[0, 1e10]], [1, 10], 0)
    yield "assign", "images", to_arguments(batch, rule, torch.from_numpy)
    alone = [(1, 1)] * items
    yield "box_pairs", "images", examples_rotated.pair_arguments(alone, 0, 0.1, make=examples_boxes.rows)
    yield "rotated_pairs", "images", examples_rotated.pair_arguments(alone, lowest=0.1)
    yield "keypoint_pairs", "images", examples_keypoints.pair_arguments(alone, 2, lowest=0.1)
    yield "greedy_cosines", "texts", examples_cosines.texts_of(np.random.default_rng(1), alone, 32)


def _many_images(rng: np.random.Generator, items: int) -> Iterator[Case]:
    shape = (items, 2, 3)
    maps, target = (pixels.labels_of(rng, shape, 2) for _ in range(2))
    yield "count_pixels", "images", (maps, target, 2, None, True, True)
    yield "count_logits", "images", (pixels.logits_of(rng, (items, 2, 2, 3)), target, None, True, False)
    yield "count_one_hot", "images", (one_hot.hot_of(rng, shape, 2), target, 2, None, True)
    sides = [torch.stack([side, side * 0], -1) for side in (maps, target)]
    yield "count_panoptic", "images", (*sides, (0, 1), 1, False, True)
    masks = torch.from_numpy(rng.random((items, 3, 5)) < 0.5)
    yield "pack_masks", "masks", (masks,)
    yield "mask_boundary", "masks", (masks.to(torch.uint8), 1)
    yield "predict_maps", "images", (labels.scores_of(rng, 2 * items, 6).view(items, 2, 6), target.reshape(-1), None)
    yield "surface_distances", "images", (maps.int(), target.int(), [0, 0, 2], [1.0, 1.0, 0.95, 1.5])
    ring = [np.array([[0.2, 0.1], [3.5, 0.4], [1.0, 2.9]])]
    yield "rasterise", "masks", examples_polygons.arguments([ring] * items, [(3, 4)] * items, 0)


def inexact(extent: Extent) -> Iterator[Case]:
    """Products and sums that no float64 holds: a fused multiply-add would give other bits in most of them."""
    rng, pairs = np.random.default_rng(76), extent.pairs
    real = rng.random((2, pairs, 5)) * [30, 30, 15, 15, 360] + [0, 0, 1, 1, 0]
    first, second = (torch.from_numpy(side) for side in real)
    for code in (0, 1, 2):
        ends = torch.tensor([[0, pairs], [0, pairs], [0, pairs * pairs]])
        sides = (first[:, :4].contiguous(), second[:, :4].contiguous())
        for dtype in (torch.float32, torch.float64):
            yield "box_iou", f"format {code}, {dtype}", (*(side.to(dtype) for side in sides), ends, None, code)
    yield "rotated_iou", "any angle", (first, second, None, DEGREES)
    stars = (examples_polygon_iou.stars(side[:, :4] / 3, seed) for seed, side in enumerate(real))
    yield "polygon_iou", "stars", examples_polygon_iou.iou_arguments(next(stars), next(stars))
    points, gts = (torch.from_numpy(rng.random((pairs, 17, 3)) * [60, 60, 0] + [0, 0, 2]) for _ in range(2))
    areas = torch.from_numpy(rng.random(pairs) * 900 + 1)
    yield "keypoint_similarity", "any place", (points, gts, None, areas, examples_keypoints.sigmas_of(17))
    maps = [pixels.labels_of(rng, (2, 24, pairs), 3, 9, torch.int32) for _ in range(2)]
    yield "surface_distances", "odd spacing", (*maps, [0, 0, 3], [0.3, 0.7, 0.95, 1.1])
    yield "greedy_cosines", "texts", examples_cosines.texts_of(rng, [(9, 7)] * (pairs // 4), 96)
    yield (
        "sum_token_losses",
        "long rows",
        (tokens.logits_of(rng, (pairs, 1003)), tokens.tokens_of(rng, (pairs,), 1003), None),
    )


def _many_pairs(pairs: int) -> Iterator[Case]:
    """One image with more pairs than a grid has rows."""
    size = [(pairs, pairs)]
    yield "rotated_iou", "pairs", (examples_rotated.rows(pairs, 1), examples_rotated.rows(pairs, 2), None, DEGREES)
    first, second = (examples_polygon_iou.random_set(pairs, seed) for seed in (1, 2))
    yield "polygon_iou", "pairs", examples_polygon_iou.iou_arguments(first, second)
    yield "polygon_pairs", "pairs", examples_polygon_iou.pair_arguments(size, 0.0, True)
    yield "run_pairs", "pairs", examples_runs.pair_arguments(size, 0.0, agnostic=True)
    yield "dense_pairs", "pairs", examples_masks.pair_arguments([(pairs, pairs, 9, 7)], 0.0, classes=1)
    points, gts = (examples_keypoints.rows(pairs, 5, seed) for seed in (1, 2))
    areas = examples_keypoints.boxes_of(gts)[:, 2:].prod(1) + 1
    yield "keypoint_similarity", "pairs", (points, gts, None, areas, examples_keypoints.sigmas_of(5))
