"""Targets and labels as the kernels of classification read them, from addresses or NumPy arrays. No torch import."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.ops.error_codes import Names, describe_value, raise_error

Labels = NDArray[np.int64]
Numbers = NDArray[np.float64]

INT64, FLOAT64 = 4, 3
"""IntType and FloatType in csrc/core/load.h."""

_MAX_BLOCKS, _MIN_ROWS = 64, 1024


def block_rows(rows: int, min_rows: int) -> int:
    """Returns the rows of a block whose weights are summed on their own, so that every kernel gives the same bits.

    Args:
        rows: all rows; they make at most 64 blocks.
        min_rows: rows that a block has at least, chosen so that the tables of all blocks stay smaller than the input.
    """
    return max(-(-rows // _MAX_BLOCKS), _MIN_ROWS, min_rows)


def pack_target(address: int, code: int, per_element: bool, classes: int, ignore_index: int | None) -> bytes:
    """The Target of csrc/core/targets.h; ``code`` is an IntType."""
    return struct.pack("6q", address, code, per_element, classes, ignore_index is not None, ignore_index or 0)


def pack_pairs(address: int, code: int, left_out: bool, weight: int, rows: int, target: bytes) -> bytes:
    """The PairRows of csrc/core/labels.h, of the address of predicted classes; ``weight`` is an address or 0."""
    return struct.pack("5q", address, code, left_out, weight, rows) + target


def array_target(target: Labels, classes: int, ignore_index: int | None) -> bytes:
    """:func:`pack_target` of class indices ``[N]``, or of 0 and 1 ``[N, C]``; the array must outlive the words."""
    return pack_target(address_of(target), INT64, target.ndim == 2, classes, ignore_index)


def address_of(values: NDArray[Any] | None) -> int:
    """Where a contiguous array lies; 0 for none."""
    if values is None:
        return 0
    assert values.flags.c_contiguous
    return values.ctypes.data


def check_values(error: int, names: Names) -> None:
    """Raises :class:`InputError` for the first bad value of a table."""
    raise_error(error, lambda code: describe_value(code, names))
