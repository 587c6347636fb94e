"""Whether one shape of the plane covers another, decided with rational numbers: slow, and never in doubt."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_Point = tuple[Fraction, Fraction]
_Edge = tuple[_Point, _Point]


class Plane(NamedTuple):
    """The parts of a shape, arrays ``[points, 2]`` of x and y; lines have two points or more, rings four.

    Attributes:
        points: each alone.
        lines: open.
        polygons: their rings, the last point equal to the first.
    """

    points: NDArray[np.float64]
    lines: Sequence[NDArray[np.float64]]
    polygons: Sequence[Sequence[NDArray[np.float64]]]


def covers(whole: Plane, part: Plane) -> bool:
    """Whether every point of ``part`` is one of ``whole``, both closed.

    Edges of both cut the plane into slabs between neighbouring corners or crossings; inside a slab edges do not cross,
    so that between two neighbouring edges one point stands for all. A polygon without area counts as its lines.

    Args:
        whole: a shape.
        part: another.
    """
    wholes = [_edges(rings) for rings in whole.polygons]
    polygons = [_edges(rings) for rings in part.polygons]
    near = _near(wholes, [end for edges in polygons for edge in edges for end in edge])
    if any(held and not holding for held, holding in _faces([polygons, near])):
        return False
    lines = [_edges([line]) for line in part.lines] + [
        polygon for polygon in polygons if not any(held for (held,) in _faces([[polygon]]))
    ]
    chains = [_exact(line) for line in whole.lines]
    walls = [edge for edges in wholes for edge in edges] + [
        edge for edges in chains for edge in itertools.pairwise(edges)
    ]
    alone = set(_exact(whole.points))
    points = _exact(part.points) + [
        point for edges in lines for edge in edges for point in _samples(edge, walls, alone)
    ]
    return all(_holds(point, wholes, walls, alone) for point in points)


def _exact(points: Any) -> list[_Point]:
    return [(Fraction(x), Fraction(y)) for x, y in points.tolist()]


def _edges(rings: Sequence[Any]) -> list[_Edge]:
    return [edge for ring in rings for edge in itertools.pairwise(_exact(ring)) if edge[0] != edge[1]]


def _near(polygons: Sequence[Sequence[_Edge]], points: Sequence[_Point]) -> list[list[_Edge]]:
    """The edges that decide which of these polygons hold what lies between the points: none beside or above them."""
    left, right = min((x for x, _ in points), default=0), max((x for x, _ in points), default=0)
    top = max((y for _, y in points), default=0)
    return [
        [(a, b) for a, b in edges if max(a[0], b[0]) >= left and min(a[0], b[0]) <= right and min(a[1], b[1]) <= top]
        for edges in polygons
    ]


def _faces(sides: Sequence[Sequence[Sequence[_Edge]]]) -> Iterator[tuple[bool, ...]]:
    """For each piece of the plane between edges: whether each side has it, a side being polygons."""
    numbered = enumerate(itertools.chain.from_iterable(sides))
    tagged = [(edge, number) for number, edges in numbered for edge in edges]
    ends = [0, *itertools.accumulate(len(polygons) for polygons in sides)]
    cuts = sorted({x for edge, _ in tagged for x, _ in edge} | set(_crossings([edge for edge, _ in tagged])))
    for left, right in itertools.pairwise(cuts):
        middle = (left + right) / 2
        heights = sorted(
            (_height(edge, middle), number)
            for edge, number in tagged
            if min(edge)[0] <= left and max(edge)[0] >= right and edge[0][0] != edge[1][0]
        )
        odd = [False] * ends[-1]
        for _, group in itertools.groupby(heights, key=lambda entry: entry[0]):
            for _, number in group:
                odd[number] = not odd[number]
            yield tuple(any(odd[first:end]) for first, end in itertools.pairwise(ends))


def _height(edge: _Edge, x: Fraction) -> Fraction:
    (x0, y0), (x1, y1) = edge
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def _crossings(edges: Sequence[_Edge]) -> Iterator[Fraction]:
    """The x of the points where lines of two edges meet within both."""
    for one, two in itertools.combinations(edges, 2):
        if max(one)[0] < min(two)[0] or max(two)[0] < min(one)[0]:
            continue
        at = _crossing(one, two)
        if at is not None:
            yield one[0][0] + at * (one[1][0] - one[0][0])


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


def _samples(edge: _Edge, walls: Sequence[_Edge], alone: set[_Point]) -> Iterator[_Point]:
    """The ends of an edge and a point of each piece into which walls cut it."""
    (ax, ay), (bx, by) = edge
    cuts = {Fraction(0), Fraction(1)}
    for wall in walls:
        at = _crossing(edge, wall)
        cuts |= {at} if at is not None else set()
        for end in wall:
            if _on(end, edge):
                cuts.add((end[0] - ax) / (bx - ax) if bx != ax else (end[1] - ay) / (by - ay))
    ordered = sorted(cuts)
    places = ordered + [(one + two) / 2 for one, two in itertools.pairwise(ordered)]
    for at in places:
        yield ax + at * (bx - ax), ay + at * (by - ay)


def _on(point: _Point, edge: _Edge) -> bool:
    (x, y), ((ax, ay), (bx, by)) = point, edge
    if (bx - ax) * (y - ay) != (by - ay) * (x - ax):
        return False
    return min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by)


def _holds(point: _Point, polygons: Sequence[Sequence[_Edge]], walls: Sequence[_Edge], alone: set[_Point]) -> bool:
    if point in alone or any(_on(point, wall) for wall in walls):
        return True
    x, y = point
    for edges in polygons:
        above = [
            edge for edge in edges if (edge[0][0] <= x) != (edge[1][0] <= x) and _height(edge, x) > y
        ]  # half open: a corner counts once
        if len(above) % 2:
            return True
    return False
