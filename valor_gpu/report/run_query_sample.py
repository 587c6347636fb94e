"""Scores of the queries of a run that the bootstrap draws anew, paired by the ids of the queries. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from valor_gpu.stats.row_samples import Arrivals, RowSample
from valor_gpu.stats.units import Units

Floats = NDArray[np.float64]


class RunQuerySample(RowSample):
    """Queries of a run with scores of measures: two runs are paired by the ids of their queries.

    Args:
        scores: name to float64 ``[Q]``, NaN where a query has no score: the mean is over the others.
        queries: the id of each query.
        truths: uint64 ``[Q]``, equal where the judgements of a query are; None: unknown.
        ranges: the least and the largest value of a number, by its name.
    """

    unit = "queries"

    def __init__(
        self,
        scores: Mapping[str, Floats],
        queries: Sequence[str],
        truths: NDArray[np.uint64] | None,
        ranges: Mapping[str, tuple[float, float]],
    ) -> None:
        places = np.empty(len(queries), np.int64)
        places[sorted(range(len(queries)), key=queries.__getitem__)] = np.arange(len(queries))
        super().__init__(scores, ranges=ranges, arrivals=Arrivals(places, len(queries), truths))
        self._queries = queries

    def identities(self) -> Units:
        """Returns the queries by their ids, with their judgements."""
        order = self._order.tolist()
        truths, ranks = self._arrivals.truths, np.array(self._places, np.int64)
        ids = [self._queries[place] for place in order]
        of_ids = None if truths is None else truths[self._order]
        return Units("queries", ids, None, len(ids), ranks, of_ids, "judgements")
