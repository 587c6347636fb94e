"""Points, lines and polygons of the plane as flat arrays, and how many of them relate to one, by shapely.

A shape is a closed set: a polygon has the points inside an odd number of its rings and those on them, several polygons
are their union. A ring that crosses itself is cut at the crossings, whose coordinates are rounded; all other corners
are taken as they are, so that shapes with a common edge touch. Coordinates below 1e-100 count as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.exports.frames import imported
from valor_gpu.inputs.outlines import ends_of
from valor_gpu.ops.polygon_sets.op import PolygonSet

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_LARGEST = 1e100  # beyond it, and below its inverse, squares of distances overflow or vanish in GEOS


class Plane(NamedTuple):
    """The parts of a shape, arrays ``[points, 2]`` of x and y; lines have two points or more, rings four.

    Attributes:
        points: each alone.
        lines: open.
        polygons: their rings, the last point equal to the first.
    """

    points: Floats
    lines: Sequence[Floats]
    polygons: Sequence[Sequence[Floats]]


@dataclass(frozen=True)
class PlaneShapes:
    """Shapes one after another, made of chains: points, open lines and closed rings.

    Attributes:
        vertices: float64 ``[V, 2]``, x and y; the last one of a ring equals the first.
        ends: int64 ``[C + 1]``: the vertices of chain i are ``vertices[ends[i]:ends[i + 1]]``, at least one.
        shape: int64 ``[C]``, the shape of each chain, ascending; every shape has one.
        polygon: int64 ``[C]``, the polygon of each ring, ascending over all shapes; -1 of points and lines.
    """

    vertices: Floats
    ends: Ints
    shape: Ints
    polygon: Ints

    def __len__(self) -> int:
        return int(self.shape[-1]) + 1 if len(self.shape) else 0

    @classmethod
    def of(cls, planes: Sequence[Plane]) -> PlaneShapes:
        """Flat arrays of shapes that have at least one chain."""
        polygons = 0
        chains: list[Floats] = []
        shape: list[int] = []
        polygon: list[int] = []
        for place, plane in enumerate(planes):
            loose = [*plane.points[:, None], *plane.lines]
            chains += loose + [ring for rings in plane.polygons for ring in rings]
            shape += [place] * (len(chains) - len(shape))
            polygon += [-1] * len(loose)
            for rings in plane.polygons:
                polygon += [polygons] * len(rings)
                polygons += 1
        ends = np.cumsum([0, *map(len, chains)], dtype=np.int64)
        flat = np.concatenate(chains) if chains else np.zeros((0, 2))
        return cls(flat, ends, np.array(shape, np.int64), np.array(polygon, np.int64))

    @classmethod
    def join(cls, one: PlaneShapes, two: PlaneShapes) -> PlaneShapes:
        """The shapes of one, then those of the other."""
        polygon = np.where(two.polygon >= 0, two.polygon + int(one.polygon.max(initial=-1)) + 1, -1)
        return cls(
            np.concatenate([one.vertices, two.vertices]),
            np.concatenate([one.ends, two.ends[1:] + one.ends[-1]]),
            np.concatenate([one.shape, two.shape + len(one)]),
            np.concatenate([one.polygon, polygon]),
        )

    def take(self, rows: Ints) -> PlaneShapes:
        """Some shapes, ascending."""
        number = np.full(len(self), -1, np.int64)
        number[rows] = np.arange(len(rows))
        kept = number[self.shape] >= 0
        lengths = np.diff(self.ends)
        vertices = self.vertices[np.repeat(kept, lengths)]
        polygon = self.polygon[kept]
        rings = polygon >= 0
        polygon[rings] = np.unique(polygon[rings], return_inverse=True)[1].reshape(-1)
        return PlaneShapes(vertices, np.r_[0, np.cumsum(lengths[kept])], number[self.shape[kept]], polygon)

    @cached_property
    def polygon_shape(self) -> Ints:
        """The shape of each polygon."""
        first = np.flatnonzero((self.polygon >= 0) & (np.diff(self.polygon, prepend=-1) != 0))
        return self.shape[first]

    def areas(self) -> Floats:
        """The area of each shape, float64 ``[shapes]``; 0 of points and lines."""
        rings = self.polygon >= 0
        lengths = np.diff(self.ends)
        points = np.ascontiguousarray(self.vertices[np.repeat(rings, lengths)])
        tables = (
            ends_of(lengths[rings]),
            ends_of(np.bincount(self.polygon[rings], minlength=len(self.polygon_shape))),
            ends_of(np.bincount(self.polygon_shape, minlength=len(self))),
        )
        return PolygonSet.of_tables(points, tables).areas

    @cached_property
    def corners(self) -> Floats:
        """The vertices, those below 1e-100 as 0.

        Raises:
            InputError: a coordinate above 1e100.
        """
        sizes = np.abs(self.vertices)
        if (largest := float(sizes.max(initial=0))) > _LARGEST:
            raise InputError(
                f"coordinates of geometries that a filter compares must be at most 1e100 but are {largest!r}"
            )
        return np.where(sizes < 1 / _LARGEST, 0.0, self.vertices)

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Least and largest x and y of each shape, float64 ``[shapes, 2]`` each."""
        starts = self.ends[:-1][np.flatnonzero(np.diff(self.shape, prepend=-1))]
        return np.minimum.reduceat(self.corners, starts), np.maximum.reduceat(self.corners, starts)

    @property
    def geometries(self) -> NDArray[Any]:
        """Valid geometries of shapely, ``[shapes]``; one of several parts is a collection.

        Raises:
            MissingExtraError: shapely is not installed.
            InputError: a coordinate above 1e100.
        """
        shapely = _shapely()
        lengths, rings = np.diff(self.ends), self.polygon >= 0
        made: list[tuple[Ints, NDArray[Any]]] = []  # shapes and their parts
        for chosen, make in (
            (~rings & (lengths == 1), shapely.points),
            (~rings & (lengths > 1), shapely.linestrings),
            (rings, shapely.linearrings),
        ):
            if chosen.any():
                corners = self.corners[np.repeat(chosen, lengths)]
                numbers = np.repeat(np.arange(np.count_nonzero(chosen)), lengths[chosen])
                made.append((self.shape[chosen], make(corners, indices=numbers)))
        if rings.any():
            made[-1] = self.polygon_shape, shapely.polygons(made[-1][1], indices=self.polygon[rings])
        shape, parts = (np.concatenate(each) for each in zip(*made))
        wrong = np.flatnonzero(~shapely.is_valid(parts))
        parts[wrong] = _made_valid(parts[wrong])
        parts = shapely.remove_repeated_points(parts)  # GEOS 3.14 refuses to relate some edges without length
        if len(parts) == len(self):
            found: NDArray[Any] = parts[np.argsort(shape)]
            return found
        order = np.argsort(shape, kind="stable")
        found = shapely.geometrycollections(parts[order], indices=shape[order])
        alone = np.bincount(shape) == 1
        found[alone] = shapely.get_geometry(found[alone], 0)
        return found


def _made_valid(parts: NDArray[Any]) -> NDArray[Any]:
    """Returns valid geometries of parts that are not; where make_valid gives another area, those of their faces."""
    shapely = _shapely()
    valid: NDArray[Any] = shapely.make_valid(parts)
    areas = shapely.area(valid)
    polygons = np.flatnonzero(areas > 0)
    rings, owners = shapely.get_rings(parts[polygons], return_index=True)
    corners, numbers = shapely.get_coordinates(rings, return_index=True)
    ends = np.r_[0, np.cumsum(np.bincount(numbers, minlength=len(rings)))]
    wanted = PlaneShapes(corners, ends, owners, owners).areas()
    for row in polygons[~np.isclose(areas[polygons], wanted, rtol=1e-9, atol=0)].tolist():
        valid[row] = _odd(parts[row])
    return valid


def _odd(polygon: Any) -> Any:
    """The rings of a polygon and the area inside an odd number of them; make_valid fills a hole that shares an edge."""
    shapely = _shapely()
    rings = shapely.get_rings(polygon)
    faces = shapely.get_parts(shapely.polygonize([shapely.union_all(rings)]))
    x, y = shapely.get_coordinates(shapely.point_on_surface(faces)).T[:, :, None]
    odd = np.zeros(len(faces), np.bool_)
    for ring in rings:
        corners = shapely.get_coordinates(ring)
        (x0, y0), (x1, y1) = corners[:-1].T, corners[1:].T
        crossed = (y0 <= y) != (y1 <= y)
        at = x0 + (y - y0) * ((x1 - x0) / np.where(y0 == y1, 1, y1 - y0))
        odd ^= np.count_nonzero(crossed & (at > x), axis=1) % 2 == 1
    return shapely.geometrycollections([shapely.union_all(faces[odd]), *rings])


def _shapely() -> Any:
    return imported("shapely", "geo", "a filter by where geometries lie")


def relate(relation: str, shapes: PlaneShapes, wanted: Plane) -> Mask:
    """Which shapes relate to the wanted one, both closed sets; bool ``[shapes]``.

    Args:
        relation: ``intersects``: they have a common point; ``inside``: every point is one of the wanted shape.
        shapes: any number.
        wanted: one shape.

    Raises:
        MissingExtraError: shapely is not installed.
        InputError: a coordinate above 1e100.
    """
    shapely = _shapely()
    if not len(shapes):
        return np.zeros(0, np.bool_)
    other = PlaneShapes.of([wanted])
    (goal,) = other.geometries
    (low, high), (lowest, highest) = other.bounds, shapes.bounds
    found = np.asarray(((lowest <= high) & (highest >= low)).all(1))
    shapely.prepare(goal)
    related = shapely.covers if relation == "inside" else shapely.intersects
    if len(near := np.flatnonzero(found)):
        found[near] = related(goal, shapes.take(near).geometries)
    return found
