"""Batches of the contract for metrics of distances between boundaries."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from valor_gpu.segmentation import BoundaryF1, HausdorffDistance, SurfaceDistance

_CLASSES = dict(num_classes=3, include_background=True)
SURFACES: dict[str, tuple[Any, Any]] = {
    "HausdorffDistance": (
        partial(HausdorffDistance, **_CLASSES, input_format="index"),
        partial(HausdorffDistance, **_CLASSES, input_format="index", distance_metric="taxicab"),
    ),
    "SurfaceDistance": (partial(SurfaceDistance, **_CLASSES), partial(SurfaceDistance, **_CLASSES, directed=True)),
    "SurfaceDistance-percentile": (
        partial(SurfaceDistance, **_CLASSES, statistic="percentile", percentile=80, average="micro"),
        partial(SurfaceDistance, **_CLASSES, statistic="percentile", percentile=70, average="micro"),
    ),
    "BoundaryF1": (
        partial(BoundaryF1, **_CLASSES, average="none"),
        partial(BoundaryF1, **_CLASSES, average="none", tolerance=1.5, unit="pixels"),
    ),
}
"""Each metric in two configurations."""


def surface_batch(seed: int, images: int = 2) -> tuple[Tensor, Tensor]:
    """Label maps whose regions have moved; every class is in every image, so that no distance is infinite."""
    generator = torch.Generator().manual_seed(seed)
    small = torch.randint(3, (images, 4, 4), generator=generator)
    small[:, 0, :3] = torch.arange(3)
    target = small.repeat_interleave(4, 1).repeat_interleave(4, 2)
    noise = torch.rand(target.shape, generator=generator) < 0.05
    return torch.where(noise, 2 - target, target.roll(1 + seed % 3, 2)), target


def bad_labels() -> tuple[Tensor, Tensor]:
    """A batch with a label that is no class."""
    preds, target = surface_batch(3)
    return preds, target.index_fill(1, torch.tensor([2]), 3)


def surface_rows() -> list[dict[str, Any]]:
    """The fields of a case of the contract, for every metric."""
    shared = dict(batch=surface_batch, single=partial(surface_batch, 7, 1), empty=partial(surface_batch, 0, 0))
    return [
        dict(name=name, make=make, other=other, bad=bad_labels, **shared) for name, (make, other) in SURFACES.items()
    ]
