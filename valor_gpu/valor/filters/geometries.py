"""The geometries that a condition looks at: of annotations as flat arrays, of metadata as objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs.outlines import Outlines
from valor_gpu.ops.runs.op import Runs
from valor_gpu.valor.filters.planar import PlaneShapes
from valor_gpu.valor.filters.relations import (
    mask_areas,
    masks_related,
    plane_of,
    polygons_of,
    shapes_related,
)
from valor_gpu.valor.filters.values import Geometry, is_geometry

if TYPE_CHECKING:
    from valor_gpu.valor.columns import Rows

Mask = NDArray[np.bool_]
Places = NDArray[np.int64]

KINDS = ("box", "polygon", "multipolygon", "raster")
"""What ``annotation.geometry.type`` may be."""


class Geometries(NamedTuple):
    """Geometries of some rows of a column; a row without one is in none of the parts.

    Attributes:
        rows: of the column.
        shaped: rows that have a shape.
        shapes: of each of these.
        masked: rows that have a mask.
        masks: of each of these.
    """

    rows: int
    shaped: Places
    shapes: PlaneShapes
    masked: Places
    masks: Runs

    def present(self) -> Mask:
        """Rows that have a geometry."""
        found = np.zeros(self.rows, np.bool_)
        found[self.shaped] = found[self.masked] = True
        return found

    def areas(self) -> NDArray[np.float64]:
        """Areas in square pixels, of masks numbers of pixels, of points and lines 0; NaN without a geometry."""
        found = np.full(self.rows, np.nan)
        found[self.shaped] = self.shapes.areas()
        found[self.masked] = mask_areas(self.masks)
        return found

    def related(self, place: str, op: str, wanted: Geometry) -> Mask:
        """Rows whose geometry has a relation to the wanted one.

        Args:
            place: the field, for messages.
            op: one of ``relations.RELATIONS``.
            wanted: points, lines or polygons.

        Raises:
            InputError: a coordinate that is not finite.
        """
        goal = plane_of(f"value of {op} on {place}", wanted)
        found = np.zeros(self.rows, np.bool_)
        found[self.shaped] = shapes_related(op, self.shapes, goal)
        found[self.masked] = masks_related(op, self.masks, goal)
        return found


def of_metadata(place: str, values: Sequence[Any]) -> Geometries:
    """Geometries among values of metadata; None has none.

    Args:
        place: the field, for messages.
        values: as :func:`~valor_gpu.valor.filters.values.read_value` gives them.

    Raises:
        InputError: a value that is neither None nor a geometry, or a coordinate that is not finite.
    """
    shaped = np.flatnonzero(np.fromiter((value is not None for value in values), np.bool_, len(values)))
    planes = []
    for row in shaped.tolist():
        if not is_geometry(values[row]):
            raise InputError(f"{place} must be a geometry for this condition but holds {values[row]!r}")
        planes.append(plane_of(place, values[row]))
    return Geometries(len(values), shaped, PlaneShapes.of(planes), _NONE, Runs.join([]))


_NONE = np.zeros(0, np.int64)


def of_annotations(rows: Rows, field: str) -> Geometries:
    """Geometries of annotations.

    Args:
        rows: a side of an evaluation.
        field: ``annotation.bounding_box``, ``annotation.polygon``, ``annotation.raster``, or ``annotation.geometry``:
            the most detailed one that an annotation has, raster before polygon before box.

    Raises:
        InputError: annotations of a task without geometries.
    """
    if len(rows.masks):
        return _of_masks(rows) if field in ("annotation.raster", "annotation.geometry") else _empty(len(rows.masks))
    given = rows.shapes
    if given is None:
        raise InputError(f"{field} needs annotations with geometries, as a detection has, but there are none")
    parts = {
        "annotation.bounding_box": np.flatnonzero(~np.isnan(given.boxes[:, 0])),
        "annotation.polygon": given.drawn,
        "annotation.raster": given.masked,
    }
    if field != "annotation.geometry":
        parts = {name: places if name == field else _NONE for name, places in parts.items()}
    else:
        parts = {name: places[given.kinds[places] == kind] for kind, (name, places) in enumerate(parts.items(), 1)}
    boxed, drawn, masked = parts.values()
    corners = _corners(given)[boxed]
    outlines = _outlines(given.outlines).take(np.searchsorted(given.drawn, drawn))
    masks = given.masks.take(np.searchsorted(given.masked, masked))
    return Geometries(
        len(given), np.concatenate([boxed, drawn]), PlaneShapes.join(polygons_of(corners), outlines), masked, masks
    )


def annotation_kinds(rows: Rows) -> list[str | None]:
    """The kind of the most detailed geometry of each annotation, one of ``KINDS``; None without one."""
    if len(rows.masks):
        return ["raster"] * len(rows.masks)
    given = rows.shapes
    if given is None:
        raise InputError(
            "annotation.geometry.type needs annotations with geometries, as a detection has, but there are none"
        )
    kinds = [(None, "box", "polygon", "raster")[kind] for kind in given.kinds.tolist()]
    for row, polygons in zip(given.drawn.tolist(), np.diff(given.outlines.shapes).tolist()):
        if polygons > 1 and kinds[row] == "polygon":
            kinds[row] = "multipolygon"
    return kinds


def _corners(shapes: Any) -> NDArray[np.float64]:
    """The closed ring of the box of each annotation, ``[A, 5, 2]``."""
    x0, y0, x1, y1 = shapes.boxes.T
    rings = np.stack([x0, y0, x1, y0, x1, y1, x0, y1], 1)
    rings[shapes.turned] = shapes.corners
    return np.hstack([rings, rings[:, :2]]).reshape(-1, 5, 2)


def _outlines(outlines: Outlines) -> PlaneShapes:
    polygon = np.repeat(np.arange(len(outlines.polygons) - 1), np.diff(outlines.polygons))
    shape = np.repeat(np.arange(outlines.num_shapes), np.diff(outlines.shapes))[polygon]
    return PlaneShapes(outlines.vertices, outlines.rings, shape, polygon)


def _of_masks(rows: Rows) -> Geometries:
    from valor_gpu.ops.runs.cpu import from_masks

    masks = Runs.join([from_masks(mask[None]) for mask in rows.masks])
    return Geometries(len(masks), _NONE, PlaneShapes.of([]), np.arange(len(masks)), masks)


def _empty(count: int) -> Geometries:
    return Geometries(count, _NONE, PlaneShapes.of([]), _NONE, Runs.join([]))
