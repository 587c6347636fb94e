"""ROC and precision-recall curves from counts at thresholds: float64 out.

Tensors on any device give tensors. NumPy arrays give arrays: of few points in a third of the time.

Sources: Fawcett, An introduction to ROC analysis (2006); scikit-learn ``roc_curve`` and ``precision_recall_curve``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from valor_gpu.reduce.histogram_metrics import reversed_last


class CurveCounts(NamedTuple):
    """Positives and negatives at or above thresholds, which descend, and all of them.

    Attributes:
        tp: ``[..., T]``.
        fp: ``[..., T]``.
        positives: ``[...]``.
        negatives: ``[...]``.
    """

    tp: Any
    fp: Any
    positives: Any
    negatives: Any


def counts_at_thresholds(histogram: Any) -> CurveCounts:
    """Counts positives and negatives at or above each threshold of a histogram of scores.

    Args:
        histogram: float64 ``[2, ..., T + 1]``, see :mod:`valor_gpu.reduce.histogram_metrics`.

    Example:
        >>> counts = counts_at_thresholds(torch.tensor([[0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]))
        >>> counts.tp.tolist(), counts.fp.tolist(), float(counts.positives), float(counts.negatives)
        ([1.0, 1.0, 2.0], [0.0, 1.0, 1.0], 2.0, 2.0)
    """
    positives, every = histogram
    if isinstance(histogram, Tensor):
        negatives = (every - positives).clamp(min=0)  # a difference of sums of weights may not fall below 0
        tp, fp = (reversed_last(side).cumsum(-1) for side in (positives, negatives))
    else:
        sides = histogram.copy()
        np.maximum(np.subtract(every, positives, out=sides[1]), 0.0, out=sides[1])
        tp, fp = sides[..., ::-1].cumsum(-1)
    return CurveCounts(tp[..., :-1], fp[..., :-1], tp[..., -1], fp[..., -1])


def roc_points(tp: Any, fp: Any, positives: Any, negatives: Any) -> tuple[Any, Any]:
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
    with np.errstate(invalid="ignore", divide="ignore"):
        return _quotient(fp, negatives), _quotient(tp, positives)


def precision_recall_points(tp: Any, fp: Any, positives: Any) -> tuple[Any, Any]:
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
    if not isinstance(tp, Tensor):
        precision, recall = np.empty((2, *tp.shape[:-1], tp.shape[-1] + 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            np.divide(tp, tp + fp, out=precision[..., :-1])
            np.divide(tp, positives[..., None], out=recall[..., :-1])
        precision[..., -1], recall[..., -1] = 1.0, 0.0
        return precision, recall
    precision, recall = tp.double() / (tp + fp).double(), _quotient(tp, positives)
    end = precision.new_zeros((*tp.shape[:-1], 1))
    return torch.cat((precision, end + 1.0), -1), torch.cat((recall, end), -1)


def _quotient(counts: Any, total: Any) -> Any:
    if isinstance(counts, Tensor):
        return counts.double() / total.double()[..., None]
    return counts / total[..., None]  # of integers, NumPy divides as float64
