"""Curves of ranked overlaps against plain Python, point by point."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.reduce.overlap_scenes import Scene, mean, overlaps_of, plain_counts, plain_curve, random_scenes
from valor_gpu.errors import InputError
from valor_gpu.ops.overlaps.op import Overlaps, rank_overlaps
from valor_gpu.reduce.overlap_curves import average_precision, average_recall, curve_101

CLASSES = [0, 2, 5]
THRESHOLDS = [0.5, 0.6, 0.2, 1.0]
GRID = torch.tensor(CLASSES), torch.tensor(THRESHOLDS, dtype=torch.float64)


def precision_of(overlaps: Overlaps, order: str = "valor") -> Tensor:
    return average_precision(rank_overlaps(overlaps), overlaps, *GRID, order=order)


@pytest.mark.parametrize("order", ["valor", "lite"])
@pytest.mark.parametrize("seed", range(12))
def test_curves_and_their_means(seed: int, order: str) -> None:
    scenes = random_scenes(seed, datums=25)
    overlaps = overlaps_of(scenes)
    precisions, scores = curve_101(rank_overlaps(overlaps), overlaps, *GRID, order=order)
    means = precision_of(overlaps, order)
    for c, label in enumerate(CLASSES):
        for t, threshold in enumerate(THRESHOLDS):
            curve, heights = plain_curve(scenes, label, threshold, order)
            np.testing.assert_array_equal(precisions[c, t], curve)
            np.testing.assert_array_equal(scores[c, t], heights)
            np.testing.assert_allclose(float(means[0, c, t]), mean(curve), rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(6))
def test_recall(seed: int) -> None:
    scenes = random_scenes(seed)
    overlaps = overlaps_of(scenes)
    least = [0.5, 0.0, 0.8]
    found = average_recall(rank_overlaps(overlaps), overlaps, *GRID, torch.tensor(least, dtype=torch.float64))
    for c, label in enumerate(CLASSES):
        for s, score in enumerate(least):
            counts = [plain_counts(scenes, label, threshold, score, False) for threshold in THRESHOLDS]
            expected = mean(x["tp"] / x["ground_truths"] if x["ground_truths"] else math.nan for x in counts)
            np.testing.assert_allclose(float(found[0, c, s]), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(6))
def test_a_group_is_its_datums_alone_to_the_last_bit(seed: int) -> None:
    scenes = random_scenes(seed, datums=40)
    groups = torch.randint(-1, 4, (len(scenes),), generator=torch.Generator().manual_seed(seed))
    overlaps, least = overlaps_of(scenes), torch.tensor([0.0, 0.5], dtype=torch.float64)
    slices = {"groups": groups, "num_groups": 4}
    found = average_precision(rank_overlaps(overlaps), overlaps, *GRID, **slices)  # type: ignore[arg-type]
    recall = average_recall(rank_overlaps(overlaps), overlaps, *GRID, least, **slices)  # type: ignore[arg-type]
    for group in range(4):
        alone = overlaps_of([scene for scene, own in zip(scenes, groups.tolist()) if own == group])
        np.testing.assert_array_equal(found[group], precision_of(alone)[0])
        np.testing.assert_array_equal(recall[group], average_recall(rank_overlaps(alone), alone, *GRID, least)[0])


@pytest.mark.parametrize("order", ["valor", "lite"])
def test_order_of_datums_changes_nothing(order: str) -> None:
    scenes = random_scenes(7, datums=40)
    found = precision_of(overlaps_of(scenes), order)
    for seed in range(5):
        places = np.random.default_rng(seed).permutation(len(scenes))
        np.testing.assert_array_equal(precision_of(overlaps_of([scenes[i] for i in places]), order), found)


def test_relabelling_changes_nothing() -> None:
    scenes = random_scenes(8, datums=40)
    found = precision_of(overlaps_of(scenes))
    renamed = [Scene([9 - x for x in s.labels], s.scores, [9 - x for x in s.gt_labels], s.ious) for s in scenes]
    overlaps, classes = overlaps_of(renamed), torch.tensor([4, 7, 9])
    again = average_precision(rank_overlaps(overlaps), overlaps, classes, GRID[1]).flip(1)
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("positives", [3, 7, 29, 100])
def test_every_recall_of_the_grid(positives: int) -> None:
    """All true positives, up to each recall: the tolerant comparison reaches k / 100, the rounding one may not."""
    for hits in range(1, positives + 1):
        scene = Scene([0] * hits, [0.5] * hits, [0] * positives, np.eye(hits, positives))
        overlaps = overlaps_of([scene])
        reached = 100 * hits // positives + 1
        assert float(precision_of(overlaps)[0, 0, 0]) == reached / 101
        rounded = math.floor(hits / positives * 100) + 1
        assert float(precision_of(overlaps, "lite")[0, 0, 0]) == rounded / 101


def test_perfect_is_exactly_one_and_missed_is_zero() -> None:
    scene = Scene([0, 0, 0], [0.9, 0.8, 0.7], [0, 0, 0, 2], np.eye(3, 4))
    found = precision_of(overlaps_of([scene]))
    np.testing.assert_array_equal(found[0], [[1.0] * 4, [0.0] * 4, [math.nan] * 4])


def test_precisions_that_hardly_differ() -> None:
    """500 true positives among 1001 detections are a smaller part than 1001 among 2004, by less than 1e-6."""
    true = torch.tensor([False] * 501 + [True] * 500 + [False] * 502 + [True] * 501)
    hits = int(true.sum())
    labels, gt_labels = torch.zeros(len(true), dtype=torch.int64), torch.zeros(hits, dtype=torch.int64)
    scores, ious = torch.linspace(1, 0.1, len(true)).double(), torch.full((hits,), 0.75, dtype=torch.float64)
    sizes = torch.tensor([[len(true)], [hits]])
    overlaps = Overlaps(sizes, labels, scores, gt_labels, true.long(), torch.arange(hits), ious)
    curve, _ = curve_101(rank_overlaps(overlaps), overlaps, torch.tensor([0]), torch.tensor([0.5]).double())
    np.testing.assert_array_equal(curve[0, 0], 1001 / 2004)


@pytest.mark.parametrize(
    "scenes", [[], [Scene([], [], [], [])], [Scene([], [], [0, 2], [])], [Scene([0], [0.5], [], [[]])]]
)
def test_empty_sides(scenes: list[Scene]) -> None:
    overlaps = overlaps_of(scenes)
    ranked = rank_overlaps(overlaps)
    there = [any(label in s.gt_labels for s in scenes) for label in CLASSES]
    expected = np.where(there, 0.0, math.nan)
    np.testing.assert_array_equal(precision_of(overlaps)[0], np.broadcast_to(expected[:, None], (3, 4)))
    precisions, scores = curve_101(ranked, overlaps, *GRID)
    np.testing.assert_array_equal(precisions, np.broadcast_to(expected[:, None, None], (3, 4, 101)))
    assert scores[:, :, 1:].sum() == 0 and scores[:, :, 0].max() == (0.5 if overlaps.labels.numel() else 0)
    recall = average_recall(ranked, overlaps, *GRID, torch.tensor([0.0]).double())
    np.testing.assert_array_equal(recall[0, :, 0], expected)


def test_unknown_order() -> None:
    overlaps = overlaps_of([])
    with pytest.raises(InputError, match="order must be one of 'valor', 'lite' but got 'coco'"):
        precision_of(overlaps, "coco")
    with pytest.raises(InputError, match="order must be one of 'valor', 'lite' but got 'coco'"):
        curve_101(rank_overlaps(overlaps), overlaps, *GRID, order="coco")
