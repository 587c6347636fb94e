"""Base class of the metrics of retrieval: their state, and the number that scores of queries give."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_int, check_number
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.documents import DocumentRule, document_batch, need_of
from valor_gpu.inputs.values import Values
from valor_gpu.metric import Metric
from valor_gpu.ops.error_codes import NAN_SCORE, raise_or_defer, value_kind, value_row
from valor_gpu.plans import Planner
from valor_gpu.result import Signature
from valor_gpu.retrieval.documents import Documents
from valor_gpu.retrieval.plans import documents_planner
from valor_gpu.retrieval.query_scores import (
    EMPTY_ACTIONS,
    Aggregation,
    QueryScores,
    aggregate,
    as_number,
    check_aggregation,
)
from valor_gpu.retrieval.ranking import Ranking, ranking_of
from valor_gpu.retrieval.result import RetrievalResult, result_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions, RetrievalOptions
    from valor_gpu.stats.intervals import Bootstrap


class QueryMetric(Metric[Documents]):
    """Base of the metrics of retrieval, each an aggregate of scores of queries.

    Documents of a query rank by descending score, equal scores in the order in which they came. Metrics that take the
    same targets share their state in a ``MetricCollection``, whichever numbers they give. The state takes 24 bytes a
    document. Of queries whose documents are on several ranks, or came in several updates, all documents count.

    Args:
        empty_target_action: of queries without a relevant document: ``neg`` counts them as 0, ``pos`` as 1, ``skip``
            leaves them out (0 where no query is left), ``error`` raises.
        ignore_index: documents with this target are left out.
        aggregation: of the scores of queries: ``mean``, ``median`` (the lower of two in the middle), ``min``, ``max``,
            or a function that is called with a float32 tensor ``[Q]`` and ``dim=None``.
        unjudged_index: target of documents that nobody has judged; they count as not relevant.
        relevance_level: targets are grades, and documents of at least this one are relevant; None: targets are 0 or 1.

    Raises:
        InputError: an argument is out of range; the message names it.
    """

    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound: float | None = 1.0  # type: ignore[assignment]
    update_family: ClassVar[str | None] = "documents"
    is_differentiable = False
    _state_rule: DocumentRule
    _graded: ClassVar[bool] = False
    _lacks: ClassVar[str] = "relevant"
    """What a query must have for a score: a ``relevant`` or an ``irrelevant`` document, or nothing."""

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        aggregation: Aggregation = "mean",
        *,
        unjudged_index: int | None = None,
        relevance_level: float | None = None,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("empty_target_action", empty_target_action, EMPTY_ACTIONS)
        check_aggregation(aggregation)
        if relevance_level is not None:
            check_number("relevance_level", relevance_level)
            if relevance_level <= 0:
                raise InputError(f"relevance_level must be above 0 but got {relevance_level}")
        rule = DocumentRule(self._graded or relevance_level is not None, ignore_index, unjudged_index)
        self.empty_target_action, self.aggregation = empty_target_action, aggregation
        self.ignore_index, self.unjudged_index, self.relevance_level = ignore_index, unjudged_index, relevance_level
        self._state_rule = rule
        nothing = torch.zeros(0, dtype=torch.float64)
        empty = Documents(torch.zeros(0, dtype=torch.int64), nothing, nothing)
        super().__init__(empty, asdict(rule), **kwargs)

    def _planner(self) -> Planner:
        return documents_planner(self.__dict__)

    def update(self, preds: Values, target: Values, indexes: Values) -> None:
        """Adds documents.

        Args:
            preds: scores of any floating dtype and shape.
            target: 0 and 1, or grades of at least 0, in the shape of ``preds``: bools, integers or floats.
            indexes: integers in the shape of ``preds``: the query of each document, in any order.

        Raises:
            InputError: naming the argument. On CUDA, bad values (NaN scores, targets out of range) are raised by
                ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        batch = document_batch(preds, target, indexes, self._state_rule)
        deferred = raise_or_defer(batch.error, self._describe)
        self._add(Documents(batch.indexes, batch.preds, batch.target), deferred)

    def _describe(self, code: int) -> str:
        if value_kind(code) == NAN_SCORE:
            return f"preds[{value_row(code)}] must not be NaN"
        need = need_of(self._state_rule)
        advice = "" if self._state_rule.graded else "; relevance_level=1 takes grades"
        return f"target[{value_row(code)}] must be {need}{advice}"

    def _describe_error(self, code: int) -> str:
        return f"{self._describe(code)} (the document is counted within its batch, flattened)"

    # ---------------------------------------------------------------------------------------------------- reductions

    @abstractmethod
    def _scores(self, ranking: Ranking) -> Tensor:
        """Scores of queries, float64 ``[Q]`` or ``[Q, K]``; those of queries that lack something are not read."""

    def _choices(self) -> dict[str, Any]:
        """Further choices of this metric, for its signature."""
        return {}

    def _signature(self) -> Signature:
        aggregation = self.aggregation if isinstance(self.aggregation, str) else "function"
        empty = {"empty_target_action": self.empty_target_action} if self._lacks else {}
        rule = self._identity.config
        levels = {} if self.relevance_level is None else {"relevance_level": self.relevance_level}
        own = {**self._choices(), **empty, "aggregation": aggregation, **levels}
        return Signature({"metric": type(self).__name__, **own, **rule})

    def _query_scores(self) -> QueryScores:
        """Scores of queries after ``empty_target_action``.

        Raises:
            InputError: it is ``error``, and a query lacks what the measure needs.
        """
        parts = [part for name in Documents.row_fields for part in self.__dict__[name]]
        ranking = ranking_of(parts, self.state, self._state_rule).with_relevance(self.relevance_level)
        scores = self._scores(ranking).cpu().numpy()
        relevant, documents = ranking.relevant.cpu().numpy(), ranking.lengths.cpu().numpy()
        queries = ranking.queries.cpu().numpy()
        counted = {"relevant": relevant, "irrelevant": documents - relevant}.get(self._lacks)
        lacking = np.zeros(len(queries), bool) if counted is None else counted == 0
        if lacking.any():
            if self.empty_target_action == "error":
                raise InputError(
                    f"every query must have {self._needed} for empty_target_action='error' but"
                    f" query {queries[lacking.argmax()]} has none"
                )
            scores = scores.copy()
            scores[lacking] = {"neg": 0.0, "pos": 1.0, "skip": np.nan}[self.empty_target_action]
        return QueryScores(queries, scores, lacking, documents, relevant, ranking.ignored, ranking.unjudged)

    @property
    def _needed(self) -> str:
        return f"{'an' if self._lacks == 'irrelevant' else 'a'} {self._lacks} document"

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the aggregate, float32 ``[]``: 0 where every query is skipped, NaN without a query."""
        found, device = self._query_scores(), self.error.device
        kept = found.kept
        if not len(kept):
            return as_number(0.0 if len(found.queries) else np.nan, device)
        if isinstance(self.aggregation, str):
            return as_number(aggregate(kept, self.aggregation), device)
        value = self.aggregation(torch.from_numpy(kept).float().to(device), dim=None)
        return torch.as_tensor(value, device=device).clone()

    def result(self, intervals: int | Bootstrap | None = None) -> RetrievalResult:
        """Returns the number in float64, the standard error of a mean, and counts of queries and documents.

        ``per_query()`` of it is a table with the score of every query. Where every query is skipped the number is NaN.

        Args:
            intervals: replicates of a bootstrap of queries, or its choices.
        """
        with self.synced_state():
            result = self._result(self._query_scores())
        return result if intervals is None else result.with_intervals(intervals)

    def _result(self, found: QueryScores) -> RetrievalResult:
        largest = math.inf if self.plot_upper_bound is None else self.plot_upper_bound
        return result_of(type(self).__name__, found, self.aggregation, self._signature(), self._lacks, largest)


class CutoffMetric(QueryMetric):
    """Base of the metrics of the first documents of a ranking.

    Args:
        top_k: how many documents from the top count; None: all.
    """

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[RetrievalOptions],
    ) -> None:
        if top_k is not None:
            check_int("top_k", top_k, 1)
        self.top_k = top_k
        super().__init__(empty_target_action, ignore_index, aggregation, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {"top_k": self.top_k}


class ScoredAboveMetric(CutoffMetric):
    """Base of the metrics that find no document of too low a score.

    Args:
        score_above: documents of at most this score are not found, whatever their rank; 0 is the rule of torchmetrics,
            which takes scores for probabilities. None: all are found, as logits and distances need it.
    """

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: Aggregation = "mean",
        *,
        score_above: float | None = 0.0,
        **kwargs: Unpack[RetrievalOptions],
    ) -> None:
        if score_above is not None:
            check_number("score_above", score_above)
        self.score_above = score_above
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {**super()._choices(), "score_above": self.score_above}
