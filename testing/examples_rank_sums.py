"""Arguments of ``rank_sums``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from testing.datasets import BoxDataset

Arguments = tuple[Any, ...]


def columns(seed: int, shape: tuple[int, ...], levels: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Two tables of so many different values, signs and zeros of both signs among them."""
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randint(-levels, levels + 1, shape, generator=generator).to(dtype) / -3 for _ in range(2))
    return next(made), next(made)


def examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Tables of no, few and many rows and columns, with and without ties."""
    sizes = ((0, 2), (1, 1), (2, 0), (2, 3), (25, 2), (257, 3), *(() if quick else ((5000, 2), (100_003, 1))))
    for shape in sizes:
        for levels in (0, 1, 4, 10**6):
            for dtype in (torch.float32, torch.float64):
                made = columns(shape[0] + levels, shape, levels, dtype)
                yield f"{shape}, {levels} levels, {dtype}", (*made, True)
    preds, target = columns(5, (300, 2), 7, torch.float32)
    yield "without pairs", (preds, target, False)
    yield "transposed", (preds.t().contiguous().t(), target.flip(0), True)
    special = torch.tensor([[0.0, -0.0, torch.inf, -torch.inf, 5e-324, -5e-324, 1.0]]).double().t()
    yield "special values", (special, special.flip(0), True)
    yield "NaN", (special.index_fill(0, torch.tensor([2]), torch.nan), special, True)
    ascending = torch.arange(3000.0)[:, None]
    yield "reversed", (ascending, -ascending, True)


def load(scene: BoxDataset) -> Arguments:
    """A prediction for every detection and a noisy copy of it."""
    rows = max(len(scene.dt_score), 1)
    preds, noise = torch.randn((2, rows, 1), generator=torch.Generator().manual_seed(3))
    return preds, preds + noise, True
