"""Definition of the IoU of polygons, in rational numbers, and of the pairs of a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.pairs.cpu import Found
from valor_gpu.ops.pairs.reference import find
from valor_gpu.ops.polygon_sets.op import PolygonSet
from valor_gpu.ops.polygon_sets.reference import area_of, rational_edges
from valor_gpu.ops.rotated.reference import box_iou

Row = tuple[Fraction, ...]


@dataclass(frozen=True)
class Polygon:
    """An item of a set.

    Attributes:
        edges: x, y, slope, left, right and sign of each edge.
        area: of the edges.
        bounds: left, top, right and bottom.
        reach: the largest coordinate without sign.
        exponent: lengths are in units of 2 to its power.
        is_box: whether this is a rectangle whose edges are parallel to the axes.
    """

    edges: list[Row]
    area: Fraction
    bounds: list[float]
    reach: float
    exponent: int
    is_box: bool

    def scaled(self, exponent: int) -> list[Row]:
        """The edges in units of 2**exponent."""
        unit = Fraction(2) ** (self.exponent - exponent)
        return [(x * unit, y * unit, slope, left * unit, right * unit, sign)
                for x, y, slope, left, right, sign in self.edges]  # fmt: skip


def load(given: PolygonSet) -> list[Polygon]:
    """The items of a set of tensors."""
    ends, found = given.offsets.tolist(), []
    edges, shapes = given.edges.tolist(), given.shapes.tolist()
    for first, end, shape in zip(ends, ends[1:], shapes):
        rows = rational_edges(edges[first:end])
        found.append(
            Polygon(rows, max(area_of(rows), Fraction(0)), shape[2:6], shape[6], int(shape[7]), bool(shape[8]))
        )
    return found


def iou(detection: Polygon, gt: Polygon, crowd: bool) -> float:
    """Intersection over union, over the detection's area for a crowd, rounded once; 0 where an area is 0."""
    if not (detection.area and gt.area):
        return 0.0
    if detection.is_box and gt.is_box and detection.exponent == gt.exponent:
        return _box_iou(detection.bounds, gt.bounds, crowd)
    exponent = max(detection.exponent, gt.exponent)
    rows, gt_rows = detection.scaled(exponent), gt.scaled(exponent)
    area, gt_area = area_of(rows), area_of(gt_rows)
    units = [Fraction(2) ** (side.exponent - exponent) for side in (detection, gt)]
    (left, right, reach), other = ([Fraction(v) * unit for v in (side.bounds[0], side.bounds[2], side.reach)]
                                   for side, unit in zip((detection, gt), units))  # fmt: skip
    noise = Fraction(2) ** -84 * (min(right, other[1]) - max(left, other[0])) * max(reach, other[2])
    shared = min(shared_area(rows, gt_rows), area, gt_area)
    if shared * 2 <= noise:  # what the rounding of slopes alone may leave
        return 0.0
    return float(shared / (area if crowd else area + gt_area - shared))


def shared_area(rows: Sequence[Row], gt_rows: Sequence[Row]) -> Fraction:
    """The area that is inside both: with signs, that below both of each pair of edges."""
    total = Fraction(0)
    for x, y, slope, first, last, sign in rows:
        for gt_x, gt_y, gt_slope, gt_first, gt_last, gt_sign in gt_rows:
            left, right = max(first, gt_first), min(last, gt_last)
            if left >= right:
                continue
            heights, gt_heights = (
                [base + slant * (at - start) for at in (left, right)]
                for start, base, slant in ((x, y, slope), (gt_x, gt_y, gt_slope))
            )
            total += sign * gt_sign * (right - left) * _mean_of_lower(heights, gt_heights)
    return total


def _mean_of_lower(f: Sequence[Fraction], g: Sequence[Fraction]) -> Fraction:
    """The mean of the lower one of two straight lines, of which the ends are given."""
    at_left, at_right = f[0] - g[0], f[1] - g[1]
    if at_left * at_right >= 0:
        return sum(f if at_left + at_right <= 0 else g, Fraction(0)) / 2
    part = at_left / (at_left - at_right)
    crossing = f[0] + part * (f[1] - f[0])
    return (part * (min(f[0], g[0]) + crossing) + (1 - part) * (crossing + min(f[1], g[1]))) / 2


def _box_iou(a: Sequence[float], b: Sequence[float], crowd: bool) -> float:
    """That of box_iou in float64, but 1 for equal boxes and never above."""
    if a == b:
        return 1.0
    first, second = ((left, top, right - left, bottom - top) for left, top, right, bottom in (a, b))
    return min(box_iou(first, second, crowd), 1.0)


def pairwise(first: PolygonSet, second: PolygonSet, crowd: Tensor | None) -> Tensor:
    """float64 ``[N, M]``."""
    ours, theirs = load(first), load(second)
    crowds = [False] * len(theirs) if crowd is None else crowd.tolist()
    rows = [[iou(a, b, flag) for b, flag in zip(theirs, crowds)] for a in ours]
    return torch.tensor(rows, dtype=torch.float64, device=first.edges.device).reshape(len(ours), len(theirs))


def areas_of(given: PolygonSet) -> Tensor:
    """float64 ``[N]``, square pixels, of a set of tensors."""
    areas = given.shapes[:, 0]
    return torch.where(areas > 0, torch.ldexp(torch.ldexp(areas, given.shapes[:, 7]), given.shapes[:, 7]), 0.0)


def run(
    batch: MatchBatch, sides: tuple[PolygonSet, PolygonSet], lowest: float, agnostic: bool, device: torch.device
) -> Found:
    """Reference of the op; see :func:`valor_gpu.ops.polygon_areas.op.polygon_pairs` for the definition."""
    ours, theirs = map(load, sides)
    pairs = find(batch, lowest, agnostic, lambda row, j, crowd: iou(ours[row], theirs[j], crowd), device)
    areas, gt_areas = map(areas_of, sides)
    error = torch.tensor(NO_ERROR, device=device)
    return Found._make([*vars(pairs).values(), areas, gt_areas, sides[0].hashes, sides[1].hashes, error])
