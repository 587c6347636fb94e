"""Results of metrics of retrieval, with a table of their queries, and intervals from queries that are drawn anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.query_slices import Queries, query_slices
from valor_gpu.errors import InputError
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.result import Result
from valor_gpu.retrieval.query_scores import (
    Aggregation,
    QueryScores,
    aggregate,
    range_of_aggregate,
    standard_error,
)
from valor_gpu.stats.clusters import codes_by_place
from valor_gpu.stats.resample import Resampled, Shared
from valor_gpu.stats.row_samples import Arrivals, RowSample
from valor_gpu.stats.units import Units

if TYPE_CHECKING:
    from valor_gpu.analysis.slices import Slices
    from valor_gpu.exports.signature import Signature
    from valor_gpu.stats.draws import Draws
    from valor_gpu.stats.intervals import Bootstrap

NO_QUERY = "no document was added"
SKIPPED = "every query was skipped: none has what the measure needs"
_EXTREME = "the largest and the smallest score of a sample have no honest interval"


class RetrievalResult(Result):
    """A result that knows the score of every query. To pickle it gives a plain :class:`valor_gpu.result.Result`."""

    def per_query(self) -> ColumnTable:
        """Returns a table with a row for each query, in the order of their numbers.

        Returns:
            Columns ``query``, its number; ``documents``, how many count; ``relevant``, how many of them are relevant;
            and the score under the name of the number, NaN of a query that is skipped.

        Raises:
            InputError: the result was read from a file, or its metric has curves instead of scores.

        Example:
            >>> import torch
            >>> from valor_gpu.retrieval import RetrievalMRR
            >>> metric = RetrievalMRR()
            >>> metric.update(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), torch.tensor([7, 7, 9]))
            >>> print(metric.result().per_query())  # doctest: +ELLIPSIS
            query  documents  relevant  RetrievalMRR
                7          2         1        0.5000
                9          1         1        1.0000
            2 rows
            metric:RetrievalMRR|top_k:none|score_above:0.0|empty_target_action:neg|aggregation:mean|...
        """
        queries = vars(self).get("_queries")
        if queries is None:
            raise InputError("per_query() needs a result with the score of every query, which this one does not have")
        table: ColumnTable = queries()
        return table

    def by(
        self,
        table: Any,
        *columns: str | Sequence[str],
        bins: Mapping[str, Sequence[Any]] | None = None,
        intervals: int | Bootstrap | None = None,
        numbers: Sequence[str] | None = None,
        iou_type: str | None = None,
    ) -> Slices:
        """Computes the numbers of slices of the queries, each as a run on the queries of the slice alone.

        Args:
            table: see :meth:`valor_gpu.result.Result.by`, with a row for each query: the first column of ``query``,
                ``query_id`` and ``qid`` that it has holds the number of a query, as in ``indexes``. Rows of other
                queries are not looked at.
            columns: names of columns, such as the language or the intent of a query, each with slices of its own; a
                tuple of names gives their crossing.
            bins: column to ascending edges, as elsewhere.
            intervals: replicates of a bootstrap over the queries of each slice, or its choices, clusters included.
            numbers: names of the numbers; None: all.
            iou_type: must be None.

        Returns:
            A table with a row for each slice that has queries; see :class:`valor_gpu.analysis.slices.Slices`.

        Raises:
            InputError: a query has no row or two, there is no such column or number, edges do not ascend, or the
                result has no scores of queries.

        Example:
            >>> import torch
            >>> from valor_gpu.retrieval import RetrievalMRR
            >>> metric = RetrievalMRR()
            >>> metric.update(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), torch.tensor([7, 7, 9]))
            >>> table = {"query": [7, 9], "language": ["en", "de"]}
            >>> print(metric.result().by(table, "language", numbers=["RetrievalMRR"]))
            slice         queries  RetrievalMRR
            language: de        1        1.0000
            language: en        1        0.5000
        """
        parts = vars(self).get("_parts")
        if iou_type is not None:
            raise InputError(f"iou_type must be None for queries but got {iou_type!r}")
        if parts is None:
            raise InputError(
                "by() needs the score of every query, which curves and results of files lack: update a metric for each"
                " slice"
            )
        found: Slices = query_slices(parts, dict(self.signature), table, columns, bins, intervals, numbers)
        return found


def result_of(
    name: str, found: QueryScores, aggregation: Aggregation, signature: Signature, lacks: str, largest: float
) -> RetrievalResult:
    """The result of scores of queries.

    Args:
        name: of the number.
        found: scores of queries.
        aggregation: of the metric.
        signature: of the result.
        lacks: what a query must have for a score, see ``QueryMetric``.
        largest: score that a query can have.
    """
    kept, error = found.kept, f"{name}_stderr"
    values = {name: aggregate(kept, aggregation) if len(kept) else math.nan}
    reasons = {} if len(kept) else {name: SKIPPED if len(found.queries) else NO_QUERY}
    if aggregation == "mean":
        values[error] = standard_error(kept)
        reasons |= {} if len(kept) > 1 else {error: "fewer than two queries"}
    if math.isnan(values[name]) and name not in reasons:
        reasons[name] = "the function of aggregation gave NaN"
    sample = partial(QuerySample, name, found, aggregation, largest)
    result = RetrievalResult(values, signature, counts_of(found, lacks), reasons, state=sample)
    vars(result)["_queries"] = lambda: query_columns(name, found, dict(signature))

    def part(places: NDArray[np.int64]) -> RetrievalResult:
        return result_of(name, found.of(places), aggregation, signature, lacks, largest)

    vars(result)["_parts"] = Queries(name, found.queries.tolist(), part)
    return result


def counts_of(found: QueryScores, lacks: str) -> dict[str, int]:
    """How many queries and documents there were, and how many were left out."""
    counts = {"queries": len(found.queries), "documents": int(found.documents.sum())}
    if lacks:
        counts[f"queries_without_{lacks}"] = int(found.lacking.sum())
    return {**counts, "ignored": found.ignored, "unjudged": found.unjudged}


def query_columns(name: str, found: QueryScores, choices: Mapping[str, Any]) -> ColumnTable:
    """The table of :meth:`RetrievalResult.per_query`."""
    columns = {"query": found.queries, "documents": found.documents, "relevant": found.relevant, name: found.scores}
    return ColumnTable(columns, choices)


def clusters_of_queries(given: Mapping[Any, Any] | Sequence[Any], queries: Sequence[int]) -> list[Any]:
    """The clusters of queries, in their order.

    Args:
        given: the cluster of every query by its number, or of all in the order of their numbers.
        queries: their numbers.

    Raises:
        InputError: a query has no cluster, or there are more clusters than queries.
    """
    if not isinstance(given, Mapping):
        if len(given) != len(queries):
            raise InputError(f"clusters must have one for each of the {len(queries)} queries but has {len(given)}")
        given = dict(zip(sorted(queries), given))
    if (missing := next((query for query in sorted(queries) if query not in given), None)) is not None:
        raise InputError(f"clusters must have one for every query but has none for query {missing}")
    return [given[query] for query in queries]


class QuerySample(RowSample):
    """Queries with scores, drawn anew as wholes; those of two models are paired by their numbers.

    Args:
        name: of the number.
        found: scores of queries.
        aggregation: of the metric.
        largest: score that a query can have.
    """

    unit = "queries"

    def __init__(self, name: str, found: QueryScores, aggregation: Aggregation, largest: float) -> None:
        kept = ~np.isnan(found.scores)
        self._name, self._aggregation, self._found, self._largest = name, aggregation, found, largest
        super().__init__(
            {name: found.scores[kept]},
            arrivals=Arrivals(found.queries[kept], int(kept.sum())),
            ranges={name: range_of_aggregate(aggregation, largest)},
        )

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no honest interval."""
        return {self._name: _EXTREME} if self._aggregation in ("min", "max") else {}

    def replicates(self, draws: Draws) -> dict[str, NDArray[np.float64]]:
        """Computes the aggregate of every replicate; see :meth:`valor_gpu.stats.resample.Resampled.replicates`."""
        if self._aggregation == "mean":
            return super().replicates(draws)
        assert self._columns is not None
        scores = self._columns[:, 0]
        number: Callable[[Any], float] = lambda times: aggregate(np.repeat(scores, times), self._aggregation)  # noqa: E731
        return {self._name: np.array([number(times) for times in draws.array().T], np.float64)}

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """Returns the codes of the clusters of the queries; see :func:`clusters_of_queries`."""
        queries = self._arrivals.places[self._order].tolist()
        return codes_by_place(clusters_of_queries(given, queries), self._places)

    def shared(self, other: Resampled) -> Shared:
        """Returns the queries that neither model skips; each model must have all queries."""
        if not isinstance(other, QuerySample) or not np.array_equal(self._found.queries, other._found.queries):
            return Shared(self, {}, {})
        both = ~np.isnan(self._found.scores) & ~np.isnan(other._found.scores)
        either = int((~np.isnan(self._found.scores) | ~np.isnan(other._found.scores)).sum())
        if int(both.sum()) == either:
            return Shared(self, {}, {})
        part = replace(self._found, scores=np.where(both, self._found.scores, np.nan))
        number = aggregate(part.kept, self._aggregation) if both.any() else math.nan
        left_out = {self._name: either - int(both.sum())}
        return Shared(QuerySample(self._name, part, self._aggregation, self._largest), {self._name: number}, left_out)

    def swapping(self, other: Resampled) -> RowSample | None:
        """Returns the queries of both models for a mean; other aggregates have no permutation test."""
        return super().swapping(other) if self._aggregation == "mean" else None

    def identities(self) -> Units:
        """Returns the queries by their numbers."""
        ids = self._arrivals.places[self._order].tolist()
        return Units("queries", ids, None, self.units, np.array(self._places, np.int64))
