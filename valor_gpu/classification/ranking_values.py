"""Areas of each class, and those up to a false positive rate."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from valor_gpu.classification.score_metric import Ranked
from valor_gpu.classification.softmax_errors import check_ranked
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.ops.ranks.op import rank_curves
from valor_gpu.reduce.partial_area import partial_roc_auc


class RankingValues(NamedTuple):
    """One number per class, float64 ``[C]``, between bounds that equal it when it is exact; NaN where there is none.

    Attributes:
        value: the number.
        lowest: lower bound on the exact number.
        highest: upper bound on the exact number.
        positives: count of positives, or the sum of their weights.
        negatives: count of negatives, or the sum of their weights.
    """

    value: Tensor
    lowest: Tensor
    highest: Tensor
    positives: Tensor
    negatives: Tensor


def partial_values(ranked: Ranked, max_fpr: float, pooled: int) -> RankingValues:
    """Returns the areas up to a false positive rate.

    Args:
        ranked: what is ranked.
        max_fpr: the rate.
        pooled: elements of a sample that are rows of their own.
    """
    found = rank_curves(ranked.scores, ranked.target, ignore_index=ranked.ignore_index, weight=ranked.weight)
    check_ranked(found.error, pooled)
    rows = []
    for start, end in pairwise(found.offsets.tolist()):
        tp, fp = (torch.nn.functional.pad(side[start:end], (1, 0)) for side in (found.tp, found.fp))
        value = partial_roc_auc(tp, fp, max_fpr).value
        rows.append(torch.stack((value, tp[-1].double(), fp[-1].double())))
    values, positives, negatives = torch.stack(rows, 1)
    return RankingValues(values, values, values, positives, negatives)


def areas_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Returns the areas among the numbers of a result."""
    counts = ("positives", "negatives")
    return {name: number for name, number in numbers_of(values) if not name.startswith(counts)}
