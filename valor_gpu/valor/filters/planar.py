"""Exact relations of points, lines and polygons of the plane, for many shapes against one. Numpy only.

A shape is a closed set: a polygon has the points inside an odd number of its rings and those on them, several polygons
are their union. Signs of orientations are exact: float64 with the error bound of J. R. Shewchuk, "Adaptive Precision
Floating-Point Arithmetic and Fast Robust Geometric Predicates" (1997), and rational numbers where that does not decide.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from valor_gpu.inputs.outlines import ends_of
from valor_gpu.ops.polygon_sets.op import PolygonSet
from valor_gpu.valor.filters.slabs import Plane, covers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_ERROR = 3.3306690738754716e-16  # (3 + 16 u) u, the bound of orient2d in Shewchuk's paper, u = 2**-53
_GRID, _LARGEST = 1024.0, 2.0**25  # multiples of 1/1024 below 2**15: differences and their products are exact
_PAIRS = 1 << 20  # pairs of edges looked at in one go, about 100 MB


@dataclass(frozen=True)
class PlaneShapes:
    """PlaneShapes one after another, made of chains: points, open lines and closed rings.

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

    def plane(self, row: int) -> Plane:
        """One of them."""
        chains = np.flatnonzero(self.shape == row).tolist()
        parts = [(self.vertices[self.ends[c] : self.ends[c + 1]], int(self.polygon[c])) for c in chains]
        loose = [chain for chain, polygon in parts if polygon < 0]
        rings = [(chain, polygon) for chain, polygon in parts if polygon >= 0]
        return Plane(
            np.array([chain[0] for chain in loose if len(chain) == 1]).reshape(-1, 2),
            [chain for chain in loose if len(chain) > 1],
            [[ring for ring, _ in group] for _, group in itertools.groupby(rings, key=lambda ring: ring[1])],
        )

    @cached_property
    def bounds(self) -> Floats:
        """float64 ``[4, shapes]``: least x and y, largest x and y."""
        starts = self.ends[:-1][np.flatnonzero(np.diff(self.shape, prepend=-1))]
        if not len(starts):
            return np.zeros((4, 0))
        return np.hstack([np.minimum.reduceat(self.vertices, starts), np.maximum.reduceat(self.vertices, starts)]).T

    @cached_property
    def _edge_chain(self) -> tuple[Ints, Ints]:
        """The first vertex and the chain of each edge; a point is an edge without length."""
        lengths = np.diff(self.ends)
        edges = np.maximum(lengths - 1, 1)
        chain = np.repeat(np.arange(len(lengths)), edges)
        inner = np.arange(len(chain)) - np.repeat(np.cumsum(edges) - edges, edges)
        return self.ends[:-1][chain] + inner, chain

    @cached_property
    def edges(self) -> Floats:
        """float64 ``[4, edges]``: x0, y0, x1, y1."""
        first, chain = self._edge_chain
        second = first + (np.diff(self.ends)[chain] > 1)
        return np.hstack([self.vertices[first], self.vertices[second]]).T

    @cached_property
    def edge_shape(self) -> Ints:
        """The shape of each edge."""
        return self.shape[self._edge_chain[1]]

    @cached_property
    def edge_polygon(self) -> Ints:
        """The polygon of each edge; -1 of points and lines."""
        return self.polygon[self._edge_chain[1]]

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

    @property
    def firsts(self) -> Floats:
        """The first vertex of each chain, ``[2, C]``."""
        return self.vertices[self.ends[:-1]].T


def orientations(a: Floats, b: Floats, c: Floats) -> Ints:
    """The sign of twice the area of the triangles a, b, c, exact; arrays ``[2, ...]`` that broadcast.

    Example:
        >>> import numpy as np
        >>> int(orientations(np.array([0.1, 0.1]), np.array([0.2, 0.2]), np.array([0.3, 0.3])))
        0
        >>> int(orientations(np.array([0.1, 0.1]), np.array([0.2, 0.2]), np.array([0.3, 0.1 + 0.2])))
        1
    """
    (ax, ay), (bx, by), (cx, cy) = np.broadcast_arrays(a, b, c)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        left, right = (ax - cx) * (by - cy), (ay - cy) * (bx - cx)
        found = left - right
        sure = np.abs(found) > _ERROR * (np.abs(left) + np.abs(right))
        sure &= np.isfinite(left) & np.isfinite(right)
    sure |= ((ax == cx) | (by == cy)) & ((ay == cy) | (bx == cx))
    if not sure.all() and all(map(_on_grid, (a, b, c))):
        sure = np.ones_like(sure)
    signs = np.asarray(np.sign(np.where(sure, found, 0)).astype(np.int64))
    for place in zip(*np.nonzero(~sure)) if sure.ndim else [()] * int(not sure):
        signs[place] = _rational_sign(*(float(value[place]) for value in (ax, ay, bx, by, cx, cy)))
    return signs


def _on_grid(points: Floats) -> bool:
    scaled = points * _GRID
    return bool(np.all((scaled == np.rint(scaled)) & (np.abs(scaled) < _LARGEST)))


def _rational_sign(*numbers: float) -> int:
    ax, ay, bx, by, cx, cy = map(Fraction, numbers)
    found = (ax - cx) * (by - cy) - (ay - cy) * (bx - cx)
    return (found > 0) - (found < 0)


def _touching(edges: Floats, other: Floats) -> Mask:
    """Which edges ``[4, E]`` have a point in common with one of the others ``[4, W]``."""
    found = np.zeros(edges.shape[1], np.bool_)
    other_low, other_high = np.minimum(other[:2], other[2:]), np.maximum(other[:2], other[2:])
    step = max(1, _PAIRS // max(1, other.shape[1]))
    for first in range(0, len(found), step):
        part = edges[:, first : first + step, None]
        low, high = np.minimum(part[:2], part[2:]), np.maximum(part[:2], part[2:])
        rows, columns = np.nonzero(((low <= other_high[:, None]) & (high >= other_low[:, None])).all(0))
        hits = _meet(part[:, rows, 0], other[:, columns])
        found[first + rows[hits]] = True
    return found


def _meet(one: Floats, two: Floats) -> Mask:
    """Which closed edges with common bounds meet: neither lies strictly on one side of the other's line."""
    a, b, c, d = one[:2], one[2:], two[:2], two[2:]
    found: Mask = orientations(a, b, c) * orientations(a, b, d) <= 0
    return found & (orientations(c, d, a) * orientations(c, d, b) <= 0)


def _holders(points: Floats, shapes: PlaneShapes) -> Mask:
    """Which polygons hold which points, bool ``[points, polygons]``; a ring belongs to its polygon."""
    size = (points.shape[1], len(shapes.polygon_shape))
    odd, on = np.zeros(size[0] * size[1], np.int64), np.zeros(size[0] * size[1], np.bool_)
    rings = shapes.edge_polygon >= 0
    edges, polygon = shapes.edges[:, rings], shapes.edge_polygon[rings]
    step = max(1, _PAIRS // max(1, points.shape[1]))
    for first in range(0, edges.shape[1], step):
        x0, y0, x1, y1 = edges[:, first : first + step]
        px, py = points[:, :, None]
        near = (np.minimum(y0, y1) <= py) & (py <= np.maximum(y0, y1)) & (px <= np.maximum(x0, x1))
        rows, columns = np.nonzero(near)
        a, b = edges[:2, first + columns], edges[2:, first + columns]
        signs, level = orientations(a, b, points[:, rows]), points[1, rows]
        place = rows * size[1] + polygon[first + columns]
        on[place[(signs == 0) & (np.minimum(a[0], b[0]) <= points[0, rows])]] = True
        # a ring is crossed from its left; ends are half open, so that a corner counts once
        crossed = ((a[1] <= level) != (b[1] <= level)) & (signs == np.where(b[1] > a[1], 1, -1))
        np.add.at(odd, place[crossed], 1)
    found: Mask = (on | (odd % 2 == 1)).reshape(size)
    return found


def relate(relation: str, shapes: PlaneShapes, wanted: Plane) -> Mask:
    """Which shapes relate to the wanted one, both closed sets; bool ``[shapes]``.

    Args:
        relation: ``intersects``: they have a common point; ``inside``: every point is one of the wanted shape.
        shapes: any number.
        wanted: one shape.
    """
    other = PlaneShapes.of([wanted])
    low_x, low_y, high_x, high_y = other.bounds[:, 0]
    bounds = shapes.bounds
    found: Mask = (bounds[0] <= high_x) & (bounds[2] >= low_x) & (bounds[1] <= high_y) & (bounds[3] >= low_y)
    if relation == "inside":
        found &= (bounds[0] >= low_x) & (bounds[2] <= high_x) & (bounds[1] >= low_y) & (bounds[3] <= high_y)
    near = np.flatnonzero(found)
    if len(near):
        chosen = shapes.take(near)
        found[near] = _inside(chosen, other, wanted) if relation == "inside" else _intersecting(chosen, other)
    return found


def _intersecting(shapes: PlaneShapes, other: PlaneShapes) -> Mask:
    """Edges meet, or a chain of one lies within a polygon of the other."""
    found = np.zeros(len(shapes), np.bool_)
    found[shapes.edge_shape[_touching(shapes.edges, other.edges)]] = True
    found[shapes.shape[_holders(shapes.firsts, other).any(1)]] = True
    found[shapes.polygon_shape[_holders(other.firsts, shapes).any(0)]] = True
    return found


def _inside(shapes: PlaneShapes, other: PlaneShapes, wanted: Plane) -> Mask:
    """No corner outside; then the wanted shape is convex, or its edges keep away, or the slabs decide."""
    found = np.ones(len(shapes), np.bool_)
    ring = _convex_ring(wanted)
    if ring is not None:
        for a, b in itertools.pairwise(ring):
            for ends in (shapes.edges[:2], shapes.edges[2:]):
                found[shapes.edge_shape[orientations(a[:, None], b[:, None], ends) < 0]] = False
        return found
    if wanted.polygons and not len(wanted.lines) and not len(wanted.points):
        for ends in (shapes.edges[:2], shapes.edges[2:]):
            found[shapes.edge_shape[~_holders(ends, other).any(1)]] = False
    doubtful = np.zeros(len(shapes), np.bool_)
    doubtful[shapes.edge_shape[_touching(shapes.edges, other.edges)]] = True
    doubtful[shapes.polygon_shape[_holders(other.firsts, shapes).any(0)]] = True
    doubtful |= not wanted.polygons
    for row in np.flatnonzero(found & doubtful).tolist():
        found[row] = covers(wanted, shapes.plane(row))
    return found


def _convex_ring(shape: Plane) -> Floats | None:
    """The ring of a shape that is one convex polygon, turned so that its inside has positive orientations."""
    if len(shape.points) or len(shape.lines) or len(shape.polygons) != 1 or len(shape.polygons[0]) != 1:
        return None
    ring = shape.polygons[0][0]
    ring = ring[np.r_[True, (ring[1:] != ring[:-1]).any(1)]]
    if len(ring) < 4:
        return None
    corners = ring[:-1]
    turns = orientations(corners.T, np.roll(corners, -1, 0).T, np.roll(corners, -2, 0).T)
    if (turns >= 0).all() != (turns <= 0).all() and _winds_once(ring):
        return ring if turns.max() > 0 else ring[::-1]
    return None


def _winds_once(ring: Floats) -> bool:
    """Whether x rises once and falls once along the ring, which a star that always turns one way does not."""
    steps = np.sign(np.diff(ring[:, 0]))
    steps = steps[steps != 0]
    return int(np.count_nonzero(steps != np.roll(steps, 1))) == 2
