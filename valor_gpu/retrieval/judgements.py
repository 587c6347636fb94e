"""Metrics of how well a ranking is judged: the fraction of its first documents with and without a judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from valor_gpu.errors import InputTypeError
from valor_gpu.retrieval.query_metric import CutoffMetric
from valor_gpu.retrieval.query_scores import Aggregation
from valor_gpu.retrieval.ranking import Ranking

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions


class _Judgements(CutoffMetric):
    """Base of the metrics of judgements, which every query has.

    Args:
        unjudged_index: target of documents that nobody has judged; all others have a judgement.
    """

    _graded = True
    _lacks = ""

    def __init__(
        self,
        unjudged_index: int = -1,
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        if unjudged_index is None:
            raise InputTypeError("unjudged_index must be int but got NoneType")
        super().__init__("neg", ignore_index, top_k, aggregation, unjudged_index=unjudged_index, **kwargs)


class RetrievalJudged(_Judgements):
    """Computes judged at k: the fraction of the first k documents of a query that somebody has judged.

    It is ``judged / min(k, documents)``. Where it is low, other numbers say little.

    Source: Thakur et al., BEIR (2021), appendix; measure ``Judged`` of ir-measures.

    Example:
        >>> import torch
        >>> metric = RetrievalJudged(top_k=2)
        >>> metric.update(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([2, -1, 0]), torch.tensor([0, 0, 0]))
        >>> metric.compute()
        tensor(0.5000)
    """

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("judged", self.top_k)


class RetrievalHoles(_Judgements):
    """Computes holes at k: how many of the first k documents of a query nobody has judged, a mean over queries.

    Of a query it is ``min(k, documents) (1 - judged)``, with the fraction of :class:`RetrievalJudged`; 0 is best.

    Source: metric ``holes`` of DocumentRetrievalEvaluator of azure-ai-evaluation.

    Example:
        >>> import torch
        >>> metric = RetrievalHoles(top_k=2)
        >>> metric.update(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([2, -1, -1]), torch.tensor([0, 0, 0]))
        >>> metric.compute()
        tensor(1.)
    """

    higher_is_better = False
    plot_upper_bound = None

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("holes", self.top_k)
