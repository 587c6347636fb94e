"""Area under a part of the ROC curve: torch on any device, float64 out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.reduce.ratios import quotient


class PartialArea(NamedTuple):
    """Standardised partial area, float64 ``[...]``, and the bounds that points of tied scores leave.

    Attributes:
        value: with straight lines between points.
        lowest: where the negatives between two points all come first.
        highest: where the positives between two points all come first.
    """

    value: Tensor
    lowest: Tensor
    highest: Tensor


def partial_roc_auc(tp: Tensor, fp: Tensor, max_fpr: float) -> PartialArea:
    """Computes the standardised area under the ROC curve up to a false positive rate.

    With A the area up to ``max_fpr`` = m under the curve, it is ``(1 + (A - m^2 / 2) / (m - m^2 / 2)) / 2``: 0.5 for
    scores without information, 1 for a perfect order.

    Args:
        tp: ``[..., T]``, counts or sums of weights of positives, running over ever more of the largest scores; the last
            is all.
        fp: ``[..., T]``, of negatives.
        max_fpr: above 0, at most 1.

    Returns:
        PartialArea, NaN where there is no positive or no negative.

    Source: McClish, Analyzing a portion of the ROC curve (1989); scikit-learn, ``roc_auc_score`` with ``max_fpr``.

    Example:
        >>> area = partial_roc_auc(torch.tensor([1, 1, 2, 2]), torch.tensor([0, 1, 1, 2]), 0.5)
        >>> round(float(area.value), 4)
        0.6667
    """
    ends = [torch.nn.functional.pad(side.double(), (1, 0)) for side in (fp, tp)]
    x, y = (side / side[..., -1:] for side in ends)
    steps, rises = x.diff(dim=-1), y.diff(dim=-1)
    widths = (max_fpr - x[..., :-1]).clamp(min=0).minimum(steps)
    before = y[..., :-1]
    share = torch.where(steps > 0, widths / steps, 0.0)  # of the rise that lies left of max_fpr
    areas = (widths * (before + rises * share / 2), widths * before, widths * (before + rises))
    least = max_fpr**2 / 2
    return PartialArea(*(0.5 * (1 + quotient(area.sum(-1) - least, max_fpr - least)) for area in areas))
