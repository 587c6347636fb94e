"""Polygons as signed edges, the form in which their areas are computed. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.ops.polygon_sets import reference as definition
from valor_gpu.ops.polygons.cpu import ends_of

EDGE_COLUMNS = 7
"""x, y, slope in two parts, left, right, sign: PolygonEdge in csrc/core/polygon_area.h."""

SHAPE_COLUMNS = 9
"""area in two parts, left, top, right, bottom, reach, exponent, is_box: PolygonShape in csrc/core/polygon_area.h."""

MOST_MEETINGS = 1 << 22
"""Most places where edges of one item may meet; SegmentMeetings::kMost in csrc/cpu/polygon_edges.h."""

_MANY_MEETINGS = 2
_ITEMS_PER_HELPER = 256  # waking a thread for fewer takes longer than it saves


@dataclass(frozen=True, eq=False)
class PolygonSet:
    """Polygons, multipolygons and what their areas are computed from; numpy arrays, or tensors inside an op.

    An item is any number of polygons, and a point is inside it where it is inside one of them. A polygon is any number
    of rings, and a point is inside it where it is inside an odd number of them (even-odd): a ring in another one is a
    hole, and of a ring that crosses itself, what it goes round twice is outside. Rings may touch, repeat points, and
    run in either direction.

    Attributes:
        edges: float64 ``[E, 7]``. At each x the signs of the edges above a point add up to 1 where it is inside an
            item, and to 0 where it is outside.
        offsets: int64 ``[N + 1]``: the edges of item i are ``edges[offsets[i]:offsets[i + 1]]``.
        shapes: float64 ``[N, 9]``: area, bounds and unit of length of each item.
        hashes: int64 ``[N]``: the coordinates of each item, as they came, in 64 bits.

    Example:
        >>> outer, hole = [[0, 0], [4, 0], [4, 4], [0, 4]], [[1, 1], [1, 3], [3, 3], [3, 1]]
        >>> PolygonSet.of([[[outer]], [[outer, hole]], [[outer], [hole]], []]).areas.tolist()
        [16.0, 12.0, 16.0, 0.0]
    """

    edges: Any
    offsets: Any
    shapes: Any
    hashes: Any

    def __len__(self) -> int:
        return int(self.shapes.shape[0])

    @property
    def areas(self) -> NDArray[np.float64]:
        """float64 ``[N]``, square pixels, the double nearest to the exact area; may overflow beyond 1e308."""
        with np.errstate(over="ignore", under="ignore"):
            found: NDArray[np.float64] = np.ldexp(self.shapes[:, 0], 2 * self.shapes[:, 7].astype(np.int64))
        return found

    @property
    def bounds(self) -> NDArray[np.float64]:
        """float64 ``[N, 4]``: left, top, right and bottom of what is inside; zeros where the area is 0."""
        found: NDArray[np.float64] = np.ldexp(self.shapes[:, 2:6], self.shapes[:, 7:8].astype(np.int64))
        return found

    @classmethod
    def of(cls, items: Sequence[Any], name: str = "polygons") -> PolygonSet:
        """Makes a set of polygons.

        Args:
            items: N items, each a list of polygons, each a list of rings, each numbers ``[n, 2]``, x and y, as a list
                or an array. A ring may repeat its first point at its end. With fewer than 3 different points, or none,
                it has no area.
            name: what messages call ``items``.

        Raises:
            InputError: naming the item that is not of this form, has a coordinate that is not finite, or whose edges
                meet one another in more than 4,194,304 places.
            InputTypeError: naming what is not a list.
        """
        rings, polygons, counts = _flatten(items, name)
        points = np.concatenate(rings) if rings else np.zeros((0, 2))
        return cls.of_tables(points, (ends_of([len(ring) for ring in rings]), ends_of(polygons), ends_of(counts)), name)

    @classmethod
    def of_tables(
        cls, points: NDArray[np.float64], tables: Sequence[NDArray[np.int64]], name: str = "polygons"
    ) -> PolygonSet:
        """Makes a set of polygons in flat arrays, of which nothing but the coordinates is checked.

        Args:
            points: float64 ``[V, 2]``, contiguous.
            tables: int64, of rings, polygons and items: where their points, rings and polygons end, after a 0.
            name: what messages call the items.

        Raises:
            InputError: as :meth:`of`.
        """
        if native.usable("valor_cpu"):
            return cls._made(points, tables, name)
        made = definition.make_set(points, *tables)
        if isinstance(made, int):
            raise _not_finite(points, tables, made, name)
        return cls(*made)

    @classmethod
    def _made(cls, points: NDArray[np.float64], tables: Sequence[NDArray[np.int64]], name: str) -> PolygonSet:
        """The set, by C++."""
        count = len(tables[2]) - 1
        shapes, hashes = np.zeros((count, SHAPE_COLUMNS)), np.zeros(count, np.int64)
        offsets, out = np.zeros(count + 1, np.int64), np.zeros(3, np.int64)
        threads = min(native.threads(), 1 + count // _ITEMS_PER_HELPER)
        native.function("valor_cpu", "valor_polygon_edges_cpu", "ppppqqpppp")(
            *(array.ctypes.data for array in (points, *tables)), count, threads,
            *(array.ctypes.data for array in (shapes, hashes, offsets, out)),
        )  # fmt: skip
        problem, item, handle = (int(value) for value in out)
        if problem == _MANY_MEETINGS:
            raise InputError(f"{name}[{item}] must have edges that meet in at most {MOST_MEETINGS} places but has more")
        if problem:
            raise _not_finite(points, tables, item, name)
        take = native.function("valor_cpu", "valor_take_polygon_edges_cpu", "qp")
        try:
            edges = np.empty((offsets[-1], EDGE_COLUMNS))
        except MemoryError:
            take(handle, 0)
            raise
        take(handle, edges.ctypes.data)
        return cls(edges, offsets, shapes, hashes)

    def take(self, rows: Any) -> PolygonSet:
        """Returns the items at ``rows``, in their order.

        Args:
            rows: integers from -N to N - 1, or bool ``[N]``.
        """
        chosen = np.arange(len(self))[np.asarray(rows, None if len(rows) else np.int64)]
        lengths = np.diff(self.offsets)[chosen]
        offsets = ends_of(lengths)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        return PolygonSet(self.edges[places], offsets, self.shapes[chosen], self.hashes[chosen])

    @classmethod
    def join(cls, parts: Sequence[PolygonSet]) -> PolygonSet:
        """Returns the items of all parts, one part after another; of no part, no items."""
        edges = [np.zeros((0, EDGE_COLUMNS)), *(part.edges for part in parts)]
        lengths = [np.zeros(0, np.int64), *(np.diff(part.offsets) for part in parts)]
        shapes = [np.zeros((0, SHAPE_COLUMNS)), *(part.shapes for part in parts)]
        hashes = [np.zeros(0, np.int64), *(part.hashes for part in parts)]
        return cls(np.concatenate(edges), ends_of(np.concatenate(lengths)), *map(np.concatenate, (shapes, hashes)))


def _flatten(items: Sequence[Any], name: str) -> tuple[list[NDArray[np.float64]], list[int], list[int]]:
    """All rings, rings of each polygon, and polygons of each item."""
    check_type(name, items, (list, tuple))
    rings: list[NDArray[np.float64]] = []
    polygons: list[int] = []
    counts: list[int] = []
    for i, item in enumerate(items):
        place = f"{name}[{i}]"
        check_type(place, item, (list, tuple))
        counts.append(len(item))
        for p, polygon in enumerate(item):
            check_type(f"{place}[{p}]", polygon, (list, tuple))
            polygons.append(len(polygon))
            rings.extend(_ring(ring, f"{place}[{p}][{r}]") for r, ring in enumerate(polygon))
    return rings, polygons, counts


def _ring(ring: Any, place: str) -> NDArray[np.float64]:
    try:
        points = np.asarray(ring, np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{place} must be points [[x, y], ...] but cannot be read: {error}") from None
    if points.size == 0:
        return np.zeros((0, 2))
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(f"{place} must be points [[x, y], ...] but has shape {list(points.shape)}")
    return points


def _not_finite(points: NDArray[np.float64], tables: Sequence[NDArray[np.int64]], item: int, name: str) -> InputError:
    """The error of an item with a coordinate that is no number."""
    rings, polygons, items = tables
    for p in range(items[item], items[item + 1]):
        for r in range(polygons[p], polygons[p + 1]):
            bad = ~np.isfinite(points[rings[r] : rings[r + 1]]).all(1)
            if bad.any():
                place = f"{name}[{item}][{p - items[item]}][{r - polygons[p]}][{int(bad.argmax())}]"
                x, y = points[rings[r] + int(bad.argmax())].tolist()
                return InputError(f"{place} must be finite but is ({x}, {y})")
    raise AssertionError("every coordinate is finite")
