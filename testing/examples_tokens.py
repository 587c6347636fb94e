"""Logits and tokens, for the op that sums losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing.datasets import BoxDataset

Arguments = tuple[Any, ...]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def logits_of(rng: np.random.Generator, shape: tuple[int, ...], spread: float = 3.0) -> Tensor:
    """float32, normally distributed."""
    return torch.from_numpy((rng.standard_normal(shape) * spread).astype(np.float32))


def tokens_of(rng: np.random.Generator, shape: tuple[int, ...], classes: int) -> Tensor:
    """int64, every token as likely."""
    return torch.from_numpy(rng.integers(0, classes, shape))


def examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``sum_token_losses``."""
    rng = np.random.default_rng(37)
    for rows, classes in ((0, 5), (1, 1), (1, 127), (31, 129), (33, 128), (7, 1000), (2, 2055)):
        for dtype in FLOATS:
            logits = logits_of(rng, (rows, classes)).to(dtype)
            yield f"{rows} x {classes}, {dtype}", (logits, tokens_of(rng, (rows,), classes), None)
    for dtype, kind in zip(FLOATS, (torch.uint8, torch.int8, torch.int16, torch.int32)):
        logits = logits_of(rng, (2, 9, 100), 90.0).to(dtype)
        yield f"far apart, {dtype}, {kind}", (logits, tokens_of(rng, (2, 9), 100).to(kind), 3)
        yield f"-inf, {dtype}", (_holes(rng, dtype), tokens_of(rng, (40,), 50), None)
    for dtype in (torch.bfloat16, torch.float64):
        yield from _errors(rng, dtype)
    yield from _layouts(rng)
    if not quick:
        yield "large", (logits_of(rng, (600, 5003)), tokens_of(rng, (600,), 5003), None)


def _holes(rng: np.random.Generator, dtype: torch.dtype) -> Tensor:
    """Half of the logits -inf, but not all of a row; some of the others as large as the dtype has."""
    logits = logits_of(rng, (40, 50)).to(dtype)
    logits[torch.from_numpy(rng.random((40, 50)) < 0.5)] = -torch.inf
    logits[:20, 7], logits[::2, 8] = torch.finfo(dtype).min, 1.0
    logits[5, 9] = torch.finfo(dtype).max
    logits[:, 0] = 0.0
    return logits


def _errors(rng: np.random.Generator, dtype: torch.dtype) -> Iterator[tuple[str, Arguments]]:
    logits, target = logits_of(rng, (12, 300)).to(dtype), tokens_of(rng, (12,), 300)
    for value in (torch.nan, torch.inf):
        bad = logits.clone()
        bad[3, 299], bad[5, 7] = value, value
        yield f"{value}, {dtype}", (bad, target, None)
        yield f"{value} in an ignored row, {dtype}", (bad, target.where(torch.arange(12) != 3, -1), -1)
    yield f"a row of -inf, {dtype}", (logits.index_fill(0, torch.tensor([7]), -torch.inf), target, None)
    for place, wrong in ((0, 300), (11, -2)):
        yield f"token {wrong}, {dtype}", (logits, target.index_fill(0, torch.tensor([place]), wrong), None)


def _layouts(rng: np.random.Generator) -> Iterator[tuple[str, Arguments]]:
    logits, target = logits_of(rng, (3, 8, 200)), tokens_of(rng, (3, 8), 200)
    yield "shifted by one", (logits[:, :-1], target[:, 1:], None)
    yield "classes first", (logits.transpose(1, 2).contiguous().transpose(1, 2), target, 5)
    yield "every other class", (logits[..., ::2], target // 2, None)
    yield "half types, classes first", (logits.half().permute(2, 0, 1).contiguous().permute(1, 2, 0), target, None)
    yield "float64, classes first", (logits.double().transpose(1, 2).contiguous().transpose(1, 2), target, None)
    yield "four dimensions", (logits.reshape(3, 2, 4, 200), target.reshape(3, 2, 4), None)
    yield "four dimensions, turned", (logits.reshape(3, 2, 4, 200).transpose(0, 2), target.reshape(4, 2, 3), None)
    yield "expanded", (logits[:, :1].expand(3, 8, 200), target, None)
    yield "an odd address", (logits.bfloat16().flatten()[1:].narrow(0, 0, 4600).view(23, 200), target.flatten()[1:], 0)
    yield "no row of some", (logits[:, :0], target[:, :0], None)


def load(scene: BoxDataset) -> Arguments:
    """A row for every 50th detection, at most 4,096, of 32,000 classes, bfloat16."""
    rng = np.random.default_rng(41)
    rows = min(len(scene.dt_score) // 50 + 1, 4096)
    logits = torch.randn((rows, 32_000), generator=torch.Generator().manual_seed(43)).bfloat16()
    return logits, tokens_of(rng, (rows,), 32_000), None
