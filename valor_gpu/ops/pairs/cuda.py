"""Pairs of a batch of tensors by any similarity: how they are read, and the launch on a CUDA device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.ops.assign.cpu import Access
from valor_gpu.ops.assign.match_batch import Pairs
from valor_gpu.ops.assign.op import TORCH
from valor_gpu.ops.pairs.cpu import Found, Search

_DTYPES = {"float64": torch.float64, "int64": torch.int64, "int32": torch.int32, "uint8": torch.uint8}


def access_on(device: torch.device) -> Access:
    """How tensors on ``device`` are read."""

    def empty(shape: tuple[int, ...], dtype: str) -> Tensor:
        return torch.empty(shape, dtype=_DTYPES[dtype], device=device)

    return TORCH._replace(empty=empty)


def find(
    search: Search, firsts: NDArray[np.int64], table: Tensor, access: Access, launch: Callable[..., Any], stream: Any
) -> Pairs:
    """Finds the pairs of a batch on a CUDA device, without waiting for it.

    Args:
        search: what is searched, on the device.
        firsts: of :func:`valor_gpu.ops.pairs.cpu.first_rows`.
        table: the same on the device.
        access: how tensors of the device are read.
        launch: C function of the geometry, over ``valor::pairs_kernel`` of csrc/cuda/pairs.h.
        stream: on which it runs.
    """
    detections, pairs = int(firsts[0, -1]), int(firsts[2, -1])
    shapes = (((detections + 1,), "int64"), ((detections,), "int32"), ((pairs,), "int32"), ((pairs,), "float64"))
    out = [access.empty(shape, dtype) for shape, dtype in shapes]
    task = search.words(table.data_ptr(), firsts.shape[1] - 1, access, *out)
    launch(ctypes.addressof(task), detections, stream)
    return Pairs(*out)


def fake(like: Tensor) -> Found:
    """What an op that finds pairs returns, of sizes not known yet; its inputs lie where ``like`` does."""
    context = torch.library.get_ctx()
    detections, ground_truths, pairs = (context.new_dynamic_size() for _ in range(3))
    shapes = (
        (detections + 1, "int64"), (detections, "int32"), (pairs, "int32"), (pairs, "float64"), (detections, "float64"),
        (ground_truths, "float64"), (detections, "int64"), (ground_truths, "int64"),
    )  # fmt: skip
    made = [like.new_empty((n,), dtype=_DTYPES[dtype]) for n, dtype in shapes]
    return Found._make([*made, like.new_empty((), dtype=torch.int64)])
