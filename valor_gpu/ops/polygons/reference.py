"""The definition of polygons as run lengths, one pixel column after another in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

COCO, CENTRE = range(2)
"""PolygonRule in csrc/core/polygons.h."""

Point = tuple[float, float]
_SCALE = 5  # steps of the walk along an edge, per pixel


def rasterise(
    masks: Sequence[Sequence[Sequence[Point]]], sizes: Sequence[tuple[int, int]], rule: int
) -> list[list[int]]:
    """Returns the runs of each mask.

    Args:
        masks: of each mask its rings, each a list of vertices.
        sizes: height and width of each mask.
        rule: ``COCO`` or ``CENTRE``.
    """
    return [_runs(_pixels(rings, *size, rule)) for rings, size in zip(masks, sizes)]


def _pixels(rings: Sequence[Sequence[Point]], height: int, width: int, rule: int) -> list[bool]:
    """Every pixel of a mask, column by column."""
    if rule == CENTRE:
        crossings = [crossing for ring in rings for crossing in _centre_crossings(ring, height, width)]
        return _inside(crossings, height, width)
    filled = [_inside(_coco_crossings(ring, height, width), height, width) for ring in rings]
    return [any(pixel) for pixel in zip(*filled)] if filled else [False] * (height * width)


def _inside(crossings: Sequence[tuple[int, int]], height: int, width: int) -> list[bool]:
    """Even-odd: below an odd number of crossings (column, first row below it) of its column."""
    pixels = [False] * (height * width)
    for column, first in crossings:
        for row in range(first, height):
            pixels[column * height + row] ^= True
    return pixels


def _runs(pixels: Sequence[bool]) -> list[int]:
    runs = [len(list(group)) for _, group in groupby(pixels)]
    return [0, *runs] if pixels and pixels[0] else runs or [0]


def _edges(ring: Sequence[Point]) -> list[tuple[Point, Point]]:
    return list(zip(ring, [*ring[1:], *ring[:1]]))


def _coco_crossings(ring: Sequence[Point], height: int, width: int) -> list[tuple[int, int]]:
    """Where the walk along the ring passes the middle of a column: pycocotools 2.0.11, maskApi.c, rleFrPoly."""
    found = []
    for a, b in _edges([(int(_SCALE * x + 0.5), int(_SCALE * y + 0.5)) for x, y in ring]):
        steps = _walk(a, b)
        for (u0, v0), (u1, v1) in pairwise(steps):
            column, rest = divmod(min(u0, u1) - _SCALE // 2, _SCALE)
            if u0 != u1 and rest == 0 and 0 <= column < width:
                found.append((column, min(max(-(-(min(v0, v1) - _SCALE // 2) // _SCALE), 0), height)))
    return found


def _walk(a: Point, b: Point) -> list[tuple[int, int]]:
    """Grid points from a to b, or back, one step along the longer side each."""
    dx, dy = (int(abs(end - start)) for start, end in zip(a, b))
    (x0, y0), (x1, y1) = sorted((a, b), key=lambda point: point[0] if dx >= dy else point[1])
    if dx >= dy:
        slope = (y1 - y0) / dx if dx else 0.0
        return [(int(x0) + t, int(y0 + slope * t + 0.5)) for t in range(dx + 1)]
    slope = (x1 - x0) / dy
    return [(int(x0 + slope * t + 0.5), int(y0) + t) for t in range(dy + 1)]


def _centre_crossings(ring: Sequence[Point], height: int, width: int) -> list[tuple[int, int]]:
    """Where edges cross middles of columns, from their left end on and before their right end."""
    found = []
    for edge in _edges(ring):
        (x0, y0), (x1, y1) = edge if edge[0][0] <= edge[1][0] else edge[::-1]
        for column in range(max(math.ceil(x0 - 0.5), 0), min(math.ceil(x1 - 0.5), width)):
            y = y0 + (column + 0.5 - x0) * (y1 - y0) / (x1 - x0)
            found.append((column, min(max(math.ceil(y - 0.5), 0), height)))
    return found
