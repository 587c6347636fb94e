"""Scores of every query in NumPy arrays, by measures with the names of ir-measures. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.ops.queries.cpu import query_order, query_scores
from valor_gpu.ops.queries.types import BAD_GRADE, QueryOrder
from valor_gpu.retrieval.measures import Measure, parse_measures

_GRADED = ("ndcg", "dcg", "err", "judged", "holes")
_OPS = {"average_precision": "trec_average_precision"}


@frozen
class QueryTable:
    """Scores of queries.

    Attributes:
        queries: int64 ``[Q]``, ascending.
        columns: name of a measure to float64 ``[Q]``, in the order that was asked for; NaN where a query has no score,
            such as recall of a query without a relevant document.
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
    """Computes measures of every query, as ir-measures and trec_eval define them.

    Equal scores of a query rank in the order of their rows. So nDCG shares no gains among them, which
    :class:`valor_gpu.retrieval.RetrievalNormalizedDCG` does, and ``AP@k`` divides by all relevant documents, not by
    those among the first k as :class:`valor_gpu.retrieval.RetrievalMAP`.

    Args:
        indexes: int32 or int64 ``[N]``, the query of each document, in any order.
        preds: floats ``[N]``, the scores, of any sign.
        target: integers or floats ``[N]``, grades of relevance; below 0: unjudged, which counts as not relevant.
        measures: names, such as ``nDCG@10``; see :func:`valor_gpu.retrieval.measures.parse_measure`. ``ERR`` without
            ``max_rel`` takes the largest grade of ``target``.
        retrieved: bool ``[N]``, False for a judged document that was not retrieved: its score is not read, and it
            counts among what there was to find. None: all were.

    Raises:
        InputError: an argument is of another shape or dtype, a score is NaN, a grade has no exponential gain, or there
            is no such measure.

    Example:
        >>> scores, grades = np.array([0.9, 0.8, 0.7, 0.4]), np.array([0, 2, 1, 1])
        >>> table = query_table(np.array([7, 7, 7, 8]), scores, grades, ["P@2", "RR", "nDCG@3"])
        >>> table.queries.tolist(), {name: column.round(4).tolist() for name, column in table.columns.items()}
        ([7, 8], {'P@2': [0.5, 0.5], 'RR': [0.5, 1.0], 'nDCG@3': [0.6697, 1.0]})
    """
    asked = parse_measures(measures)
    preds, target = np.asarray(preds), np.asarray(target)
    found = _found(preds, retrieved)
    order = query_order(np.asarray(indexes), preds if found is None else np.where(found, preds, -np.inf))
    distinct = np.empty(len(preds))  # scores without ties, by rank
    distinct[order.order] = -np.arange(len(preds), dtype=np.float64)
    if found is not None:
        distinct[~found] = -np.inf
    above = None if found is None else -math.inf
    return QueryTable(order.queries, {each.name: _column(each, order, distinct, target, above) for each in asked})


def _found(preds: NDArray[Any], retrieved: NDArray[Any] | None) -> NDArray[np.bool_] | None:
    """Which documents were retrieved; None: all."""
    if retrieved is None:
        return None
    found = np.asarray(retrieved)
    if found.dtype != bool or found.shape != preds.shape:
        need = f"bool of shape {list(preds.shape)} like preds"
        raise InputError(f"retrieved must be {need} but is {found.dtype} of shape {list(found.shape)}")
    if (np.isneginf(preds) & found).any():
        raise InputError("preds must be above -inf where some documents are not retrieved")
    return found


def _column(
    measure: Measure, ranked: QueryOrder, preds: NDArray[Any], target: NDArray[Any], above: float | None
) -> NDArray[np.float64]:
    """Scores of queries by one measure, float64 ``[Q]``; ``preds`` have no ties."""
    kind, parameter = _OPS.get(measure.kind, measure.kind), None
    if measure.kind not in _GRADED:
        target = np.where(target < 0, -1, target >= measure.rel).astype(np.int8)
    if measure.kind == "rbp":
        parameter = measure.parameter
    if measure.kind == "err":
        parameter = measure.parameter or max(1.0, math.ceil(target.max(initial=0)))
    kind += "_exp" if measure.exponential else ""
    scores = query_scores(kind, ranked.order, ranked.offsets, preds, target, measure.cutoff, parameter, above=above)
    if (scores.status == BAD_GRADE).any():
        most = f"{parameter:g}, its max_rel" if measure.kind == "err" else "1023"
        raise InputError(f"target must have whole grades from 0 to {most} for {measure.name}")
    column: NDArray[np.float64] = scores.scores
    return column
