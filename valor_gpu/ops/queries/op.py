"""Ranked documents of queries: their order, one score per query for each measure of retrieval, and hits by rank.

A document is relevant if its target is above 0, and unjudged if it is below 0: for every measure an unjudged document
is not relevant. Numbers are added by rank in float64, so that every kernel has the same bits. Definition:
:mod:`valor_gpu.ops.queries.reference`; measures: :mod:`valor_gpu.ops.queries.types`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_dtype, check_int, check_same_device, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.queries import cuda as _queries_cuda
from valor_gpu.ops.queries import reference
from valor_gpu.ops.queries.cpu import Column, run_hits, run_order, run_scores
from valor_gpu.ops.queries.cuda import target_type
from valor_gpu.ops.queries.types import Choices, QueryHits, QueryOrder, QueryScores

_MAX_ROWS = 1 << 31  # kernels keep a row in 32 bits
_INDEXES = (torch.int32, torch.int64)


def query_order(indexes: Tensor, preds: Tensor) -> QueryOrder:
    """Ranks the documents of each query: by descending score, equal scores in the order of their rows.

    -0.0 equals 0.0. The number of queries depends on the values, so that on CUDA the host synchronises with the device.

    Args:
        indexes: int32 or int64 ``[N]``, the query of each document; documents of a query may lie apart.
        preds: floating ``[N]`` scores, any value but NaN.

    Returns:
        The order on the device of ``preds``.

    Raises:
        InputError: shapes, dtypes or devices that do not fit, or 2^31 documents and more.

    Example:
        >>> order = query_order(torch.tensor([7, 3, 7, 7]), torch.tensor([0.5, 0.1, 0.9, 0.5]))
        >>> order.order.tolist(), order.queries.tolist(), order.offsets.tolist()
        ([1, 2, 0, 3], [3, 7], [0, 1, 4])
    """
    check_shape("preds", preds, (None,))
    check_shape("indexes", indexes, tuple(preds.shape))
    check_dtype("indexes", indexes, _INDEXES)
    check_dtype("preds", preds, tuple(FLOAT_TYPES))
    check_same_device(["preds", "indexes"], [preds, indexes])
    if len(preds) >= _MAX_ROWS:
        raise InputError(f"preds must have fewer than 2^31 rows but has {len(preds)}")
    return QueryOrder(*_ORDER(indexes, preds))


def query_scores(
    measure: str,
    order: Tensor,
    offsets: Tensor,
    preds: Tensor,
    target: Tensor,
    top_k: int = 0,
    parameter: float | None = None,
    *,
    above: float | None = None,
    adaptive_k: bool = False,
) -> QueryScores:
    """Computes one score per query from its ranked documents.

    ``average_precision`` divides by the relevant documents that are found within ``top_k``, as torchmetrics does,
    ``trec_average_precision`` by all relevant documents, as trec_eval does. nDCG and DCG give documents of equal score
    the mean of their gains, as scikit-learn does; other measures take them in the order of rows. ``judged`` is the
    fraction of documents that are judged, ``holes`` the number of those that are not.

    Args:
        measure: a name of ``MEASURES`` in :mod:`valor_gpu.ops.queries.types`.
        order: of :func:`query_order`.
        offsets: of :func:`query_order`, or a slice of them for some of the queries.
        preds: ``[N]`` scores, those that were ordered.
        target: int, bool or floating ``[N]``: grades of relevance, values below 0 for unjudged documents.
        top_k: how many documents of a query count; 0 for all.
        parameter: largest grade of ``err``, largest false positive rate of ``auroc`` (None: 1), persistence of ``rbp``.
        above: documents with at most this score are not retrieved: they are relevant documents that were not found
            (torchmetrics takes 0 for precision, recall, average precision and reciprocal rank); None: all are
            retrieved.
        adaptive_k: whether precision divides by the number of documents where ``top_k`` is larger.

    Returns:
        Scores and status on the device of ``preds``.

    Raises:
        InputError: an unknown measure, a number out of its range, or shapes, dtypes or devices that do not fit.

    Example:
        >>> from valor_gpu.ops.queries.types import STATUS_TEXTS
        >>> preds, target = torch.tensor([0.5, 0.1, 0.9, 0.5]), torch.tensor([1, 0, 0, 1])
        >>> order = query_order(torch.tensor([7, 3, 7, 7]), preds)
        >>> found = query_scores("precision", order.order, order.offsets, preds, target, top_k=2)
        >>> found.scores.tolist(), [STATUS_TEXTS[number] for number in found.status.tolist()]
        ([nan, 0.5], ['no relevant document', ''])
    """
    choices = Choices.of(measure, top_k, parameter, above, adaptive_k)
    check_shape("preds", preds, tuple(order.shape))
    check_dtype("preds", preds, tuple(FLOAT_TYPES))
    _check_documents(order, offsets, target)
    check_same_device(["order", "preds"], [order, preds])
    number, *rest = choices
    return QueryScores(*_SCORES(number, order, offsets, preds, target, *rest))


@arguments_of(query_scores)
def query_hits(order: Tensor, offsets: Tensor, target: Tensor, max_k: int) -> QueryHits:
    """Counts the relevant documents among the first k of each query, for k = 1 to ``max_k``.

    Args:
        max_k: the largest k, at least 1.

    Raises:
        InputError: shapes, dtypes or devices that do not fit, or a ``max_k`` below 1.

    Example:
        >>> order = query_order(torch.tensor([0, 0, 0, 4]), torch.tensor([0.2, 0.3, 0.5, 0.1]))
        >>> found = query_hits(order.order, order.offsets, torch.tensor([1, 0, 1, 0]), 2)
        >>> found.hits.tolist(), found.relevant.tolist()
        ([[1, 1], [0, 0]], [2, 0])
    """
    check_int("max_k", max_k, 1)
    _check_documents(order, offsets, target)
    return QueryHits(*_HITS(order, offsets, target, max_k))


def _check_documents(order: Tensor, offsets: Tensor, target: Tensor) -> None:
    check_shape("order", order, (None,))
    check_shape("target", target, tuple(order.shape))
    check_shape("offsets", offsets, (None,))
    for name, tensor in (("order", order), ("offsets", offsets)):
        check_dtype(name, tensor, (torch.int64,))
    check_dtype("target", target, (*INT_TYPES, *FLOAT_TYPES))
    check_same_device(["order", "offsets", "target"], [order, offsets, target])
    if len(offsets) == 0:
        raise InputError("offsets must have a number for each query and one more but is empty")


# ----------------------------------------------------------------------------------------------------- C++ kernels


def _order_cpu(indexes: Tensor, preds: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    indexes, preds = indexes.contiguous(), preds.contiguous()
    columns = Column(indexes.data_ptr(), INT_TYPES[indexes.dtype]), Column(preds.data_ptr(), FLOAT_TYPES[preds.dtype])
    found = run_order(*columns, len(preds), torch.get_num_threads())
    return tuple(map(torch.from_numpy, found))  # type: ignore[return-value]


def _scores_cpu(
    measure: int, order: Tensor, offsets: Tensor, preds: Tensor, target: Tensor, top_k: int, parameter: float,
    above: float, adaptive_k: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    choices = Choices(measure, top_k, parameter, above, adaptive_k)
    order, offsets, preds, target = (tensor.contiguous() for tensor in (order, offsets, preds, target))
    columns = Column(preds.data_ptr(), FLOAT_TYPES[preds.dtype]), Column(target.data_ptr(), target_type(target))
    found = run_scores(choices, order.numpy(), offsets.numpy(), *columns, torch.get_num_threads())
    return torch.from_numpy(found.scores), torch.from_numpy(found.status)


def _hits_cpu(order: Tensor, offsets: Tensor, target: Tensor, max_k: int) -> tuple[Tensor, Tensor]:
    order, offsets, target = (tensor.contiguous() for tensor in (order, offsets, target))
    column = Column(target.data_ptr(), target_type(target))
    found = run_hits(order.numpy(), offsets.numpy(), column, max_k, torch.get_num_threads())
    return torch.from_numpy(found.hits), torch.from_numpy(found.relevant)


# ----------------------------------------------------------------------------------------------------- registration


def _order_fake(indexes: Tensor, preds: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    queries = torch.library.get_ctx().new_dynamic_size()
    order, names, offsets = (
        preds.new_empty(size, dtype=torch.int64) for size in (preds.shape[0], queries, queries + 1)
    )
    return order, names, offsets, preds.new_empty((), dtype=torch.int64)


def _scores_fake(
    measure: int, order: Tensor, offsets: Tensor, preds: Tensor, target: Tensor, top_k: int, parameter: float,
    above: float, adaptive_k: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    queries = offsets.shape[0] - 1
    return order.new_empty(queries, dtype=torch.float64), order.new_empty(queries, dtype=torch.int8)


def _hits_fake(order: Tensor, offsets: Tensor, target: Tensor, max_k: int) -> tuple[Tensor, Tensor]:
    queries = offsets.shape[0] - 1
    return order.new_empty((queries, max_k), dtype=torch.int32), order.new_empty(queries)


_ORDER = register(
    "query_order(Tensor indexes, Tensor preds) -> (Tensor, Tensor, Tensor, Tensor)",
    reference=reference.query_order,
    fake=_order_fake,
    cpu=cpp(_order_cpu),
    cuda=cuda(_queries_cuda.query_order),
)
_SCORES = register(
    "query_scores(int measure, Tensor order, Tensor offsets, Tensor preds, Tensor target, int top_k, float parameter,"
    " float above, bool adaptive_k) -> (Tensor, Tensor)",
    reference=reference.query_scores,
    fake=_scores_fake,
    cpu=cpp(_scores_cpu),
    cuda=cuda(_queries_cuda.query_scores),
    launches=("query_order",),
)
_HITS = register(
    "query_hits(Tensor order, Tensor offsets, Tensor target, int max_k) -> (Tensor, Tensor)",
    reference=reference.query_hits,
    fake=_hits_fake,
    cpu=cpp(_hits_cpu),
    cuda=cuda(_queries_cuda.query_hits),
)
