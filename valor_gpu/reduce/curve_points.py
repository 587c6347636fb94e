"""ROC and precision-recall curves from counts at thresholds: float64 out.

Tensors on any device give tensors. NumPy arrays give arrays, of few points in a third of the time; they need no torch.

Sources: Fawcett, An introduction to ROC analysis (2006); scikit-learn ``roc_curve`` and ``precision_recall_curve``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
        >>> import torch
        >>> counts = counts_at_thresholds(torch.tensor([[0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]))
        >>> counts.tp.tolist(), counts.fp.tolist(), float(counts.positives), float(counts.negatives)
        ([1.0, 1.0, 2.0], [0.0, 1.0, 1.0], 2.0, 2.0)
    """
    positives, every = histogram
    if isinstance(histogram, np.ndarray):
        sides = histogram.copy()
        np.maximum(np.subtract(every, positives, out=sides[1]), 0.0, out=sides[1])
        tp, fp = sides[..., ::-1].cumsum(-1)
    else:
        negatives = (every - positives).clamp(min=0)  # a difference of sums of weights may not fall below 0
        tp, fp = (reversed_last(side).cumsum(-1) for side in (positives, negatives))
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
        >>> import torch
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
        >>> import torch
        >>> precision, recall = precision_recall_points(torch.tensor([2, 1]), torch.tensor([2, 0]), torch.tensor(2))
        >>> precision.tolist(), recall.tolist()
        ([0.5, 1.0, 1.0], [1.0, 0.5, 0.0])
    """
    if isinstance(tp, np.ndarray):
        precision, recall = np.empty((2, *tp.shape[:-1], tp.shape[-1] + 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            np.divide(tp, tp + fp, out=precision[..., :-1])
            np.divide(tp, positives[..., None], out=recall[..., :-1])
        precision[..., -1], recall[..., -1] = 1.0, 0.0
        return precision, recall
    precision, recall = tp.double() / (tp + fp).double(), _quotient(tp, positives)
    import torch

    end = precision.new_zeros((*tp.shape[:-1], 1))
    return torch.cat((precision, end + 1.0), -1), torch.cat((recall, end), -1)


def exact_roc(thresholds: Any, counts: CurveCounts) -> tuple[Any, Any, Any]:
    """Rates of false and of true positives at all distinct scores, which descend, from (0, 0), and the thresholds.

    Example:
        >>> exact_roc(np.array([0.75, 0.25]), CurveCounts(np.array([1, 1]), np.array([0, 1]), np.int64(1), np.int64(1)))
        (array([0., 0., 1.]), array([0., 1., 1.]), array([ inf, 0.75, 0.25]))
    """
    tp, fp, *totals = counts
    return *roc_points(after(0, tp), after(0, fp), *totals), after(math.inf, thresholds)


def distinct_points(thresholds: Any, tp: Any, fp: Any) -> tuple[Any, Any, Any]:
    """Joins points of equal thresholds, which a sigmoid makes of logits far from 0, and puts thresholds in order.

    Args:
        thresholds: ``[T]``, the probabilities of logits that descend; rounding may swap neighbours.
        tp: ``[T]`` positives at or above each logit, counts or sums of weights.
        fp: ``[T]`` negatives at or above each logit.

    Returns:
        Thresholds that descend, and the positives and negatives at or above each.

    Example:
        >>> distinct_points(np.array([1.0, 1.0, 0.25]), np.array([1, 2, 2]), np.array([0, 0, 1]))
        (array([1.  , 0.25]), array([2, 2]), array([0, 1]))
    """
    if not bool((thresholds[1:] >= thresholds[:-1]).any()):
        return thresholds, tp, fp
    if isinstance(thresholds, np.ndarray):
        order = np.argsort(-thresholds, kind="stable")
        ordered = thresholds[order]
        last = np.append(ordered[1:] != ordered[:-1], True)
        tp, fp = (np.diff(side, prepend=side.dtype.type(0))[order].cumsum() for side in (tp, fp))
        return ordered[last], tp[last], fp[last]
    import torch

    ordered, order = thresholds.sort(descending=True, stable=True)
    ends = torch.cat((ordered[1:] != ordered[:-1], order.new_ones(1, dtype=torch.bool)))
    tp, fp = (side.diff(prepend=side.new_zeros(1))[order].cumsum(0) for side in (tp, fp))
    return ordered[ends], tp[ends], fp[ends]


def ascending_precision_recall(counts: CurveCounts) -> tuple[Any, Any]:
    """:func:`precision_recall_points` of counts at thresholds that descend."""
    return precision_recall_points(reversed_last(counts.tp), reversed_last(counts.fp), counts.positives)


def last_of(sums: Any) -> Any:
    """The last of running sums, 0 of none."""
    return sums[-1] if len(sums) else sums.sum()


def after(first: float, values: Any) -> Any:
    """``values`` after ``first``."""
    if isinstance(values, np.ndarray):
        longer = np.empty(len(values) + 1, values.dtype)
        longer[0], longer[1:] = first, values
        return longer
    import torch

    return torch.cat((values.new_full((1,), first), values))


def _quotient(counts: Any, total: Any) -> Any:
    if isinstance(counts, np.ndarray):
        return counts / total[..., None]  # of integers, NumPy divides as float64
    return counts.double() / total.double()[..., None]


def as_array(part: Any) -> NDArray[np.float64]:
    """A tensor or array as a float64 array."""
    array: NDArray[np.float64] = np.asarray(part.double().cpu() if hasattr(part, "cpu") else part, np.float64)
    return array
