"""Scores, targets and thresholds made by hand, for the op of score histograms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from testing.datasets import BoxDataset
from testing.examples_labels import CLASSES, FLOATS, INTS, SIZES, labels_of, scores_of, weights_of
from valor_gpu.reduce.histogram_metrics import float_order_thresholds

Arguments = tuple[Any, ...]
IGNORED = 3
"""What a multi-hot target holds where an element is left out."""


def multi_hot(rng: np.random.Generator, rows: int, classes: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """``[rows, classes]`` of 0, 1 and :data:`IGNORED`."""
    return torch.from_numpy(rng.choice([0, 1, IGNORED], (rows, classes), p=[0.7, 0.25, 0.05])).to(dtype)


def probabilities(rng: np.random.Generator, rows: int, classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """``[rows, classes]`` of both extremes: sigmoids of widely spread logits."""
    return torch.from_numpy(rng.normal(size=(rows, classes)) * 8).sigmoid().to(dtype)


def grids() -> dict[str, Tensor]:
    """Thresholds by name; the first ones are hit exactly by the scores of :func:`scores_of`."""
    lists = {
        "hit": np.arange(-6, 7) / 4,
        "one": [0.0],
        "minus zero": [-0.0],
        "none": [],
        "zeros in two cells": [-(2 - 2.0**-23), -(2.0**-149), 0.0, 1.0],  # in the float-order lookup of float32
        "infinite": [-np.inf, -1e308, -(2.0**-149), 5e-324, 1e-40, 1e308, np.inf],
        "repeated": [-1.0, 0.25, 0.25, 0.25, 1.0, 1.0],
        "even": np.linspace(0, 1, 200),
        "crowded": np.sort(
            np.concatenate([1 + np.arange(40) * 2.0**-52, 0.25 + np.arange(40) * 2.0**-24, [-1e6, 1e6]])
        ),
        "beyond float32": [-1e300, -3.5e38, 3.5e38, 1e300],
        "squares": np.linspace(0, 1, 200) ** 2,  # leaves of one threshold, csrc/core/sweep_keys.h
        "close": _close(),
        "below and above": [-np.inf, *-np.geomspace(1e-3, 1e3, 30)[::-1], *np.geomspace(1e-3, 1e3, 30), np.inf],
    }
    named = {name: torch.tensor(np.asarray(values, np.float64)) for name, values in lists.items()}
    return {**named, "float order": float_order_thresholds(4), "float order, many": float_order_thresholds(32)}


def _close() -> NDArray[np.float64]:
    """200 seeded thresholds, some with the next float32 numbers beside them, some equal: leaves of up to three."""
    some = np.random.default_rng(3).random(200).astype(np.float32)
    near = [np.nextafter(some[:4], np.float32(end), dtype=np.float32) for end in (0, 1)]
    return np.sort(np.concatenate([some, *near, some[10:14], some[14:16], some[14:16]])).astype(np.float64)


def examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``score_histogram``."""
    rng, grid = np.random.default_rng(7), grids()
    for rows in SIZES:
        for classes in (1, 2, 3, 10, 100):
            scores, weight = scores_of(rng, rows, classes), weights_of(rng, rows)
            target, hot = labels_of(rng, rows, classes), multi_hot(rng, rows, classes)
            yield f"{rows} x {classes}", (scores, target, grid["hit"], classes, None)
            yield f"{rows} x {classes}, weights", (scores, target, grid["hit"], classes, weight)
            yield f"{rows} x {classes}, labels", (scores, hot, grid["even"], IGNORED, None)
            yield f"{rows} x {classes}, labels, weights", (scores, hot, grid["even"], IGNORED, weight)
    for dtype in FLOATS:
        for name, thresholds in grid.items():
            target = labels_of(rng, 200, 7)
            yield f"{dtype}, {name}", (scores_of(rng, 200, 7, dtype), target, thresholds, 7, None)
            yield f"{dtype}, {name}, probabilities", (probabilities(rng, 200, 7, dtype), target, thresholds, 7, None)
    for form in INTS:
        yield f"{form}", (scores_of(rng, 65, 10), labels_of(rng, 65, 10, form), grid["hit"], 10, None)
        yield f"{form}, labels", (scores_of(rng, 65, 3), multi_hot(rng, 65, 3, form), grid["hit"], IGNORED, None)
    yield "bool", (scores_of(rng, 65, 3), multi_hot(rng, 65, 3).bool(), grid["hit"], None, None)
    yield "10,000 thresholds", (
        probabilities(rng, 50, 3), labels_of(rng, 50, 3), torch.linspace(0, 1, 10_000, dtype=torch.float64), 3, None,
    )  # fmt: skip
    for classes in (40, 65):  # more than one tile holds
        many, hot = probabilities(rng, 50, classes), multi_hot(rng, 50, classes)
        target, thresholds = labels_of(rng, 50, classes), grid["float order, many"]
        yield f"{classes} classes, many thresholds", (many, target, thresholds, classes, None)
        yield f"{classes} labels, many thresholds", (many, hot, thresholds, IGNORED, None)
    yield (
        "blocks of rows",
        (probabilities(rng, 5000, 3), labels_of(rng, 5000, 3), grid["hit"], 3, weights_of(rng, 5000)),
    )
    for classes in (1, 7, 40):
        name, scores = f"probabilities of {classes}, auto", probabilities(rng, 300, classes)
        yield f"{name}, labels", (scores, multi_hot(rng, 300, classes), grid["even"], IGNORED, None, "auto")
        yield name, (scores, labels_of(rng, 300, classes), grid["even"], classes, None, "auto")
        yield f"{name}, uneven", (scores, labels_of(rng, 300, classes), grid["squares"], classes, None, "auto")
    yield from wrong_examples()
    if not quick:
        yield from _large_examples(rng, grid)


def wrong_examples() -> Iterator[tuple[str, Arguments]]:
    """Arguments with values that are none."""
    rng, hit = np.random.default_rng(8), grids()["hit"]
    scores, target, hot, weight = (
        scores_of(rng, 40, 7), labels_of(rng, 40, 7), multi_hot(rng, 40, 7), weights_of(rng, 40),
    )  # fmt: skip
    nan = scores.clone()
    nan[31, 5], nan[31, 6], nan[33, 0] = torch.nan, -torch.nan, torch.nan
    ignored = hot.clone()
    ignored[:33] = IGNORED
    bad = weight.clone()
    bad[[21, 25, 30]] = torch.tensor([torch.inf, -1.0, torch.nan]).double()
    yield from {
        "NaN": (nan, target, hit, 7, None),
        "NaN, labels": (nan, hot, hit, IGNORED, None),
        "NaN, weights": (nan, target, hit, 7, weight),
        "NaN of weight 0": (nan, target, hit, 7, torch.zeros_like(weight)),
        "NaN and ignored": (nan, ignored, hit, IGNORED, None),
        "NaN without thresholds": (nan, target, torch.zeros(0, dtype=torch.float64), 7, None),
        "target out of range": (scores, target, hit, None, None),
        "target out of range, labels": (scores, hot, hit, None, None),
        "target out of range, weights": (scores, hot, hit, None, weight),
        "weights that are none": (scores, target, hit, 7, bad),
        "weights that are none, labels": (scores, ignored, hit, IGNORED, bad),
        "weights that are none and NaN": (nan, hot, hit, IGNORED, bad),
        "negative targets": (scores, target - 4, hit, 1, None),
    }.items()


def _large_examples(rng: np.random.Generator, grid: dict[str, Tensor]) -> Iterator[tuple[str, Arguments]]:
    scores, target = probabilities(rng, 20_000, 1000), labels_of(rng, 20_000, 1000)
    for name in ("even", "float order, many"):
        yield f"20,000 x 1,000, {name}", (scores, target, grid[name], 1000, None)
    yield "20,000 x 1,000, auto", (scores, target, grid["even"], 1000, None, "auto")
    yield "20,000 x 1,000, weights", (scores, target, grid["even"], 1000, weights_of(rng, 20_000))
    hot = multi_hot(rng, 1_000_000, 1, torch.int8)
    yield "1,000,000 x 1", (probabilities(rng, 1_000_000, 1), hot, grid["float order, many"], IGNORED, None)
    yield "1,000,000 x 1, weights", (
        probabilities(rng, 1_000_000, 1), hot, grid["even"], IGNORED, weights_of(rng, 1_000_000),
    )  # fmt: skip


def load(scene: BoxDataset) -> Arguments:
    """200 thresholds for one row of 80 scores a detection."""
    rng = np.random.default_rng(9)
    rows = len(scene.dt_score)
    return probabilities(rng, rows, CLASSES), labels_of(rng, rows, CLASSES - 1), grids()["even"], None, None
