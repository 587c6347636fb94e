"""Kinds of detections and ground truths at one IoU threshold, at all score thresholds at once; torch, on any device.

A row is of a kind at the scores s with ``low < s <= high``: a detection up to its own score, a ground truth that
nothing finds from the score above which it is lost. Counts are then histograms, and examples the first rows whose
interval holds s. Rules: docs/design/018-valor-detection.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.ops.labels.op import first_in_cells
from valor_gpu.ops.overlaps.op import Overlaps, Ranked
from valor_gpu.reduce.overlap_counts import (
    DUPLICATE,
    HALLUCINATION,
    MISCLASSIFICATION,
    TRUE_POSITIVE,
    Levels,
    confused_scores,
    count_between,
    detection_kinds,
    found_scores,
)

DETECTION_KINDS = {
    "tp/all": TRUE_POSITIVE,
    "fp/hallucinations": HALLUCINATION,
    "fp/misclassifications": MISCLASSIFICATION,
    "fp/duplicates": DUPLICATE,
}
"""Outcome and name of each of :func:`valor_gpu.reduce.overlap_counts.detection_kinds`."""


class Kind(NamedTuple):
    """The rows of one kind.

    Attributes:
        rows: int64 ``[N]``, ascending rows of detections or of ground truths.
        labels: int64 ``[N]``.
        low: float64 ``[N]``, the score above which a row is of the kind.
        high: float64 ``[N]``, the score up to which it is.
    """

    rows: Tensor
    labels: Tensor
    low: Tensor
    high: Tensor

    def counts(self, classes: Tensor, scores: Tensor) -> Tensor:
        """int64 ``[C, S]``, the rows of each class at each score.

        Args:
            classes: int64 ``[C]`` ascending, all labels of the rows.
            scores: float64 ``[S]``.
        """
        levels = Levels(*scores.sort())
        low, high = levels.of(self.low), levels.of(self.high)
        return count_between(torch.searchsorted(classes, self.labels), low, high, len(classes), levels)

    def first(self, classes: Tensor, scores: Tensor, k: int) -> Tensor:
        """int64 ``[C, S, k]``, the first rows of each class at each score, -1 where there are fewer.

        Args:
            classes: int64 ``[C]`` ascending, all labels of the rows.
            scores: float64 ``[S]``.
            k: how many rows to keep.
        """
        cells, padded = torch.searchsorted(classes, self.labels), torch.cat((self.rows, self.rows.new_full((1,), -1)))
        found = [
            first_in_cells(torch.where((self.low < score) & (score <= self.high), cells, -1), len(classes), k)
            for score in scores.unbind()
        ]
        return padded[torch.stack(found, 1)] if found else cells.new_empty((len(classes), 0, k))


def of_detections(overlaps: Overlaps, chosen: Tensor) -> Kind:
    """The detections of a mask, each at scores up to its own."""
    rows = chosen.nonzero()[:, 0]
    scores = overlaps.scores[rows].double()
    return Kind(rows, overlaps.labels[rows], torch.full_like(scores, -math.inf), scores)


def of_missed(overlaps: Overlaps, found: Tensor, confused: Tensor) -> dict[str, Kind]:
    """The two kinds of false negatives.

    Args:
        overlaps: the pairs.
        found: float64 ``[G]``, the score up to which each ground truth is found.
        confused: float64 ``[G]``, the largest score of another label that overlaps it.
    """
    lost = torch.maximum(found, confused)
    return {
        "fn/misclassifications": _of_ground_truths(overlaps, found, confused),
        "fn/no_predictions": _of_ground_truths(overlaps, lost, torch.full_like(lost, math.inf)),
    }


def _of_ground_truths(overlaps: Overlaps, low: Tensor, high: Tensor) -> Kind:
    rows = (low < high).nonzero()[:, 0]
    return Kind(rows, overlaps.gt_labels[rows], low[rows], high[rows])


def exact_kinds(overlaps: Overlaps, ranked: Ranked, threshold: float, duplicates: bool = False) -> dict[str, Kind]:
    """Finds true positives, kinds of false positives and kinds of false negatives.

    Args:
        overlaps: the pairs.
        ranked: the same, ranked.
        threshold: of the IoU, above 0 and at most 1.
        duplicates: tell second detections of an object from hallucinations.

    Example:
        >>> from valor_gpu.ops.overlaps.op import rank_overlaps
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 8]), torch.tensor([0.9, 0.8]).double(),
        ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
        ...                     torch.tensor([0.6, 0.8], dtype=torch.float64))
        >>> kinds = exact_kinds(overlaps, rank_overlaps(overlaps), 0.5)
        >>> classes, scores = torch.tensor([7, 8]), torch.tensor([0.5, 0.85], dtype=torch.float64)
        >>> kinds["tp/all"].counts(classes, scores).tolist()
        [[1, 1], [0, 0]]
        >>> kinds["fp/misclassifications"].first(classes, scores, 1).tolist()
        [[[-1], [-1]], [[1], [-1]]]
    """
    codes = detection_kinds(ranked, overlaps.scores, threshold, duplicates)
    found = {
        name: of_detections(overlaps, codes == code)
        for name, code in DETECTION_KINDS.items()
        if duplicates or code != DUPLICATE
    }
    missed = of_missed(overlaps, found_scores(ranked, overlaps, threshold), confused_scores(overlaps, threshold))
    return found | missed
