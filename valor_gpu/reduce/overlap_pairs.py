"""Lists of pairs, and of rows without a partner, for the examples of a confusion matrix; torch, on any device."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.ops.overlaps import Overlaps
from valor_gpu.reduce.overlap_examples import places_of_rows

PAIR_KINDS = ("true_positives", "misclassifications", "hallucinations", "missed")
"""Pairs of one label, pairs of two, detections without a partner, ground truths without one."""


def paired_rows(overlaps: Overlaps, partners: Tensor, scores: Tensor, names: Tensor) -> dict[str, Tensor]:
    """Every detection and ground truth of every datum by what it was paired with, at all thresholds.

    Args:
        overlaps: the pairs.
        partners: int64 ``[T, D]``, of :func:`valor_gpu.ops.overlaps.confuse_overlaps`.
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
            counted = overlaps.scores >= score
            paired = ((partner >= 0) & counted).nonzero()[:, 0]
            gts = partner[paired]
            same = overlaps.labels[paired] == overlaps.gt_labels[gts]
            left = ((partner < 0) & counted).nonzero()[:, 0]
            free = torch.ones_like(overlaps.gt_labels, dtype=torch.bool)
            free[gts] = False
            missed = free.nonzero()[:, 0]
            for kind, datums, gt_rows, rows in (
                ("true_positives", datum[paired[same]], gt_row[gts[same]], row[paired[same]]),
                ("misclassifications", datum[paired[~same]], gt_row[gts[~same]], row[paired[~same]]),
                ("hallucinations", datum[left], torch.full_like(left, -1), row[left]),
                ("missed", gt_datum[missed], gt_row[missed], torch.full_like(missed, -1)),
            ):
                grid = (torch.full_like(datums, place), torch.full_like(datums, level))
                found[kind].append(torch.stack((*grid, datums, gt_rows, rows), 1))
    return {kind: torch.cat(parts) for kind, parts in found.items()}
