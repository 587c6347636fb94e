"""Ranked documents of queries on CUDA: kernels of csrc/cuda/query_order.cu and queries.cu."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._device_tables import constant, to_device
from valor_gpu.ops._launch import check_not_capturing, launching
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.queries.cpu import FLOAT_TARGET
from valor_gpu.ops.queries.types import DISCOUNTED, MEASURES, SMALL_TABLE, Choices, rank_table

# Floats that hold every number of a type: fewer bits are sorted in fewer passes.
_KEYS = {dtype: torch.float16 for dtype in (torch.bool, torch.int8, torch.uint8)} | {torch.int16: torch.float32}
_NORMALISED = frozenset(MEASURES[name] for name in ("ndcg", "ndcg_exp"))


def target_type(target: Tensor) -> int:
    """Returns the type of a target by which C++ knows it."""
    return INT_TYPES[target.dtype] if target.dtype in INT_TYPES else FLOAT_TARGET + FLOAT_TYPES[target.dtype]


def query_order(indexes: Tensor, preds: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The op ``query_order`` for CUDA tensors; see :func:`valor_gpu.ops.queries.op.query_order`.

    Beyond input and result it takes 25 bytes per document. The host waits for the range of the indexes and for the
    number of queries.

    Raises:
        InputError: a CUDA graph is captured.
    """
    check_not_capturing("query_order sizes its result by values on the device and must not run")
    indexes, preds = indexes.contiguous(), preds.contiguous()
    rows = preds.shape[0]
    order, first, error = sort_documents(indexes, preds)
    starts = first.nonzero()[:, 0]
    queries = indexes[order[starts]].long()
    return order, queries, torch.cat((starts, starts.new_full((1,), rows))), error


def sort_documents(
    indexes: Tensor, preds: Tensor, ends: tuple[int, int] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Sorts documents by index and descending score.

    Args:
        indexes: int32 or int64 ``[N]``.
        preds: floating ``[N]``.
        ends: numbers between which all indexes lie; None: the host waits for the least and the largest.

    Returns:
        Rows int64 ``[N]``, whether each is the first of its index, bool ``[N]``, and the error code.
    """
    rows = preds.shape[0]
    error = preds.new_full((), NO_ERROR, dtype=torch.int64)
    order, first = error.new_empty(rows), error.new_empty(rows, dtype=torch.bool)
    if rows == 0:
        return order, first, error
    low, high = torch.stack(indexes.aminmax()).tolist() if ends is None else ends
    with launching(preds.device) as stream:
        task = native.struct("valor_cuda", "QuerySortTask")(
            indexes=indexes.data_ptr(), index_type=INT_TYPES[indexes.dtype], preds=preds.data_ptr(),
            type=FLOAT_TYPES[preds.dtype], rows=rows, low=low, index_bits=(high - low).bit_length(),
            order=order.data_ptr(), first=first.data_ptr(), error=error.data_ptr(),
        )  # fmt: skip
        call, bytes_ = native.function("valor_cuda", "valor_query_order_cuda"), ctypes.c_int64()
        call(ctypes.addressof(task), 0, ctypes.addressof(bytes_), stream)
        room = order.new_empty(bytes_.value // 8)
        call(ctypes.addressof(task), room.data_ptr(), ctypes.addressof(bytes_), stream)
    return order, first, error


def query_scores(
    measure: int, order: Tensor, offsets: Tensor, preds: Tensor, target: Tensor, top_k: int, parameter: float,
    above: float, adaptive_k: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The op ``query_scores`` for CUDA tensors; see :func:`valor_gpu.ops.queries.op.query_scores`.

    nDCG sorts the documents once more, by target. Discounts of more ranks than ``SMALL_TABLE`` need the length of the
    longest query, for which the host waits.

    Raises:
        InputError: a CUDA graph is captured, and the host would have to wait.
    """
    choices = Choices(measure, top_k, parameter, above, adaptive_k)
    order, offsets, preds, target = (tensor.contiguous() for tensor in (order, offsets, preds, target))
    queries = offsets.shape[0] - 1
    scores, status = order.new_empty(queries, dtype=torch.float64), order.new_empty(queries, dtype=torch.int8)
    weights = _weights(choices, offsets, order.shape[0])
    best = _best(order, offsets, target) if measure in _NORMALISED else order
    with launching(order.device) as stream:
        task = native.struct("valor_cuda", "QueryTask")(
            order=order.data_ptr(), offsets=offsets.data_ptr(), preds=preds.data_ptr(), type=FLOAT_TYPES[preds.dtype],
            target=target.data_ptr(), target_type=target_type(target), best=best.data_ptr(),
            weights=weights.data_ptr(), scores=scores.data_ptr(), status=status.data_ptr(), rows=order.shape[0],
            queries=queries, measure=measure, top_k=top_k, parameter=parameter, above=above, adaptive_k=adaptive_k,
        )  # fmt: skip
        native.function("valor_cuda", "valor_query_scores_cuda")(ctypes.addressof(task), stream)
    return scores, status


def query_hits(order: Tensor, offsets: Tensor, target: Tensor, max_k: int) -> tuple[Tensor, Tensor]:
    """The op ``query_hits`` for CUDA tensors, not synchronising; see :func:`valor_gpu.ops.queries.op.query_hits`."""
    order, offsets, target = (tensor.contiguous() for tensor in (order, offsets, target))
    queries = offsets.shape[0] - 1
    hits, relevant = order.new_empty((queries, max_k), dtype=torch.int32), order.new_empty(queries)
    with launching(order.device) as stream:
        task = native.struct("valor_cuda", "QueryHitsTask")(
            order=order.data_ptr(), offsets=offsets.data_ptr(), target=target.data_ptr(),
            target_type=target_type(target), hits=hits.data_ptr(), relevant=relevant.data_ptr(), rows=order.shape[0],
            queries=queries, max_k=max_k,
        )  # fmt: skip
        native.function("valor_cuda", "valor_query_hits_cuda")(ctypes.addressof(task), stream)
    return hits, relevant


def _weights(choices: Choices, offsets: Tensor, rows: int) -> Tensor:
    """Weights by rank on the device."""
    if choices.measure not in DISCOUNTED and choices.measure != MEASURES["rbp"]:
        return offsets
    longest = min(rows, choices.top_k or rows)
    if longest > SMALL_TABLE:
        check_not_capturing("query_scores of long queries reads their lengths back and must not run")
        longest = int(offsets.diff().max()) if len(offsets) > 1 else 0
    table = rank_table(choices, longest)
    if len(table) <= SMALL_TABLE:
        return constant(table, offsets.device)
    return to_device(torch.from_numpy(table), offsets.device)


def _best(order: Tensor, offsets: Tensor, target: Tensor) -> Tensor:
    """Rows of each query by descending target: what is ranked is sorted anew within its query."""
    places = torch.arange(order.shape[0], device=order.device)
    query = torch.searchsorted(offsets, places, right=True, out_int32=True)  # also of documents of no query
    grades = target[order]
    if not grades.is_floating_point():
        grades = grades.to(_KEYS.get(grades.dtype, torch.float64))
    return order[sort_documents(query, grades, (0, offsets.shape[0]))[0]]
