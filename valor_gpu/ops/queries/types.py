"""Measures of ranked documents, the reasons why a query has no score, and tables by rank. No torch import."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice, check_int, check_number
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import value_row

MEASURES = {
    "precision": 0, "recall": 1, "hit_rate": 2, "success": 2, "average_precision": 3, "trec_average_precision": 4,
    "reciprocal_rank": 5, "fall_out": 6, "r_precision": 7, "ndcg": 8, "ndcg_exp": 9, "dcg": 10, "dcg_exp": 11,
    "err": 12, "auroc": 13, "judged": 14, "holes": 15, "bpref": 16, "rbp": 17,
}  # fmt: skip
"""Names of the measures and their numbers; Measure in csrc/core/queries.h. ``success`` is another name."""

OK, NO_DOCUMENTS, NO_RELEVANT, NO_IRRELEVANT, ONE_CLASS, BAD_GRADE = range(6)
"""Why a query has no score; QueryStatus in csrc/core/queries.h."""

STATUS_TEXTS = (
    "",
    "no document",
    "no relevant document",
    "no irrelevant document",
    "only relevant or only irrelevant documents within top_k",
    "a grade that is not a whole number, or too large",
)
"""Reasons by status."""

LARGEST_GRADE = 1023
"""Grades above it have no exponential gain in float64."""

EXPONENTIAL = frozenset(MEASURES[name] for name in ("ndcg_exp", "dcg_exp", "err"))
"""Measures with gain ``2^grade - 1``."""

DISCOUNTED = frozenset(MEASURES[name] for name in ("ndcg", "ndcg_exp", "dcg", "dcg_exp"))
"""Measures with logarithmic discounts."""

TIED = DISCOUNTED | {MEASURES["auroc"]}
"""Measures that treat documents of equal score alike; others count them in the order of their rows."""

_PARAMETERS: dict[str, Callable[[float], str]] = {
    "err": lambda x: "" if x == int(x) and 1 <= x <= LARGEST_GRADE else f"a whole number from 1 to {LARGEST_GRADE}",
    "auroc": lambda x: "" if 0 < x <= 1 else "above 0 and at most 1",
    "rbp": lambda x: "" if 0 < x < 1 else "above 0 and below 1",
}
_DEFAULTS = {"auroc": 1.0}

SMALL_TABLE = 1 << 12
"""Weights by rank of which a table is kept."""


class QueryOrder(NamedTuple):
    """Documents of queries, ranked: tensors, or NumPy arrays.

    Attributes:
        order: int64 ``[N]`` rows: those of a query together, by descending score, equal scores by row.
        queries: int64 ``[Q]``, the indexes that occur, ascending.
        offsets: int64 ``[Q + 1]``: the documents of query q are ``order[offsets[q] : offsets[q + 1]]``.
        error: int64 ``[]``, see :mod:`valor_gpu.ops.error_codes`; a NaN score. Unless it is ``NO_ERROR`` the rest means
            nothing.
    """

    order: Any
    queries: Any
    offsets: Any
    error: Any


class QueryScores(NamedTuple):
    """One number per query: tensors, or NumPy arrays.

    Attributes:
        scores: float64 ``[Q]``, NaN where the status is not ``OK``.
        status: int8 ``[Q]``: ``OK``, or why there is no score; ``STATUS_TEXTS`` has the words.
    """

    scores: Any
    status: Any


class QueryHits(NamedTuple):
    """Relevant documents at the head of each query: tensors, or NumPy arrays.

    Attributes:
        hits: int32 ``[Q, K]``: relevant documents among the first k, for k = 1 to K; of a query with fewer documents
            the last number stays. Precision is ``hits / k``, recall ``hits / relevant``.
        relevant: int64 ``[Q]``, all relevant documents.
    """

    hits: Any
    relevant: Any


class Choices(NamedTuple):
    """Arguments of a measure, checked.

    Attributes:
        measure: its number.
        top_k: documents that count, 0 for all.
        parameter: of the measure, 0 where it has none.
        above: documents of at most this score are not retrieved; NaN: all are.
        adaptive_k: whether precision divides by at most the number of documents.
    """

    measure: int
    top_k: int
    parameter: float
    above: float
    adaptive_k: bool

    @classmethod
    def of(cls, measure: str, top_k: int, parameter: float | None, above: float | None, adaptive_k: bool) -> Choices:
        """Checks the arguments of :func:`valor_gpu.ops.queries.op.query_scores`.

        Raises:
            InputError: an unknown measure, or a number out of its range.
        """
        check_choice("measure", measure, MEASURES)
        check_int("top_k", top_k)
        if above is not None:
            check_number("above", above)
        check = _PARAMETERS.get(measure)
        if parameter is None:
            parameter = _DEFAULTS.get(measure, math.nan if check else 0.0)
        elif check is None:
            raise InputError(f"parameter must be None for {measure} but got {parameter!r}")
        else:
            check_number("parameter", parameter)
        if check and (math.isnan(parameter) or check(parameter)):
            need = "a number" if math.isnan(parameter) else check(parameter)
            raise InputError(f"parameter of {measure} must be {need} but got {parameter}")
        return cls(MEASURES[measure], top_k, float(parameter), math.nan if above is None else float(above), adaptive_k)


def rank_table(choices: Choices, longest: int) -> NDArray[np.float64]:
    """Returns weights by rank for the measures that have any; at least one number.

    Every kernel reads them from here, so that all have the same bits: C libraries differ in the last bit of a
    logarithm.

    Args:
        choices: of the measure.
        longest: documents of the longest query.

    Returns:
        float64, at least as many as documents of a query count.
    """
    length = max(1, min(longest, choices.top_k or longest))
    if choices.measure in DISCOUNTED:
        return _small_discounts() if length <= SMALL_TABLE else _discounts(length)
    if choices.measure == MEASURES["rbp"]:
        return np.multiply.accumulate(np.append(1.0, np.full(length - 1, choices.parameter)))
    return np.zeros(1)


def _discounts(length: int) -> NDArray[np.float64]:
    """``1 / log2(1 + rank)`` for the ranks from 1 on."""
    return 1.0 / np.fromiter(map(math.log2, range(2, length + 2)), np.float64, length)


@functools.cache
def _small_discounts() -> NDArray[np.float64]:
    return _discounts(SMALL_TABLE)


def describe_order(code: int) -> str:
    """Returns the message of the error code of a :class:`QueryOrder`.

    Example:
        >>> from valor_gpu.ops.error_codes import NAN_SCORE, pack_value
        >>> describe_order(pack_value(7, 0, NAN_SCORE))
        'preds[7] must not be NaN'
    """
    return f"preds[{value_row(code)}] must not be NaN"
