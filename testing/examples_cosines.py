"""Embeddings of tokens, for the op that matches them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing.datasets import BoxDataset
from valor_gpu.ops.error_codes import NO_ERROR

Arguments = tuple[Any, ...]


def texts_of(rng: np.random.Generator, sizes: list[tuple[int, int]], width: int) -> tuple[Tensor, Tensor, Tensor]:
    """float32 embeddings of texts of so many tokens, and where each text begins."""
    ends = np.concatenate((np.zeros((2, 1), np.int64), np.array(sizes, np.int64).reshape(-1, 2).cumsum(0).T), 1)
    sides = (torch.from_numpy(rng.standard_normal((rows, width)).astype(np.float32)) for rows in ends[:, -1])
    return next(sides), next(sides), torch.from_numpy(ends)


def examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``greedy_cosines``, as the op takes them: widths are multiples of 32."""
    rng = np.random.default_rng(53)
    sizes = [(1, 1), (3, 7), (0, 4), (9, 2), (5, 0), (0, 0), (4, 33)]
    for width in (32, 96, 256):
        yield f"of {width}", texts_of(rng, sizes, width)
    yield "no text", texts_of(rng, [], 32)
    yield "no token", texts_of(rng, [(0, 0), (0, 0)], 32)
    for name, value in (("0", 0.0), ("NaN", np.nan), ("inf", np.inf), ("large", 1e25)):
        preds, target, offsets = texts_of(rng, sizes, 64)
        yield f"a prediction of {name}", (preds.index_fill(0, torch.tensor([5, 9]), value), target, offsets)
        yield f"a reference of {name}", (preds, target.index_fill(0, torch.tensor([11]), value), offsets)
    preds, target, offsets = texts_of(rng, sizes, 32)
    yield "equal vectors", (preds, preds[:1].expand(len(target), -1).contiguous(), offsets)
    if not quick:
        yield "many", texts_of(rng, [tuple(row) for row in rng.integers(0, 60, (300, 2)).tolist()], 256)


def load(scene: BoxDataset) -> Arguments:
    """A pair of texts for every 1,000th detection, at most 500, of 32 tokens and 768 elements."""
    pairs = min(len(scene.dt_score) // 1000 + 1, 500)
    return texts_of(np.random.default_rng(59), [(32, 32)] * pairs, 768)


def defined(result: Any) -> tuple[Tensor, ...]:
    """All of a result without an error, else the error alone."""
    return tuple(result) if int(result[2]) == NO_ERROR else (result[2],)
