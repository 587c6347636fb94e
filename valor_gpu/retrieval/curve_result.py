"""Results of curves of precision and recall over queries. Imports no torch of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.retrieval.curve_plot import plot_curve
from valor_gpu.retrieval.query_scores import Aggregation, QueryScores, range_of_aggregate
from valor_gpu.retrieval.result import NO_QUERY, SKIPPED, RetrievalResult, clusters_of_queries, counts_of
from valor_gpu.stats.clusters import codes_by_name
from valor_gpu.stats.counts import ResampledCounts
from valor_gpu.stats.resample import Resampled
from valor_gpu.stats.units import Units, units_with_ids

if TYPE_CHECKING:
    from valor_gpu.exports.signature import Signature
    from valor_gpu.stats.draws import Draws

Floats = NDArray[np.float64]
Curves = tuple[Floats, Floats]


def curve_result(found: QueryScores, curves: Curves, signature: Signature) -> RetrievalResult:
    """The result of a curve: points have no interval."""
    precision, recall = curves
    values = {"precision": precision, "recall": recall, "k": np.arange(1, len(precision) + 1)}
    keeps = "take a number, such as that of RetrievalRecallAtFixedPrecision"
    queries = ResampledCounts(np.array([[len(found.kept)]]), None, keeps=keeps)
    return RetrievalResult(values, signature, counts_of(found, "relevant"), {}, plot_curve, state=queries)


def recall_result(
    name: str,
    found: QueryScores,
    point: tuple[float, int],
    curves: Curves,
    signature: Signature,
    sample: Callable[[], Resampled],
) -> RetrievalResult:
    """The result of the recall that a precision allows.

    Args:
        name: of the number.
        found: curves of queries.
        point: recall and k.
        curves: aggregates, for the picture.
        signature: of the result.
        sample: gives what the number is resampled from.
    """
    some = len(found.kept) > 0
    precision, recall = curves
    values: dict[str, Any] = {name: point[0] if some else math.nan, "k": point[1]}
    values |= {"precision": precision, "recall": recall}
    reasons = {} if some else {name: SKIPPED if len(found.queries) else NO_QUERY}
    return RetrievalResult(values, signature, counts_of(found, "relevant"), reasons, plot_curve, state=sample)


class CurveSample(Resampled):
    """Curves of queries, drawn anew as wholes, in the order of the numbers of the queries.

    Args:
        name: of the number.
        found: curves of queries, ``[Q, 2, K]``.
        number: gives it from the curves of a replicate, ``[Q, 2, K]``.
        aggregation: of the curves.
    """

    unit = "queries"

    def __init__(
        self, name: str, found: QueryScores, number: Callable[[Floats], float], aggregation: Aggregation
    ) -> None:
        self._range = range_of_aggregate(aggregation, 1.0)
        kept = ~np.isnan(found.scores).any((1, 2))
        self._name, self._number = name, number
        self._queries, self._curves = found.queries[kept], found.scores[kept]
        self.units = len(self._queries)

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no honest interval."""
        return {"k": "where a largest recall lies is no mean, and has no honest interval"}

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns 0 and 1, or no bounds where a function aggregates."""
        return self._range

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the number of every replicate; see :meth:`valor_gpu.stats.resample.Resampled.replicates`."""
        drawn = (np.repeat(np.arange(self.units), times) for times in draws.array().T)
        return {self._name: np.array([self._number(self._curves[rows]) for rows in drawn], np.float64)}

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """Returns the codes of the clusters of the queries; see :func:`clusters_of_queries`."""
        return codes_by_name(clusters_of_queries(given, self._queries.tolist()))

    def identities(self) -> Units:
        """Returns the queries by their numbers."""
        return units_with_ids("queries", self._queries.tolist())
