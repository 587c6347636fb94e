"""Ranked documents of queries over NumPy arrays, by the C++ library; without it by the definitions in torch.

The torch ops of :mod:`valor_gpu.ops.queries.op` call :func:`run_order`, :func:`run_scores` and :func:`run_hits` for
CPU tensors. Imports no torch where the library is there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_int
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import raise_error
from valor_gpu.ops.queries.types import Choices, QueryHits, QueryOrder, QueryScores, describe_order, rank_table

Array = NDArray[Any]
Ints = NDArray[np.int64]

_FLOATS = {"float16": 0, "float32": 2, "float64": 3}
"""FloatType in csrc/core/load.h."""
_INDEXES = {"int32": 3, "int64": 4}
"""IntType in csrc/core/load.h."""
FLOAT_TARGET = 16
"""Added to the FloatType of a target; kFloatTarget in csrc/core/queries.h."""
_TARGETS = {"int8": 0, "uint8": 1, "int16": 2, **_INDEXES, "bool": 5} | {
    name: FLOAT_TARGET + code for name, code in _FLOATS.items()
}


class Column(NamedTuple):
    """Values of all documents as C++ reads them: address and type."""

    address: int
    type: int


def query_order(indexes: Array, preds: Array, threads: int | None = None) -> QueryOrder:
    """See :func:`valor_gpu.ops.queries.op.query_order`; on at most so many threads, None: one for each CPU.

    Raises:
        InputError: shapes or dtypes that do not fit, or a NaN score.

    Example:
        >>> order = query_order(np.array([7, 3, 7, 7]), np.array([0.5, 0.1, 0.9, 0.5]))
        >>> order.order.tolist(), order.queries.tolist(), order.offsets.tolist()
        ([1, 2, 0, 3], [3, 7], [0, 1, 4])
    """
    _check("preds", preds, preds, _FLOATS)
    _check("indexes", indexes, preds, _INDEXES)
    found = _order(indexes, preds, threads)
    raise_error(found.error, describe_order)
    return found


def query_scores(
    measure: str,
    order: Ints,
    offsets: Ints,
    preds: Array,
    target: Array,
    top_k: int = 0,
    parameter: float | None = None,
    *,
    above: float | None = None,
    adaptive_k: bool = False,
    threads: int | None = None,
) -> QueryScores:
    """See :func:`valor_gpu.ops.queries.op.query_scores`; on at most so many threads, None: one for each CPU.

    Example:
        >>> preds, target = np.array([0.5, 0.1, 0.9]), np.array([1, 0, 0])
        >>> order = query_order(np.array([7, 7, 7]), preds)
        >>> query_scores("ndcg", order.order, order.offsets, preds, target).scores.round(4).tolist()
        [0.6309]
    """
    choices = Choices.of(measure, top_k, parameter, above, adaptive_k)
    _check_documents(order, offsets, target)
    _check("preds", preds, order, _FLOATS)
    return _scores(choices, order, offsets, preds, target, threads)


def query_hits(order: Ints, offsets: Ints, target: Array, max_k: int, threads: int | None = None) -> QueryHits:
    """See :func:`valor_gpu.ops.queries.op.query_hits`; on at most so many threads, None: one for each CPU.

    Example:
        >>> order = query_order(np.array([0, 0, 0]), np.array([0.2, 0.3, 0.5]))
        >>> query_hits(order.order, order.offsets, np.array([1, 0, 1]), 3).hits.tolist()
        [[1, 1, 2]]
    """
    check_int("max_k", max_k, 1)
    _check_documents(order, offsets, target)
    return _hits(order, offsets, target, max_k, threads)


def run_order(indexes: Column, preds: Column, rows: int, threads: int) -> QueryOrder:
    """Calls the C++ kernel of ``query_order``; ``error`` is an array."""
    order, queries, offsets = (np.empty(size, np.int64) for size in (rows, rows, rows + 1))  # untouched: no memory
    error, count = np.empty((), np.int64), ctypes.c_int64()
    task = native.struct("valor_cpu", "QueryOrderTask")(
        indexes=indexes.address, index_type=indexes.type, preds=preds.address, type=preds.type, rows=rows,
        order=order.ctypes.data, queries=queries.ctypes.data, offsets=offsets.ctypes.data, error=error.ctypes.data,
        count=ctypes.addressof(count), threads=threads,
    )  # fmt: skip
    native.function("valor_cpu", "valor_query_order_cpu")(ctypes.addressof(task))
    found = count.value
    if found < rows:
        queries, offsets = queries[:found].copy(), offsets[: found + 1].copy()
    return QueryOrder(order, queries, offsets, error)


def run_scores(
    choices: Choices, order: Ints, offsets: Ints, preds: Column, target: Column, threads: int
) -> QueryScores:
    """Calls the C++ kernel of ``query_scores``; order and offsets are contiguous."""
    queries = len(offsets) - 1
    scores, status = np.empty(queries), np.empty(queries, np.int8)
    weights = rank_table(choices, int(np.diff(offsets).max(initial=0)))
    task = native.struct("valor_cpu", "QueryTask")(
        order=order.ctypes.data, offsets=offsets.ctypes.data, preds=preds.address, type=preds.type,
        target=target.address, target_type=target.type, weights=weights.ctypes.data, scores=scores.ctypes.data,
        status=status.ctypes.data, rows=len(order), queries=queries, measure=choices.measure, top_k=choices.top_k,
        parameter=choices.parameter, above=choices.above, adaptive_k=choices.adaptive_k, threads=threads,
    )  # fmt: skip
    native.function("valor_cpu", "valor_query_scores_cpu")(ctypes.addressof(task))
    return QueryScores(scores, status)


def run_hits(order: Ints, offsets: Ints, target: Column, max_k: int, threads: int) -> QueryHits:
    """Calls the C++ kernel of ``query_hits``; order and offsets are contiguous."""
    queries = len(offsets) - 1
    hits, relevant = np.empty((queries, max_k), np.int32), np.empty(queries, np.int64)
    task = native.struct("valor_cpu", "QueryHitsTask")(
        order=order.ctypes.data, offsets=offsets.ctypes.data, target=target.address, target_type=target.type,
        hits=hits.ctypes.data, relevant=relevant.ctypes.data, rows=len(order), queries=queries, max_k=max_k,
        threads=threads,
    )  # fmt: skip
    native.function("valor_cpu", "valor_query_hits_cpu")(ctypes.addressof(task))
    return QueryHits(hits, relevant)


def _check(name: str, array: Array, like: Array, dtypes: Collection[str]) -> None:
    if array.ndim != 1 or array.shape != like.shape:
        raise InputError(f"{name} must have shape [{'N' if array is like else len(like)}] but got {list(array.shape)}")
    if array.dtype.name not in dtypes or not array.dtype.isnative:
        raise InputError(f"{name} must have dtype {' or '.join(dtypes)} but got {array.dtype}")


def _check_documents(order: Ints, offsets: Ints, target: Array) -> None:
    _check("order", order, order, ("int64",))
    _check("offsets", offsets, offsets, ("int64",))
    _check("target", target, order, _TARGETS)
    if len(offsets) == 0:
        raise InputError("offsets must have a number for each query and one more but is empty")


def _column(array: Array, codes: Mapping[str, int]) -> Column:
    return Column(array.ctypes.data, codes[array.dtype.name])


def _order(indexes: Array, preds: Array, threads: int | None) -> QueryOrder:
    if not native.usable("valor_cpu"):
        from valor_gpu.ops.queries import reference

        return QueryOrder(*_arrays(reference.query_order(*_tensors(indexes, preds))))
    indexes, preds = map(np.ascontiguousarray, (indexes, preds))
    return run_order(_column(indexes, _INDEXES), _column(preds, _FLOATS), len(preds), _threads(threads))


def _scores(
    choices: Choices, order: Ints, offsets: Ints, preds: Array, target: Array, threads: int | None
) -> QueryScores:
    if not native.usable("valor_cpu"):
        from valor_gpu.ops.queries import reference

        number, *rest = choices
        return QueryScores(*_arrays(reference.query_scores(number, *_tensors(order, offsets, preds, target), *rest)))
    order, offsets, preds, target = map(np.ascontiguousarray, (order, offsets, preds, target))
    columns = _column(preds, _FLOATS), _column(target, _TARGETS)
    return run_scores(choices, order, offsets, *columns, _threads(threads))


def _hits(order: Ints, offsets: Ints, target: Array, max_k: int, threads: int | None) -> QueryHits:
    if not native.usable("valor_cpu"):
        from valor_gpu.ops.queries import reference

        rows, ends, grades = _tensors(order, offsets, target)
        return QueryHits(*_arrays(reference.query_hits(rows, ends, grades, max_k)))
    order, offsets, target = map(np.ascontiguousarray, (order, offsets, target))
    return run_hits(order, offsets, _column(target, _TARGETS), max_k, _threads(threads))


def _threads(threads: int | None) -> int:
    return native.threads() if threads is None else threads


def _tensors(*arrays: Array) -> Any:
    import torch

    return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)


def _arrays(tensors: Any) -> Any:
    return tuple(tensor.numpy() for tensor in tensors)
