"""Areas of each class and their average, and areas under a part of the ROC curve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from valor_gpu.classification.score_metric import Histogram, Ranked, ScoreMetric, ScoreRecords
from valor_gpu.classification.softmax_errors import check_ranked
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.ops.ranks.op import auroc_and_ap, rank_curves
from valor_gpu.reduce import histogram_metrics as binned
from valor_gpu.reduce.partial_area import PartialArea
from valor_gpu.reduce.ratios import mean


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


class RankedScores(ScoreMetric):
    """Base of the metrics that rank scores: computes their number for each class, and its average.

    Attributes:
        average: over the classes; ``none``: a number per class.
    """

    average: str
    _row: ClassVar[int]
    _needs: ClassVar[str]

    def _average(self, values: Tensor, positives: Tensor) -> Tensor:
        if self.task.kind == "binary" or self.average == "micro":
            return values[0]
        if self.average == "none":
            return values
        weights = positives if self.average == "weighted" else torch.ones_like(values)
        return torch.as_tensor(mean(binned.quick(values), binned.quick(weights)))

    def _ranking_values(self, state: ScoreRecords | Histogram) -> RankingValues:
        if isinstance(state, Histogram):
            counts = self._binned_counts(state)
            return RankingValues(*self._binned(counts, state.lightest), *binned.totals(counts))
        ranked = self._ranked(state, self.average == "micro")
        result = auroc_and_ap(ranked.scores, ranked.target, ignore_index=ranked.ignore_index, weight=ranked.weight)
        check_ranked(result.error, self._pooled)
        value = result.values[self._row]
        return RankingValues(value, value, value, *result.totals.double())

    def _binned_counts(self, state: Histogram) -> Tensor:
        """Counts between thresholds of each class, or of all as one."""
        return binned.pooled(state.counts) if self.average == "micro" else state.counts

    def _binned_value(self, counts: Tensor) -> Tensor:
        """The number of each class from counts between thresholds."""
        raise NotImplementedError

    def _binned(self, counts: Tensor, lightest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value, lowest and highest of each class from counts between thresholds."""
        raise NotImplementedError


def partial_values(ranked: Ranked, area: Callable[[Tensor, Tensor], PartialArea], pooled: int) -> RankingValues:
    """Returns the areas under a part of the ROC curves.

    Args:
        ranked: what is ranked.
        area: gives that of a curve from its running sums of positives and of negatives.
        pooled: elements of a sample that are rows of their own.
    """
    found = rank_curves(ranked.scores, ranked.target, ignore_index=ranked.ignore_index, weight=ranked.weight)
    check_ranked(found.error, pooled)
    rows = []
    for start, end in pairwise(found.offsets.tolist()):
        tp, fp = (torch.nn.functional.pad(side[start:end], (1, 0)) for side in (found.tp, found.fp))
        value = area(tp, fp).value
        rows.append(torch.stack((value, tp[-1].double(), fp[-1].double())))
    values, positives, negatives = torch.stack(rows, 1)
    return RankingValues(values, values, values, positives, negatives)


def falling_sums(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Returns positives and negatives ``[..., T + 1]`` of a histogram, summed from the largest scores on."""
    positives, every = counts
    tp, fp = (side.flip(-1).cumsum(-1) for side in (positives, (every - positives).clamp(min=0)))
    return tp, fp


def areas_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Returns the areas among the numbers of a result."""
    counts = ("positives", "negatives")
    return {name: number for name, number in numbers_of(values) if not name.startswith(counts)}
