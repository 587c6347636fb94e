"""Means over labels and over thresholds, in an order of summation that is the same on every device."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.reduce.ratios import quotient


def mean_of_labels(values: Tensor, present: Tensor, include_absent: bool = False) -> Tensor:
    """The mean over labels; NaN where no label counts.

    Args:
        values: float64 ``[C, ...]``.
        present: bool ``[C]``, labels that have ground truths.
        include_absent: labels that have none count as 0 instead of not at all.

    Returns:
        float64 ``[...]`` on the device of ``values``.

    Example:
        >>> nan = float("nan")
        >>> values = torch.tensor([[0.5], [nan], [1.0]], dtype=torch.float64)
        >>> present = torch.tensor([True, False, True])
        >>> mean_of_labels(values, present).tolist(), mean_of_labels(values, present, True).tolist()
        ([0.75], [0.5])
    """
    counted = len(values) if include_absent else int(present.sum())
    total = torch.as_tensor(values[present].cpu().numpy().sum(axis=0))
    return (total / counted if counted else torch.full_like(total, torch.nan)).to(values.device)


def mean_of_thresholds(values: Tensor) -> Tensor:
    """The mean over the last axis, added from its first element to its last.

    Example:
        >>> mean_of_thresholds(torch.tensor([[0.5, 1.0], [0.0, 0.5]]))
        tensor([0.7500, 0.2500])
    """
    total = torch.zeros_like(values[..., 0])
    for column in values.unbind(-1):
        total = total + column
    return quotient(total, values.shape[-1])
