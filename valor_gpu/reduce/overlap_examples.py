"""Rows of detections and ground truths to show: examples of each kind of outcome, and all outcomes of datums.

Kinds and their rules: docs/design/018-valor-detection.md. Torch, on any device; no loop over datums or labels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.ops.overlaps.op import Overlaps, Ranked
from valor_gpu.reduce.overlap_kinds import exact_kinds


class Choice(NamedTuple):
    """Which examples are wanted.

    Attributes:
        threshold: IoU threshold, above 0 and at most 1.
        scores: float64 ``[S]``, score thresholds.
        max_examples: k, how many of each kind, label and score threshold.
        duplicates: tell second detections of an object from hallucinations.
    """

    threshold: float
    scores: Tensor
    max_examples: int
    duplicates: bool


def first_examples(overlaps: Overlaps, ranked: Ranked, classes: Tensor, choice: Choice) -> dict[str, Tensor]:
    """The first rows of each kind, label and score threshold, in the order of rows.

    Args:
        overlaps: the pairs.
        ranked: the same, ranked.
        classes: int64 ``[C]`` ascending, all labels of ``overlaps``.
        choice: which examples.

    Returns:
        int64 ``[C, S, k]`` by kind, -1 where there are fewer: rows of detections for ``tp/...`` and ``fp/...``, of
        ground truths for ``fn/...``.

    Example:
        >>> from valor_gpu.ops.overlaps.op import rank_overlaps
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 8]), torch.tensor([0.9, 0.8]).double(),
        ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
        ...                     torch.tensor([0.6, 0.8], dtype=torch.float64))
        >>> choice = Choice(0.5, torch.tensor([0.5, 0.85], dtype=torch.float64), 1, False)
        >>> found = first_examples(overlaps, rank_overlaps(overlaps), torch.tensor([7, 8]), choice)
        >>> found["tp/all"].tolist(), found["fp/misclassifications"].tolist()
        ([[[0], [0]], [[-1], [-1]]], [[[-1], [-1]], [[1], [-1]]])
    """
    kinds = exact_kinds(overlaps, ranked, choice.threshold, choice.duplicates)
    return {name: kind.first(classes, choice.scores, choice.max_examples) for name, kind in kinds.items()}


class Places(NamedTuple):
    """Where each detection ``[D, 2]`` and each ground truth ``[G, 2]`` stands: name of its datum, row in it; int64."""

    detections: Tensor
    ground_truths: Tensor


def places_of_rows(overlaps: Overlaps, names: Tensor) -> Places:
    """Where every row stands.

    Args:
        overlaps: the rows.
        names: int64 ``[I]``, how each datum is called.
    """
    placed = []
    for sizes, datum in zip(overlaps.sizes, overlaps.datums()):
        first = sizes.cumsum(0) - sizes
        row = torch.arange(len(datum), device=datum.device) - first[datum]
        placed.append(torch.stack((names[datum], row), 1))
    return Places(*placed)
