"""The geometries of a frame of object detections.

An annotation has one or more of these columns; where it has none of their values it is no detection:

* ``xmin``, ``ymin``, ``xmax``, ``ymax``, numbers: an upright box, by far the fastest to read;
* ``bounding_box``: :class:`~valor_gpu.valor.geometry.Box`, upright or rotated;
* ``polygon``: ``Polygon`` or ``MultiPolygon``;
* ``raster``: ``Raster`` or bool ``[H, W]``;
* ``geometry``: any of these objects.

Boxes, polygons and multipolygons may also be GeoJSON: an object, a dict or its text; of ``geometry`` such a one is a
polygon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import frames
from valor_gpu.valor.detection.shapes import ShapeLists, Shapes, check_placed, describe_annotation
from valor_gpu.valor.geojson import polygon_of
from valor_gpu.valor.geometry import Box, GeoJSON, MultiPolygon, Polygon, Raster
from valor_gpu.valor.mask_columns import MaskReader

EXTREMA = ("xmin", "ymin", "xmax", "ymax")
OBJECTS = ("bounding_box", "polygon", "raster", "geometry")


def frame_shapes(
    name: str, frame: Any, kept: NDArray[np.int64], annotation: NDArray[np.int32], first: NDArray[np.int64],
    uids: Sequence[str], masks: MaskReader,
) -> Shapes:  # fmt: skip
    """The geometries of the annotations of a frame.

    Args:
        name: of the frame, for messages.
        frame: opened.
        kept: its rows that are read.
        annotation: of each of them.
        first: of each annotation the place of its first row in ``kept``.
        uids: of the datum of each annotation.
        masks: knows the size of the rasters of each datum.

    Raises:
        InputError: naming the row with an annotation without a geometry or with two of a kind, a coordinate that is not
            finite, a minimum above its maximum, a geometry that differs from one of another row of the annotation, or a
            raster of another size than another one of its datum.
    """
    names, rows = frames.column_names(frame), kept[first]
    places = (-1 - rows).tolist()
    lists = _Objects(name, len(rows))
    for column in OBJECTS:
        if column in names:
            values = frames.values(name, frame, column)
            lists.add(column, [values[row] for row in rows.tolist()], rows)
            _check_equal(name, column, values, kept, annotation, rows)

    def describe(row: int) -> str:
        return describe_annotation(name, places[row], uids[row])

    found = ShapeLists(places, lists.boxes, lists.polygons, lists.rasters).read(name, uids, masks, placed=False)
    if any(column in names for column in EXTREMA):
        boxes = _extrema(name, frame, kept, annotation, first)
        there = ~np.isnan(boxes[:, 0])
        twice = there & ~np.isnan(found.boxes[:, 0])
        if twice.any():
            raise InputError(f"{describe(int(twice.argmax()))} must have one box but has xmin and bounding_box")
        found = replace(found, boxes=np.where(there[:, None], boxes, found.boxes))
    check_placed(found, describe)
    return found


class _Objects:
    """Geometries of the columns of objects, by kind."""

    def __init__(self, name: str, annotations: int) -> None:
        self.name = name
        self.boxes: list[Any] = []
        self.polygons: list[Any] = []
        self.rasters: list[Any] = []
        self._annotations = annotations

    def add(self, column: str, values: Sequence[Any], rows: NDArray[np.int64]) -> None:
        for place, value in enumerate(values):
            if frames.is_missing(value):
                continue
            where = f"{self.name} column {column!r} row {rows[place]}"
            kind, shape = _read(where, column, value)
            listed = getattr(self, kind)
            listed += [None] * (self._annotations - len(listed))
            if listed[place] is not None:
                raise InputError(f"{where} must be the only geometry of its kind in the row but is not")
            listed[place] = shape


def _read(where: str, column: str, value: Any) -> tuple[str, Any]:
    """The kind of a geometry, and the object."""
    if column == "raster" or isinstance(value, (Raster, np.ndarray)):
        return "rasters", value
    if isinstance(value, (GeoJSON, dict, str)):
        value = polygon_of(where, value, Box if column == "bounding_box" else Polygon)
    wanted = {"bounding_box": (Box,), "polygon": (Polygon, MultiPolygon)}.get(column, (Polygon, MultiPolygon, Raster))
    if not isinstance(value, wanted):
        shown = " or ".join(kind.__name__ for kind in wanted)
        raise InputTypeError(f"{where} must be {shown} but got {type(value).__name__}")
    boxed = column == "bounding_box" or (column == "geometry" and isinstance(value, Box))
    return ("boxes" if boxed else "polygons"), value


def _check_equal(
    name: str, column: str, values: Sequence[Any], kept: NDArray[np.int64], annotation: NDArray[np.int32],
    rows: NDArray[np.int64],
) -> None:  # fmt: skip
    """Raises unless the rows of an annotation have one geometry."""
    if len(rows) == len(kept):
        return
    for row, first in zip(kept.tolist(), rows[annotation].tolist()):
        if row != first and not _same(values[row], values[first]):
            raise InputError(f"{name} must have one {column} an annotation but rows {first} and {row} differ")


def _same(one: Any, other: Any) -> bool:
    if one is other or (frames.is_missing(one) and frames.is_missing(other)):
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _extrema(
    name: str, frame: Any, kept: NDArray[np.int64], annotation: NDArray[np.int32], first: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The boxes of the four columns of numbers, one an annotation; NaN without one."""
    numbers = np.stack([frames.numbers(name, frame, column)[kept] for column in EXTREMA], 1)
    boxes = numbers[first]
    missing = np.isnan(numbers)
    wrong = np.isinf(numbers).any(1) | (missing.any(1) & ~missing.all(1))
    wrong |= (numbers[:, 0] > numbers[:, 2]) | (numbers[:, 1] > numbers[:, 3])
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{name} must have finite xmin <= xmax and ymin <= ymax but row {kept[row]} has "
            + ", ".join(f"{column} {number}" for column, number in zip(EXTREMA, numbers[row].tolist()))
        )
    if len(first) < len(kept):
        differs = ((numbers != boxes[annotation]) & ~(missing & missing[first][annotation])).any(1)
        if differs.any():
            row = int(differs.argmax())
            rows = f"{kept[first[annotation[row]]]} and {kept[row]}"
            raise InputError(f"{name} must have one box an annotation but rows {rows} differ")
    return boxes
