"""Boxes, polygons and rasters of objects, made of one another. No torch.

x runs to the right and y down; pixel (row, column) is the square from (column, row) to (column + 1, row + 1). A polygon
is a list of rings, the boundary and then holes, a ring a list of points ``[x, y]`` that ends where it began; a
multipolygon is a list of polygons and stands for their union.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs.mask_outlines import hulls_of, outlines_of
from valor_gpu.inputs.masks import Masks
from valor_gpu.inputs.outlines import Outlines
from valor_gpu.ops.polygons.cpu import rasterise
from valor_gpu.ops.runs import cpu as codec
from valor_gpu.ops.runs.op import Runs

RASTER_RULES = ("outline", "hull")
"""Rules of :func:`raster_to_polygon`."""

MultiPolygon = list[list[list[list[float]]]]
Box = tuple[float, float, float, float]

_LEAST_POINTS = 4  # of a closed ring with an area
_BOX, _RING, _MULTIPOLYGON = 1, 2, 4  # how deep lists of numbers are nested


def raster_to_polygon(mask: Any, rule: str = "outline") -> MultiPolygon:
    """Polygons of the set pixels of a mask.

    Args:
        mask: bool or uint8 ``[H, W]``, an array or tensor, or run lengths as :meth:`Masks.of` takes them.
        rule: ``outline``: along the edges of pixels, with holes, as many polygons as there are groups of pixels that
            share edges; the area is the number of pixels. ``hull``: one polygon, the convex hull of the upper left
            corners of pixels, as Valor's server has it: a pixel short on the right and below, hollows filled.

    Returns:
        Polygons, each a list of rings. Boundaries run clockwise as seen in the image, holes the other way round.

    Raises:
        InputError: no mask, a mask without pixels, or for ``hull`` pixels that lie in one line, which have no area.

    Example:
        >>> mask = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], bool)
        >>> raster_to_polygon(mask)[1]
        [[[2.0, 2.0], [3.0, 2.0], [3.0, 3.0], [2.0, 3.0], [2.0, 2.0]]]
        >>> raster_to_polygon(mask, "hull")
        [[[[0.0, 0.0], [1.0, 0.0], [2.0, 2.0], [0.0, 1.0], [0.0, 0.0]]]]
    """
    check_choice("rule", rule, RASTER_RULES)
    return polygons_of(_runs(mask), rule, lambda _: "mask").listed(0)


def polygons_of(runs: Runs, rule: str, name: Any) -> Outlines:
    """Polygons of masks, see :func:`raster_to_polygon`.

    Args:
        runs: the masks.
        rule: one of ``RASTER_RULES``.
        name: what a message calls mask i.
    """
    found = outlines_of(runs) if rule == "outline" else hulls_of(runs)
    empty = np.flatnonzero(np.diff(found.shapes) == 0)
    if len(empty):
        raise InputError(f"{name(int(empty[0]))} must have at least one pixel set for a polygon but has none")
    thin = np.flatnonzero(np.diff(found.rings) < _LEAST_POINTS)  # a hull has one ring; none of an outline is so short
    if len(thin):
        raise InputError(
            f"{name(int(thin[0]))} must have pixels in several rows and columns for the hull of their corners, which "
            "else has no area: rule 'outline' serves"
        )
    return found


def raster_to_box(mask: Any) -> Box:
    """The smallest upright box that holds the set pixels of a mask: ``(xmin, ymin, xmax, ymax)``.

    Args:
        mask: as for :func:`raster_to_polygon`.

    Raises:
        InputError: no mask, or a mask without pixels.

    Example:
        >>> raster_to_box(np.array([[0, 0, 0], [0, 1, 1]], bool))
        (1.0, 1.0, 3.0, 2.0)
    """
    return _box(boxes_of(_runs(mask), lambda _: "mask")[0])


def boxes_of(runs: Runs, name: Any) -> NDArray[np.float64]:
    """float64 ``[N, 4]``, the boxes of masks, see :func:`raster_to_box`; ``name(i)`` is what a message calls mask i."""
    boxes = codec.boxes(runs)
    empty = np.flatnonzero(boxes[:, 2] == 0)
    if len(empty):
        raise InputError(f"{name(int(empty[0]))} must have at least one pixel set for a box but has none")
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)


def polygon_to_box(polygon: Any) -> Box:
    """The smallest upright box that holds a polygon: ``(xmin, ymin, xmax, ymax)``.

    Args:
        polygon: a ring, a polygon or a multipolygon.

    Raises:
        InputError: another shape, or a coordinate that is not finite.

    Example:
        >>> polygon_to_box([[[0, 0], [4, 1], [2, 5], [0, 0]]])
        (0.0, 0.0, 4.0, 5.0)
    """
    polygons = _polygons("polygon", polygon)
    return _box(Outlines.of([polygons]).bounds()[0])


def to_raster(shape: Any, size: Sequence[int]) -> NDArray[np.bool_]:
    """The pixels whose centre, (column + 0.5, row + 0.5), lies in a shape; what lies outside the image is cut off.

    A centre exactly on an edge counts as if it were moved down by an infinitely small step and to the right by an
    infinitely smaller one, so that shapes that share whole edges share no pixel.

    Args:
        shape: a box ``(xmin, ymin, xmax, ymax)``, a ring such as the corners of a rotated box, a polygon or a
            multipolygon.
        size: height and width.

    Returns:
        bool ``[height, width]``.

    Raises:
        InputError: no such shape, a coordinate that is not finite or beyond 2e8, or no size.

    Example:
        >>> to_raster((1, 0, 3, 2), (3, 4)).astype(int).tolist()
        [[0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    """
    polygons = _polygons("shape", shape)
    height_and_width = np.asarray(size)
    if height_and_width.shape != (2,) or height_and_width.dtype.kind not in "iu" or (height_and_width < 0).any():
        raise InputError(f"size must be two integers of at least 0, height and width, but got {size!r}")
    found: NDArray[np.bool_] = codec.to_masks(rasters_of(Outlines.of([polygons]), [size]))[0].astype(np.bool_)
    return found


def rasters_of(outlines: Outlines, sizes: Any) -> Runs:
    """The pixels of shapes as run lengths, see :func:`to_raster`.

    Args:
        outlines: N shapes.
        sizes: ``[N, 2]``, heights and widths.
    """
    polygons = np.diff(outlines.shapes)
    each = np.repeat(np.asarray(sizes), polygons, axis=0)
    runs = rasterise(outlines.vertices, outlines.rings, outlines.polygons, each, "centre")
    # Even-odd over several polygons would leave out where they overlap.
    return runs if (polygons == 1).all() else codec.merge(runs, outlines.shapes)


def _runs(mask: Any) -> Runs:
    if isinstance(mask, dict):
        return Masks.of([mask]).runs()
    if not hasattr(mask, "ndim") or mask.ndim != 2:
        shown = list(mask.shape) if hasattr(mask, "shape") else type(mask).__name__
        raise InputError(f"mask must be bool or uint8 [H, W] but got {shown}")
    if str(mask.dtype).removeprefix("torch.") not in ("bool", "uint8"):
        raise InputError(f"mask must be bool or uint8 [H, W] but got {mask.dtype}")
    return Masks.from_dense(mask[None]).runs()


def _box(numbers: NDArray[np.float64]) -> Box:
    xmin, ymin, xmax, ymax = (float(number) for number in numbers)
    return xmin, ymin, xmax, ymax


def _polygons(name: str, shape: Any) -> Any:
    """The polygons of a shape, whatever its kind."""
    depth, part = 0, shape
    while hasattr(part, "__len__") and not isinstance(part, (str, bytes)) and len(part):
        part, depth = part[0], depth + 1
    if depth == _BOX and len(shape) == 4:
        xmin, ymin, xmax, ymax = shape
        shape, depth = [(xmin, ymin), (xmax, ymin), (xmax, ymax), (xmin, ymax)], _RING
    if not _RING <= depth <= _MULTIPOLYGON:
        raise InputTypeError(
            f"{name} must be a box of 4 numbers, a ring, a polygon or a multipolygon but got {shape!r:.60}"
        )
    for _ in range(_MULTIPOLYGON - depth):
        shape = [shape]
    for polygon in shape:
        if not len(polygon):
            raise InputError(f"{name} must have a boundary in each polygon but one is empty")
        for ring in polygon:
            _check_ring(name, ring)
    return shape


def _check_ring(name: str, ring: Any) -> None:
    if len(ring) < 3:
        raise InputError(f"{name} must have rings of at least 3 points but one has {len(ring)}")
    for point in ring:
        if len(point) != 2:
            raise InputError(f"{name} must have points (x, y) but got {point!r:.60}")
        for number in point:
            if not math.isfinite(number):
                raise InputError(f"{name} must have finite coordinates but got {point!r:.60}")
