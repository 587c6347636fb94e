"""Draws of units, for the op that makes weights of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from testing.datasets import BoxDataset
from valor_gpu.ops.resampling.op import _numbers
from valor_gpu.stats.draws import Draws

Arguments = tuple[Any, ...]


def arguments(draws: Draws) -> Arguments:
    """Arguments of the op for draws."""
    codes = torch.empty(0, dtype=torch.int64) if draws.clusters is None else torch.from_numpy(draws.clusters)
    return codes, *_numbers(draws)


def draw_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``draw_weights``."""
    for units in (0, 1, 2, 3, 4, 5, 255, 1023) if quick else (0, 1, 3, 1023, 5000, 100_003):
        for kind in ("multinomial", "half"):
            yield f"{units} units, {kind}", arguments(Draws(units, 33, 5, 2**63 + 12345, kind))
        if units:
            yield f"{units} units, delete", arguments(Draws(units, 3, 1, 7, "delete", 5))
    yield "no replicate", arguments(Draws(9, 0))
    yield "a negative seed", arguments(Draws(9, 2, seed=-1))
    clusters = np.random.default_rng(0).integers(0, 40, 300)
    for kind in ("multinomial", "half"):
        yield f"clusters, {kind}", arguments(Draws(300, 7, 3, 1, kind, clusters=clusters))


def draw_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``draw_weights`` for 1,000 replicates of the images of ``scene``."""
    return arguments(Draws(len(scene.image_ids), 1000))
