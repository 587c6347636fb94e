"""Scores and labels made by hand, for the ops that count hard labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing import formats
from testing.datasets import BoxDataset

Arguments = tuple[Any, ...]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
SIZES = (0, 1, 31, 33, 1000)
WIDTHS = (1, 2, 3, 10, 100)
CLASSES = 80


def scores_of(rng: np.random.Generator, rows: int, classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """``[rows, classes]`` with ties everywhere: few values, some -0.0, infinite or subnormal."""
    values = torch.from_numpy(rng.integers(-6, 7, (rows, classes)) / 4).to(dtype)
    values[torch.from_numpy(rng.random((rows, classes)) < 0.1)] = -0.0
    values[torch.from_numpy(rng.random((rows, classes)) < 0.02)] = torch.inf
    values[torch.from_numpy(rng.random((rows, classes)) < 0.05)] = -torch.inf
    values[torch.from_numpy(rng.random((rows, classes)) < 0.02)] = torch.finfo(dtype).smallest_normal / 4
    return values


def labels_of(rng: np.random.Generator, rows: int, classes: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """``[rows]`` from 0 to ``classes``, which is the index to ignore; low classes are frequent."""
    return torch.from_numpy((rng.random(rows) ** 2 * (classes + 1)).astype(np.int64)).to(dtype)


def weights_of(rng: np.random.Generator, rows: int) -> Tensor:
    """float64 ``[rows]`` whose sums depend on the order; a few are 0."""
    return torch.from_numpy(rng.random(rows) * 10.0 ** rng.integers(-3, 4, rows) * (rng.random(rows) > 0.05))


def count_top_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``count_top``."""
    rng = np.random.default_rng(3)
    for rows in SIZES:
        for classes in WIDTHS:
            scores, target = scores_of(rng, rows, classes), labels_of(rng, rows, classes)
            yield f"{rows} x {classes}", (scores, target, 1, classes, None)
            best = min(classes, 5)
            yield f"{rows} x {classes}, top {best}, weights", (scores, target, best, classes, weights_of(rng, rows))
    for dtype in FLOATS:
        for k in (1, 5):
            yield f"{dtype}, top {k}", (scores_of(rng, 300, 37, dtype), labels_of(rng, 300, 37), k, 37, None)
    for form in INTS:
        yield f"{form}", (scores_of(rng, 65, 10), labels_of(rng, 65, 10, form), 1, 10, None)
    yield "one long row", (scores_of(rng, 1, 50_001), torch.tensor([40_000]), 3, None, None)
    wrong = scores_of(rng, 40, 7)
    wrong[31, 5] = wrong[33, 0] = torch.nan
    yield "NaN", (wrong, labels_of(rng, 40, 6), 1, None, None)
    yield "target out of range", (scores_of(rng, 40, 7), labels_of(rng, 40, 7), 2, None, None)
    if not quick:
        target = labels_of(rng, 20_000, 1000)
        yield "20,000 x 1,000", (scores_of(rng, 20_000, 1000), target, 5, 1000, weights_of(rng, 20_000))


def pair_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``count_labels`` and ``count_pairs``."""
    rng = np.random.default_rng(4)
    for rows in (*SIZES, 5000):
        for classes in (1, 2, 10, 200):
            preds, target = labels_of(rng, rows, classes - 1), labels_of(rng, rows, classes)
            yield f"{rows} of {classes}", (preds, target, classes, classes, None)
            yield f"{rows} of {classes}, weights", (preds, target, classes, classes, weights_of(rng, rows))
    for form in INTS:
        for other in INTS:
            pair = labels_of(rng, 33, 9, form), labels_of(rng, 33, 9, other)
            yield f"{form}, {other}", (*pair, 10, 0, None)
    preds, target = labels_of(rng, 70, 9), labels_of(rng, 70, 9)
    yield "preds out of range", (preds, target, 9, 9, None)
    yield "preds and target out of range, weights", (preds, target, 8, None, weights_of(rng, 70))
    bad = weights_of(rng, 70)
    bad[40], bad[50] = torch.inf, -1.0
    yield "weights that are none", (preds, target, 10, 0, bad)
    if not quick:
        big = labels_of(rng, 1_000_000, 999), labels_of(rng, 1_000_000, 999), 1000, None
        yield "1,000,000 of 1,000", (*big, None)
        yield "1,000,000 of 1,000, weights", (*big, weights_of(rng, 1_000_000))


def top_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``top_classes``."""
    rng = np.random.default_rng(5)
    for rows in SIZES:
        for classes in WIDTHS:
            for k in sorted({1, min(classes, 5), classes if rows < 1000 else 1}):
                yield f"{rows} x {classes}, top {k}", (scores_of(rng, rows, classes), k)
    for dtype in FLOATS:
        yield f"{dtype}", (scores_of(rng, 300, 37, dtype), 5)
        yield f"{dtype}, a row fills a warp", (scores_of(rng, 9, 700, dtype), 4)
    yield "a row is more than a warp holds", (scores_of(rng, 9, 1100), 4)
    wrong = scores_of(rng, 40, 7)
    wrong[31, 5] = wrong[33, 0] = torch.nan
    yield "NaN", (wrong, 2)
    if not quick:
        yield "20,000 x 1,000", (scores_of(rng, 20_000, 1000), 5)


def confuse_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``confuse_scores``."""
    for name, (scores, target, k, ignored, weight) in count_top_examples(quick):
        if k == 1 and weight is None:
            yield name, (scores, target, ignored)


def map_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``predict_maps``."""
    rng = np.random.default_rng(8)
    for shape in ((0, 3, 4), (2, 3, 0), (1, 1, 5), (3, 2, 33), (2, 19, 64), (1, 7, 1000), (5, 4, 8)):
        for dtype in FLOATS:
            images, classes, pixels = shape
            scores = scores_of(rng, images * classes, pixels, dtype).view(shape)
            yield f"{shape}, {dtype}", (scores, labels_of(rng, images * pixels, classes), classes)
    wrong = scores_of(rng, 10, 12).view(2, 5, 12)
    wrong[1, 3, 7] = wrong[1, 4, 7] = wrong[0, 2, 3] = torch.nan
    target = labels_of(rng, 24, 4)
    target[3], target[20], target[23] = -1, 5, -7
    yield "NaN, ignored and bad targets", (wrong, target, -1)
    for form in INTS:
        yield f"{form}", (scores_of(rng, 10, 16).view(2, 5, 16), labels_of(rng, 32, 5, form), 5)
    if not quick:
        yield "19 x 1024 x 2048", (scores_of(rng, 19, 1 << 21)[None], labels_of(rng, 1 << 21, 19), 19)


def cell_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``first_in_cells``."""
    rng = np.random.default_rng(6)
    for rows in SIZES:
        for cells in (0, 1, 7, 400):
            for k in (0, 1, 3):
                yield f"{rows} of {cells}, first {k}", (labels_of(rng, rows, cells + 2) - 1, cells, k)
    for form in INTS:
        yield f"{form}", (labels_of(rng, 100, 20, form), 20, 2)
    if not quick:
        yield "1,000,000 of 10,000", (labels_of(rng, 1_000_000, 10_000), 10_000, 5)


def _load(scene: BoxDataset) -> tuple[Tensor, Tensor]:
    """One row of scores for each detection, with the label of the detection as target."""
    target = formats.columns(scene).labels % CLASSES
    return torch.rand(len(target), CLASSES, generator=torch.Generator().manual_seed(0)), target


def count_top_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``count_top``: top 5 of 80 classes."""
    return *_load(scene), 5, None, None


def top_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``top_classes``."""
    return _load(scene)[0], 5


def confuse_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``confuse_scores``."""
    return *_load(scene), None


def map_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``predict_maps``: the scores turned around."""
    scores, target = _load(scene)
    return scores.T.contiguous()[None], target, None


def pair_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``count_labels`` and ``count_pairs``."""
    target = formats.columns(scene).labels % CLASSES
    return target.flip(0).contiguous(), target, CLASSES, None, None


def cell_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``first_in_cells``."""
    preds, target, *_ = pair_load(scene)
    return target * CLASSES + preds, CLASSES * CLASSES, 4
