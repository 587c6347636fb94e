"""IoU of polygons: every kernel equals the rational definition bit for bit, and shapely."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.examples_polygon_iou import iou_arguments, random_set, star
from tests.fuzz import seeds, seeds_with_smoke
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.ops import _library, box_iou, polygon_iou, rasterise
from valor_gpu.ops.polygon_areas.op import _iou_on_cuda
from valor_gpu.ops.polygon_sets.op import PolygonSet
from valor_gpu.ops.polygons.cpu import join_rings

Op = Callable[..., Tensor]
SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4]]


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "polygon_iou", _iou_on_cuda)


def check(op: Op, first: PolygonSet, second: PolygonSet, crowd: Tensor | None = None) -> Tensor:
    arguments = iou_arguments(first, second, crowd)
    iou, expected = op(*arguments), _library.reference("polygon_iou")(*arguments)
    assert torch.equal(iou.view(torch.int64), expected.view(torch.int64))
    assert bool(((iou >= 0) & (iou <= 1)).all())
    return iou


# ------------------------------------------------------------------------------------------------ kernels, bit for bit


@pytest.mark.parametrize("seed", seeds_with_smoke(2))
def test_every_kernel_equals_the_definition(op: Op, seed: int) -> None:
    iou = check(op, random_set(14, seed), random_set(11, 100 + seed), torch.arange(11) % 3 == 0)
    assert 0.1 < float((iou > 0).double().mean()) < 0.95


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (1, 1), (2, 30)])
def test_sizes(op: Op, sizes: tuple[int, int]) -> None:
    assert check(op, random_set(sizes[0], 3), random_set(sizes[1], 4)).shape == sizes


@pytest.mark.parametrize("points", [31, 32, 33, 150])
def test_many_points(op: Op, points: int) -> None:
    rng = np.random.default_rng(points)
    sides = [PolygonSet.of([[[star(rng, points, centre, 30)]]]) for centre in ((50, 50), (55, 45))]
    check(op, sides[0], sides[1])


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-400, 2.0**300, 2.0**301, 2.0**1000])
def test_no_scale_changes_a_bit(op: Op, scale: float) -> None:
    def sized(by: float) -> PolygonSet:
        rng = np.random.default_rng(3)
        return PolygonSet.of(
            [[[star(rng, 9, rng.random(2) * 20, 15) * by]] for _ in range(8)] + [[[np.array(SQUARE) * by]]]
        )

    plain = check(op, sized(1.0), sized(1.0))
    assert torch.equal(check(op, sized(scale), sized(scale)), plain)


def test_different_units_meet(op: Op) -> None:
    """Either side of the coordinate at which the unit changes, and far apart."""
    square = np.array(SQUARE, float)
    sizes = [2.0**297, 2.0**298, 2.0**299, 2.0**300, 1.0, 2.0**-400, 2.0**900]
    made = PolygonSet.of([[[square * size]] for size in sizes])
    assert len(set(made.shapes[:, 7].tolist())) == 4
    iou = check(op, made, made)
    assert iou[0].tolist() == [1.0, 1 / 4, 1 / 16, 1 / 64, 0.0, 0.0, 0.0]
    assert torch.equal(iou, iou.T)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, arguments = kernel("simulated", "polygon_iou", _iou_on_cuda), iou_arguments(random_set(9, 5), random_set(7, 6))
    expected = run(*arguments)
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    assert torch.equal(run(*arguments), expected)


# ---------------------------------------------------------------------------------------------------- against shapely


def shapely_iou(first: list[Any], second: list[Any]) -> Any:
    """Of rings that do not cross themselves."""
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    sides = [np.array([shapely.Polygon(ring) for ring in side]) for side in (first, second)]
    assert all(shapely.is_valid(side).all() for side in sides)
    shared = shapely.area(shapely.intersection(sides[0][:, None], sides[1][None]))
    return shared / (shapely.area(sides[0])[:, None] + shapely.area(sides[1]) - shared)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("points", [3, 12, 60, 400])
def test_equals_shapely(points: int, seed: int) -> None:
    rng = np.random.default_rng([seed, points])
    first, second = ([star(rng, points, rng.random(2) * 60, 40) for _ in range(12)] for _ in range(2))
    iou = polygon_iou([[[ring]] for ring in first], [[[ring]] for ring in second]).numpy()
    assert np.abs(iou - shapely_iou(first, second)).max() <= 1e-13
    assert (iou > 0).mean() > 0.3


@pytest.mark.parametrize("seed", seeds(3))
def test_holes_and_multipolygons_equal_shapely(seed: int) -> None:
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    rng = np.random.default_rng(50 + seed)

    def side() -> tuple[list[Any], Any]:
        items, shapes = [], []
        for _ in range(10):
            item, parts = [], []
            for centre in rng.random((int(rng.integers(1, 4)), 2)) * 40:
                outer, inner = star(rng, 20, centre, 15), star(rng, 8, centre, 4)
                item.append([outer, inner])
                parts.append(shapely.Polygon(outer, [inner]))
            items.append(item)
            shapes.append(shapely.union_all(parts))
        return items, np.array(shapes)

    (first, ours), (second, theirs) = side(), side()
    shared = shapely.area(shapely.intersection(ours[:, None], theirs[None]))
    union = shapely.area(shapely.union(ours[:, None], theirs[None]))
    assert np.abs(polygon_iou(first, second).numpy() - shared / union).max() <= 1e-13


def test_equals_pixels_at_a_high_resolution() -> None:
    """A sanity check that shares nothing with the above but the rule of what is inside."""
    rng = np.random.default_rng(8)
    rings = [star(rng, 15, (50, 50) + rng.random(2) * 30, 35) for _ in range(4)] + [rng.random((6, 2)) * 100 + 10]
    scale, size = 20, [130 * 20, 130 * 20]
    vertices, ends, masks_ends = map(torch.from_numpy, join_rings([[ring * scale] for ring in rings]))
    runs = rasterise(vertices, ends, masks_ends, torch.tensor([size] * 5), "centre")
    from valor_gpu.ops.runs.cpu import iou as pixel_iou
    from valor_gpu.ops.runs.op import Runs

    masks = Runs(*(part.numpy() for part in (runs.counts, runs.offsets, runs.sizes)))
    items = [[[ring]] for ring in rings]
    assert np.abs(polygon_iou(items, items).numpy() - pixel_iou(masks, masks, None)).max() < 2e-3


# ------------------------------------------------------------------------------------------------------ by definition


def clipped(polygon: list[tuple[Fraction, ...]], other: list[tuple[Fraction, ...]]) -> Fraction:
    """Area that two convex polygons share, counterclockwise, in rational numbers (Sutherland and Hodgman 1974)."""
    for (ax, ay), (bx, by) in zip(other, other[1:] + other[:1]):
        sides = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for x, y in polygon]
        kept: list[tuple[Fraction, ...]] = []
        for i, point in enumerate(polygon):
            if sides[i - 1] * sides[i] < 0:
                part = sides[i - 1] / (sides[i - 1] - sides[i])
                kept.append(tuple(a + part * (b - a) for a, b in zip(polygon[i - 1], point)))
            if sides[i] >= 0:
                kept.append(point)
        if not kept:
            return Fraction(0)
        polygon = kept
    return twice_area(polygon) / 2


def twice_area(points: list[tuple[Fraction, ...]]) -> Fraction:
    return sum((ax * by - ay * bx for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1])), Fraction(0))


@pytest.mark.parametrize("seed", seeds(1))
def test_triangles_on_a_grid_are_rounded_once(seed: int) -> None:
    """The double nearest to the exact IoU, thresholds such as 1/2 and 3/4 among them."""
    rng = np.random.default_rng(seed)
    triangles: list[list[tuple[Fraction, ...]]] = []
    while len(triangles) < 60:
        points = [tuple(map(Fraction, row)) for row in rng.integers(0, 6, (3, 2)).tolist()]
        if twice_area(points):
            triangles.append(points if twice_area(points) > 0 else points[::-1])
    items = [[[[[float(x), float(y)] for x, y in t]]] for t in triangles]
    iou = polygon_iou(items, items).tolist()
    found = set()
    for a, row in zip(triangles, iou):
        for b, value in zip(triangles, row):
            shared = clipped(a, b)
            exact = shared / ((twice_area(a) + twice_area(b)) / 2 - shared)
            assert value == float(exact)
            found.add(exact)
    assert {Fraction(1, 2), Fraction(1, 3), Fraction(1)} <= found


@pytest.mark.parametrize("threshold", [k / 20 for k in range(1, 20)])
def test_thresholds_come_out_exactly(threshold: float) -> None:
    """A triangle in one of the same height, turned, moved far away, and of a size that no double holds."""
    part = round(threshold * 20)
    for turn in (1.0, 1 / 3, 0.1, 1e6 / 7):
        for far in (0.0, 1e5):
            whole, inner = ([[far, far], [far + size, far], [far, far + 30]] for size in (20, part))
            first, second = ([[[np.array(ring) * turn]]] for ring in (whole, inner))
            if (np.array(whole) * turn / turn == whole).all() and turn == 1.0:
                assert float(polygon_iou(first, second)) == threshold
            assert float(polygon_iou(first, second)) == pytest.approx(threshold, rel=1e-10)


def test_a_rotated_square_by_hand() -> None:
    """A square and itself turned by 45 degrees share an octagon; here of whole numbers."""
    diamond = [[2, -1], [5, 2], [2, 5], [-1, 2]]  # cuts triangles of area 1/2 off the corners of the square
    assert float(polygon_iou([[[SQUARE]]], [[[diamond]]])) == 14 / (16 + 18 - 14)


def test_equal_items_have_iou_1_however_they_are_written() -> None:
    made = random_set(200, 9)
    same = polygon_iou(made, made).diagonal()
    assert same.tolist() == (made.areas > 0).astype(float).tolist()
    rng = np.random.default_rng(10)
    ring = star(rng, 25, (10, 10), 8)
    other = np.concatenate((ring[::-1][7:], ring[::-1][:8]))
    assert float(polygon_iou([[[ring]]], [[[other]]])) == 1.0
    assert float(polygon_iou([[[ring]]], [[[ring], [ring[:9]]]])) <= 1.0


def test_exchanging_the_sides_changes_no_bit() -> None:
    first, second = random_set(40, 11), random_set(40, 12)
    assert torch.equal(polygon_iou(first, second), polygon_iou(second, first).T)


def test_rectangles_have_the_iou_of_boxes() -> None:
    rng = np.random.default_rng(13)
    boxes = rng.random((60, 4)) * 50
    boxes[:, 2:] += boxes[:, :2]
    order = [0, 1, 2, 1, 2, 3, 0, 3]
    items = [[[corners]] for corners in boxes[:, order].reshape(-1, 4, 2)]
    crowd = torch.arange(60) % 4 == 0
    boxes_iou = box_iou(torch.from_numpy(boxes), torch.from_numpy(boxes), crowd=crowd).fill_diagonal_(1.0).clamp(max=1)
    assert torch.equal(polygon_iou(items, items, crowd=crowd), boxes_iou)


def test_what_has_no_area_has_iou_0() -> None:
    empty = [
        [],
        [[]],
        [[[]]],
        [[[[1, 1]] * 5]],
        [[[[0, 0], [4, 4]]]],
        [[[[0, 0], [1, 1], [3, 3]]]],
        [[[[1, 0], [1, 9], [1, 4]]]],
    ]
    iou = polygon_iou(empty, [[[SQUARE]], *empty], crowd=torch.tensor([False, True] * 4))
    assert iou.shape == (7, 8) and not iou.any()


@pytest.mark.parametrize("seed", seeds(3))
def test_neighbours_share_nothing(seed: int) -> None:
    """Triangles of a fan of slanted edges: bounds overlap, areas do not, and no rounding may say so."""
    rng = np.random.default_rng(seed)
    centre, points = rng.integers(0, 100, 2), star(rng, 30, (50, 50), 40)
    fan = [[[np.array([centre, a, b])]] for a, b in zip(points, np.roll(points, -1, 0))]
    halves = [[[np.array([[0, 0], [7, 3], [0, 9]]) + k]] for k in (0, 0)]
    iou = polygon_iou(fan, fan)
    inner = (np.abs(points - 50).max() < 45) and (np.abs(centre - 50).max() < 20)
    assert iou.diagonal().tolist() == [1.0] * 30
    if inner:
        assert not iou.fill_diagonal_(0.0).any()
    other = [[[np.array([[0, 0], [7, 3], [9, -5]])]]]
    assert not polygon_iou(halves, other).any()


def test_crowds_are_compared_by_the_area_of_the_detection() -> None:
    half, crowd = [[0, 0], [4, 0], [0, 4]], [[0, 0], [100, 0], [100, 2], [0, 2]]
    iou = polygon_iou([[[half]]], [[[crowd]], [[crowd]]], crowd=torch.tensor([True, False]))
    assert iou.tolist() == [[6 / 8, 6 / (8 + 200 - 6)]]


def test_far_from_zero_nothing_is_lost() -> None:
    rng = np.random.default_rng(14)
    rings = [np.round(star(rng, 12, (0, 0), 20) * 64) / 64 for _ in range(10)]
    near, far = ([[[ring + shift]] for ring in rings] for shift in (0.0, 2.0**40))
    assert torch.equal(polygon_iou(near, near), polygon_iou(far, far))


# --------------------------------------------------------------------------------------------------------------- input


@pytest.mark.parametrize(
    ("first", "crowd", "error", "message"),
    [
        ([[[SQUARE]], [[[[0.0, np.inf]]]]], None, InputError, r"^polygons1\[1\]\[0\]\[0\]\[0\] must be finite"),
        ("x", None, InputTypeError, r"^polygons1 must be"),
        ([], torch.zeros(2, dtype=torch.bool), InputError, r"^crowd must have shape \[1\]"),
        ([], torch.zeros(1), InputError, r"^crowd must have dtype torch.bool"),
        ([], [True], InputTypeError, r"^crowd must be"),
    ],
)  # fmt: skip
def test_bad_input(first: Any, crowd: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        polygon_iou(first, [[[SQUARE]]], crowd=crowd)
