"""Ranked documents of queries over NumPy arrays, by the C++ library; without it by the definitions in torch.

The torch ops of :mod:`valor_gpu.ops.queries.op` call :func:`run_order`, :func:`run_scores` and :func:`run_hits` for
CPU tensors. Imports no torch where the library is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_int
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import raise_error
from valor_gpu.ops.queries.types import Choices, QueryHits, QueryOrder, QueryScores, describe_order

Array = NDArray[Any]
Ints = NDArray[np.int64]

_FLOATS = ("float16", "float32", "float64")
_TARGETS = ("int8", "uint8", "int16", "int32", "int64", "bool", *_FLOATS)


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
    _check("indexes", indexes, preds, ("int32", "int64"))
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


def _check(name: str, array: Array, like: Array, dtypes: tuple[str, ...]) -> None:
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


def _order(indexes: Array, preds: Array, threads: int | None) -> QueryOrder:
    from valor_gpu.ops.queries import reference

    return QueryOrder(*_arrays(reference.query_order(*_tensors(indexes, preds))))


def _scores(
    choices: Choices, order: Ints, offsets: Ints, preds: Array, target: Array, threads: int | None
) -> QueryScores:
    from valor_gpu.ops.queries import reference

    number, *rest = choices
    tensors = _tensors(order, offsets, preds, target)
    return QueryScores(*_arrays(reference.query_scores(number, *tensors, *rest)))


def _hits(order: Ints, offsets: Ints, target: Array, max_k: int, threads: int | None) -> QueryHits:
    from valor_gpu.ops.queries import reference

    rows, ends, grades = _tensors(order, offsets, target)
    return QueryHits(*_arrays(reference.query_hits(rows, ends, grades, max_k)))


def _tensors(*arrays: Array) -> Any:
    import torch

    return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)


def _arrays(tensors: Any) -> Any:
    return tuple(tensor.numpy() for tensor in tensors)
