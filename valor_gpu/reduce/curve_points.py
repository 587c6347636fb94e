"""ROC and precision-recall curves from counts at thresholds: torch on any device, float64 out.

Sources: Fawcett, An introduction to ROC analysis (2006); scikit-learn ``roc_curve`` and ``precision_recall_curve``.
"""

from __future__ import annotations

import torch
from torch import Tensor


def roc_points(tp: Tensor, fp: Tensor, positives: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the rates of false and of true positives at thresholds.

    Args:
        tp: ``[..., T]`` positives at or above each threshold, counts or sums of weights.
        fp: ``[..., T]`` negatives at or above each threshold.
        positives: ``[...]`` all positives.
        negatives: ``[...]`` all negatives.

    Returns:
        float64 ``fp / negatives`` and ``tp / positives``, ``[..., T]``, NaN where there is no negative or no positive.

    Example:
        >>> fpr, tpr = roc_points(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 4]), torch.tensor(2), torch.tensor(4))
        >>> fpr.tolist(), tpr.tolist()
        ([0.0, 0.0, 1.0], [0.0, 0.5, 1.0])
    """
    return fp.double() / negatives.double()[..., None], tp.double() / positives.double()[..., None]


def precision_recall_points(tp: Tensor, fp: Tensor, positives: Tensor) -> tuple[Tensor, Tensor]:
    """Computes precision and recall at thresholds, and after them the point (recall 0, precision 1) above all scores.

    Args:
        tp: ``[..., T]`` positives at or above each threshold, counts or sums of weights; thresholds ascend.
        fp: ``[..., T]`` negatives at or above each threshold.
        positives: ``[...]`` all positives.

    Returns:
        float64 ``tp / (tp + fp)`` and ``tp / positives``, ``[..., T + 1]``; NaN where nothing reaches the threshold, or
        where there is no positive.

    Example:
        >>> precision, recall = precision_recall_points(torch.tensor([2, 1]), torch.tensor([2, 0]), torch.tensor(2))
        >>> precision.tolist(), recall.tolist()
        ([0.5, 1.0, 1.0], [1.0, 0.5, 0.0])
    """
    precision, recall = tp.double() / (tp + fp).double(), tp.double() / positives.double()[..., None]
    end = precision.new_zeros((*tp.shape[:-1], 1))
    return torch.cat((precision, end + 1.0), -1), torch.cat((recall, end), -1)
