"""Definition of rotated boxes in Python numbers: a row to a convex polygon, and the IoU of two, step by step.

The kernels take the same steps (csrc/core/quads.h, csrc/core/rotated.h), so that no bit differs: Python computes in
float64 without contraction, as they do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor

from valor_gpu.ops.error_codes import NO_ERROR, pack_box
from valor_gpu.ops.rotated.cpu import CHECKED_CORNERS, CORNERS, DEGREES_CLOCKWISE, RADIANS, RADIANS_CLOCKWISE

Point = tuple[float, float]

GOOD, NOT_FINITE, BAD_SHAPE = 0, 1, 2
"""Errors of a row."""

_WIDENED = 2.0**-50
_ROUNDING = {"torch.float16": 2.0**-11, "torch.bfloat16": 2.0**-8}
_SINE = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06,
    -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
_COSINE = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07,
    2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip


@dataclass(frozen=True)
class Quad:
    """A convex polygon of at most 4 corners, kept as distances from an origin of its own.

    Attributes:
        x: of the origin, the centre or the first corner.
        y: likewise.
        corners: the smallest (x, then y) first, on the left of every edge lies the area where y grows upwards.
        bounds: left, top, right, bottom, widened by more than their rounding error.
        area: of the polygon.
        from_centre: whether the origin is the centre.
    """

    x: float
    y: float
    corners: list[Point]
    bounds: tuple[float, float, float, float]
    area: float
    from_centre: bool

    @property
    def aligned(self) -> bool:
        """Whether the edges are parallel to the axes."""
        if len(self.corners) != 4:
            return False
        (ax, ay), (bx, by), (cx, cy), (dx, dy) = self.corners
        return ay == by and bx == cx and cy == dy and dx == ax

    def box(self) -> tuple[float, float, float, float]:
        """The xywh box of an aligned quadrilateral, as ``ops.boxes.to_xywh`` computes it."""
        x, y = self.x + self.corners[0][0], self.y + self.corners[0][1]
        if not self.from_centre:
            return x, y, *self.corners[2]
        return x, y, (self.x + self.corners[2][0]) - x, (self.y + self.corners[2][1]) - y

    def key(self) -> tuple[float, ...]:
        """What puts two quadrilaterals in an order of their own."""
        flat = [number for corner in self.corners for number in corner]
        return (self.x, self.y, *flat, *[0.0] * (8 - len(flat)))


EMPTY = Quad(0.0, 0.0, [], (0.0, 0.0, 0.0, 0.0), 0.0, True)
"""Stands for a row that cannot be used, and for padding."""


def _polynomial(z: float, coefficients: Sequence[float]) -> float:
    value = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = coefficient + z * value
    return value


def direction(degrees: float) -> tuple[float, float]:
    """Cosine and sine, exact at multiples of 90 degrees: polynomials of fdlibm after a reduction that is exact."""
    turn = math.fmod(degrees, 360.0)
    quarter = round(turn / 90.0)
    x = (turn - 90.0 * quarter) * 0.017453292519943295
    z = x * x
    half = 0.5 * z
    near = 1.0 - half
    sine = x + z * x * _polynomial(z, _SINE)
    cosine = near + (((1.0 - near) - half) + z * (z * _polynomial(z, _COSINE)))
    return ((cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine))[quarter & 3]


def _cross(ax: float, ay: float, bx: float, by: float) -> float:
    return ax * by - ay * bx


def _widened(left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
    slack = _WIDENED * max(abs(left), abs(right), abs(top), abs(bottom))
    return left - slack, top - slack, right + slack, bottom + slack


def _from_centre(row: Sequence[float], code: int) -> Quad | None:
    x, y, w, h, angle = row
    if w < 0.0 or h < 0.0:
        return None
    cosine, sine = direction(angle * 57.29577951308232 if code in (RADIANS, RADIANS_CLOCKWISE) else angle)
    if code in (DEGREES_CLOCKWISE, RADIANS_CLOCKWISE):
        sine = -sine
    ux, uy, vx, vy = 0.5 * w * cosine, 0.5 * w * -sine, 0.5 * h * sine, 0.5 * h * cosine
    corners = [(-ux - vx, -uy - vy), (ux - vx, uy - vy), (ux + vx, uy + vy), (vx - ux, vy - uy)]
    first = corners.index(min(corners))
    across, down = abs(ux) + abs(vx), abs(uy) + abs(vy)
    bounds = _widened(x - across, y - down, x + across, y + down)
    return Quad(x, y, corners[first:] + corners[:first], bounds, w * h, True)


def _turn(points: Sequence[Point], a: int, b: int, c: int) -> float:
    (ax, ay), (bx, by), (cx, cy) = points[a], points[b], points[c]
    return _cross(bx - ax, by - ay, cx - ax, cy - ay)


def _chain(points: Sequence[Point], start: int, near: int, far: int, end: int) -> list[Point]:
    """The inner points on the right of the way from start to end, without one that the other hides."""
    first = _turn(points, 0, 3, near) * (end - start) < 0.0
    second = _turn(points, 0, 3, far) * (end - start) < 0.0
    if first and second:
        first = _turn(points, start, near, far) > 0.0
        second = not first or _turn(points, near, far, end) > 0.0
    return [points[near]] * first + [points[far]] * second


def _from_corners(row: Sequence[float], dtype: str) -> Quad | None:
    x, y = min(zip(row[0::2], row[1::2]))
    points = [(px - x, py - y) for px, py in zip(row[0::2], row[1::2])]
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = points
    enclosed = abs(_cross(cx - ax, cy - ay, dx - bx, dy - by))
    points.sort()
    hull = [points[0], *_chain(points, 0, 1, 2, 3), points[3], *_chain(points, 3, 2, 1, 0)]
    area = 0.0
    if len(hull) == 3:
        area = 0.5 * _cross(*hull[1], *hull[2])
    elif len(hull) == 4:
        area = 0.5 * _cross(*hull[2], hull[3][0] - hull[1][0], hull[3][1] - hull[1][1])
    low, high = (pick(0.0, *(py for _, py in points)) for pick in (min, max))
    width, height = points[3][0], high - low
    explained = 4.0 * _ROUNDING.get(dtype, 2.0**-22) * max(map(abs, row)) * max(width, height)
    if dtype != "any" and area - 0.5 * enclosed > explained:
        return None
    return Quad(x, y, hull, _widened(x, y + low, x + width, y + high), area, False)


def load(row: Sequence[float], code: int, dtype: str) -> tuple[Quad, int]:
    """The polygon of a row and its error; a row that cannot be used is ``EMPTY``.

    Args:
        row: 8 or 5 numbers.
        code: the quad format.
        dtype: the dtype in which the row was given: corners may fail to be convex by its rounding.
    """
    if not all(map(math.isfinite, row)):
        return EMPTY, NOT_FINITE
    if code in (CORNERS, CHECKED_CORNERS):
        quad = _from_corners(row, "any" if code == CHECKED_CORNERS else dtype)
    else:
        quad = _from_centre(row, code)
    return (EMPTY, BAD_SHAPE) if quad is None else (quad, GOOD)


def load_rows(rows: Tensor, code: int, image: int, target: bool) -> tuple[list[Quad], int]:
    """The polygons of the rows of an image, and the first error code.

    Args:
        rows: ``[N, 8]`` or ``[N, 5]``.
        code: the quad format.
        image: the image of the batch.
        target: whether these are ground truths.
    """
    kinds = {NOT_FINITE: 4 if target else 1, BAD_SHAPE: (18 if code in (CORNERS, CHECKED_CORNERS) else 16) + target}
    loaded = [load(row, code, str(rows.dtype)) for row in rows.double().tolist()]
    errors = [pack_box(image, i, kinds[wrong]) for i, (_, wrong) in enumerate(loaded) if wrong]
    return [quad for quad, _ in loaded], min(errors, default=NO_ERROR)


def _cut(polygon: list[Point], ax: float, ay: float, ex: float, ey: float) -> list[Point]:
    """What lies on the left of a line (Sutherland and Hodgman 1974)."""
    sides = [_cross(ex, ey, x - ax, y - ay) for x, y in polygon]
    kept: list[Point] = []
    for i, (x, y) in enumerate(polygon):
        last = sides[i - 1]
        if (last > 0.0 and sides[i] < 0.0) or (last < 0.0 and sides[i] > 0.0):
            part = last / (last - sides[i])
            lx, ly = polygon[i - 1]
            kept.append((lx + part * (x - lx), ly + part * (y - ly)))
        if sides[i] >= 0.0:
            kept.append((x, y))
    return kept


def shared_area(a: Quad, b: Quad) -> float:
    """Area of the intersection, in the coordinates of ``a``."""
    polygon = list(a.corners)
    from_x, from_y = b.x - a.x, b.y - a.y
    for (x, y), (nx, ny) in zip(b.corners, b.corners[1:] + b.corners[:1]):
        if len(polygon) > 2:
            polygon = _cut(polygon, from_x + x, from_y + y, nx - x, ny - y)
    twice = 0.0
    for (px, py), (qx, qy) in pairwise(polygon[1:]):
        twice += _cross(px - polygon[0][0], py - polygon[0][1], qx - polygon[0][0], qy - polygon[0][1])
    return 0.5 * twice


def box_iou(a: Sequence[float], b: Sequence[float], crowd: bool) -> float:
    """IoU of two boxes xywh, step by step as ``box_iou`` has it."""
    w = min(a[2] + a[0], b[2] + b[0]) - max(a[0], b[0])
    h = min(a[3] + a[1], b[3] + b[1]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    area = a[2] * a[3]
    return _ratio(w * h, area if crowd else area + b[2] * b[3] - w * h)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole != 0.0 else math.nan


def iou(detection: Quad, gt: Quad, crowd: bool) -> float:
    """Intersection over union, over the detection's area for a crowd; 0 where an area is 0, 1 for equal ones."""
    if not (detection.area > 0.0 and gt.area > 0.0) or are_apart(detection, gt):
        return 0.0
    if detection.key() == gt.key():
        return 1.0
    if detection.aligned and gt.aligned:
        value = box_iou(detection.box(), gt.box(), crowd)
    else:
        shared = shared_area(gt, detection) if gt.key() < detection.key() else shared_area(detection, gt)
        if not shared > 0.0:
            return 0.0
        shared = min(shared, detection.area, gt.area)
        value = _ratio(shared, detection.area if crowd else detection.area + gt.area - shared)
    return min(value, 1.0) if value >= 0.0 else 0.0


def are_apart(a: Quad, b: Quad) -> bool:
    """Whether the bounds have nothing in common."""
    (left1, top1, right1, bottom1), (left2, top2, right2, bottom2) = a.bounds, b.bounds
    return right1 < left2 or right2 < left1 or bottom1 < top2 or bottom2 < top1
