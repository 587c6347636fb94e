"""Counts of hard labels: of each class, of pairs of classes, and from scores in one read of them.

Definitions in plain torch: ``valor_gpu/ops/labels/reference.py``. Design: docs/design/003-classification.md.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.labels import cuda as _labels_cuda
from valor_gpu.ops.labels import reference
from valor_gpu.ops.labels.cpu import class_counter, pair_counter
from valor_gpu.ops.targets.cpu import block_rows
from valor_gpu.ops.targets.op import (
    check_labels,
    check_scores,
    check_target,
    check_weight,
    pair_words,
    target_words,
)

TRUE_POSITIVES, PREDICTED, TRUE = 0, 1, 2
"""Rows of the counts by class."""


class Counts(NamedTuple):
    """``counts`` ``[3, C]``, int64 or with weights float64: rows ``TRUE_POSITIVES``, ``PREDICTED`` and ``TRUE``;
    ``error`` int64 ``[]``, see :mod:`valor_gpu.ops.error_codes`. Rows with an error count nowhere.
    """

    counts: Tensor
    error: Tensor


class Pairs(NamedTuple):
    """``matrix`` ``[C, C]``, int64 or with weights float64, rows are true classes; ``error`` as in Counts."""

    matrix: Tensor
    error: Tensor


class TopClasses(NamedTuple):
    """``classes`` int32 ``[N, k]`` by descending score, -1 in rows with NaN; ``error`` as in Counts."""

    classes: Tensor
    error: Tensor


def count_top(
    scores: Tensor, target: Tensor, k: int = 1, *, ignore_index: int | None = None, weight: Tensor | None = None
) -> Counts:
    """True positives, predicted and true rows of each class, in one read of the scores.

    The prediction of a row is its target if that is among the ``k`` largest scores, else the class of the largest:
    the rule of torchmetrics' ``top_k``. Of equal scores the lower class ranks higher; -0.0 equals 0.0.

    Args:
        scores: float16, bfloat16, float32 or float64 ``[N, C]``.
        target: any integer dtype ``[N]``, class indices.
        k: how many of the largest scores may hold the target, 1 to C.
        ignore_index: rows with this target are left out, whatever else they hold.
        weight: float64 ``[N]``, from 0 to 1e60.

    Returns:
        Counts. Sums of weights run in row order within each of at most 64 blocks of rows, then over the blocks, so that
        they have the same bits on every device and with any number of threads.

    Raises:
        InputError: on another shape, dtype or device, or a k out of range. A bad value is in ``error``, so that
            the host does not synchronise with the device.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4]])
        >>> count_top(scores, torch.tensor([1, 2])).counts
        tensor([[0, 1, 0],
                [1, 1, 0],
                [0, 1, 1]])
        >>> count_top(scores, torch.tensor([1, 2]), 2).counts[TRUE_POSITIVES]
        tensor([0, 1, 1])
    """
    check_scores(scores)
    check_target(target, scores, per_element=False)
    check_weight(weight, ("scores", scores))
    _check_k(k, scores.shape[1])
    return Counts(*_COUNT_TOP(scores, target, k, ignore_index, weight))


@arguments_of(count_top)
def count_labels(
    preds: Tensor, target: Tensor, num_classes: int, *, ignore_index: int | None = None, weight: Tensor | None = None
) -> Counts:
    """True positives, predicted and true rows of each class.

    Args:
        preds: any integer dtype ``[N]``, class indices.
        target: class indices ``[N]`` of any integer dtype, which may differ from that of ``preds``.
        num_classes: C, at least 1.

    Returns:
        Counts, summed as in :func:`count_top`.

    Raises:
        InputError: on another shape, dtype or device. A bad value is in ``error``.

    Example:
        >>> import torch
        >>> count_labels(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), 2).counts
        tensor([[1, 1],
                [1, 2],
                [2, 1]])
    """
    _check_pairs(preds, target, num_classes, weight)
    return Counts(*_COUNT_LABELS(preds, target, num_classes, ignore_index, weight))


@arguments_of(count_labels)
def count_pairs(
    preds: Tensor, target: Tensor, num_classes: int, *, ignore_index: int | None = None, weight: Tensor | None = None
) -> Pairs:
    """The confusion matrix: rows of each pair of true and predicted class.

    Args:
        num_classes: C, at least 1; the matrix takes 8 C^2 bytes.

    Returns:
        Pairs. Sums of weights run over blocks of rows as in :func:`count_top`, of at least C^2 rows.

    Raises:
        InputError: on another shape, dtype or device. A bad value is in ``error``.

    Example:
        >>> import torch
        >>> count_pairs(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), 2).matrix
        tensor([[1, 1],
                [0, 1]])
    """
    _check_pairs(preds, target, num_classes, weight)
    return Pairs(*_COUNT_PAIRS(preds, target, num_classes, ignore_index, weight))


def top_classes(scores: Tensor, k: int = 1) -> TopClasses:
    """Classes of the ``k`` largest scores of each row.

    Args:
        scores: float16, bfloat16, float32 or float64 ``[N, C]``.
        k: 1 to C.

    Returns:
        Classes by descending score; of equal scores the lower class comes first, and -0.0 equals 0.0.

    Raises:
        InputError: on another shape or dtype, or a k out of range. A NaN score is in ``error``.

    Example:
        >>> import torch
        >>> top_classes(torch.tensor([[0.1, 0.7, 0.2], [0.4, 0.1, 0.4]]), 2).classes
        tensor([[1, 2],
                [0, 2]], dtype=torch.int32)
    """
    check_scores(scores)
    _check_k(k, scores.shape[1])
    return TopClasses(*_TOP_CLASSES(scores, k))


def first_in_cells(cells: Tensor, num_cells: int, k: int) -> Tensor:
    """The first ``k`` rows of each cell, in input order: examples to show for each pair of classes.

    Args:
        cells: any integer dtype ``[N]``; rows with a cell outside ``[0, num_cells)`` belong to none.
        num_cells: how many cells there are.
        k: how many rows to keep of each.

    Returns:
        int64 ``[num_cells, k]``, -1 where a cell has fewer rows.

    Raises:
        InputError: on another shape or dtype, or a negative number.

    Example:
        >>> import torch
        >>> first_in_cells(torch.tensor([1, 0, 1, 1, -1]), 2, 2)
        tensor([[ 1, -1],
                [ 0,  2]])
    """
    check_labels(cells, "cells")
    for name, value in (("num_cells", num_cells), ("k", k)):
        _check_count(name, value, 0)
    rows: Tensor = _FIRST_IN_CELLS(cells, num_cells, k)
    return rows


def _check_count(name: str, value: int, least: int) -> None:
    check_type(name, value, int)
    if value < least:
        raise InputError(f"{name} must be at least {least} but is {value}")


def _check_k(k: int, classes: int) -> None:
    check_type("k", k, int)
    if not 1 <= k <= classes:
        raise InputError(f"k must lie between 1 and the {classes} columns of scores but is {k}")


def _check_pairs(preds: Tensor, target: Tensor, num_classes: int, weight: Tensor | None) -> None:
    check_labels(preds, "preds")
    check_labels(target, "target", like=("preds", preds))
    _check_count("num_classes", num_classes, 1)
    check_weight(weight, ("preds", preds))


# ------------------------------------------------------------------------------------------------------------ kernels


def _tabulate(
    count: native.Function, preds: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None,
    rows: int, classes: int, left_out: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The table ``[rows, classes]`` that ``count`` fills, and the first error.

    With ``left_out``, -1 among ``preds`` stands for rows to leave out.
    """
    preds, target = preds.contiguous(), target.contiguous()
    weight = None if weight is None else weight.contiguous()
    table, error = reference.empty_table(preds, rows, classes, weight)
    words = pair_words(preds, target, classes, ignore_index, weight, left_out)
    block = block_rows(target.shape[0], table.numel())
    count(words, block, table.zero_().data_ptr(), error.fill_(NO_ERROR).data_ptr(), torch.get_num_threads())
    return table, error


def _count_top_cpu(
    scores: Tensor, target: Tensor, k: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    scores, target = scores.contiguous(), target.contiguous()
    rows, classes = scores.shape
    predicted = scores.new_empty(rows, dtype=torch.int32)
    found = torch.tensor(NO_ERROR)
    native.function("valor_cpu", "valor_predict_top_cpu", "pqqpqppq")(
        scores.data_ptr(), FLOAT_TYPES[scores.dtype], rows, target_words(target, classes, ignore_index), k,
        predicted.data_ptr(), found.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    counts, error = _tabulate(class_counter(), predicted, target, ignore_index, weight, 3, classes, left_out=True)
    return counts, torch.minimum(error, found)


def _count_labels_cpu(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    return _tabulate(class_counter(), preds, target, ignore_index, weight, 3, num_classes)


def _count_pairs_cpu(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    return _tabulate(pair_counter(), preds, target, ignore_index, weight, num_classes, num_classes)


def _top_classes_cpu(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    scores = scores.contiguous()
    classes, error = reference.top_classes_fake(scores, k)
    error.fill_(NO_ERROR)
    native.function("valor_cpu", "valor_top_classes_cpu", "pqqqqppq")(
        scores.data_ptr(), FLOAT_TYPES[scores.dtype], *scores.shape, k, classes.data_ptr(), error.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return classes, error


def _first_in_cells_cpu(cells: Tensor, num_cells: int, k: int) -> Tensor:
    cells = cells.contiguous()
    rows = cells.new_full((num_cells, k), -1, dtype=torch.int64)
    native.function("valor_cpu", "valor_first_in_cells_cpu", "pqqqqp")(
        cells.data_ptr(), INT_TYPES[cells.dtype], cells.shape[0], num_cells, k, rows.data_ptr()
    )
    return rows


_COUNT_TOP = register(
    "count_top(Tensor scores, Tensor target, int k, int? ignore_index, Tensor? weight) -> (Tensor, Tensor)",
    reference=reference.count_top,
    fake=reference.count_top_fake,
    cpu=cpp(_count_top_cpu),
    cuda=cuda(_labels_cuda.count_top),
    launches=("count_labels",),
)
_COUNT_LABELS = register(
    "count_labels(Tensor preds, Tensor target, int num_classes, int? ignore_index, Tensor? weight) -> (Tensor, Tensor)",
    reference=reference.count_labels,
    fake=reference.count_labels_fake,
    cpu=cpp(_count_labels_cpu),
    cuda=cuda(_labels_cuda.count_labels),
)
_COUNT_PAIRS = register(
    "count_pairs(Tensor preds, Tensor target, int num_classes, int? ignore_index, Tensor? weight) -> (Tensor, Tensor)",
    reference=reference.count_pairs,
    fake=reference.count_pairs_fake,
    cpu=cpp(_count_pairs_cpu),
    cuda=cuda(_labels_cuda.count_pairs),
)
_TOP_CLASSES = register(
    "top_classes(Tensor scores, int k) -> (Tensor, Tensor)",
    reference=reference.top_classes,
    fake=reference.top_classes_fake,
    cpu=cpp(_top_classes_cpu),
    cuda=cuda(_labels_cuda.top_classes),
)
_FIRST_IN_CELLS = register(
    "first_in_cells(Tensor cells, int num_cells, int k) -> Tensor",
    reference=reference.first_in_cells,
    fake=reference.first_in_cells_fake,
    cpu=cpp(_first_in_cells_cpu),
    cuda=cuda(_labels_cuda.first_in_cells),
)
