"""Where geometries lie to one another, and their areas: what conditions on geometries compare.

``intersects``: there is a common point, as ST_Intersects of PostGIS. ``inside``: every point is one of the other
geometry, whose boundary belongs to it, as ST_Covers. ``outside``: there is no common point. A mask has pixels instead
of points: a pixel belongs to a polygon when its centre lies inside, to a point or a line when its square has a point of
it; a mask without pixels is outside of everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.ops.runs.op import Runs
from valor_gpu.valor.filters.planar import PlaneShapes, relate
from valor_gpu.valor.filters.slabs import Plane
from valor_gpu.valor.filters.values import Geometry
from valor_gpu.valor.geometry import LineString, MultiLineString, MultiPolygon, Point, Polygon, fill_rings

Mask = NDArray[np.bool_]
RELATIONS = ("intersects", "inside", "outside")


def plane_of(place: str, geometry: Geometry) -> Plane:
    """The parts of a geometry as arrays.

    Args:
        place: the field, for messages.
        geometry: points, lines or polygons.

    Raises:
        InputError: a coordinate that is not finite.
    """
    points: Sequence[Any] = []
    lines: Sequence[Any] = []
    polygons: Sequence[Any] = []
    if isinstance(geometry, Polygon):
        polygons = [geometry.value]
    elif isinstance(geometry, MultiPolygon):
        polygons = geometry.value
    elif isinstance(geometry, LineString):
        lines = [geometry.value]
    elif isinstance(geometry, MultiLineString):
        lines = geometry.value
    else:
        points = [geometry.value] if isinstance(geometry, Point) else geometry.value
    found = Plane(
        np.array(points, np.float64).reshape(-1, 2),
        [np.array(line, np.float64) for line in lines],
        [[np.array(ring, np.float64) for ring in rings] for rings in polygons],
    )
    if not np.isfinite(PlaneShapes.of([found]).vertices).all():
        raise InputError(f"{place} must have finite coordinates but holds {geometry!r}")
    return found


def shapes_related(op: str, shapes: PlaneShapes, wanted: Plane) -> Mask:
    """Which shapes have a relation to the wanted one, bool ``[shapes]``.

    Args:
        op: one of ``RELATIONS``.
        shapes: points, lines and polygons.
        wanted: points, lines or polygons.
    """
    found = relate("inside" if op == "inside" else "intersects", shapes, wanted)
    return ~found if op == "outside" else found


def masks_related(op: str, masks: Runs, wanted: Plane) -> Mask:
    """Which masks have a relation to the wanted shape, by pixels; bool ``[N]``.

    Args:
        op: one of ``RELATIONS``.
        masks: of any sizes.
        wanted: points, lines or polygons.
    """
    common, pixels = np.zeros(len(masks), np.int64), mask_areas(masks)
    sizes, number = np.unique(masks.sizes, axis=0, return_inverse=True)
    for place, (height, width) in enumerate(sizes.tolist()):
        rows = np.flatnonzero(number.reshape(-1) == place)
        inside = _pixels(wanted, height, width).T.ravel()  # runs go column by column
        before = np.r_[0, np.cumsum(inside)]
        start, end, owner = _ones(masks.take(rows))
        common[rows] = np.bincount(owner, before[end] - before[start], len(rows))
    found: Mask = common > 0
    if op == "inside":
        found &= common == pixels
    return ~found if op == "outside" else found


def mask_areas(masks: Runs) -> NDArray[np.int64]:
    """Pixels of each mask, int64 ``[N]``."""
    start, end, owner = _ones(masks)
    return np.bincount(owner, end - start, len(masks)).astype(np.int64)


def _ones(masks: Runs) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """First pixel, end and mask of each run of ones; pixels are counted down the columns of their mask."""
    lengths = np.diff(masks.offsets)
    owner = np.repeat(np.arange(len(masks)), lengths)
    ends = np.cumsum(masks.counts, dtype=np.int64)
    first = np.r_[0, ends][masks.offsets[:-1]]
    ends -= np.repeat(first, lengths)
    odd = (np.arange(len(owner)) - np.repeat(masks.offsets[:-1], lengths)) % 2 == 1
    return (ends - masks.counts)[odd], ends[odd], owner[odd]


def _pixels(shape: Plane, height: int, width: int) -> Mask:
    """The pixels of a mask that belong to a shape."""
    found = np.zeros((height, width), np.bool_)
    for rings in shape.polygons:
        found |= fill_rings([ring.tolist() for ring in rings], height, width)
    for chain in [*shape.points[:, None], *shape.lines]:
        low = np.maximum(np.floor(chain.min(0)) - 1, 0)
        high = np.minimum(np.floor(chain.max(0)) + 1, (width - 1, height - 1))
        if (low > high).any():
            continue
        x, y = (grid.ravel() for grid in np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(low, high))))
        squares = polygons_of(np.stack([x, y, x + 1, y, x + 1, y + 1, x, y + 1, x, y], 1).reshape(-1, 5, 2))
        one = Plane(np.zeros((0, 2)), [chain], []) if len(chain) > 1 else Plane(chain, [], [])
        found[y.astype(np.int64), x.astype(np.int64)] |= relate("intersects", squares, one)
    return found


def polygons_of(rings: NDArray[np.float64]) -> PlaneShapes:
    """Polygons without holes.

    Args:
        rings: ``[N, points, 2]``, the last point equal to the first.
    """
    count, points = rings.shape[:2]
    numbers = np.arange(count)
    return PlaneShapes(rings.reshape(-1, 2), np.arange(count + 1) * points, numbers, numbers)
