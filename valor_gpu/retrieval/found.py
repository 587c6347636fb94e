"""Metrics of the documents that are found among the first of a ranking: precision, recall, hits, fall-out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.retrieval.query_metric import CutoffMetric, QueryMetric, ScoredAboveMetric
from valor_gpu.retrieval.query_scores import Aggregation
from valor_gpu.retrieval.ranking import Ranking

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RetrievalOptions, ScoredAboveOptions


class RetrievalPrecision(ScoredAboveMetric):
    """Computes precision at k: the fraction of relevant documents among the first k of a query.

    It is ``found / k``, also where a query has fewer than k documents. Documents of a score of 0 or below are not
    found, as in torchmetrics.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval, 8.4 (2008).

    Args:
        adaptive_k: divide by the number of documents where a query has fewer than ``top_k``.

    Example:
        >>> import torch
        >>> metric = RetrievalPrecision(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5]), torch.tensor([0, 0, 1, 0, 1, 1])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        adaptive_k: bool = False,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[ScoredAboveOptions],
    ) -> None:
        check_type("adaptive_k", adaptive_k, bool)
        self.adaptive_k = adaptive_k
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {**super()._choices(), "adaptive_k": self.adaptive_k}

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("precision", self.top_k, above=self.score_above, adaptive_k=self.adaptive_k)


class RetrievalRecall(ScoredAboveMetric):
    """Computes recall at k: the fraction of the relevant documents of a query that are among its first k.

    It is ``found / relevant``. Documents of a score of 0 or below are not found, as in torchmetrics.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval, 8.4 (2008).

    Example:
        >>> import torch
        >>> metric = RetrievalRecall(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5]), torch.tensor([1, 0, 1, 0, 1, 1])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("recall", self.top_k, above=self.score_above)


class RetrievalHitRate(CutoffMetric):
    """Computes the hit rate at k: 1 for a query with a relevant document among its first k, else 0.

    It is ``1 if found > 0 else 0``; others call it success at k.

    Source: Deshpande and Karypis, Item-based top-N recommendation algorithms (2004).

    Example:
        >>> import torch
        >>> metric = RetrievalHitRate(top_k=1)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5]), torch.tensor([1, 0, 0, 0, 1, 1])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("hit_rate", self.top_k)


class RetrievalFallOut(CutoffMetric):
    """Computes the fall-out at k: the fraction of the irrelevant documents of a query that are among its first k.

    It is ``irrelevant found / irrelevant``; 0 is best.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval, 8.4 (2008).

    Args:
        empty_target_action: of queries without an irrelevant document: ``neg`` counts them as 0, ``pos`` as 1, ``skip``
            leaves them out (0 where no query is left), ``error`` raises.

    Example:
        >>> import torch
        >>> metric = RetrievalFallOut(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5]), torch.tensor([0, 0, 1, 0, 1, 1])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.2500)
    """

    higher_is_better = False
    _lacks = "irrelevant"

    def __init__(
        self,
        empty_target_action: str = "pos",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[RetrievalOptions],
    ) -> None:
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("fall_out", self.top_k)


class RetrievalRPrecision(QueryMetric):
    """Computes R-precision: precision of a query at the number R of its relevant documents.

    It is ``found among the first R / R``.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval, 8.4 (2008).

    Example:
        >>> import torch
        >>> metric = RetrievalRPrecision()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5]), torch.tensor([0, 1, 1, 1, 0, 1])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("r_precision")
