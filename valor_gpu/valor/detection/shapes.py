"""The geometries of annotations of object detections as flat arrays: boxes, polygons and rasters. No torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs.outlines import Outlines, ends_of
from valor_gpu.ops.runs.op import Runs
from valor_gpu.valor.enums import AnnotationType
from valor_gpu.valor.geometry import MultiPolygon, Polygon
from valor_gpu.valor.mask_columns import MaskReader
from valor_gpu.valor.schemas import Annotation

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

DETAIL = (AnnotationType.NONE, AnnotationType.BOX, AnnotationType.POLYGON, AnnotationType.RASTER)
"""Kinds of geometry by detail, ascending; ``Shapes.kinds`` has places in it."""

_BOX_POINTS = 5
_Describe = Callable[[int], str]


def _none() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Shapes:
    """The geometries of annotations; one may have a box, a polygon and a raster at once.

    Attributes:
        places: int64 ``[A]``: the place of each annotation in its datum, or ``-1 - row`` of a frame.
        boxes: float64 ``[A, 4]``: xmin, ymin, xmax, ymax of the box of each annotation; NaN without one.
        turned: annotations, ascending, whose box is not parallel to the axes; ``boxes`` has its bounds.
        corners: float64 ``[T, 8]``: x and y of the four corners of each of them, one after another.
        drawn: annotations, ascending, that have a polygon or multipolygon.
        outlines: these polygons.
        masked: annotations, ascending, that have a raster.
        masks: these rasters as run lengths.
    """

    places: Integers
    boxes: Floats
    turned: Integers = field(default_factory=_none)
    corners: Floats = field(default_factory=lambda: np.zeros((0, 8)))
    drawn: Integers = field(default_factory=_none)
    outlines: Outlines = field(default_factory=lambda: Outlines.of([]))
    masked: Integers = field(default_factory=_none)
    masks: Runs = field(default_factory=lambda: Runs.join([]))

    def __len__(self) -> int:
        return len(self.places)

    @property
    def kinds(self) -> NDArray[np.int8]:
        """The most detailed geometry of each annotation, int8 ``[A]``: a place in ``DETAIL``."""
        kinds = (~np.isnan(self.boxes[:, 0])).astype(np.int8)
        kinds[self.drawn] = 2
        kinds[self.masked] = 3
        return kinds

    @classmethod
    def join(cls, parts: Sequence[Shapes]) -> Shapes:
        """The annotations of all parts, one part after another."""
        firsts = ends_of([len(part) for part in parts]).tolist()

        def moved(name: str) -> Integers:
            return np.concatenate([_none(), *(getattr(part, name) + first for part, first in zip(parts, firsts))])

        return cls(
            np.concatenate([_none(), *(part.places for part in parts)]),
            np.concatenate([np.zeros((0, 4)), *(part.boxes for part in parts)]),
            moved("turned"),
            np.concatenate([np.zeros((0, 8)), *(part.corners for part in parts)]),
            moved("drawn"),
            Outlines.join([part.outlines for part in parts]),
            moved("masked"),
            Runs.join([part.masks for part in parts]),
        )


def describe_annotation(side: str, place: int, uid: str) -> str:
    """What a message calls an annotation.

    Args:
        side: ``groundtruths`` or ``predictions``.
        place: of ``Shapes.places``.
        uid: of its datum.

    Example:
        >>> describe_annotation("predictions", 3, "x"), describe_annotation("predictions", -6, "x")
        ("predictions annotation 3 of datum 'x'", "predictions row 5 of datum 'x'")
    """
    return f"{side} annotation {place} of datum {uid!r}" if place >= 0 else f"{side} row {-1 - place} of datum {uid!r}"


@dataclass
class ShapeLists:
    """Geometries under construction, by annotation: None where it has none of the kind; empty where nobody has.

    Attributes:
        places: see :class:`Shapes`.
        boxes: boxes.
        polygons: polygons and multipolygons.
        rasters: rasters, or bool ``[H, W]``.
    """

    places: Sequence[int]
    boxes: Sequence[Any]
    polygons: Sequence[Any]
    rasters: Sequence[Any]

    @classmethod
    def of(cls, places: Sequence[int], annotations: Sequence[Annotation]) -> ShapeLists:
        """The geometries of objects."""
        return cls(
            places, [a.bounding_box for a in annotations], [a.polygon for a in annotations],
            [a.raster for a in annotations],
        )  # fmt: skip

    def read(self, side: str, uids: Sequence[str], masks: MaskReader, placed: bool = True) -> Shapes:
        """Flat arrays.

        Args:
            side: of the annotations, for messages.
            uids: of the datum of each annotation.
            masks: knows the size of the rasters of each datum.
            placed: whether every annotation must have a geometry.

        Raises:
            InputError: naming the annotation that has no geometry, a coordinate that is not finite, or a raster of
                another size than another one of its datum.
        """

        def describe(row: int) -> str:
            return describe_annotation(side, self.places[row], uids[row])

        boxes, turned, corners = self._boxes(describe)
        drawn, outlines = self._outlines(describe)
        masked = _given(self.rasters)
        found = Shapes(
            np.array(self.places, np.int64), boxes, turned, corners, drawn, outlines, masked,
            Runs.join([self._runs(describe, row, uids, masks) for row in masked.tolist()]),
        )  # fmt: skip
        if placed:
            check_placed(found, describe)
        return found

    def _boxes(self, describe: _Describe) -> tuple[Floats, Integers, Floats]:
        rows = _given(self.boxes)
        rings = (box.value[0] for box in self.boxes if box is not None)
        points = _numbers(chain.from_iterable(chain.from_iterable(rings)), 2 * _BOX_POINTS * len(rows))
        points = points.reshape(-1, _BOX_POINTS, 2)
        _check_finite(points.reshape(len(rows), 2 * _BOX_POINTS), rows, describe, "a box")
        boxes = np.full((len(self.places), 4), np.nan)
        corners = [points[:, corner] for corner in range(_BOX_POINTS - 1)]
        boxes[rows] = np.concatenate([functools.reduce(f, corners) for f in (np.minimum, np.maximum)], 1)
        _check_areas(boxes[rows], rows, describe)
        turned = ~(np.diff(points, axis=1) == 0).any(2).all(1)
        return boxes, rows[turned], points[turned, :4].reshape(-1, 8)

    def _outlines(self, describe: _Describe) -> tuple[Integers, Outlines]:
        rows = _given(self.polygons)
        given = [_polygons(self.polygons[row]) for row in rows.tolist()]
        outlines = Outlines.of(given)
        wrong = ~np.isfinite(outlines.vertices).all(1)
        if wrong.any():
            starts = outlines.rings[outlines.polygons[outlines.shapes]]
            row = rows[np.searchsorted(starts, wrong.argmax(), "right") - 1]
            raise _not_finite(describe(int(row)), "a polygon", outlines.vertices[wrong][0].tolist())
        return rows, outlines

    def _runs(self, describe: _Describe, row: int, uids: Sequence[str], masks: MaskReader) -> Runs:
        from valor_gpu.ops.runs.cpu import from_masks

        return from_masks(masks.read(describe(row).partition(" of datum ")[0], uids[row], self.rasters[row])[None])


def check_placed(shapes: Shapes, describe: _Describe) -> None:
    """Raises unless every annotation has a geometry."""
    empty = np.flatnonzero(shapes.kinds == 0)
    if len(empty):
        raise InputError(
            f"{describe(int(empty[0]))} must have a bounding_box, a polygon or a raster in a detection but has none"
        )


def _given(values: Sequence[Any]) -> Integers:
    """Places of values that are not None."""
    flags = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return np.flatnonzero(flags)


def _numbers(numbers: Iterable[Any], count: int) -> Floats:
    return np.fromiter(numbers, np.float64, count)


def _polygons(shape: Polygon | MultiPolygon) -> Any:
    return shape.value if isinstance(shape, MultiPolygon) else [shape.value]


def _check_finite(numbers: Floats, rows: Integers, describe: _Describe, what: str) -> None:
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row = int(wrong.any(1).argmax())
        raise _not_finite(describe(int(rows[row])), what, numbers[row].tolist())


def _check_areas(boxes: Floats, rows: Integers, describe: _Describe) -> None:
    """Raises where an area overflows, of which every IoU would be 0."""
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{describe(int(rows[row]))} must have a box of an area of at most 1.8e308 but got {boxes[row].tolist()}"
        )


def _not_finite(place: str, what: str, numbers: object) -> InputError:
    return InputError(f"{place} must have {what} of finite coordinates but got {numbers!r}")
