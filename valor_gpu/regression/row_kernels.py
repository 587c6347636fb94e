"""Scores of two rows of numbers by the C++ library, in one read."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._launch import on_host

COSINE, KL, KL_OF_LOGS, JS, JS_OF_LOGS = range(5)
"""RowScore in csrc/core/row_scores.h."""


def native_row_scores(first: Tensor, second: Tensor, kind: int) -> tuple[Tensor, bool] | None:
    """Returns the score of each row, float64 ``[N]``, and whether a number is below 0; None without the library.

    Args:
        first: float32 or float64 ``[N, D]``, contiguous.
        second: likewise, of the same dtype.
        kind: which score.
    """
    if not (first.is_cpu and on_host("valor_cpu")):
        return None
    scores, negative = first.new_empty(len(first), dtype=torch.float64), torch.zeros((), dtype=torch.int64)
    addresses = [tensor.data_ptr() for tensor in (first, second, scores, negative)]
    task = native.struct("valor_cpu", "RowScoreTask")(
        *addresses[:2], *first.shape, first.dtype == torch.float64, kind, *addresses[2:], torch.get_num_threads()
    )
    native.function("valor_cpu", "valor_row_scores_cpu")(ctypes.addressof(task))
    return scores, bool(negative)
