"""Hausdorff and surface distances and boundary F1 against every pair of boundary pixels: no distance transform."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist  # type: ignore[import-untyped]

from tests.fuzz import seeds
from valor_gpu.ops.surface.op import METRICS
from valor_gpu.segmentation import BoundaryF1, HausdorffDistance, SurfaceDistance

Mask = NDArray[np.bool_]
NAMES = {"euclidean": "euclidean", "chessboard": "chebyshev", "taxicab": "cityblock"}


def boundary(mask: Mask) -> NDArray[np.int64]:
    """Positions of the pixels with a neighbour along an axis that is not of the mask, or beyond the image."""
    padded = np.pad(mask, 1)
    inner = padded.copy()
    for axis in range(mask.ndim):
        for step in (1, -1):
            inner &= np.roll(padded, step, axis)
    return np.argwhere(padded & ~inner) - 1


def nearest(masks: list[Mask], metric: str, spacing: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Distances of each side's boundary pixels to the nearest of the other side."""
    between = cdist(*(boundary(mask) * spacing for mask in masks), NAMES[metric])
    return [between.min(1), between.min(0)]


def scene(seed: int) -> tuple[list[Mask], NDArray[np.float64]]:
    """Two masks of an image, which is seldom square, or of a volume; some are full, some empty; and a spacing."""
    rng = np.random.default_rng([seed, 31])
    size = tuple(rng.integers(1, 9, 3)) if seed % 4 == 0 else tuple(rng.integers(1, 30, 2))
    masks = [rng.random(size) < rng.choice([0, 0.05, 0.5, 0.95, 1], p=[0.1, 0.2, 0.3, 0.3, 0.1]) for _ in range(2)]
    return masks, rng.random(len(size)) * 3 + 0.1


def values(masks: list[Mask], **choices: Any) -> dict[str, float]:
    sides = [torch.from_numpy(mask.astype(np.int64))[None] for mask in masks]
    found = {
        name: float(SurfaceDistance(2, statistic=name, **choices)(*sides)) for name in ("mean", "percentile", "max")
    }
    return found | {"hausdorff": float(HausdorffDistance(2, input_format="index", **choices)(*sides))}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("first", [40 * seed for seed in seeds(1)])
def test_distances_are_those_of_all_pairs(first: int, metric: str) -> None:
    scored = 0
    for seed in range(first, first + 40):
        masks, spacing = scene(seed)
        is_scaled = metric == "euclidean" and seed % 2 == 1
        found = values(masks, distance_metric=metric, **({"spacing": spacing.tolist()} if is_scaled else {}))
        there = [len(boundary(mask)) > 0 for mask in masks]
        if not all(there):
            assert all(math.isnan(found[name]) for name in ("mean", "percentile", "max"))
            assert math.isinf(found["hausdorff"]) if any(there) else math.isnan(found["hausdorff"])
            continue
        both = nearest(masks, metric, spacing if is_scaled else np.ones_like(spacing))
        expected = {
            "mean": np.concatenate(both).mean(),
            "percentile": max(np.percentile(side, 95) for side in both),
            "max": max(side.max() for side in both),
        }
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-13), seed
        assert found["hausdorff"] == pytest.approx(expected["max"], rel=1e-6), seed
        scored += 1
    assert 20 < scored < 40


@pytest.mark.parametrize("tolerance", [0.0, 1.0, math.sqrt(2), 3.0])
def test_boundary_f1_is_that_of_all_pairs(tolerance: float) -> None:
    found = []
    for seed in range(40):
        masks, spacing = scene(seed)
        sides = [torch.from_numpy(mask.astype(np.int64))[None] for mask in masks]
        value = float(BoundaryF1(2, tolerance=tolerance, unit="pixels")(*sides))
        there = [mask.any() for mask in masks]
        if not all(there):
            assert value == 0.0 if any(there) else math.isnan(value)
            continue
        precision, recall = ((side <= tolerance).mean() for side in nearest(masks, "euclidean", np.ones_like(spacing)))
        expected = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        assert value == pytest.approx(expected, rel=1e-14), seed
        found.append(value)
    assert min(found) < 0.7 < max(found)
