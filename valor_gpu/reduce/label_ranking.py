"""How well the scores of a sample rank its relevant labels: torch on any device, float64 out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class LabelRankings(NamedTuple):
    """Numbers of each sample, float64 ``[N]``.

    Attributes:
        coverage: how many of the largest scores must be taken to have all relevant labels; 0 without any.
        precision: mean over relevant labels of the fraction of relevant ones among all that score at least as high; 1
            where no label or every one is relevant.
        loss: fraction of the pairs of a relevant and another label in which the other scores at least as high; 0 where
            there is no pair.
    """

    coverage: Tensor
    precision: Tensor
    loss: Tensor


def label_rankings(scores: Tensor, relevant: Tensor, counted: Tensor) -> LabelRankings:
    """Computes the rankings of the labels of every sample; the rank of a label is the number of scores as high as its.

    Time is that of sorting the rows, memory some copies of ``scores``.

    Source: Tsoumakas, Katakis and Vlahavas, Mining multi-label data (2010); scikit-learn, ``coverage_error``,
    ``label_ranking_average_precision_score`` and ``label_ranking_loss``.

    Args:
        scores: floating ``[N, L]``, any value but NaN.
        relevant: bool ``[N, L]``.
        counted: bool ``[N, L]``; other elements are left out, as if the sample had not these labels.

    Example:
        >>> scores = torch.tensor([[0.75, 0.5, 1.0]])
        >>> found = label_rankings(scores, torch.tensor([[True, False, False]]), torch.ones(1, 3, dtype=torch.bool))
        >>> [float(part) for part in found]
        [2.0, 0.5, 0.5]
    """
    scores = scores if scores.dtype == torch.float64 else scores.float()
    down, order = torch.where(counted, -scores, torch.inf).contiguous().sort(1)
    hits = (relevant & counted).gather(1, order)
    reached = torch.searchsorted(down, down, right=True)  # labels at least as high, in the order of scores
    found = hits.cumsum(1).gather(1, reached - 1)  # relevant ones among them
    labels, positives = counted.sum(1), hits.sum(1)
    ranks = reached.minimum(labels[:, None])  # a score of -inf ties with what is left out
    others = labels - positives
    coverage = torch.where(hits, ranks, 0).amax(1)
    fractions = torch.where(hits, found.double() / ranks.clamp(min=1), 0.0).cumsum(1)[:, -1]  # added in this order
    wrong = torch.where(hits, ranks - found, 0).sum(1)
    precision = torch.where((positives > 0) & (others > 0), fractions / positives, 1.0)
    loss = torch.where((positives > 0) & (others > 0), wrong.double() / (positives * others), 0.0)
    return LabelRankings(coverage.double(), precision, loss)
