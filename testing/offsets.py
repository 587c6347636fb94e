"""Tensors that begin at odd places of their memory, as slices do."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree


def moved(tensor: Tensor, by: int) -> Tensor:
    """A copy with the same strides that begins ``by`` elements into its memory, which torch aligns to 64 bytes."""
    extent = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride())) + 1 if tensor.numel() else 0
    memory = torch.empty(extent + by, dtype=tensor.dtype, device=tensor.device)
    memory[by:] = tensor.as_strided((extent,), (1,))
    return memory.as_strided(tensor.shape, tensor.stride(), by)


def moved_all(arguments: Any, seed: int) -> Any:
    """The arguments with some tensors one, two or three elements into their memory, others at its beginning."""
    steps = random.Random(seed)
    return pytree.tree_map_only(Tensor, lambda leaf: moved(leaf, steps.choice((0, 0, 1, 2, 3))), arguments)
