"""Softmax and sigmoid of scores of up to 32 bits on CUDA: those that kernels count at thresholds."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._launch import launching
from valor_gpu.ops.dtypes import FLOAT_TYPES

READINGS = {"none": 0, "sigmoid": 2, "softmax": 3}
"""Reading in csrc/cuda/sweep_tiles.h."""


def activated(scores: Tensor, how: str) -> Tensor:
    """Probabilities of logits, in the shape and dtype of these.

    Args:
        scores: float16, bfloat16 or float32; of the softmax ``[N, C]``.
        how: ``softmax`` over the classes, or ``sigmoid`` of each.
    """
    scores = scores.detach().contiguous()
    rows, classes = scores.shape if how == "softmax" else (scores.numel(), 1)
    found = torch.empty(scores.shape, dtype=torch.float32, device=scores.device)
    shares = found.new_empty((rows + 1, 2) if how == "softmax" else 0)
    with launching(scores.device) as stream:
        native.function("valor_cuda", "valor_activate_cuda", "pqqqqppp")(
            scores.data_ptr(), FLOAT_TYPES[scores.dtype], rows, classes, READINGS[how], shares.data_ptr(),
            found.data_ptr(), stream,
        )  # fmt: skip
    return found.to(scores.dtype)
