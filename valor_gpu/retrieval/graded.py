"""Metrics of grades of relevance: nDCG and expected reciprocal rank."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch import Tensor

from valor_gpu.checks import check_choice, check_int, check_number
from valor_gpu.errors import InputError
from valor_gpu.ops.queries.types import LARGEST_GRADE
from valor_gpu.retrieval.query_metric import CutoffMetric
from valor_gpu.retrieval.query_scores import Aggregation
from valor_gpu.retrieval.ranking import Ranking

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RetrievalOptions

GAINS = ("linear", "exponential")


class RetrievalNormalizedDCG(CutoffMetric):
    """Computes nDCG: the discounted gain of the ranking of a query, over that of its best ranking.

    The gain of a document at rank i is ``g / log2(i + 1)``, g its grade. Documents of equal scores share the mean of
    their gains, as in scikit-learn and torchmetrics.

    Source: Jaervelin and Kekaelaeinen, Cumulated gain-based evaluation of IR techniques (2002); exponential gain:
    Burges et al., Learning to rank using gradient descent (2005).

    Args:
        gain: ``linear``: a grade g gains g; ``exponential``: it gains ``2^g - 1``, so that high grades weigh more.

    Example:
        >>> import torch
        >>> metric = RetrievalNormalizedDCG()
        >>> preds, target = torch.tensor([0.1, 0.2, 0.3, 4.0, 70.0]), torch.tensor([10, 0, 0, 1, 5])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 0, 0]))
        >>> metric.compute()
        tensor(0.6957)
    """

    _graded = True

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: Aggregation = "mean",
        *,
        gain: str = "linear",
        **kwargs: Unpack[RetrievalOptions],
    ) -> None:
        check_choice("gain", gain, GAINS)
        self.gain = gain
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {**super()._choices(), "gain": self.gain}

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("ndcg" if self.gain == "linear" else "ndcg_exp", self.top_k)


class RetrievalExpectedReciprocalRank(CutoffMetric):
    """Computes the expected reciprocal rank of the document at which a reader of the ranking is satisfied.

    A document of grade g satisfies with chance ``R = (2^g - 1) / 2^max_grade``; of a query it is ``sum R_i / i prod_{j
    < i} (1 - R_j)`` over ranks i. So a good document counts less behind other good ones.

    Source: Chapelle, Metlzer, Zhang and Grinspan, Expected reciprocal rank for graded relevance (2009).

    Args:
        max_grade: the largest grade that a document can have. None: the largest of the data, so that numbers of other
            data compare only where that is the same.

    Example:
        >>> import torch
        >>> metric = RetrievalExpectedReciprocalRank(max_grade=2)
        >>> metric.update(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([1, 2, 0]), torch.tensor([0, 0, 0]))
        >>> metric.compute()
        tensor(0.5312)
    """

    _graded = True

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: Aggregation = "mean",
        *,
        max_grade: int | None = None,
        **kwargs: Unpack[RetrievalOptions],
    ) -> None:
        if max_grade is not None:
            check_int("max_grade", max_grade, 1)
            check_number("max_grade", max_grade, 1, LARGEST_GRADE)
        self.max_grade = max_grade
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {**super()._choices(), "max_grade": self.max_grade}

    def _scores(self, ranking: Ranking) -> Tensor:
        highest = ranking.highest
        if self.max_grade is not None and highest > self.max_grade:
            raise InputError(f"max_grade must be at least the largest grade, {highest:g}, but is {self.max_grade}")
        return ranking.scores("err", self.top_k, self.max_grade or max(math.ceil(highest), 1))
