"""Fields of the row tables that matching leaves: docs/design/001-detection-records.md."""

from __future__ import annotations

import torch
from torch import Tensor


def ground_truth_labels(rows: Tensor) -> Tensor:
    """int64 ``[N]`` labels of ground-truth rows, whose first four bytes they are."""
    return rows[:, :4].clone(memory_format=torch.contiguous_format).view(torch.int32).reshape(-1).long()


def ground_truth_bit(rows: Tensor, bit: int) -> Tensor:
    """Bool ``[N]``: bit a counts in area range a of A, bit A is a real row, bit A + 1 a crowd or ignored one."""
    return (rows[:, 4 + bit // 8] >> bit % 8 & 1).bool()


def detection_scores(rows: Tensor) -> Tensor:
    """float64 ``[N]`` scores of detection rows."""
    return rows[:, :8].clone(memory_format=torch.contiguous_format).view(torch.float64).reshape(-1)


def detection_labels(rows: Tensor) -> Tensor:
    """int64 ``[N]`` labels of detection rows."""
    return ground_truth_labels(rows[:, 8:12])
