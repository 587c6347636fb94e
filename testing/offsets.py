"""Tensors that begin at odd places of their memory, as slices do."""

from __future__ import annotations

import itertools
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


def moved_all(arguments: Any) -> Any:
    """The arguments with every tensor one, two or three elements into its memory, by turns."""
    steps = itertools.cycle((1, 2, 3, 1, 2))
    return pytree.tree_map_only(Tensor, lambda leaf: moved(leaf, next(steps)), arguments)
