"""Rows of the contract table for the metrics of groups and of raters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from valor_gpu.classification import BinaryFairness, BinaryGroupStatRates
from valor_gpu.nominal import FleissKappa


def groups_batch(seed: int, size: int = 12) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, target and group of each row; of three groups the last has no members in small batches."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(size, generator=generator)
    target, groups = (torch.randint(most, (size,), generator=generator) for most in (2, 2 + (size > 8)))
    return scores, target, groups


def _bad_groups() -> tuple[Tensor, Tensor, Tensor]:
    scores, target, groups = groups_batch(3)
    return scores.index_fill(0, torch.tensor([2]), math.nan), target, groups


def ratings_batch(seed: int, size: int = 7) -> tuple[Tensor]:
    """How many of four raters chose each of three categories of each row."""
    chosen = torch.randint(3, (size, 4), generator=torch.Generator().manual_seed(seed))
    return (torch.nn.functional.one_hot(chosen, 3).sum(1),)


def group_rows() -> Iterator[dict[str, Any]]:
    """Keywords of a case for each metric."""
    for kind, keep in itertools.product((BinaryFairness, BinaryGroupStatRates), (False, True)):
        yield {
            "name": f"{kind.__name__}-kept" if keep else kind.__name__,
            "make": partial(kind, 3, keep_rows=keep),
            "other": partial(kind, 3, threshold=0.75, keep_rows=keep),
            "batch": groups_batch,
            "empty": partial(groups_batch, 0, 0),
            "single": partial(groups_batch, 8, 1),
            "bad": _bad_groups,
        }
    yield {
        "name": "FleissKappa",
        "make": FleissKappa,
        "other": partial(FleissKappa, ignore_index=1),
        "batch": ratings_batch,
        "empty": partial(ratings_batch, 0, 0),
        "single": partial(ratings_batch, 7, 1),
        "bad": lambda: (torch.tensor([[3, 1, 0], [2, -1, 3]]),),
    }
