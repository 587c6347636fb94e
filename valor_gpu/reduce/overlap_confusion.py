"""Pairs that :func:`valor_gpu.ops.overlaps.op.confuse_overlaps` took, counted by label or listed; any device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.ops.overlaps.op import Overlaps
from valor_gpu.reduce.overlap_counts import cells_of, count_cells
from valor_gpu.reduce.overlap_examples import places_of_rows

PAIR_KINDS = ("true_positives", "misclassifications", "hallucinations", "missed")
"""Pairs of one label, pairs of two, detections without a partner, ground truths without one."""


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
        partners: int64 ``[T, D]``, of :func:`valor_gpu.ops.overlaps.op.confuse_overlaps`.
        classes: int64 ``[C]`` ascending; rows of other labels are counted nowhere, and must not be paired with any.
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
    predicted, true = cells_of(overlaps, classes, None, 1)
    paired = partners >= 0
    rows = true[partners.clamp(min=0)] if len(true) else torch.zeros_like(partners)
    rows = torch.where(paired, rows, kinds)  # the last row: without a partner; the last column: no label of these
    table = len(scores) + 1, kinds + 1, kinds + 1
    cells = (levels * table[1] + rows) * table[2] + predicted
    size = table[0] * table[1] * table[2]
    cells = cells + torch.arange(len(partners), device=cells.device)[:, None] * size
    counted = torch.bincount(cells.reshape(-1), minlength=len(partners) * size)
    counted = counted.reshape(len(partners), *table)[..., :kinds]
    reached = counted.flip(1).cumsum(1).flip(1)[:, 1:]  # at least so many thresholds, from 1 on
    reached = reached[:, torch.argsort(places)]
    matrix, unmatched = reached[:, :, :kinds], reached[:, :, kinds]
    return ConfusionCounts(matrix, unmatched, count_cells(true, kinds) - matrix.sum(3))


class Taken(NamedTuple):
    """What was paired off at a threshold of IoU and one of score; int64, rows ascend.

    Attributes:
        detections: ``[K]``, those with a partner.
        ground_truths: ``[K]``, their partners.
        alone: detections that reach the score, without a partner.
        missed: ground truths without one.
    """

    detections: Tensor
    ground_truths: Tensor
    alone: Tensor
    missed: Tensor


def taken_pairs(overlaps: Overlaps, partners: Tensor, score: Tensor | float) -> Taken:
    """The pairs of detections that reach a score, and what is left of either side.

    Args:
        overlaps: the pairs.
        partners: int64 ``[D]``, of one threshold of :func:`valor_gpu.ops.overlaps.op.confuse_overlaps`.
        score: threshold; a score that equals it reaches it.
    """
    counted, paired = overlaps.scores >= score, partners >= 0
    rows = (paired & counted).nonzero()[:, 0]
    free = torch.ones_like(overlaps.gt_labels, dtype=torch.bool)
    free[partners[rows]] = False
    return Taken(rows, partners[rows], (~paired & counted).nonzero()[:, 0], free.nonzero()[:, 0])


def paired_rows(overlaps: Overlaps, partners: Tensor, scores: Tensor, names: Tensor) -> dict[str, Tensor]:
    """Every detection and ground truth of every datum by what it was paired with, at all thresholds.

    Args:
        overlaps: the pairs.
        partners: int64 ``[T, D]``, of :func:`valor_gpu.ops.overlaps.op.confuse_overlaps`.
        scores: float64 ``[S]``, score thresholds; a score that equals one reaches it.
        names: int64 ``[I]``, how each datum is called.

    Returns:
        int64 ``[N, 5]`` for each of ``PAIR_KINDS``: index of the IoU threshold, of the score threshold, name of the
        datum, row of the ground truth and row of the detection in it, -1 where there is none.

    Example:
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 8]), torch.tensor([0.9, 0.8]).double(),
        ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
        ...                     torch.tensor([0.6, 0.8], dtype=torch.float64))
        >>> scores = torch.tensor([0.5], dtype=torch.float64)
        >>> found = paired_rows(overlaps, torch.tensor([[0, -1]]), scores, torch.tensor([17]))
        >>> found["true_positives"].tolist(), found["hallucinations"].tolist()
        ([[0, 0, 17, 0, 0]], [[0, 0, 17, -1, 1]])
    """
    datum_rows, gt_datum_rows = places_of_rows(overlaps, names)
    (datum, row), (gt_datum, gt_row) = datum_rows.unbind(1), gt_datum_rows.unbind(1)
    found: dict[str, list[Tensor]] = {kind: [] for kind in PAIR_KINDS}
    for place, partner in enumerate(partners):
        for level, score in enumerate(scores):
            paired, gts, left, missed = taken_pairs(overlaps, partner, score)
            same = overlaps.labels[paired] == overlaps.gt_labels[gts]
            for kind, datums, gt_rows, rows in (
                ("true_positives", datum[paired[same]], gt_row[gts[same]], row[paired[same]]),
                ("misclassifications", datum[paired[~same]], gt_row[gts[~same]], row[paired[~same]]),
                ("hallucinations", datum[left], torch.full_like(left, -1), row[left]),
                ("missed", gt_datum[missed], gt_row[missed], torch.full_like(missed, -1)),
            ):
                grid = (torch.full_like(datums, place), torch.full_like(datums, level))
                found[kind].append(torch.stack((*grid, datums, gt_rows, rows), 1))
    return {kind: torch.cat(parts) for kind, parts in found.items()}
