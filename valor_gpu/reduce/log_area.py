"""Area under the ROC curve over the logarithm of the false positive rate: torch on any device, float64 out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from valor_gpu.reduce.partial_area import PartialArea


def log_roc_auc(tp: Tensor, fp: Tensor, fpr_range: Sequence[float]) -> PartialArea:
    """Computes the mean true positive rate over the logarithm of the false positive rate within a range.

    The curve is read at both ends of the range on the straight lines of ROC; between its points, and between an end and
    the next point, it is straight over the logarithm.

    Args:
        tp: ``[..., T]``, counts or sums of weights of positives, running over ever more of the largest scores; the last
            is all.
        fp: ``[..., T]``, of negatives.
        fpr_range: the least and the largest false positive rate, both above 0 and at most 1.

    Returns:
        PartialArea, from 0 to 1, NaN where there is no positive or no negative.

    Source: Mysinger and Shoichet, Rapid context-dependent ligand desolvation in molecular docking (2010).

    Example:
        >>> area = log_roc_auc(torch.tensor([1, 1, 2, 2]), torch.tensor([0, 1, 1, 2]), (0.25, 0.5))
        >>> area.value, area.highest
        (tensor(0.5000, dtype=torch.float64), tensor(0.5000, dtype=torch.float64))
    """
    low, high = fpr_range
    x, y = (_rates(side) for side in (fp, tp))
    starts, steps = x[..., :-1], x.diff(dim=-1)
    before, rises = y[..., :-1], y.diff(dim=-1)
    ends = [edge.clamp(low, high) for edge in (starts, x[..., 1:])]
    widths = ends[1].log() - ends[0].log()
    heights = [before + rises * torch.where(steps > 0, (end - starts) / steps, 0.0) for end in ends]
    areas = (widths * (heights[0] + heights[1]) / 2, widths * before, widths * (before + rises))
    whole = widths.sum(-1)  # in the order of the numerators, so that a perfect order gives 1
    return PartialArea(*(area.sum(-1) / whole for area in areas))


def _rates(side: Tensor) -> Tensor:
    """Running sums, from 0, as fractions of the last."""
    sums = torch.nn.functional.pad(side.double(), (1, 0))
    return sums / sums[..., -1:]
