"""Pairs of polygons on the CPU over addresses and sizes, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.cpu import NUMPY, Access, check_dtype
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.pairs.cpu import Found, Search, columns, find, first_rows, stored, words
from valor_gpu.ops.polygon_sets.op import EDGE_COLUMNS, SHAPE_COLUMNS, PolygonSet

Sides = tuple[PolygonSet, PolygonSet]

_EDGES_PER_HELPER = 1 << 12  # waking a thread for fewer takes longer than it saves

PolygonWords = words(
    "PolygonWords", [f"{side}_{name}" for side in ("rows", "gt_rows") for name in ("edges", "offsets", "shapes")]
)
"""PolygonSides of csrc/core/polygon_area.h: the polygons of both sides."""


def polygon_pairs(
    batch: MatchBatch, polygons: PolygonSet, gt_polygons: PolygonSet, lowest: float, agnostic: bool = False
) -> MatchBatch:
    """Returns a batch of stored pairs; see :func:`valor_gpu.ops.polygon_areas.op.polygon_pairs`.

    Args:
        batch: numpy arrays; has no boxes.
        polygons: one for each detection, of all images one after another.
        gt_polygons: likewise for ground truths.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.

    Raises:
        InputError: for arrays that do not fit the batch.
        NativeError: the C++ library is not there; ask :func:`valor_gpu.native.usable` first.

    Example:
        >>> import numpy as np
        >>> square = PolygonSet.of([[[[[0, 0], [2, 0], [2, 2], [0, 2]]]]])
        >>> triangle = PolygonSet.of([[[[[0, 0], [2, 0], [0, 2]]]]])
        >>> batch = MatchBatch(np.array([[1], [1]]), [], [np.ones(1)], [np.zeros(1, int)], gt_labels=[np.zeros(1, int)])
        >>> polygon_pairs(batch, square, triangle, 0.5).pairs.similarities.tolist()
        [0.5]
    """
    return stored(batch, run(batch, (polygons, gt_polygons), lowest, agnostic, NUMPY))


def check_sides(sides: Sides, rows: Sequence[int], access: Access) -> list[PolygonSet]:
    """Both sides as contiguous arrays; raises :class:`InputError` where they do not fit the batch.

    Args:
        sides: polygons of detections and of ground truths.
        rows: detections and ground truths of the batch.
        access: how arrays are read.
    """
    checked = []
    for name, given, count in zip(("polygons", "gt_polygons"), sides, rows):
        if len(given) != count:
            raise InputError(f"{name} must have {count} rows, the sum of lengths, but has {len(given)}")
        shapes = {
            "edges": (int(given.edges.shape[0]), EDGE_COLUMNS), "offsets": (count + 1,),
            "shapes": (count, SHAPE_COLUMNS), "hashes": (count,),
        }  # fmt: skip
        for field, shape in shapes.items():
            array = getattr(given, field)
            check_dtype(f"{field} of {name}", array.dtype, "float64" if len(shape) == 2 else "int64")
            if tuple(array.shape) != shape:
                raise InputError(f"{field} of {name} must have shape {list(shape)} but has {list(array.shape)}")
        checked.append(PolygonSet(*(access.contiguous(getattr(given, field)) for field in shapes)))
    return checked


def side_words(sides: Sequence[PolygonSet], access: Access) -> ctypes.Structure:
    """The polygons of both sides as C++ reads them; ``sides`` must live as long."""
    return PolygonWords(*(access.address(a) for side in sides for a in (side.edges, side.offsets, side.shapes)))


def threads_for(sides: Sequence[PolygonSet], access: Access) -> int:
    """How many threads may work on the polygons of both sides."""
    return min(access.threads(), 1 + sum(int(side.edges.shape[0]) for side in sides) // _EDGES_PER_HELPER)


def found(pairs: Any, sides: Sequence[PolygonSet], areas: Sequence[Any], error: Any) -> Found:
    """What an op that finds pairs returns.

    Args:
        pairs: the pairs.
        sides: polygons of detections and of ground truths.
        areas: float64, of both sides.
        error: an error code.
    """
    return Found._make([*vars(pairs).values(), *areas, *(side.hashes for side in sides), error])


def run(batch: MatchBatch, sides: Sides, lowest: float, agnostic: bool, access: Access) -> Found:
    """Finds the pairs of numpy arrays; the error code in the result says that there is none."""
    pairs, checked = search(batch, sides, lowest, agnostic, access)
    return found(pairs, checked, [side.areas for side in checked], NO_ERROR)


def search(
    batch: MatchBatch, sides: Sides, lowest: float, agnostic: bool, access: Access
) -> tuple[Any, list[PolygonSet]]:
    """The pairs, and both sides as contiguous arrays."""
    firsts = first_rows(batch.lengths)
    rows = [int(n) for n in firsts[:2, -1]]
    given, checked = columns(batch, rows, access), check_sides(sides, rows, access)
    list_pairs = native.function("valor_cpu", "valor_polygon_pairs_cpu", "ppq")
    task = Search(given, side_words(checked, access), lowest, agnostic)
    return find(task, firsts, access, list_pairs, threads_for(checked, access)), checked
