"""Definition of the signed edges of polygons, in rational numbers. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Arrays = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]
_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class Line:
    """A segment of a ring that is not vertical, from left to right, in rational numbers."""

    x0: Fraction
    y0: Fraction
    x1: Fraction
    y1: Fraction
    polygon: int

    @property
    def slope(self) -> Fraction:
        """Change of y for each x."""
        return (self.y1 - self.y0) / (self.x1 - self.x0)

    def at(self, x: Fraction) -> Fraction:
        """The y at ``x``."""
        return self.y0 + (x - self.x0) * self.slope


def make_set(
    points: NDArray[np.float64], rings: NDArray[np.int64], polygons: NDArray[np.int64], items: NDArray[np.int64]
) -> Arrays | int:
    """Edges, offsets, shapes and hashes of items, see ``valor_gpu.ops.polygon_sets.op.PolygonSet``.

    Args:
        points: float64 ``[V, 2]``.
        rings: int64 ``[R + 1]``, where the points of each ring begin.
        polygons: int64 ``[P + 1]``, where the rings of each polygon begin.
        items: int64 ``[N + 1]``, where the polygons of each item begin.

    Returns:
        The arrays, or the first item with a coordinate that is not finite.
    """
    edges: list[list[float]] = []
    offsets, shapes, hashes = [0], [], []
    for item, (first, end) in enumerate(pairwise(items.tolist())):
        loops = [
            [points[rings[r] : rings[r + 1]] for r in range(polygons[p], polygons[p + 1])] for p in range(first, end)
        ]
        flat = np.concatenate([np.zeros((0, 2)), *(ring for polygon in loops for ring in polygon)])
        if not np.isfinite(flat).all():
            return item
        own, shape = _item(loops, float(np.abs(flat).max(initial=0.0)))
        edges += own
        offsets.append(len(edges))
        shapes.append(shape)
        hashes.append(_hash(loops))
    return (
        np.array(edges, np.float64).reshape(-1, 7), np.array(offsets, np.int64),
        np.array(shapes, np.float64).reshape(-1, 9), np.array(hashes, np.uint64).view(np.int64),
    )  # fmt: skip


def _item(polygons: Sequence[Sequence[NDArray[np.float64]]], reach: float) -> tuple[list[list[float]], list[float]]:
    """Edges and shape of one item."""
    # Units of 2**exponent pixels, and 2**-200 of the largest coordinate as smallest difference.
    power = math.frexp(reach)[1]
    exponent = 600 * math.floor(abs(power) / 600 + 0.5) * (1 if power > 0 else -1)
    coarse = math.ldexp(1.5, power - exponent - 148)

    def coordinate(number: float) -> Fraction:
        scaled = math.ldexp(number, -exponent)
        return Fraction((scaled + coarse) - coarse if abs(scaled) < coarse else scaled)

    loops = [[[(coordinate(x), coordinate(y)) for x, y in ring.tolist()] for ring in rings] for rings in polygons]
    lines, places = _lines(loops)
    pieces = list(_pieces(lines, places))
    kept = sorted((edge for edge, _ in pieces), key=lambda e: (e[4], e[1], e[5], e[0], e[2], e[6]))
    heights = [float(y) for _, ends in pieces for y in ends]
    return kept, [*_measure(kept, heights), math.ldexp(reach, -exponent), float(exponent), float(_is_box(kept))]


Ring = list[tuple[Fraction, Fraction]]


def _lines(polygons: list[list[Ring]]) -> tuple[list[Line], list[tuple[Fraction, ...]]]:
    """Segments that are not vertical, and those that are as x, least and largest y."""
    lines: list[Line] = []
    upright: list[tuple[Fraction, ...]] = []
    for p, rings in enumerate(polygons):
        for ring in rings:
            for a, b in zip([*ring[-1:], *ring[:-1]], ring):
                (x0, y0), (x1, y1) = sorted((a, b))
                if x0 < x1:
                    lines.append(Line(x0, y0, x1, y1, p))
                elif y0 < y1:
                    upright.append((x0, y0, y1))
    return lines, upright


def _cuts(lines: Sequence[Line], upright: Sequence[tuple[Fraction, ...]], line: Line) -> list[float]:
    """Where a segment begins, ends, and meets others; a place between is rounded."""
    found = {float(line.x0), float(line.x1)}
    for x, low, high in upright:
        if line.x0 < x < line.x1 and low <= line.at(x) <= high:
            found.add(float(x))
    for other in lines:
        left, right = max(line.x0, other.x0), min(line.x1, other.x1)
        if left >= right:
            continue
        first, last = (other.at(x) - line.at(x) for x in (left, right))
        if first * last < 0:
            found.add(float(left + (right - left) * first / (first - last)))
        found.update(float(x) for x, apart in ((left, first), (right, last)) if apart == 0)
    return sorted(found)


def _pieces(
    lines: Sequence[Line], upright: Sequence[tuple[Fraction, ...]]
) -> Iterator[tuple[list[float], list[Fraction]]]:
    """Pieces of segments with what is inside on one side alone, as edges, and their y at both ends."""
    for position, line in enumerate(lines):
        for left, right in pairwise(_cuts(lines, upright, line)):
            middle = (Fraction(left) + Fraction(right)) / 2
            if sign := _sign(lines, position, middle):
                high = float(line.slope)
                low = float(line.slope - Fraction(high))
                edge = [float(line.x0), float(line.y0), high, low, left, right, float(sign)]
                yield edge, [line.at(Fraction(left)), line.at(Fraction(right))]


def _sign(lines: Sequence[Line], position: int, x: Fraction) -> int:
    """1 where inside lies at smaller y alone, -1 where at larger y alone, 0 else, or where an earlier one speaks."""
    line = lines[position]
    below: dict[int, int] = {}
    above: dict[int, int] = {}
    for i, other in enumerate(lines):
        if not other.x0 <= x < other.x1:
            continue
        apart = other.at(x) - line.at(x)
        if apart == 0 and i < position:
            return 0
        if apart < 0:
            below[other.polygon] = below.get(other.polygon, 0) ^ 1
        if apart <= 0:
            above[other.polygon] = above.get(other.polygon, 0) ^ 1
    return int(any(below.values())) - int(any(above.values()))


def rational_edges(edges: Sequence[Sequence[float]]) -> list[tuple[Fraction, ...]]:
    """Of each edge x, y, slope, left, right and sign."""
    rows = ([Fraction(value) for value in edge] for edge in edges)
    return [(x, y, high + low, left, right, sign) for x, y, high, low, left, right, sign in rows]


def area_of(edges: Sequence[tuple[Fraction, ...]]) -> Fraction:
    """The area of rational edges, and so of what is inside."""
    total = Fraction(0)
    for x, y, slope, left, right, sign in edges:
        total += sign * (right - left) * (y + slope * ((left + right) / 2 - x))
    return total


def _measure(edges: Sequence[Sequence[float]], heights: Sequence[float]) -> list[float]:
    """Area in two parts, left, top, right and bottom."""
    if not edges:
        return [0.0] * 6
    rows = rational_edges(edges)
    area = max(area_of(rows), Fraction(0))
    lefts, rights = ([edge[column] for edge in edges] for column in (4, 5))
    high = float(area)
    return [high, float(area - Fraction(high)), min(lefts), min(heights), max(rights), max(heights)]


def _is_box(edges: Sequence[Sequence[float]]) -> bool:
    return len(edges) == 2 and edges[0][2] == edges[1][2] == 0 and edges[0][4:6] == edges[1][4:6]


def _hash(polygons: Sequence[Sequence[NDArray[np.float64]]]) -> int:
    """The coordinates as they came, in 64 bits."""
    state = 0x2545F4914F6CDD1D
    for rings in polygons:
        for position, ring in enumerate(rings):
            words = [position, *np.array([float(len(ring)), *ring.reshape(-1)]).view(np.uint64).tolist()]
            for word in words:
                state = _fold(state, word)
    return _mix(state)


def _fold(state: int, word: int) -> int:
    return ((state ^ word) * 0x9E3779B97F4A7C15 + (state >> 29)) & _WORD


def _mix(state: int) -> int:
    state ^= state >> 30
    state = state * 0xBF58476D1CE4E5B9 & _WORD
    state ^= state >> 27
    state = state * 0x94D049BB133111EB & _WORD
    return state ^ state >> 31
