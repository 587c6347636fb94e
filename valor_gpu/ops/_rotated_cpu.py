"""Pairs of rotated boxes on the CPU over addresses and sizes, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops._assign_cpu import NUMPY, Access, check_dtype
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error
from valor_gpu.ops.match_batch import COLUMNS, MatchBatch, Pairs

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


_ROWS_PER_HELPER = 4096  # waking a thread for fewer takes longer than it saves


def _words(name: str, names: Sequence[str]) -> type[ctypes.Structure]:
    kinds = {"lowest": ctypes.c_double}
    return type(name, (ctypes.Structure,), {"_fields_": [(n, kinds.get(n, ctypes.c_int64)) for n in names]})


RowWords = _words(
    "RowWords",
    ("rows", "firsts", "counts", "images", "type", "format", "target", "quads", "areas", "hashes"),
)
"""QuadRows of csrc/core/rotated.h: the rows of one side."""

PairWords = _words(
    "PairWords",
    (
        "quads", "gt_quads", "labels", "gt_labels", "gt_flags", "firsts", "counts", "gt_counts", "label_type",
        "gt_label_type", "gt_flag_type", "images", "agnostic", "lowest", "offsets", "used", "ground_truths",
        "similarities",
    ),
)  # fmt: skip
"""QuadBatch of csrc/core/rotated.h: the pairs of a batch."""


class Found(NamedTuple):
    """What the op returns: fields of :class:`Pairs` and of :class:`MatchBatch`, then an error code."""

    offsets: Any
    counts: Any
    ground_truths: Any
    similarities: Any
    areas: Any
    gt_own_areas: Any
    hashes: Any
    gt_hashes: Any
    error: Any


def first_rows(lengths: Any) -> NDArray[np.int64]:
    """int64 ``[3, I + 1]``: where each image begins among detections, ground truths and all pairs of the two.

    Args:
        lengths: int64 ``[2, I]``.

    Raises:
        InputError: an image has fewer than 0 rows.
    """
    sizes = np.asarray(lengths, np.int64)
    if sizes.size and sizes.min() < 0:
        raise InputError(f"lengths must be at least 0 but are {sizes.tolist()}")
    firsts = np.zeros((3, sizes.shape[1] + 1), np.int64)
    np.cumsum((*sizes, sizes[0] * sizes[1]), axis=1, out=firsts[:, 1:])
    return firsts


def stored(batch: MatchBatch, found: Found) -> MatchBatch:
    """Returns ``batch`` with pairs, areas and hashes in place of boxes."""
    columns: dict[str, Any] = {
        name: [getattr(found, name)] for name in ("areas", "gt_own_areas", "hashes", "gt_hashes")
    }
    return replace(batch, boxes=[], gt_boxes=[], box_format=0, gt_box_format=0, pairs=Pairs(*found[:4]), **columns)


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


class Columns(NamedTuple):
    """One contiguous array each, None where the batch has none, and how they are read.

    Attributes:
        arrays: by the name of the field of :class:`MatchBatch`.
        addresses: likewise; 0 where there is none.
        codes: codes of dtypes.
    """

    arrays: dict[str, Any]
    addresses: dict[str, int]
    codes: dict[str, int]


def columns(batch: MatchBatch, rows: Sequence[int], access: Access) -> Columns:
    """Joins the columns of a batch; raises :class:`InputError` where one is not what C++ reads for its lengths."""
    widths = {"boxes": columns_of(batch.box_format), "gt_boxes": columns_of(batch.gt_box_format)}
    names = ("boxes", "gt_boxes", "labels", "gt_labels", "gt_flags")
    arrays = {name: _whole(getattr(batch, name), widths.get(name, 1), access) for name in names}
    for name, array in arrays.items():
        need, got = rows[name.startswith("gt_")], 0 if array is None else int(array.shape[0])
        if got != need and not (array is None and name == "gt_flags"):
            raise InputError(f"{name} must have {need} rows, the sum of lengths, but has {got}")
        if array is not None:
            _check_values(name, array, widths.get(name, 1))
    for name in ("counts", "gt_counts"):
        count, images = getattr(batch, name), batch.lengths.shape[1]
        arrays[name] = None if count is None else access.contiguous(count)
        if count is not None:
            check_dtype(name, count.dtype, "int64")
            if tuple(count.shape) != (images,):
                raise InputError(f"{name} must have shape [{images}] but has {list(count.shape)}")
    addresses = {name: 0 if array is None else access.address(array) for name, array in arrays.items()}
    codes = {name: 0 if array is None else access.codes[array.dtype] for name, array in arrays.items()}
    return Columns(arrays, addresses, codes)


def _check_values(name: str, array: Any, width: int) -> None:
    """Raises unless a column has a dtype that C++ knows, and ``width`` values in a row."""
    check_dtype(name, array.dtype, COLUMNS[name].dtype)
    if width > 1 and array.shape[0] and tuple(array.shape[1:]) != (width,):
        raise InputError(f"{name} must have shape [{array.shape[0]}, {width}] but has {list(array.shape)}")


def _whole(parts: Sequence[Any], width: int, access: Access) -> Any:
    if not parts:
        return None
    if len(parts) > 1:
        return access.join([part.reshape(-1, width) if width > 1 else part.reshape(-1) for part in parts])
    return access.contiguous(parts[0])


def pair_words(
    given: Columns, sides: Sequence[Side], table: int, images: int, lowest: float, agnostic: bool, access: Access,
    out: Sequence[Any],
) -> bytes:  # fmt: skip
    """The words of a batch of pairs; ``out`` are offsets and counts, then ground truths and similarities once there."""
    at, codes = given.addresses, given.codes
    addresses = [*map(access.address, out), 0, 0][:4]
    return bytes(
        PairWords(
            access.address(sides[0].quads), access.address(sides[1].quads), at["labels"], at["gt_labels"],
            at["gt_flags"], table, at["counts"], at["gt_counts"], codes["labels"], codes["gt_labels"],
            codes["gt_flags"], images, agnostic, lowest, *addresses,
        )
    )  # fmt: skip


def run(batch: MatchBatch, lowest: float, agnostic: bool, access: Access) -> Found:
    """Finds the pairs, and leaves the error code in the result, an int."""
    firsts, images = first_rows(batch.lengths), int(batch.lengths.shape[1])
    rows = [int(n) for n in firsts[:2, -1]]
    threads = min(access.threads(), 1 + sum(rows) // _ROWS_PER_HELPER)
    given = columns(batch, rows, access)
    error = np.array(NO_ERROR, np.int64)
    sides = []
    for side, (name, counts) in enumerate((("boxes", "counts"), ("gt_boxes", "gt_counts"))):
        code, table = (batch.box_format, batch.gt_box_format)[side], firsts[side].ctypes.data
        made, words = prepare_side(
            given.arrays[name], code, table, images, given.addresses[counts], bool(side), rows[side], access
        )
        native.function("valor_cpu", "valor_load_quads_cpu", "ppq")(words, error.ctypes.data, threads)
        sides.append(made)
    out = [access.empty((rows[0] + 1,), "int64"), access.empty((rows[0],), "int32")]
    table = firsts.ctypes.data
    task = pair_words(given, sides, table, images, lowest, agnostic, access, out)
    native.function("valor_cpu", "valor_rotated_rooms_cpu", "pq")(task, threads)
    size = int(out[0][-1])
    out += [access.empty((size,), "int32"), access.empty((size,), "float64")]
    task = pair_words(given, sides, table, images, lowest, agnostic, access, out)
    native.function("valor_cpu", "valor_rotated_pairs_cpu", "pq")(task, threads)
    (_, areas, hashes), (_, gt_areas, gt_hashes) = sides
    offsets, used, ground_truths, similarities = out
    return Found(offsets, used, ground_truths, similarities, areas, gt_areas, hashes, gt_hashes, int(error))
