"""Checked tables of numbers, and sums over their rows that no other row changes."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.checks import check_dense, check_same_device
from valor_gpu.errors import InputError
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

_OF_FLOAT32 = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.bool)
"""Dtypes whose numbers float32 holds."""
_TYPES = (*FLOAT_TYPES, *INT_TYPES)


def tables(names: tuple[str, str], given: tuple[Values, Values], second: int = 2) -> tuple[Tensor, Tensor, bool]:
    """Checks two inputs and returns them contiguous in one floating dtype, and whether one of them came in float64.

    Args:
        names: of the arguments.
        given: the first ``[N, D]``, the second of its shape.
        second: dimensions of the second; 1: it is ``[N]``.

    Returns:
        Both in float32 where it holds their numbers, else in float64.

    Raises:
        InputError: naming the argument.
    """
    first, other = (as_values(name, value) for name, value in zip(names, given))
    for name, side, dimensions in zip(names, (first, other), (2, second)):
        check_dense(name, side)
        if side.dtype not in _TYPES:
            raise InputError(f"{name} must hold real numbers but has dtype {side.dtype}")
        if side.ndim != dimensions:
            raise InputError(f"{name} must have shape {['', '[N]', '[N, D]'][dimensions]} but got {list(side.shape)}")
    if other.shape != first.shape[:second]:
        raise InputError(f"{names[1]} must have shape {list(first.shape[:second])} but got {list(other.shape)}")
    check_same_device(names, (first, other))
    wide = torch.float64 in (first.dtype, other.dtype)
    held = all(side.dtype in _OF_FLOAT32 for side in (first, other))
    dtype = torch.float32 if held else torch.float64
    return first.detach().to(dtype).contiguous(), other.detach().to(dtype).contiguous(), wide


def row_sums(table: Tensor) -> Tensor:
    """Returns the sum of every row: the same bits whatever rows stand beside it.

    Args:
        table: float64 ``[N, D]``, contiguous.
    """
    if len(table) == 1:  # torch splits a row that is alone over threads
        return table.expand(2, -1).contiguous().sum(1)[:1]
    return table.sum(1)
