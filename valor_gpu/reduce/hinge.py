"""Hinge losses of rows, and parts of them whose sums are exact: torch on any device, float64 out."""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 2.0**24
"""Steps of the first part from 0 to 1; csrc/cpu/add_hinge.cpp has both."""
FINE_STEPS = 2.0**49
"""Steps of what rounding to the first leaves."""


def hinge_losses(scores: Tensor, target: Tensor, by_class: bool, squared: bool) -> Tensor:
    """Computes ``max(0, 1 - margin)`` of each row.

    Args:
        scores: floating point ``[N, C]``; of one column, the score of class 1 against 0.
        target: integer ``[N]``, class indices; others give a loss without meaning.
        by_class: a loss for each class: the margin of the right class is its score, of the others minus their score.
            Else the margin is the score of the right class minus the largest of the others.
        squared: the square of each loss.

    Returns:
        float64 ``[N, C]`` by class, else ``[N, 1]``.

    Example:
        >>> hinge_losses(torch.tensor([[0.5, 0.25, 0.0]]), torch.tensor([0]), False, False)
        tensor([[0.7500]], dtype=torch.float64)
        >>> hinge_losses(torch.tensor([[0.5, 0.25, 0.0]]), torch.tensor([0]), True, False)
        tensor([[0.5000, 1.2500, 1.0000]], dtype=torch.float64)
    """
    wide, classes = scores.double(), scores.shape[1]
    if classes == 1:
        margins = torch.where(target[:, None] == 1, wide, -wide)
    elif by_class:
        right = target[:, None] == torch.arange(classes, device=target.device)
        margins = torch.where(right, wide, -wide)
    else:
        right = target.long().clamp(0, classes - 1)[:, None]
        others = wide.scatter(1, right, -torch.inf).amax(1, keepdim=True)
        margins = wide.gather(1, right) - others
    losses = (1 - margins).clamp(min=0)
    return losses.square() if squared else losses


def exact_parts(values: Tensor) -> Tensor:
    """Returns values rounded to steps of 2^-24, and what that leaves in steps of 2^-49, ``[2, ...]``.

    Sums of the parts have the same bits in any order while they are below 2^29 and 2^4. A value is the sum of its
    parts, but for 2^-50.

    Example:
        >>> exact_parts(torch.tensor([1.0, 0.1], dtype=torch.float64)).sum(0)
        tensor([1.0000, 0.1000], dtype=torch.float64)
    """
    rounded = (values * STEPS).round() / STEPS
    return torch.stack((rounded, ((values - rounded) * FINE_STEPS).round() / FINE_STEPS))
