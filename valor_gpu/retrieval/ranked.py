"""Metrics of where in a ranking relevant documents stand: MAP, reciprocal rank, area, BPref, RBP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from valor_gpu.checks import check_number
from valor_gpu.errors import InputError
from valor_gpu.retrieval.query_metric import CutoffMetric, QueryMetric, ScoredAboveMetric
from valor_gpu.retrieval.query_scores import Aggregation
from valor_gpu.retrieval.ranking import Ranking

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RetrievalOptions


class RetrievalMAP(ScoredAboveMetric):
    """Computes mean average precision: of a query the mean, over its relevant documents, of precision at their ranks.

    With ``top_k`` the mean is over the relevant documents among the first k, as in torchmetrics. Others divide by the
    number of all relevant documents: ``AP@k`` of :func:`valor_gpu.retrieval.query_table`. Documents of a score of 0 or
    below are not found.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval, 8.4 (2008).

    Example:
        >>> import torch
        >>> metric = RetrievalMAP()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5]), torch.tensor([1, 0, 1, 0, 1, 0])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.6667)
    """

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("average_precision", self.top_k, above=self.score_above)


class RetrievalMRR(ScoredAboveMetric):
    """Computes the mean reciprocal rank: of a query 1 over the rank of its first relevant document.

    It is 0 where no relevant document is among the first ``top_k``. Documents of a score of 0 or below are not found,
    as in torchmetrics.

    Source: Voorhees, The TREC-8 question answering track report (1999).

    Example:
        >>> import torch
        >>> metric = RetrievalMRR()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5]), torch.tensor([1, 0, 1, 0, 1, 0])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("reciprocal_rank", self.top_k, above=self.score_above)


class RetrievalAUROC(CutoffMetric):
    """Computes the area under the ROC curve of a query: how often a relevant document scores above another.

    Equal scores count half. A query whose first ``top_k`` documents are all relevant, or all irrelevant, counts as 0,
    as in torchmetrics.

    Source: Hanley and McNeil, The meaning and use of the area under a ROC curve (1982).

    Args:
        max_fpr: above 0, at most 1: the standardised area up to this false positive rate (McClish, 1989); None is the
            whole area.

    Example:
        >>> import torch
        >>> metric = RetrievalAUROC()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5]), torch.tensor([1, 0, 1, 0, 1, 0])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        max_fpr: float | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[RetrievalOptions],
    ) -> None:
        if max_fpr is not None:
            check_number("max_fpr", max_fpr, 0, 1)
            if max_fpr == 0:
                raise InputError("max_fpr must be above 0 and at most 1, or None, but got 0")
        self.max_fpr = max_fpr
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {**super()._choices(), "max_fpr": self.max_fpr}

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("auroc", self.top_k, 1.0 if self.max_fpr is None else float(self.max_fpr))


class RetrievalBPref(QueryMetric):
    """Computes BPref: how seldom judged irrelevant documents rank above relevant ones; unjudged ones count nowhere.

    Of a query with R relevant and N judged irrelevant documents it is ``sum (1 - min(n_r, R) / min(R, N)) / R`` over
    relevant documents, n_r of the judged irrelevant ones above it. Without a judged irrelevant document it is 1. The
    numbers are those of trec_eval. ``unjudged_index`` says which documents nobody has judged.

    Source: Buckley and Voorhees, Retrieval evaluation with incomplete information (2004).

    Example:
        >>> import torch
        >>> metric = RetrievalBPref(unjudged_index=-1)
        >>> preds, target = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5]), torch.tensor([-1, 1, 0, 1, 0])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 0, 0]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("bpref")


class RetrievalRBP(CutoffMetric):
    """Computes rank-biased precision: the expected gain of a reader who goes on to the next document by chance p.

    It is ``(1 - p) sum rel_i p^(i - 1)`` over the documents of a query by their ranks i, ``rel_i`` 1 or 0.

    Source: Moffat and Zobel, Rank-biased precision for measurement of retrieval effectiveness (2008).

    Args:
        persistence: p, above 0 and below 1: the chance that the reader goes on; 0.5 is impatient, 0.95 patient.

    Example:
        >>> import torch
        >>> metric = RetrievalRBP(persistence=0.5)
        >>> metric.update(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([1, 0, 1]), torch.tensor([0, 0, 0]))
        >>> metric.compute()
        tensor(0.6250)
    """

    def __init__(
        self,
        persistence: float = 0.8,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[RetrievalOptions],
    ) -> None:
        check_number("persistence", persistence, 0, 1)
        if persistence in (0, 1):
            raise InputError(f"persistence must be above 0 and below 1 but got {persistence}")
        self.persistence = float(persistence)
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {"persistence": self.persistence, **super()._choices()}

    def _scores(self, ranking: Ranking) -> Tensor:
        return ranking.scores("rbp", self.top_k, self.persistence)
