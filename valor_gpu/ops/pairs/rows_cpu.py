"""Pairs of boxes of any shape on the CPU: C++ loads the rows of both sides, then compares them. No torch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.ops.assign.cpu import Access
from valor_gpu.ops.assign.match_batch import MatchBatch, Pairs
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.pairs.cpu import Columns, Found, Search, columns, find, first_rows, threads_for, words

RowWords = words(
    "RowWords",
    ("rows", "firsts", "counts", "images", "type", "format", "target", "loaded", "areas", "hashes"),
)
"""SideRows of csrc/core/pairs.h: the rows of one side."""

SideWords = words("SideWords", ("rows", "gt_rows"))
"""PairSides of csrc/core/pairs.h: the geometry of the pairs of a batch."""


class Shape(NamedTuple):
    """How the rows of a geometry look.

    Attributes:
        width: values of a row, by the code of its format.
        size: bytes of a loaded row in C++, a multiple of 8.
    """

    width: Callable[[int], int]
    size: int


class Kernels(NamedTuple):
    """The C functions of a geometry: one loads the rows of a side, one finds the pairs of a batch."""

    load: native.Function
    find: native.Function


class Side(NamedTuple):
    """The loaded rows of one side: as C++ keeps them, areas float64 and hashes int64, one of each per row."""

    rows: Any
    areas: Any
    hashes: Any


class Table(NamedTuple):
    """Where the images of one side begin.

    Attributes:
        firsts: address of int64 ``[I + 1]``.
        images: I.
        counts: 0, or the address of int64 ``[I]``, rows that are no padding.
        rows: N.
    """

    firsts: int
    images: int
    counts: int
    rows: int


def prepare_side(rows: Any, code: int, size: int, target: bool, table: Table, access: Access) -> tuple[Side, bytes]:
    """Room for the rows of one side, and the words by which C++ loads them.

    Args:
        rows: ``[N, width]``, None for none.
        code: of their format.
        size: bytes of a loaded row.
        target: whether these are ground truths.
        table: where images begin.
        access: how arrays are read.
    """
    empty, count = access.empty, table.rows
    side = Side(empty((count, size // 8), "float64"), empty((count,), "float64"), empty((count,), "int64"))
    dtype = 0 if rows is None else access.codes[rows.dtype]
    first = 0 if rows is None else access.address(rows)
    head = (first, table.firsts, table.counts, table.images, dtype, code, target)
    return side, bytes(RowWords(*head, *map(access.address, side)))


def read_columns(batch: MatchBatch, rows: Sequence[int], shape: Shape, access: Access) -> Columns:
    """The columns of a batch, the boxes among them."""
    widths = {"boxes": shape.width(batch.box_format), "gt_boxes": shape.width(batch.gt_box_format)}
    return columns(batch, rows, access, widths)


def load_sides(
    batch: MatchBatch, given: Columns, firsts: Sequence[int], rows: Sequence[int], shape: Shape, access: Access,
    load: Callable[[bytes, int], Any],
) -> tuple[Side, Side]:  # fmt: skip
    """Loads both sides of a batch.

    Args:
        batch: formats and the number of images are read.
        given: its columns.
        firsts: addresses of int64 ``[I + 1]``, where images begin, of each side.
        rows: of each side.
        shape: how rows look.
        access: how arrays are read.
        load: takes words and a number of rows.
    """
    sides = []
    for side, (name, counts) in enumerate((("boxes", "counts"), ("gt_boxes", "gt_counts"))):
        table = Table(firsts[side], batch.lengths.shape[1], given.addresses[counts], rows[side])
        code = (batch.box_format, batch.gt_box_format)[side]
        made, task = prepare_side(given.arrays[name], code, shape.size, bool(side), table, access)
        load(task, rows[side])
        sides.append(made)
    return sides[0], sides[1]


def side_words(sides: Sequence[Side], access: Access) -> ctypes.Structure:
    """The geometry of a search for pairs; ``sides`` must live as long."""
    return SideWords(access.address(sides[0].rows), access.address(sides[1].rows))


def found_of(pairs: Pairs, sides: tuple[Side, Side], error: Any) -> Found:
    """What an op that finds pairs returns."""
    (_, areas, hashes), (_, gt_areas, gt_hashes) = sides
    return Found._make([*vars(pairs).values(), areas, gt_areas, hashes, gt_hashes, error])


def run(batch: MatchBatch, lowest: float, agnostic: bool, access: Access, shape: Shape, kernels: Kernels) -> Found:
    """Finds the pairs of a batch, and leaves the error code in the result, an int.

    Args:
        batch: boxes, labels, flags, lengths and counts are read.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.
        access: how arrays are read.
        shape: how rows look.
        kernels: of the CPU.
    """
    firsts: NDArray[np.int64] = first_rows(batch.lengths)
    rows = [int(n) for n in firsts[:2, -1]]
    threads = threads_for(sum(rows), access)
    given, error = read_columns(batch, rows, shape, access), np.array(NO_ERROR, np.int64)
    sides = load_sides(
        batch, given, [side.ctypes.data for side in firsts[:2]], rows, shape, access,
        lambda task, _: kernels.load(task, error.ctypes.data, threads),
    )  # fmt: skip
    search = Search(given, side_words(sides, access), lowest, agnostic)
    return found_of(find(search, firsts, access, kernels.find, threads), sides, int(error))
