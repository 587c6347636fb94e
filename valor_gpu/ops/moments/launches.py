"""Calls of the kernels of exact sums."""

from __future__ import annotations

import struct
from collections.abc import Callable

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._launch import launching
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.moments.kinds import Kind

NUMBER_TYPES = {**FLOAT_TYPES, **{dtype: code + len(FLOAT_TYPES) for dtype, code in INT_TYPES.items()}}
"""Dtypes of numbers, with the codes that load_number of csrc/core/moments.h knows."""

_TASK = struct.Struct("8qd")


def columns_of(shape: torch.Size) -> int:
    """Returns the columns of numbers ``[N]`` or ``[N, D]``."""
    return shape[1] if len(shape) == 2 else 1


def task_words(
    types: tuple[torch.dtype, torch.dtype], shape: torch.Size, kind: int, parameter: float, limbs: int,
    addresses: tuple[int, int] = (0, 0),
) -> bytes:  # fmt: skip
    """Returns a MomentTask of csrc/core/moments.h; the addresses are left out in plans of small updates.

    Args:
        types: dtypes of predictions and of targets.
        shape: of both.
        kind: of the sums.
        parameter: of the kind.
        limbs: of a sum.
        addresses: of predictions and of targets.
    """
    codes = (NUMBER_TYPES[dtype] for dtype in types)
    return _TASK.pack(*addresses, *codes, shape[0], columns_of(shape), kind, limbs, parameter)


def small_update() -> Callable[[bytes, bytes], int] | None:
    """Returns the function of :func:`valor_gpu.plans.native_plan` for small updates; None without the library.

    It takes :func:`task_words` and addresses: predictions, targets, old sums, counts, lowest and highest, new ones.
    """
    return native.update_function("valor_cpu", "valor_add_moments_cpu")


def empty(preds: Tensor, kind: int, limbs: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns the outputs of the op of no row."""
    columns, device = columns_of(preds.shape), preds.device
    sums = torch.zeros((columns, Kind(kind).sums, limbs), dtype=torch.int64, device=device)
    counts = torch.zeros((columns, 4), dtype=torch.int64, device=device)
    lowest = torch.full((columns,), torch.inf, dtype=torch.float64, device=device)
    return sums, counts, lowest, -lowest, torch.full((), NO_ERROR, device=device)


def on_cpu(preds: Tensor, target: Tensor, kind: int, parameter: float, limbs: int) -> tuple[Tensor, ...]:
    """Runs the kernel of csrc/cpu/moments.cpp."""
    preds, target, outputs = preds.contiguous(), target.contiguous(), empty(preds, kind, limbs)
    if preds.numel():
        words = _words(preds, target, kind, parameter, limbs)
        call = native.function("valor_cpu", "valor_moments_cpu")
        call(words, *(out.data_ptr() for out in outputs), torch.get_num_threads())
    return outputs


def on_cuda(preds: Tensor, target: Tensor, kind: int, parameter: float, limbs: int) -> tuple[Tensor, ...]:
    """Runs the kernels of csrc/cuda/moments.cu."""
    with launching(preds.device) as stream:
        preds, target, outputs = preds.contiguous(), target.contiguous(), empty(preds, kind, limbs)
        if preds.numel():
            words = _words(preds, target, kind, parameter, limbs)
            call = native.function("valor_cuda", "valor_moments_cuda")
            call(words, *(out.data_ptr() for out in outputs), stream)
    return outputs


def _words(preds: Tensor, target: Tensor, kind: int, parameter: float, limbs: int) -> bytes:
    addresses = (preds.data_ptr(), target.data_ptr())
    return task_words((preds.dtype, target.dtype), preds.shape, kind, parameter, limbs, addresses)
