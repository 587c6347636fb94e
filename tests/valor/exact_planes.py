"""Whether shapes of the plane meet or cover one another, in rational numbers: slow, and never in doubt.

An edge is cut wherever the other shape's edges meet it, so that one point stands for each piece. Areas are compared by
slabs: between neighbouring corners and crossings no edges cross, and one point between two edges stands for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from valor_gpu.valor.filters.shapes import Plane

_Point = tuple[Fraction, Fraction]
_Edge = tuple[_Point, _Point]


class Exact:
    """A shape in rational numbers: its polygons as edges, all of its edges, and points alone."""

    def __init__(self, plane: Plane) -> None:
        self.polygons = [[edge for ring in rings for edge in _edges(ring)] for rings in plane.polygons]
        lines = [edge for line in plane.lines for edge in _edges(line)]
        self.walls = [edge for polygon in self.polygons for edge in polygon] + lines
        self.points = set(_exact(plane.points))

    def holds(self, point: _Point) -> bool:
        """Whether a point is on an edge, one of the points, or inside an odd number of rings of a polygon."""
        if point in self.points or any(_on(point, wall) for wall in self.walls):
            return True
        return any(_inside(point, edges) for edges in self.polygons)

    def samples(self, other: Exact) -> Iterator[_Point]:
        """The points alone, and of every edge its ends and a point of each piece into which the other cuts it."""
        yield from self.points
        for edge in self.walls:
            (ax, ay), (bx, by) = edge
            ends = [end for wall in other.walls for end in wall] + list(other.points)
            met = [*(_crossing(edge, wall) for wall in other.walls), *(_along(end, edge) for end in ends)]
            ordered = sorted({Fraction(0), Fraction(1), *(at for at in met if at is not None)})
            for at in ordered + [(one + two) / 2 for one, two in itertools.pairwise(ordered)]:
                yield ax + at * (bx - ax), ay + at * (by - ay)


def intersects(one: Plane, two: Plane) -> bool:
    """Whether the shapes have a common point: an edge or a point of one is in the other."""
    a, b = Exact(one), Exact(two)
    return any(map(b.holds, a.samples(b))) or any(map(a.holds, b.samples(a)))


def covers(whole: Plane, part: Plane) -> bool:
    """Whether every point of ``part`` is one of ``whole``, both closed."""
    a, b = Exact(whole), Exact(part)
    if not all(map(a.holds, b.samples(a))):
        return False
    return not any(held and not holding for held, holding in _faces([b.polygons, a.polygons]))


def _exact(points: Any) -> list[_Point]:
    return [(Fraction(x), Fraction(y)) for x, y in points.tolist()]


def _edges(chain: Any) -> list[_Edge]:
    """Edges of a chain; those without length too, unless another edge ends there."""
    edges = list(itertools.pairwise(_exact(chain)))
    return [edge for edge in edges if edge[0] != edge[1]] or edges[:1]


def _faces(sides: Sequence[Sequence[Sequence[_Edge]]]) -> Iterator[tuple[bool, ...]]:
    """For each piece of the plane between edges: whether each side has it, a side being polygons."""
    tagged = [(edge, number) for number, edges in enumerate(itertools.chain(*sides)) for edge in edges]
    ends = [0, *itertools.accumulate(len(polygons) for polygons in sides)]
    cuts = {x for edge, _ in tagged for x, _ in edge}
    for (one, _), (two, _) in itertools.combinations(tagged, 2):
        if (at := _crossing(one, two)) is not None:
            cuts.add(one[0][0] + at * (one[1][0] - one[0][0]))
    for left, right in itertools.pairwise(sorted(cuts)):
        middle = (left + right) / 2
        heights = sorted(
            (_height(edge, middle), number) for edge, number in tagged if min(edge)[0] <= left and max(edge)[0] >= right
        )
        odd = [False] * ends[-1]
        for _, group in itertools.groupby(heights, key=lambda entry: entry[0]):
            for _, number in group:
                odd[number] = not odd[number]
            yield tuple(any(odd[first:end]) for first, end in itertools.pairwise(ends))


def _height(edge: _Edge, x: Fraction) -> Fraction:
    (x0, y0), (x1, y1) = edge
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def _crossing(one: _Edge, two: _Edge) -> Fraction | None:
    """How far along the first edge the second meets it, 0 to 1; None where they do not or are parallel."""
    (ax, ay), (bx, by) = one
    (cx, cy), (dx, dy) = two
    ux, uy, vx, vy, wx, wy = bx - ax, by - ay, dx - cx, dy - cy, cx - ax, cy - ay
    slant = ux * vy - uy * vx
    if slant == 0:
        return None
    along, other = (wx * vy - wy * vx) / slant, (wx * uy - wy * ux) / slant
    return along if 0 <= along <= 1 and 0 <= other <= 1 else None


def _along(point: _Point, edge: _Edge) -> Fraction | None:
    """How far along an edge a point on it lies; None for a point beside it."""
    (ax, ay), (bx, by) = edge
    if edge[0] == edge[1] or not _on(point, edge):
        return None
    return (point[0] - ax) / (bx - ax) if bx != ax else (point[1] - ay) / (by - ay)


def _on(point: _Point, edge: _Edge) -> bool:
    (x, y), ((ax, ay), (bx, by)) = point, edge
    if (bx - ax) * (y - ay) != (by - ay) * (x - ax):
        return False
    return min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by)


def _inside(point: _Point, edges: Sequence[_Edge]) -> bool:
    """Whether an odd number of edges lies above a point; a corner counts once."""
    x, y = point
    crossed = [edge for edge in edges if (edge[0][0] <= x) != (edge[1][0] <= x)]
    return sum(_height(edge, x) > y for edge in crossed) % 2 == 1
