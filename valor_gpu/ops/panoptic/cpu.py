"""Panoptic counts over addresses and numpy arrays, by the C++ library. No torch import.

Without the library the torch op of :mod:`valor_gpu.ops.panoptic.op` and ``numpy_definition.py`` serve.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_int
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import NO_ERROR, TARGET, value_kind
from valor_gpu.ops.panoptic.numpy_definition import Segments, count_ids
from valor_gpu.ops.pixel_counts.cpu import PIXEL_TYPES, Map, place_pixels

TRUE_POSITIVES, FALSE_POSITIVES, FALSE_NEGATIVES, PREDICTED, TRUE, IOU_SUM = range(6)
"""Rows of a table of counts: matches, false positives, false negatives, predicted and true segments. The sum of IoUs
has three rows, in units of 2^-32, 2^-64 and 2^-96."""

ROWS = IOU_SUM + 3
"""Rows of a table of counts: PanopticCell in csrc/core/panoptic.h."""

MOST_PIXELS = 2**31 - 1
"""Pixels of an image: 32 bits number its segments."""

INSTANCES, CROWD, EXCUSES = 1, 2, 4
"""EntryFlag in csrc/core/panoptic.h: instances are told apart; a crowd; one that excuses predictions."""

VOID, BAD, BAD_BUT_ZERO = 0, 1, 2
"""Unknown in csrc/core/panoptic.h: what values are that no entry has."""

_ENTRY_BITS = 3
_RGB = 8  # SegmentType in csrc/core/panoptic.h


class Entries(NamedTuple):
    """Values of a map, and what they stand for.

    Attributes:
        keys: int64 ``[N]`` ascending, categories or ids of segments.
        values: int64 ``[N]``, of each a row of the table, shifted, and flags.
    """

    keys: NDArray[np.int64]
    values: NDArray[np.int64]

    @classmethod
    def of(cls, keys: NDArray[Any], rows: NDArray[Any], flags: NDArray[Any]) -> Entries:
        """Entries in any order of distinct keys, which rows of the table they count in, and their flags."""
        order = np.argsort(keys, kind="stable")
        values = rows.astype(np.int64) << _ENTRY_BITS | flags.astype(np.int64)
        return cls(np.ascontiguousarray(keys[order], np.int64), np.ascontiguousarray(values[order]))


class Side(NamedTuple):
    """One side of a task.

    Attributes:
        map: of categories or ids.
        instance_stride: elements from a category to its instance, 0 without instances.
        entries: addresses of keys and values, and how many there are.
        unknown: ``VOID``, ``BAD`` or ``BAD_BUT_ZERO``.
        areas: address of int64 ``[N]`` that takes the pixels of each entry of one image; 0 for none.
    """

    map: Map
    instance_stride: int
    entries: tuple[int, int, int]
    unknown: int
    areas: int = 0


class Rule(NamedTuple):
    """How segments are scored.

    Attributes:
        classes: C, categories.
        modified: categories from this row on are scored without a threshold.
        ignores_voids: void of a prediction is ignored as that of the ground truth.
    """

    classes: int
    modified: int
    ignores_voids: bool


@functools.lru_cache(maxsize=64)
def category_entries(categories: tuple[int, ...], things: int) -> Entries:
    """Entries of category ids: row i of the table is ``categories[i]``; the first ``things`` have instances."""
    rows = np.arange(len(categories))
    return Entries.of(np.array(categories, np.int64), rows, np.where(rows < things, INSTANCES, 0))


def check_categories(categories: Sequence[int], things: int) -> None:
    """Raises :class:`InputError` unless all ids are different and fit in int64, and so many can be things."""
    check_int("things", things)
    if things > len(categories):
        raise InputError(f"things must be at most {len(categories)}, the number of categories, but got {things}")
    if not categories:
        raise InputError("categories must not be empty")
    outside = [c for c in categories if not -(2**63) <= c < 2**63]
    if outside:
        raise InputError(f"categories must fit in int64 but got {outside[0]}")
    if len(set(categories)) < len(categories):
        raise InputError(f"categories must all be different but got {list(categories)}")


def task_words(sides: tuple[Side, Side], shape: Sequence[int], rule: Rule) -> bytes | None:
    """The PanopticTask of csrc/core/panoptic.h; None where the sides must be copied to be contiguous."""
    placed = place_pixels(shape, [side.map.strides for side in sides], True)
    if placed is None:
        return None
    sizes, *steps = placed
    words: list[int] = []
    for side, step in zip(sides, steps):
        words += [side.map.address, side.map.type, *step, side.instance_stride, *side.entries, side.unknown, side.areas]
    return struct.pack("28q", *words, *sizes, *rule)


def check_pixels(shape: Sequence[int]) -> None:
    """Raises :class:`InputError` for more pixels of an image than 32 bits number."""
    if math.prod(shape[1:]) > MOST_PIXELS:
        raise InputError(f"target must have at most {MOST_PIXELS} pixels an image but has shape {list(shape)}")


# ------------------------------------------------------------------------------------------------------ maps of ids


class ImageCounts(NamedTuple):
    """Counts of one image.

    Attributes:
        table: int64 ``[8, C]``.
        areas: int64 ``[N]`` pixels of each predicted segment.
        target_areas: int64 ``[M]`` pixels of each true segment.
        error: of the first pixel whose value is no id of a segment: whether it is one of the ground truth, its row, its
            column; None where there is none.
    """

    table: NDArray[np.int64]
    areas: NDArray[np.int64]
    target_areas: NDArray[np.int64]
    error: tuple[bool, int, int] | None


def count_image(
    preds: NDArray[Any], target: NDArray[Any], segments: Segments, target_segments: Segments, classes: int
) -> ImageCounts:
    """Counts of one image whose pixels hold ids of segments, by the protocol of panopticapi.

    Segments of one category match where their IoU is above 0.5; pixels of a prediction that are void in the ground
    truth count neither in its union, nor does a prediction that lies mostly on them, or on a crowd of its category,
    count as a false positive. Crowds match nothing and are not missed. Id 0 is void.

    Args:
        preds: ids ``[H, W]`` of any integer dtype, or uint8 ``[H, W, 3]``: R + 256 G + 65536 B.
        target: likewise, of the same height and width.
        segments: of the prediction.
        target_segments: of the ground truth.
        classes: C, rows of the categories.

    Returns:
        The table, areas by segment and the first pixel without a segment, which counts as void.

    Raises:
        InputError: for another shape or dtype.

    Example:
        >>> ids = np.array([[7, 7, 7, 0]])
        >>> one = Segments(np.array([7]), np.array([0]), np.array([0]))
        >>> count_image(np.array([[7, 7, 0, 0]]), ids, one, one, 1).table[:3].tolist()
        [[1], [0], [0]]
    """
    shape = (1, *target.shape[:2])
    check_pixels(shape)
    maps = [_id_map(name, array) for name, array in (("preds", preds), ("target", target))]
    if preds.shape[:2] != target.shape[:2]:
        raise InputError(f"preds must have shape {list(target.shape[:2])} but got {list(preds.shape[:2])}")
    if not native.usable("valor_cpu"):
        return _count_plainly(preds, target, segments, target_segments, classes)
    sorted_entries = [Entries.of(*side) for side in (segments, target_segments)]
    areas = [np.zeros(len(side.ids), np.int64) for side in (segments, target_segments)]
    table, error = np.zeros((ROWS, classes), np.int64), np.array(NO_ERROR)
    if target.size:
        sides = [
            Side(at, 0, (e.keys.ctypes.data, e.values.ctypes.data, len(e.keys)), BAD_BUT_ZERO, area.ctypes.data)
            for (at, _), e, area in zip(maps, sorted_entries, areas)
        ]
        words = task_words((sides[0], sides[1]), shape, Rule(classes, classes, False))
        assert words is not None  # height and width are placed with any strides
        count_tables(words, table.ctypes.data, error.ctypes.data, 1)
    own, true = (area[np.argsort(np.argsort(side.ids))] for area, side in zip(areas, (segments, target_segments)))
    return ImageCounts(table, own, true, _place(int(error), target.shape[1]))


def _count_plainly(
    preds: NDArray[Any], target: NDArray[Any], segments: Segments, target_segments: Segments, classes: int
) -> ImageCounts:
    """:func:`count_image` without the C++ library."""
    ids = [side if side.ndim == 2 else side @ np.array([1, 256, 65536]) for side in (preds, target)]
    table, areas, true_areas, bad = count_ids(
        ids[0].astype(np.int64), ids[1].astype(np.int64), segments, target_segments, classes
    )
    error = None
    if bad.any():
        row, column = divmod(int(np.argmax(bad.any(0))), target.shape[1])
        error = bool(bad[1, row, column]), row, column
    return ImageCounts(table, areas, true_areas, error)


def count_tables(words: bytes, tables: int, error: int, threads: int) -> None:
    """Runs the C++ loop over images.

    Args:
        words: see :func:`task_words`.
        tables: address of int64 ``[B, 8, C]``, which is added to.
        error: address of an error code, which is lowered.
        threads: how many.
    """
    native.function("valor_cpu", "valor_count_panoptic_cpu", "pppq")(words, tables, error, threads)


def _id_map(name: str, ids: NDArray[Any]) -> tuple[Map, NDArray[Any]]:
    """The map of ``[1, H, W]``, and the array that it looks at, which must outlive it."""
    if ids.ndim == 3 and ids.dtype == np.uint8 and ids.shape[2] == 3:
        ids = np.ascontiguousarray(ids)
        return Map(ids.ctypes.data, _RGB, None), ids
    if ids.ndim != 2 or ids.dtype not in PIXEL_TYPES:
        raise InputError(f"{name} must be integers [H, W] or uint8 [H, W, 3] but got {ids.dtype} {list(ids.shape)}")
    ids = np.ascontiguousarray(ids)
    return Map(ids.ctypes.data, PIXEL_TYPES[ids.dtype], None), ids


def _place(code: int, width: int) -> tuple[bool, int, int] | None:
    if code == NO_ERROR:
        return None
    pixel = code >> 4
    return value_kind(code) == TARGET, pixel // width, pixel % width
