"""Sums over the ranks of pairs of columns, of numpy arrays by the C++ library. No torch import.

The torch op of :mod:`valor_gpu.ops.rank_sums.op` calls :func:`run` for CPU tensors. Callers ask
``native.usable("valor_cpu")`` first: without the library the torch reference serves.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native

RANK_SUMS = (
    "nan_rows", "groups_x", "groups_y", "squares_x", "squares_y", "cubes_x_high", "cubes_x_low", "cubes_y_high",
    "cubes_y_low", "products_high", "products_low", "concordant", "discordant",
)  # fmt: skip
"""Columns of the result, see :func:`valor_gpu.ops.rank_sums.op.rank_sums`; RankSums in csrc/core/rank_sums.h."""
MOST_ROWS = 2**31 - 1
"""Ranks have 32 bits."""


def rank_sums(preds: NDArray[Any], target: NDArray[Any], pairs: bool, threads: int | None = None) -> NDArray[np.int64]:
    """See :func:`valor_gpu.ops.rank_sums.op.rank_sums`; columns are ``[D, N]`` of one dtype, float32 or float64."""
    preds, target = np.ascontiguousarray(preds), np.ascontiguousarray(target)
    sums = np.empty((len(preds), len(RANK_SUMS)), np.int64)
    first, second, out = (array.__array_interface__["data"][0] for array in (preds, target, sums))
    shape, double = (preds.shape[0], preds.shape[1]), preds.dtype == np.float64
    run(first, second, out, shape, double, pairs, native.threads() if threads is None else threads)
    return sums


def run(preds: int, target: int, sums: int, shape: tuple[int, int], double: bool, pairs: bool, threads: int) -> None:
    """Calls the kernel.

    Args:
        preds: address of float32 or float64 ``[D, N]``.
        target: likewise.
        sums: address of int64 ``[D, 13]``.
        shape: D and N.
        double: whether the columns are float64.
        pairs: whether pairs of rows are counted.
        threads: at most so many.
    """
    columns, rows = shape
    task = native.struct("valor_cpu", "RankTask")(preds, target, rows, columns, double, pairs, sums, threads)
    native.function("valor_cpu", "valor_rank_sums_cpu")(ctypes.addressof(task))
