"""Polygons with holes and multipolygons as flat arrays. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Outlines(NamedTuple):
    """Polygons and multipolygons as flat arrays; each level says where its parts end, after a 0.

    Attributes:
        vertices: float64 ``[V, 2]``, x and y; a ring ends where it began.
        rings: int64 ``[R + 1]``, vertices of each ring.
        polygons: int64 ``[P + 1]``, rings of each polygon, the boundary first.
        shapes: int64 ``[S + 1]``, polygons of each shape, whose union it is.

    Example:
        >>> square = [(0, 0), (2, 0), (2, 2), (0, 2), (0, 0)]
        >>> Outlines.of([[[square]], [[square], [square]]]).shapes.tolist()
        [0, 1, 3]
    """

    vertices: Floats
    rings: Integers
    polygons: Integers
    shapes: Integers

    @classmethod
    def of(cls, shapes: Sequence[Sequence[Sequence[Sequence[Sequence[float]]]]]) -> Outlines:
        """Flat arrays of shapes, each a list of polygons, a polygon a list of rings, a ring a list of points."""
        polygons = [polygon for shape in shapes for polygon in shape]
        rings = [ring for polygon in polygons for ring in polygon]
        count = sum(map(len, rings))
        flat = np.fromiter(chain.from_iterable(chain.from_iterable(rings)), np.float64, 2 * count)
        return cls(flat.reshape(-1, 2), *(ends_of(map(len, parts)) for parts in (rings, polygons, shapes)))

    @classmethod
    def of_rings(cls, points: Floats) -> Outlines:
        """Shapes of one ring each.

        Args:
            points: ``[S, n, 2]``, the last point of each equal to its first.
        """
        ones = np.arange(len(points) + 1, dtype=np.int64)
        return cls(points.reshape(-1, 2), ones * points.shape[1], ones, ones)

    @classmethod
    def join(cls, parts: Sequence[Outlines]) -> Outlines:
        """The shapes of all parts, one part after another."""
        parts = [*parts, cls.of([])]
        ends = (ends_of(np.concatenate([np.diff(part[level]) for part in parts])) for level in (1, 2, 3))
        return cls(np.concatenate([part.vertices for part in parts]), *ends)

    @property
    def num_shapes(self) -> int:
        """S."""
        return len(self.shapes) - 1

    def take(self, chosen: Integers) -> Outlines:
        """The shapes at these places, in their order."""
        parts, ends = chosen, []
        for level in (self.shapes, self.polygons, self.rings):
            lengths = np.diff(level)[parts]
            ends.append(ends_of(lengths))
            parts = np.arange(ends[-1][-1]) + np.repeat(level[:-1][parts] - ends[-1][:-1], lengths)
        shapes, polygons, rings = ends
        return Outlines(self.vertices[parts], rings, polygons, shapes)

    def bounds(self) -> Floats:
        """float64 ``[S, 4]``: xmin, ymin, xmax, ymax of each shape; every one has a vertex."""
        starts = self.rings[self.polygons[self.shapes[:-1]]]
        if not len(starts):
            return np.zeros((0, 4))
        ends = [f.reduceat(self.vertices, starts) for f in (np.minimum, np.maximum)]
        return np.concatenate(ends, 1)

    def listed(self, shape: int) -> list[list[list[list[float]]]]:
        """The polygons of one shape: rings of points."""
        return [
            [self.vertices[self.rings[r] : self.rings[r + 1]].tolist() for r in range(*self.polygons[p : p + 2])]
            for p in range(*self.shapes[shape : shape + 2])
        ]


def ends_of(lengths: Iterable[int] | NDArray[Any]) -> Integers:
    """Where segments of these lengths end, after a 0."""
    counts = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, np.int64)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
