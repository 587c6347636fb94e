"""One geometry for each annotation: the type in which both sides are compared, and conversions to it. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs.conversions import boxes_of, polygons_of
from valor_gpu.inputs.outlines import Integers, Outlines
from valor_gpu.ops.runs.op import Runs
from valor_gpu.valor.columns import Columns, Rows
from valor_gpu.valor.detection.shapes import DETAIL, Shapes, describe_annotation
from valor_gpu.valor.enums import AnnotationType

Describe = Callable[[int], str]
Flags = NDArray[np.bool_]
_BOX, _POLYGON, _RASTER = 1, 2, 3
_COLUMNS = {_BOX: "a bounding_box", _POLYGON: "a polygon", _RASTER: "a raster"}


def common_type(columns: Columns, turned: bool = True) -> AnnotationType:
    """The most detailed type that both sides have: the lesser of the most detailed ones of each.

    A raster has more detail than a polygon, a polygon more than a box. A side without rows has no say; NONE without any
    row.

    Args:
        columns: both sides.
        turned: rotated boxes of one side have the detail of polygons where the other side has polygons or rasters:
            the upright box around one of these would never be equal to them.
    """
    sides = [side for side in (columns.groundtruths, columns.predictions) if len(side)]
    used = [np.unique(side.annotation) for side in sides]
    most = [int(_shapes(side).kinds[rows].max()) for side, rows in zip(sides, used)]
    if turned and len(set(most)) == 2 and min(most) == _BOX:
        least = most.index(_BOX)
        if np.isin(_shapes(sides[least]).turned, used[least]).any():
            return DETAIL[_POLYGON]
    return DETAIL[min(most, default=0)]


def with_one_geometry(columns: Columns, convert: AnnotationType | None, raster_to_polygon: str) -> Columns:
    """The columns with one geometry for each annotation that has a row.

    One of the common type is taken where an annotation has it. One with more detail is converted, but that rasters stay
    where polygons are common and ``raster_to_polygon`` is ``outline``; one with less stays as it is.

    Args:
        columns: both sides.
        convert: the type that every annotation must have or be converted to; None: the common one.
        raster_to_polygon: rule of polygons of rasters.

    Raises:
        InputError: naming an annotation with less detail than ``convert``, or whose raster has no pixels or no hull.
    """
    common = common_type(columns, turned=raster_to_polygon == "outline")
    sides = {
        side: replace(getattr(columns, side), shapes=convert_side(columns, side, convert, common, raster_to_polygon))
        for side in ("groundtruths", "predictions")
    }
    return replace(columns, **sides)


def convert_side(
    columns: Columns, side: str, convert: AnnotationType | None, common: AnnotationType, raster_to_polygon: str
) -> Shapes:
    """The geometries of one side, see :func:`with_one_geometry`.

    Args:
        columns: both sides.
        side: ``groundtruths`` or ``predictions``.
        convert: the type that every annotation must have or be converted to.
        common: the common type where ``convert`` is None.
        raster_to_polygon: rule of polygons of rasters.
    """
    rows: Rows = getattr(columns, side)
    shapes = _shapes(rows)
    used = np.zeros(len(shapes), np.bool_)
    used[rows.annotation] = True
    datums = np.zeros(len(shapes), np.int64)
    datums[rows.annotation] = rows.datum

    def describe(annotation: int) -> str:
        return describe_annotation(side, int(shapes.places[annotation]), columns.datums[datums[annotation]])

    target = DETAIL.index(common if convert is None else convert)
    if convert is not None:
        _check_detail(shapes, used, target, describe)
    if target == _BOX:
        return _to_boxes(shapes, used, describe)
    keep_rasters = target == _RASTER or (convert is None and raster_to_polygon == "outline")
    return _to_polygons(shapes, used, target, None if keep_rasters else raster_to_polygon, describe)


def _shapes(rows: Rows) -> Shapes:
    assert rows.shapes is not None, "columns of a detection"
    return rows.shapes


def _check_detail(shapes: Shapes, used: Flags, target: int, describe: Describe) -> None:
    """Raises where an annotation has less detail than is asked for."""
    poor = np.flatnonzero(used & (shapes.kinds < target))
    if len(poor):
        wanted = " or ".join(_COLUMNS[kind] for kind in range(target, _RASTER + 1))
        raise InputError(
            f"{describe(int(poor[0]))} must have {wanted} for convert_annotations_to_type="
            f"{DETAIL[target].value!r} but has {_COLUMNS[int(shapes.kinds[poor[0]])]}: detail is never added"
        )


def _to_boxes(shapes: Shapes, used: Flags, describe: Describe) -> Shapes:
    boxes, missing = shapes.boxes.copy(), used & np.isnan(shapes.boxes[:, 0])
    drawn = missing[shapes.drawn]
    boxes[shapes.drawn[drawn]] = shapes.outlines.bounds()[drawn]
    missing[shapes.drawn] = False
    masked = missing[shapes.masked]
    rows = shapes.masked[masked]
    boxes[rows] = boxes_of(shapes.masks.take(masked), lambda i: f"{describe(int(rows[i]))}: its raster")
    return Shapes(shapes.places, boxes, shapes.turned, shapes.corners)


def _to_polygons(shapes: Shapes, used: Flags, target: int, rule: str | None, describe: Describe) -> Shapes:
    """One geometry each: of type ``target`` or, where there is none, the most detailed one.

    Args:
        shapes: of all annotations.
        used: which of them matter.
        target: polygon or raster.
        rule: of polygons that rasters become; None: rasters stay.
        describe: names annotations.
    """
    has_polygon, has_raster = np.zeros((2, len(shapes)), np.bool_)
    has_polygon[shapes.drawn] = has_raster[shapes.masked] = True
    as_raster = used & has_raster & (~has_polygon if target == _POLYGON else True)
    as_polygon = used & has_polygon & ~as_raster
    as_box = used & ~as_raster & ~as_polygon
    boxes = np.where(as_box[:, None], shapes.boxes, np.nan)
    turned, drawn, masked = as_box[shapes.turned], as_polygon[shapes.drawn], as_raster[shapes.masked]
    polygons, outlines = shapes.drawn[drawn], shapes.outlines.take(np.flatnonzero(drawn))
    rasters, masks = shapes.masked[masked], shapes.masks.take(masked)
    if rule is not None and len(rasters):
        made = polygons_of(masks, rule, lambda i: f"{describe(int(rasters[i]))}: its raster")
        polygons, outlines = _merged(polygons, outlines, rasters, made)
        rasters, masks = rasters[:0], Runs.join([])
    return Shapes(
        shapes.places, boxes, shapes.turned[turned], shapes.corners[turned], polygons, outlines, rasters, masks
    )


def _merged(rows: Integers, outlines: Outlines, others: Integers, made: Outlines) -> tuple[Integers, Outlines]:
    """Outlines of two sets of annotations in the order of these."""
    both = np.concatenate([rows, others])
    order = np.argsort(both)
    return both[order], Outlines.join([outlines, made]).take(order)
