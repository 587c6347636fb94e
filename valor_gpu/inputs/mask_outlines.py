"""Polygons of masks: exact outlines, and hulls. No torch.

An outline has a corner where an odd number of the four pixels around a grid point is set, and two where two are that
touch in this point alone. In a column or row of grid points its corners are joined two by two. Corners come from the
ends of runs, so that the work grows with the outline and not with the image.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.inputs.outlines import Integers, Outlines, ends_of
from valor_gpu.ops.runs.op import Runs

Flags = NDArray[np.bool_]


class _Pieces(NamedTuple):
    """Ones of masks as pieces of columns, by mask, column and row: int64 ``[K]`` each."""

    mask: Integers
    column: Integers
    first: Integers
    end: Integers

    @classmethod
    def of(cls, runs: Runs) -> _Pieces:
        """The pieces of masks."""
        lengths, counts = np.diff(runs.offsets), runs.counts.astype(np.int64)
        mask, ends = np.repeat(np.arange(len(runs)), lengths), np.cumsum(counts)
        firsts = ends - counts
        starts = np.repeat(np.append(firsts, 0)[runs.offsets[:-1]], lengths)
        ones = (np.arange(len(counts)) - runs.offsets[mask]) % 2 == 1
        ones &= counts > 0
        mask, first, end = mask[ones], (firsts - starts)[ones], (ends - starts)[ones]
        apart = np.ones(len(mask) + 1, np.bool_)  # of runs that touch, only the first begins and only the last ends
        apart[1:-1] = (mask[1:] != mask[:-1]) | (first[1:] != end[:-1])
        return cls._cut(mask[apart[:-1]], first[apart[:-1]], end[apart[1:]], runs.sizes[:, 0].astype(np.int64))

    @classmethod
    def _cut(cls, mask: Integers, first: Integers, end: Integers, heights: Integers) -> _Pieces:
        """Cuts runs of pixels, counted column by column, where columns end."""
        height = heights[mask]
        left = first // height
        count = (end - 1) // height - left + 1
        run = np.repeat(np.arange(len(count)), count)
        column = left[run] + np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
        top, height = column * height[run], height[run]
        return cls(mask[run], column, np.maximum(first[run] - top, 0), np.minimum(end[run] - top, height))


class _Corners(NamedTuple):
    """Corners of outlines by mask, column and row; each is joined by a vertical line with the next or the one before.

    Attributes:
        mask, x, y: int64 ``[C]``.
        has_left: whether its horizontal line leads to the left.
        below: if that leads to the right: whether the pixel to the right of the corner and below it is set.
        crossed: the first of each two corners at one point.
    """

    mask: Integers
    x: Integers
    y: Integers
    has_left: Flags
    below: Flags
    crossed: Integers

    @classmethod
    def of(cls, pieces: _Pieces, runs: Runs) -> _Corners:
        """The corners of masks, whose pieces these are."""
        height = runs.sizes[:, 0].astype(np.int64) + 1
        bases = ends_of(height * (runs.sizes[:, 1].astype(np.int64) + 1))
        step, count = height[pieces.mask], len(pieces.mask)
        start = bases[pieces.mask] + pieces.column * step
        # The upper and the lower end of each piece, at the grid points on the left and on the right of its column.
        ends = np.concatenate([start + pieces.first, start + pieces.end])
        points = np.concatenate([ends, ends + np.tile(step, 2)])
        has_left = np.repeat([False, True], 2 * count)
        order = np.lexsort((has_left, points))
        points, has_left = points[order], has_left[order]
        below, mask = np.tile(np.repeat([True, False], count), 2)[order], np.tile(pieces.mask, 4)[order]
        kept = np.ones(len(points), np.bool_)
        twins = np.flatnonzero(points[1:] == points[:-1])  # the column on the right, then the one on the left
        straight = below[twins] == below[twins + 1]
        kept[twins[straight]] = kept[twins[straight] + 1] = False
        crossed = twins[~straight]  # the first of two corners is the one whose vertical line leads up
        has_left[crossed], has_left[crossed + 1] = below[crossed], ~below[crossed]
        below[crossed + 1] = below[crossed]
        mask = mask[kept]
        x, y = np.divmod(points[kept] - bases[mask], height[mask])
        return cls(mask, x, y, has_left[kept], below[kept], (np.cumsum(kept) - 1)[crossed])

    def untied(self, ring: Integers) -> _Corners:
        """Corners by which no ring meets itself in a point: it becomes two that do, such as a boundary and a hole."""
        tied = self.crossed[ring[self.crossed] == ring[self.crossed + 1]]
        has_left = self.has_left.copy()
        has_left[tied], has_left[tied + 1] = has_left[tied + 1], has_left[tied]
        return self._replace(has_left=has_left)


def outlines_of(runs: Runs) -> Outlines:
    """The exact outlines of masks, along the edges of pixels; their area is the number of pixels.

    Pixels that touch in a corner alone are of different polygons. Boundaries run clockwise as seen in the image and
    holes the other way round, each from the left end of its top.

    Args:
        runs: the masks, numpy arrays.

    Example:
        >>> ring = Runs(np.array([0, 4, 1, 4], np.int32), np.array([0, 4]), np.array([[3, 3]], np.int32))
        >>> boundary, hole = outlines_of(ring).listed(0)[0]
        >>> hole
        [[1.0, 1.0], [1.0, 2.0], [2.0, 2.0], [2.0, 1.0], [1.0, 1.0]]
    """
    pieces = _Pieces.of(runs)
    corners = _Corners.of(pieces, runs)
    if len(corners.crossed):
        corners = corners.untied(_Rows.of(corners, runs).walk().ring)
    rows = _Rows.of(corners, runs)
    walk, starts, lengths, ring = rows.walk()
    first = walk[starts]
    parents = _parents(pieces, corners, rows, first, ring)
    order = np.argsort(parents, kind="stable")  # holes come after their boundary, which has the smaller number
    outer = parents[order] == order
    ends = ends_of(lengths[order] + 1)
    place = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths[order] + 1)
    length, forward = (np.repeat(part, lengths[order] + 1) for part in (lengths[order], outer))
    place = np.where(forward, place, length - place) % np.maximum(length, 1)
    chosen = walk[np.repeat(starts[order], lengths[order] + 1) + place]
    vertices = np.stack([corners.x[chosen], corners.y[chosen]], 1).astype(np.float64)
    shapes = np.bincount(corners.mask[first[order[outer]]], minlength=len(runs))
    return Outlines(vertices, ends, np.append(np.flatnonzero(outer), len(order)), ends_of(shapes))


class _Walk(NamedTuple):
    """Corners in the order of rings.

    Attributes:
        corners: int64 ``[C]``, one ring after another.
        starts: int64 ``[R]``, where each ring starts in ``corners``.
        lengths: int64 ``[R]``, its corners.
        ring: int64 ``[C]``, the ring of each corner.
    """

    corners: Integers
    starts: Integers
    lengths: Integers
    ring: Integers


class _Rows(NamedTuple):
    """Corners by mask, row and column.

    Attributes:
        order: int64 ``[C]``, places of corners.
        keys: ascending, of the corners in order.
        bases: from which the keys of each mask count.
        widths: grid points in a row of each mask.
    """

    order: Integers
    keys: Integers
    bases: Integers
    widths: Integers

    @classmethod
    def of(cls, corners: _Corners, runs: Runs) -> _Rows:
        """Sorts corners; of two at one point the one with the line to the left comes first."""
        widths = runs.sizes[:, 1].astype(np.int64) + 1
        bases = ends_of((runs.sizes[:, 0].astype(np.int64) + 1) * widths)
        points = bases[corners.mask] + corners.y * widths[corners.mask] + corners.x
        keys = 2 * points + ~corners.has_left
        order = np.argsort(keys, kind="stable")
        return cls(order, keys[order], bases, widths)

    def walk(self) -> _Walk:
        """Follows every ring once, from its first corner to the right."""
        across = np.empty(len(self.order), np.int64)
        across[self.order[0::2]], across[self.order[1::2]] = self.order[1::2], self.order[0::2]
        joined = across.tolist()
        walk: list[int] = []
        starts: list[int] = []
        seen = bytearray(len(joined))
        for corner in self.order.tolist():
            if not seen[corner]:
                starts.append(len(walk))
                while not seen[corner]:
                    other = joined[corner]
                    seen[corner] = seen[other] = 1
                    walk += (corner, other)
                    corner = other ^ 1
        walked, begins = np.array(walk, np.int64), np.array(starts, np.int64)
        lengths = np.diff(np.append(begins, len(walk)))
        ring = np.empty(len(walk), np.int64)
        ring[walked] = np.repeat(np.arange(len(starts)), lengths)
        return _Walk(walked, begins, lengths, ring)


def _parents(pieces: _Pieces, corners: _Corners, rows: _Rows, first: Integers, ring: Integers) -> Integers:
    """The boundary that each ring belongs to: that of the pixels above the start of a hole, or the ring itself."""
    parents = np.arange(len(first))
    holes = np.flatnonzero(~corners.below[first])
    mask, x, y = (part[first[holes]] for part in (corners.mask, corners.x, corners.y))

    def key(mask: Integers, x: Integers, y: Integers) -> Integers:
        points: Integers = rows.bases[mask] + x * (np.diff(rows.bases) // rows.widths)[mask] + y
        return points

    piece = np.searchsorted(key(pieces.mask, pieces.column, pieces.end), key(mask, x, y))
    above = 2 * (rows.bases[mask] + pieces.first[piece] * rows.widths[mask] + x) + 1
    owners = ring[rows.order[np.searchsorted(rows.keys, above, "right") - 1]]
    for hole, owner in zip(holes.tolist(), owners.tolist()):
        parents[hole] = parents[owner]
    return parents


def hulls_of(runs: Runs) -> Outlines:
    """The convex hulls of the upper left corners of pixels, as Valor's server makes polygons of rasters.

    They are a pixel short on the right and below, fill what is concave and join what is apart. One of fewer than three
    corners has no area. A mask without pixels has no polygon.

    Args:
        runs: the masks, numpy arrays.
    """
    pieces = _Pieces.of(runs)
    ends = np.searchsorted(pieces.mask, np.arange(len(runs) + 1)).tolist()
    shapes = []
    for first, end in itertools.pairwise(ends):
        column, top, bottom = (part[first:end] for part in (pieces.column, pieces.first, pieces.end))
        points = sorted({*zip(column.tolist(), top.tolist()), *zip(column.tolist(), (bottom - 1).tolist())})
        shapes.append([[_hull(points)]] if points else [])
    return Outlines.of(shapes)


def _hull(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Andrew's monotone chain, clockwise as seen in the image: the corners of the hull, and the first again."""
    chains = []
    for way in (points, points[::-1]):
        chain: list[tuple[int, int]] = []
        for x, y in way:
            while len(chain) > 1:
                (x0, y0), (x1, y1) = chain[-2:]
                if (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) > 0:
                    break
                chain.pop()
            chain.append((x, y))
        chains.append(chain)
    return [*chains[0][:-1], *chains[1]]
