"""Pairs of rotated boxes on the CPU over addresses and sizes, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from valor_gpu import native
from valor_gpu.ops._assign_cpu import NUMPY, Access
from valor_gpu.ops._pairs_cpu import Found, Search, columns, find, first_rows, stored, threads_for, words
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error
from valor_gpu.ops.match_batch import MatchBatch

QUAD_BYTES = 128
"""Size of Quad in csrc/core/quads.h."""

CORNERS, DEGREES, DEGREES_CLOCKWISE, RADIANS, RADIANS_CLOCKWISE, CHECKED_CORNERS = range(6)
"""What a row holds, QuadFormat in csrc/core/quads.h; checked corners were accepted before."""

ROTATED_FORMATS = ("xyxyxyxy", "cxcywha")
"""Four corners one after another; or centre, width, height and angle."""

ANGLE_UNITS, ANGLE_DIRECTIONS = ("degrees", "radians"), ("counterclockwise", "clockwise")


def format_code(box_format: str, angle_unit: str = "degrees", angle_direction: str = "counterclockwise") -> int:
    """Returns the code of a format by its names.

    Args:
        box_format: one of ``ROTATED_FORMATS``.
        angle_unit: one of ``ANGLE_UNITS``.
        angle_direction: one of ``ANGLE_DIRECTIONS``, as seen in the image.

    Example:
        >>> format_code("cxcywha", "radians", "clockwise") == RADIANS_CLOCKWISE
        True
    """
    if box_format == "xyxyxyxy":
        return CORNERS
    return DEGREES + 2 * ANGLE_UNITS.index(angle_unit) + ANGLE_DIRECTIONS.index(angle_direction)


def columns_of(code: int) -> int:
    """Returns how many numbers a row of format ``code`` has."""
    return 8 if code in (CORNERS, CHECKED_CORNERS) else 5


RowWords = words(
    "RowWords",
    ("rows", "firsts", "counts", "images", "type", "format", "target", "quads", "areas", "hashes"),
)
"""QuadRows of csrc/core/rotated.h: the rows of one side."""

QuadWords = words("QuadWords", ("quads", "gt_quads"))
"""QuadSides of csrc/core/rotated.h: the geometry of the pairs of a batch."""


def rotated_pairs(batch: MatchBatch, lowest: float, agnostic: bool = False) -> MatchBatch:
    """Returns a batch of stored pairs; see :func:`valor_gpu.ops.rotated.rotated_pairs`.

    Args:
        batch: numpy arrays; ``boxes`` and ``gt_boxes`` have the columns of the quad format that ``box_format`` and
            ``gt_box_format`` name.
        lowest: the lowest threshold.
        agnostic: pair detections with ground truths of every class.

    Raises:
        InputError: for the first row that is no box.
        NativeError: the C++ library is not there; ask :func:`valor_gpu.native.usable` first.

    Example:
        >>> batch = MatchBatch(np.array([[1], [1]]), [np.array([[5.0, 5, 8, 4, 30]])], [np.ones(1)], [np.zeros(1, int)],
        ...                    gt_boxes=[np.array([[5.0, 5, 8, 4, 30]])], gt_labels=[np.zeros(1, int)],
        ...                    box_format=DEGREES, gt_box_format=DEGREES)
        >>> rotated_pairs(batch, 0.5).pairs.similarities.tolist()
        [1.0]
    """
    found = run(batch, lowest, agnostic, NUMPY)
    raise_error(found.error, describe_box)
    return stored(batch, found)


class Side(NamedTuple):
    """The loaded rows of one side: quads, areas float64 and hashes int64, one of each per row."""

    quads: Any
    areas: Any
    hashes: Any


def prepare_side(
    rows: Any, code: int, table: int, images: int, counts: int, target: bool, count: int, access: Access
) -> tuple[Side, bytes]:
    """Room for the rows of one side, and the words by which C++ loads them.

    Args:
        rows: ``[N, 8]`` or ``[N, 5]``, None for none.
        code: the quad format.
        table: address of int64 ``[I + 1]``, where images begin.
        images: I.
        counts: 0, or the address of int64 ``[I]``.
        target: whether these are ground truths.
        count: N.
        access: how arrays are read.
    """
    empty = access.empty
    side = Side(empty((count, QUAD_BYTES // 8), "float64"), empty((count,), "float64"), empty((count,), "int64"))
    dtype = 0 if rows is None else access.codes[rows.dtype]
    first = 0 if rows is None else access.address(rows)
    return side, bytes(RowWords(first, table, counts, images, dtype, code, target, *map(access.address, side)))


def widths(batch: MatchBatch) -> dict[str, int]:
    """Values per row of the columns that hold boxes."""
    return {"boxes": columns_of(batch.box_format), "gt_boxes": columns_of(batch.gt_box_format)}


def quad_words(sides: Sequence[Side], access: Access) -> ctypes.Structure:
    """The geometry of a search for pairs; ``sides`` must live as long."""
    return QuadWords(access.address(sides[0].quads), access.address(sides[1].quads))


def run(batch: MatchBatch, lowest: float, agnostic: bool, access: Access) -> Found:
    """Finds the pairs, and leaves the error code in the result, an int."""
    firsts, images = first_rows(batch.lengths), int(batch.lengths.shape[1])
    rows = [int(n) for n in firsts[:2, -1]]
    threads = threads_for(sum(rows), access)
    given = columns(batch, rows, access, widths(batch))
    error = np.array(NO_ERROR, np.int64)
    sides = []
    for side, (name, counts) in enumerate((("boxes", "counts"), ("gt_boxes", "gt_counts"))):
        code, table = (batch.box_format, batch.gt_box_format)[side], firsts[side].ctypes.data
        made, task = prepare_side(
            given.arrays[name], code, table, images, given.addresses[counts], bool(side), rows[side], access
        )
        native.function("valor_cpu", "valor_load_quads_cpu", "ppq")(task, error.ctypes.data, threads)
        sides.append(made)
    list_pairs = native.function("valor_cpu", "valor_rotated_pairs_cpu", "ppq")
    search = Search(given, quad_words(sides, access), lowest, agnostic)
    pairs = find(search, firsts, access, list_pairs, threads)
    (_, areas, hashes), (_, gt_areas, gt_hashes) = sides
    return Found._make([*vars(pairs).values(), areas, gt_areas, hashes, gt_hashes, int(error)])
