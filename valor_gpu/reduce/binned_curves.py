"""Precision and recall of detections that are known by bins of their scores: between which values they lie.

Inside a bin the order of detections is not known. Precision at a recall sample only grows when a true positive comes
before a false one, so the two extreme orders bound it: all true positives of each bin first, or last. These are also
the orders of ``valor_gpu.ops.accumulate.types.TIE_ORDERS`` for scores rounded to their bins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.ops.accumulate.types import Curves
from valor_gpu.ops.outcome_counts.op import COUNTED, HITS
from valor_gpu.reduce.averages import ABSENT

_SPACING = float(np.spacing(1.0))  # pycocotools adds it to each denominator


class BinnedCurves(NamedTuple):
    """COCO's arrays for the orders of lowest and of highest precision; recall is the same."""

    lowest: Curves
    highest: Curves


def binned_curves(counts: Tensor, recalled: Tensor, positives: Tensor, recalls: Tensor) -> BinnedCurves:
    """Bounds of the precision at each recall sample, and final recall.

    Args:
        counts: int64 ``[K, B, 2, S]``, as :func:`valor_gpu.ops.outcome_counts.op.count_outcomes` gives it.
        recalled: int64 ``[K, M, S]``.
        positives: int64 ``[K, A]`` ground truths that count; S is A x T, setting ``a * T + t``.
        recalls: float64 ``[R]`` recall samples, any order.

    Returns:
        BinnedCurves, numpy arrays: precision float64 ``[T, R, K, A, 1]``, recall ``[T, K, A, M]``; -1 where no ground
        truth counts.

    Example:
        >>> import torch
        >>> counts = torch.tensor([[[[0], [0]], [[1], [2]]]])  # one bin holds a true and a false positive
        >>> bounds = binned_curves(counts, torch.tensor([[[1]]]), torch.tensor([[1]]), torch.tensor([1.0]).double())
        >>> bounds.lowest.precision.item(), round(bounds.highest.precision.item(), 9)
        (0.5, 1.0)
    """
    tables = counts.cpu().numpy(), positives.cpu().numpy()
    samples = recalls.cpu().numpy()
    areas, classes = positives.shape[1], len(counts)
    bounds = np.empty((2, classes, areas, counts.shape[3] // areas, len(samples)))
    for k in range(classes):
        bounds[:, k] = _class_precision(tables[0][k], tables[1][k], samples).reshape(bounds[:, k].shape)
    lowest, highest = bounds.transpose(0, 3, 4, 1, 2)[..., None]
    hits = recalled.cpu().numpy().cumsum(1).reshape(classes, -1, areas, bounds.shape[3])
    true = tables[1][:, None, :, None]
    recall = np.where(true > 0, hits / np.maximum(true, 1), ABSENT).transpose(3, 0, 2, 1)
    return BinnedCurves(Curves(lowest, recall, None), Curves(highest, recall, None))


def _class_precision(
    counts: NDArray[np.int64], positives: NDArray[np.int64], samples: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``[2, S, R]``: lowest and highest precision of a class at each recall sample."""
    hits, counted = (counts[::-1, row].cumsum(0) for row in (HITS, COUNTED))  # [B, S], best scores first
    misses = counted - hits
    before = np.concatenate((np.zeros_like(misses[:1]), misses[:-1]))
    # within a bin precision grows from one true positive to the next, so that the last one stands for the bin
    reached = [hits / (other + hits + _SPACING) for other in (misses, before)]
    envelopes = [np.maximum.accumulate(values[::-1])[::-1] for values in reached]
    found = np.full((2, hits.shape[1], len(samples)), ABSENT)
    for s, true in enumerate(positives.repeat(hits.shape[1] // len(positives)).tolist()):
        if true:
            places = np.searchsorted(hits[:, s] / true, samples)
            for side, envelope in enumerate(envelopes):
                found[side, s] = np.append(envelope[:, s], 0.0)[places]
    return found
