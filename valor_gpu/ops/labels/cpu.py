"""Counts of hard labels over NumPy arrays, by the C++ library. No torch import.

What they are is said in :mod:`valor_gpu.ops.labels.op`, whose torch ops call the same kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.ops.error_codes import NO_ERROR, Names
from valor_gpu.ops.targets.cpu import (
    INT64,
    Labels,
    Numbers,
    address_of,
    array_target,
    block_rows,
    check_values,
    pack_pairs,
)


class LabelRows(NamedTuple):
    """Predicted and true classes of N rows.

    Attributes:
        preds: int64 ``[N]``.
        target: int64 ``[N]``.
        classes: C.
        ignore_index: rows with this target are left out.
        weight: float64 ``[N]``, from 0 to 1e60, or None.
    """

    preds: Labels
    target: Labels
    classes: int
    ignore_index: int | None = None
    weight: Numbers | None = None


def count_labels(rows: LabelRows) -> NDArray[Any]:
    """True positives, predicted and true rows of each class, ``[3, C]``: int64, or with weights float64.

    Raises:
        InputError: a class or a weight is out of range.

    Example:
        >>> count_labels(LabelRows(np.array([0, 1, 1]), np.array([0, 0, 1]), 2)).tolist()
        [[1, 1], [1, 2], [2, 1]]
    """
    return _tabulate(class_counter(), rows, 3)


def count_pairs(rows: LabelRows) -> NDArray[Any]:
    """The confusion matrix ``[C, C]``, rows are true classes: int64, or with weights float64.

    Raises:
        InputError: a class or a weight is out of range.

    Example:
        >>> count_pairs(LabelRows(np.array([0, 1, 1]), np.array([0, 0, 1]), 2)).tolist()
        [[1, 1], [0, 1]]
    """
    return _tabulate(pair_counter(), rows, rows.classes)


def _tabulate(count: native.Function, rows: LabelRows, height: int) -> NDArray[Any]:
    preds, target, classes, ignore_index, weight = rows
    table = np.zeros((height, classes), np.int64 if weight is None else np.float64)
    error = np.array(NO_ERROR)
    words = pack_pairs(
        address_of(preds), INT64, False, address_of(weight), len(target), array_target(target, classes, ignore_index)
    )
    block = block_rows(len(target), table.size)
    count(words, block, address_of(table), address_of(error), native.threads())
    check_values(int(error), Names(classes))
    return table


def class_counter() -> native.Function:
    """Adds to counts ``[3, C]``: pair words, rows of a block, addresses of the counts and the error code, threads."""
    return native.function("valor_cpu", "valor_count_labels_cpu", "pqppq")


def pair_counter() -> native.Function:
    """Adds to the matrix ``[C, C]``; arguments are those of :func:`class_counter`."""
    return native.function("valor_cpu", "valor_count_pairs_cpu", "pqppq")
