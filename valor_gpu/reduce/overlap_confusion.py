"""Confusion counts of pairs that :func:`valor_gpu.ops.overlaps.confuse_overlaps` took; torch, on any device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.ops.overlaps import Overlaps


class ConfusionCounts(NamedTuple):
    """Confusion of C labels at T IoU and S score thresholds, all int64.

    Attributes:
        matrix: ``[T, S, C, C]``, pairs by label of the ground truth (rows) and of the detection.
        unmatched_predictions: ``[T, S, C]``, detections of that score or more without a partner.
        unmatched_ground_truths: ``[T, S, C]``, ground truths without a partner of that score or more.
    """

    matrix: Tensor
    unmatched_predictions: Tensor
    unmatched_ground_truths: Tensor


def confusion_counts(overlaps: Overlaps, partners: Tensor, classes: Tensor, scores: Tensor) -> ConfusionCounts:
    """Counts pairs and what is left of either side at every score threshold, in one pass over the detections.

    Args:
        overlaps: the pairs.
        partners: int64 ``[T, D]``, of :func:`valor_gpu.ops.overlaps.confuse_overlaps`.
        classes: int64 ``[C]`` ascending, all labels of ``overlaps``.
        scores: float64 ``[S]``, score thresholds; a score that equals one reaches it.

    Example:
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 8]), torch.tensor([0.9, 0.8]).double(),
        ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
        ...                     torch.tensor([0.6, 0.8], dtype=torch.float64))
        >>> scores = torch.tensor([0.5, 0.85], dtype=torch.float64)
        >>> found = confusion_counts(overlaps, torch.tensor([[0, -1]]), torch.tensor([7, 8]), scores)
        >>> found.matrix[0, 0].tolist(), found.unmatched_predictions[0].tolist()
        ([[1, 0], [0, 0]], [[0, 1], [0, 0]])
    """
    kinds, places = len(classes), torch.argsort(scores, stable=True)
    levels = torch.bucketize(overlaps.scores, scores[places], right=True)  # how many thresholds a score reaches
    predicted, true = (torch.searchsorted(classes, labels) for labels in (overlaps.labels, overlaps.gt_labels))
    paired = partners >= 0
    rows = true[partners.clamp(min=0)] if len(true) else torch.zeros_like(partners)
    rows = torch.where(paired, rows, kinds)  # the last row: without a partner
    table = len(scores) + 1, kinds + 1, kinds
    cells = (levels * table[1] + rows) * kinds + predicted
    cells = cells + torch.arange(len(partners), device=cells.device)[:, None] * (table[0] * table[1] * kinds)
    counted = torch.bincount(cells.reshape(-1), minlength=len(partners) * table[0] * table[1] * kinds)
    counted = counted.reshape(len(partners), *table)
    reached = counted.flip(1).cumsum(1).flip(1)[:, 1:]  # at least so many thresholds, from 1 on
    reached = reached[:, torch.argsort(places)]
    matrix, unmatched = reached[:, :, :kinds], reached[:, :, kinds]
    return ConfusionCounts(matrix, unmatched, torch.bincount(true, minlength=kinds) - matrix.sum(3))
