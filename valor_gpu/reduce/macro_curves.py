"""One curve out of those of all classes: torch on any device, float64 in and out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from valor_gpu.reduce.ratios import quotient


def macro_roc(fpr: Sequence[Tensor], tpr: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Computes the mean true positive rate of the classes at each false positive rate of any of them.

    Between its points, a curve is a straight line; where it rises without a step to the right, the upper end counts.

    Source: Fawcett, An introduction to ROC analysis (2006), vertical averaging; scikit-learn's example of multiclass
    ROC curves.

    Args:
        fpr: of each class ``[T]``, ascending.
        tpr: of each class ``[T]``.

    Returns:
        Both rates ``[P]`` for the P points of all classes.

    Example:
        >>> curves = [torch.tensor([0.0, 1.0]), torch.tensor([0.0, 0.5, 1.0])], [torch.tensor([0.0, 1.0])] + [
        ...     torch.tensor([0.0, 1.0, 1.0])]
        >>> fpr, tpr = macro_roc(*curves)
        >>> fpr.tolist(), tpr.tolist()
        ([0.0, 0.0, 0.5, 1.0, 1.0], [0.0, 0.0, 0.75, 1.0, 1.0])
    """
    points = torch.cat(list(fpr)).sort().values
    total = torch.zeros_like(points)
    for x, y in zip(fpr, tpr):
        low = (torch.searchsorted(x.contiguous(), points, right=True) - 1).clamp(min=0)
        high = (low + 1).clamp(max=len(x) - 1)
        wide = x[high] - x[low]
        share = torch.where(wide > 0, (points - x[low]) / wide, 0.0).clamp(min=0)
        total += y[low] + (y[high] - y[low]) * share
    return points, quotient(total, len(fpr))


def macro_precision_recall(precision: Sequence[Tensor], recall: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Computes the mean precision of the classes at each recall of any of them.

    The precision of a class at a recall is that of the highest threshold that reaches it, as in average precision; 0
    where no threshold does. So the area of the steps is the mean of the average precisions of the classes.

    Args:
        precision: of each class ``[T]``.
        recall: of each class ``[T]``, descending to 0.

    Returns:
        Both ``[P]`` for the P points of all classes, recall descending.

    Example:
        >>> precision, recall = macro_precision_recall([torch.tensor([0.5, 1.0])] * 2, [torch.tensor([1.0, 0.0])] * 2)
        >>> precision.tolist(), recall.tolist()
        ([0.5, 0.5, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0])
    """
    points = torch.cat(list(recall)).sort(descending=True).values
    total = torch.zeros_like(points)
    for part, reached in zip(precision, recall):
        first = torch.searchsorted(reached.flip(0), points)
        total += torch.cat((part.flip(0), part.new_zeros(1)))[first]
    return quotient(total, len(precision)), points
