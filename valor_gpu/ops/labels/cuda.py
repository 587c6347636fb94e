"""Launches the ops of :mod:`valor_gpu.ops.labels.op` on CUDA; nothing here waits for the device."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._launch import launching
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.labels import reference
from valor_gpu.ops.targets.cpu import block_rows
from valor_gpu.ops.targets.op import pair_words, target_words


def _tabulate(
    count: native.Function, preds: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None,
    rows: int, classes: int, error: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The table ``[rows, classes]`` that ``count`` fills, and the first error.

    With ``error``, that found so far, -1 among ``preds`` stands for rows to leave out.
    """
    preds, target = preds.contiguous(), target.contiguous()
    weight = None if weight is None else weight.contiguous()
    with launching(preds.device) as stream:
        table, word = reference.empty_table(preds, rows, classes, weight)
        word = word.fill_(NO_ERROR) if error is None else error
        block = block_rows(target.shape[0], table.numel())
        blocks = 0 if weight is None else -(-target.shape[0] // block)
        partial = table.new_zeros(blocks * table.numel() if blocks > 1 else 0)
        words = pair_words(preds, target, classes, ignore_index, weight, error is not None)
        count(words, block, partial.data_ptr(), table.zero_().data_ptr(), word.data_ptr(), stream)
    return table, word


def count_top(
    scores: Tensor, target: Tensor, k: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.labels.op.count_top`."""
    scores, target = scores.contiguous(), target.contiguous()
    rows, classes = scores.shape
    with launching(scores.device) as stream:
        predicted = scores.new_empty(rows, dtype=torch.int32)
        error = scores.new_full((), NO_ERROR, dtype=torch.int64)
        native.function("valor_cuda", "valor_predict_top_cuda", "pqqpqpppp")(
            scores.data_ptr(), FLOAT_TYPES[scores.dtype], rows, target_words(target, classes, ignore_index), k,
            predicted.data_ptr(), 0, error.data_ptr(), stream,
        )  # fmt: skip
    count = native.function("valor_cuda", "valor_count_labels_cuda", "pqpppp")
    return _tabulate(count, predicted, target, ignore_index, weight, 3, classes, error)


def count_labels(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.labels.op.count_labels`."""
    count = native.function("valor_cuda", "valor_count_labels_cuda", "pqpppp")
    return _tabulate(count, preds, target, ignore_index, weight, 3, num_classes)


def count_pairs(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.labels.op.count_pairs`."""
    count = native.function("valor_cuda", "valor_count_pairs_cuda", "pqpppp")
    return _tabulate(count, preds, target, ignore_index, weight, num_classes, num_classes)


def top_classes(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.labels.op.top_classes`."""
    scores = scores.contiguous()
    with launching(scores.device) as stream:
        classes, error = reference.top_classes_fake(scores, k)
        native.function("valor_cuda", "valor_top_classes_cuda", "pqqqqppp")(
            scores.data_ptr(), FLOAT_TYPES[scores.dtype], *scores.shape, k, classes.data_ptr(),
            error.fill_(NO_ERROR).data_ptr(), stream,
        )  # fmt: skip
    return classes, error


def first_in_cells(cells: Tensor, num_cells: int, k: int) -> Tensor:
    """See :func:`valor_gpu.ops.labels.op.first_in_cells`."""
    cells = cells.contiguous()
    with launching(cells.device) as stream:
        rows = cells.new_full((num_cells, k), NO_ERROR, dtype=torch.int64)
        native.function("valor_cuda", "valor_first_in_cells_cuda", "pqqqqpp")(
            cells.data_ptr(), INT_TYPES[cells.dtype], cells.shape[0], num_cells, k, rows.data_ptr(), stream
        )
    return rows
