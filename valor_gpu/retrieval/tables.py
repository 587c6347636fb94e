"""Scores of every query in NumPy arrays, by measures with the names of ir-measures. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen


@frozen
class QueryTable:
    """Scores of queries.

    Attributes:
        queries: int64 ``[Q]``, ascending.
        columns: name of a measure to float64 ``[Q]``, in the order that was asked for; NaN where a query has no score.
    """

    queries: NDArray[np.int64]
    columns: dict[str, NDArray[np.float64]]


def query_table(
    indexes: NDArray[Any],
    preds: NDArray[Any],
    target: NDArray[Any],
    measures: Sequence[str],
    *,
    retrieved: NDArray[Any] | None = None,
) -> QueryTable:
    """Computes measures of every query.

    Args:
        indexes: int32 or int64 ``[N]``, the query of each document, in any order.
        preds: floats ``[N]``, the scores; equal scores of a query rank in the order of their rows.
        target: integers or floats ``[N]``, grades of relevance; below 0: unjudged, which counts as not relevant.
        measures: names; see :func:`valor_gpu.retrieval.measures.parse_measure`.
        retrieved: bool ``[N]``, False for a judged document that was not retrieved: its score is not read, and it
            counts among what there was to find. None: all were.

    Raises:
        InputError: an argument is of another shape or dtype, a score is NaN, or there is no such measure.
    """
    raise NotImplementedError
