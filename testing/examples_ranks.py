"""Scores and targets for the ops that rank: few distinct scores, so that ties are everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing.datasets import BoxDataset

Arguments = tuple[Any, ...]
SIZES = (0, 1, 31, 33, 1000)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SPECIAL = (0.0, -0.0, np.inf, -np.inf, 1e-40, -1e-40, 65504.0)
"""Scores that order in their own way; 1e-40 is subnormal in float32, and a tie with 0.0 in float16."""


def scores(rng: np.random.Generator, rows: int, classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """``[rows, classes]``: a third special values, the others from a grid of 41 values around 0."""
    grid = rng.integers(-20, 21, (rows, classes)) / 8
    special = rng.choice(SPECIAL, (rows, classes))
    return torch.from_numpy(np.where(rng.random((rows, classes)) < 1 / 3, special, grid)).to(dtype)


def indices(rng: np.random.Generator, rows: int, classes: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """``[rows]`` class indices, the class 0 in half of them."""
    return torch.from_numpy(rng.integers(0, classes, rows) * rng.integers(0, 2, rows)).to(dtype)


def multi_hot(rng: np.random.Generator, rows: int, classes: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """``[rows, classes]`` of 0 and 1; class c is positive in a share of ``1 / (c + 2)``."""
    return torch.from_numpy(rng.random((rows, classes)) < 1 / np.arange(2, classes + 2)).to(dtype)


def weights(rng: np.random.Generator, rows: int) -> Tensor:
    """``[rows]``, a fifth of them 0."""
    return torch.from_numpy(rng.random(rows) * (rng.random(rows) > 0.2))


def examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``auroc_and_ap`` and of ``rank_curves``."""
    rng = np.random.default_rng(29)
    for rows in SIZES:
        for classes in (1, 3, 37):
            columns = scores(rng, rows, classes)
            yield f"{rows} x {classes}, indices", (columns, indices(rng, rows, classes), None, None)
            hot = multi_hot(rng, rows, classes).masked_fill(torch.from_numpy(rng.random((rows, classes)) < 0.1), -7)
            yield f"{rows} x {classes}, multi-hot", (columns, hot, -7, None)
            yield f"{rows} x {classes}, weights", (columns, indices(rng, rows, classes), 2, weights(rng, rows))
    for dtype, kind in zip(FLOATS, (torch.uint8, torch.int8, torch.int16, torch.int32)):
        columns = scores(rng, 333, 5, dtype)
        yield f"{dtype}, {kind}", (columns, indices(rng, 333, 5, kind), None, None)
        yield f"{dtype}, {kind}, multi-hot", (columns, multi_hot(rng, 333, 5, kind), None, weights(rng, 333))
    yield "bool", (scores(rng, 50, 2), multi_hot(rng, 50, 2, torch.bool), None, None)
    rows = 9_000 if quick else 200_000
    yield "two large classes", (scores(rng, rows, 2), indices(rng, rows, 2), None, None)
    even = torch.from_numpy(rng.integers(0, 20, 6_000))
    yield "classes of few", (torch.from_numpy(rng.random((6_000, 20), np.float32)), even, None, None)
    few = indices(rng, 2_000, 20) * (torch.arange(2_000) % 7 == 0)
    yield "classes of many and of few", (torch.from_numpy(rng.random((2_000, 20), np.float32)), few, None, None)
    yield "one large class", (torch.from_numpy(rng.random((rows, 1))), multi_hot(rng, rows, 1), None, None)
    yield "large classes, weights", (scores(rng, rows, 2), multi_hot(rng, rows, 2), None, weights(rng, rows))


def load(scene: BoxDataset) -> Arguments:
    """As many rows as the dataset has detections, 100 classes, float32."""
    rng = np.random.default_rng(31)
    rows = len(scene.dt_score)
    return (
        torch.from_numpy(rng.random((rows, 100), np.float32)),
        torch.from_numpy(rng.integers(0, 100, rows)),
        None,
        None,
    )
