"""Relations of geometries against rational numbers, over grids, where much touches, and over all floats."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import shapely
from shapely.geometry import shape as shaped

from tests.valor.exact_planes import covers, intersects
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.valor.filters.relations import mask_areas, masks_related, plane_of, polygons_of
from valor_gpu.valor.filters.shapes import Plane, PlaneShapes, relate
from valor_gpu.valor.filters.values import read_value
from valor_gpu.valor.geometry import Polygon, fill_rings

KINDS = ("Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon")


def _geometry(generator: np.random.Generator, grid: int) -> Any:
    """A valid geometry of shapely with corners on a grid of 0 to ``grid``, or anywhere."""

    def points(count: int) -> Any:
        return generator.integers(0, grid, (count, 2)).astype(float) if grid else generator.random((count, 2)) * 5

    kinds: Any = [
        lambda: shapely.Point(points(1)[0]),
        lambda: shapely.MultiPoint(points(3)),
        lambda: shapely.LineString(points(3)),
        lambda: shapely.MultiLineString([points(2), points(3)]),
        lambda: shapely.MultiPoint(points(2)).envelope,
        lambda: shapely.Polygon(points(int(generator.integers(3, 8)))),
        lambda: shapely.Polygon(points(4)).difference(shapely.Polygon(points(3))),
        lambda: shapely.Polygon(points(4)).union(shapely.Polygon(points(4))),
    ]
    while True:
        made = kinds[generator.integers(len(kinds))]
        try:
            found = made()
        except shapely.errors.GEOSException:  # operations on crossing rings
            continue
        if found.is_valid and not found.is_empty and found.geom_type in KINDS:
            return found


def _plane(geometry: Any) -> Plane:
    return plane_of("test", read_value("test", shapely.geometry.mapping(geometry)))


@pytest.mark.parametrize("grid", [3, 4, 6, 10, 0])
def test_relations_are_exact(grid: int) -> None:
    generator = np.random.default_rng(grid)
    for _ in range(20):
        wanted, others = _plane(_geometry(generator, grid)), [_plane(_geometry(generator, grid)) for _ in range(8)]
        shapes = PlaneShapes.of(others)
        assert relate("intersects", shapes, wanted).tolist() == [intersects(other, wanted) for other in others]
        assert relate("inside", shapes, wanted).tolist() == [covers(wanted, other) for other in others]


def test_rings_that_cross_overlap_or_repeat_points_count_by_odd_and_even() -> None:
    generator = np.random.default_rng(5)

    def ring() -> Any:
        points = generator.random((int(generator.integers(3, 6)), 2)) * 3
        return np.vstack([points, points[-1:], points[:1]])

    def rings() -> Plane:
        return Plane(np.zeros((0, 2)), [], [[ring() for _ in range(generator.integers(1, 3))] for _ in range(2)])

    for _ in range(30):
        wanted, others = rings(), [rings() for _ in range(4)]
        shapes = PlaneShapes.of(others)
        assert relate("intersects", shapes, wanted).tolist() == [intersects(other, wanted) for other in others]
        assert relate("inside", shapes, wanted).tolist() == [covers(wanted, other) for other in others]


@pytest.mark.parametrize("hole", [[(0, 1), (2, 1), (2, 3), (0, 3), (0, 1)], [(0, 0), (2, 0), (2, 3), (0, 3), (0, 0)]])
def test_a_hole_that_shares_an_edge_is_none_of_the_polygon(hole: list[tuple[float, float]]) -> None:
    goal = Plane(np.zeros((0, 2)), [], [[np.array([(0.0, 0), (5, 0), (5, 5), (0, 5), (0, 0)]), np.array(hole, float)]])
    boxes = np.array(
        [hole, [(1, 1.5), (1.5, 1.5), (1.5, 2), (1, 2), (1, 1.5)], [(3, 1), (4, 1), (4, 2), (3, 2), (3, 1)]], float
    )
    shapes = polygons_of(boxes)
    others = [Plane(np.zeros((0, 2)), [], [[box]]) for box in boxes]
    assert relate("inside", shapes, goal).tolist() == [covers(goal, other) for other in others] == [False, False, True]
    assert relate("intersects", shapes, goal).tolist() == [True, False, True]


def test_an_edge_that_a_ring_has_twice_counts_twice() -> None:
    square = [(0, 0), (5, 0), (5, 5), (0, 5), (0, 0)]
    notched = [*square[:-1], (0, 1), (2, 1), (2, 3), (0, 3), (0, 1), (0, 0)]
    boxes = np.array([(0.5, 1.5), (3, 1), (1.5, 2.5), (0, 3)])[:, None] + np.array(square) / 5
    others = [Plane(np.zeros((0, 2)), [], [[box]]) for box in boxes]
    for ring, inside in ((notched, [False, True, False, True]), (square[:-1] + square, [False] * 4)):
        goal = Plane(np.zeros((0, 2)), [], [[np.array(ring, float)]])
        assert (
            relate("inside", polygons_of(boxes), goal).tolist() == [covers(goal, other) for other in others] == inside
        )
        meeting = [intersects(goal, other) for other in others]
        assert relate("intersects", polygons_of(boxes), goal).tolist() == meeting


def test_a_line_without_length_is_a_point() -> None:
    goal = Plane(np.zeros((0, 2)), [np.array([(1.0, 2), (0, 1)])], [])
    lines = PlaneShapes.of([Plane(np.zeros((0, 2)), [np.array([at, at])], []) for at in ((0.0, 2.0), (0.5, 1.5))])
    assert relate("inside", lines, goal).tolist() == relate("intersects", lines, goal).tolist() == [False, True]


def test_without_shapely_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shapely", None)
    box = np.array([[(0.0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]])
    with pytest.raises(MissingExtraError, match=r"a filter by where .* needs shapely: pip install 'valor_gpu\[geo\]'"):
        relate("inside", polygons_of(box), Plane(np.zeros((1, 2)), [], []))
    assert polygons_of(box).areas().tolist() == [1.0]


SQUARE = [(0, 0), (6, 0), (6, 6), (0, 6), (0, 0)]
HOLE = [(2, 2), (4, 2), (4, 4), (2, 4), (2, 2)]


@pytest.mark.parametrize(
    ("geometry", "inside", "intersects"),
    [
        ({"type": "Polygon", "coordinates": [HOLE]}, False, True),  # fills the hole: the boundary is common
        ({"type": "LineString", "coordinates": HOLE}, True, True),
        ({"type": "Point", "coordinates": (2, 2)}, True, True),
        ({"type": "Point", "coordinates": (3, 3)}, False, False),
        ({"type": "Polygon", "coordinates": [SQUARE, HOLE]}, True, True),
        ({"type": "Polygon", "coordinates": [SQUARE]}, False, True),
        ({"type": "Polygon", "coordinates": [[(0, 0), (2, 0), (2, 6), (0, 6), (0, 0)]]}, True, True),
        ({"type": "Polygon", "coordinates": [[(6, 0), (9, 0), (9, 6), (6, 6), (6, 0)]]}, False, True),
        ({"type": "Polygon", "coordinates": [[(2, 2), (4, 4), (2, 2), (2, 2)]]}, False, True),  # no area: a line
        ({"type": "Polygon", "coordinates": [[(1, 1), (1, 5), (1, 1), (1, 1)]]}, True, True),
    ],
)
def test_a_square_with_a_hole(geometry: dict[str, Any], inside: bool, intersects: bool) -> None:
    goal = _plane(shaped({"type": "Polygon", "coordinates": [SQUARE, HOLE]}))
    shapes = PlaneShapes.of([plane_of("test", read_value("test", geometry))])
    assert relate("inside", shapes, goal).tolist() == [inside]
    assert relate("intersects", shapes, goal).tolist() == [intersects]


def test_a_shape_over_two_parts_is_inside_their_union() -> None:
    halves = {"type": "MultiPolygon", "coordinates": [
        [[(0, 0), (3, 0), (3, 6), (0, 6), (0, 0)]], [[(3, 0), (6, 0), (6, 6), (3, 6), (3, 0)]],
    ]}  # fmt: skip
    boxes = np.array([[(1, 1), (5, 1), (5, 5), (1, 5), (1, 1)], [(1, 1), (7, 1), (7, 5), (1, 5), (1, 1)]], float)
    goal = plane_of("test", read_value("test", halves))
    assert relate("inside", polygons_of(boxes), goal).tolist() == [True, False]


def test_a_star_that_winds_twice_is_not_convex() -> None:
    angles = np.arange(6) * 4 * np.pi / 5
    star = np.stack([np.cos(angles), np.sin(angles)], 1)
    star[5] = star[0]
    middle = np.array([[(-0.1, -0.1), (0.1, -0.1), (0.1, 0.1), (-0.1, 0.1), (-0.1, -0.1)]])
    goal = Plane(np.zeros((0, 2)), [], [[star]])
    assert not relate("inside", polygons_of(middle), goal).any()  # an even number of rings round it
    assert not relate("intersects", polygons_of(middle), goal).any()


@pytest.mark.parametrize("scale", [2.0**-1070, 2.0**-300, 2.0**300])
def test_huge_and_tiny_coordinates(scale: float) -> None:
    boxes = np.array([[(0, 0), (2, 0), (2, 2), (0, 2), (0, 0)], [(4, 4), (5, 4), (5, 5), (4, 5), (4, 4)]]) * scale
    for height, inside in ((7, True), (6, True), (5, False)):  # (2, 2) lies on the side of the one of height 6
        goal = Plane(np.zeros((0, 2)), [], [[np.array([(0, 0), (3, 0), (0, height), (0, 0)]) * scale]])
        flat = scale < 1e-100  # all of it is the point 0
        assert relate("intersects", polygons_of(boxes), goal).tolist() == [True, flat]
        assert relate("inside", polygons_of(boxes[:, ::-1]), goal).tolist() == [inside or flat, flat]


def test_a_coordinate_beyond_1e100_is_refused() -> None:
    box = np.array([[(0.0, 0), (2e100, 0), (1, 1), (0, 1), (0, 0)]])
    with pytest.raises(InputError, match=r"must be at most 1e100 but are 2e\+100"):
        relate("intersects", polygons_of(box), Plane(np.zeros((1, 2)), [], []))


def test_masks_count_pixels() -> None:
    from valor_gpu.ops.runs.cpu import from_masks
    from valor_gpu.ops.runs.op import Runs

    generator = np.random.default_rng(5)
    masks = [generator.random(size) < 0.3 for size in [(6, 8)] * 12 + [(5, 5)] * 12] + [np.zeros((4, 4), np.bool_)]
    runs = Runs.join([from_masks(mask[None]) for mask in masks])
    assert mask_areas(runs).tolist() == [int(mask.sum()) for mask in masks]
    rings = [[(1.2, 0.4), (7.9, 1.0), (3.1, 5.5), (1.2, 0.4)], [(2, 1), (4, 1), (3, 3), (2, 1)]]
    goal = plane_of("test", Polygon(rings))
    for op, expected in {
        "intersects": lambda mask, inside: bool((mask & inside).any()),
        "inside": lambda mask, inside: bool(mask.any() and not (mask & ~inside).any()),
        "outside": lambda mask, inside: not (mask & inside).any(),
    }.items():
        some = [mask & fill_rings(rings, *mask.shape) if row % 3 else mask for row, mask in enumerate(masks)]
        chosen = Runs.join([from_masks(mask[None]) for mask in some])
        wanted = [expected(mask, fill_rings(rings, *mask.shape)) for mask in some]
        assert masks_related(op, chosen, goal).tolist() == wanted


def test_points_and_lines_touch_the_squares_of_pixels() -> None:
    from valor_gpu.ops.runs.cpu import from_masks

    mask = np.zeros((4, 6), np.bool_)
    mask[1, 2] = mask[3, 5] = True
    for geometry in (
        {"type": "Point", "coordinates": (2.5, 1.5)},
        {"type": "Point", "coordinates": (3, 2)},  # the corner of the pixel
        {"type": "LineString", "coordinates": [(-5, 4), (20, 4)]},  # the lower edge of the last row
        {"type": "MultiPoint", "coordinates": [(0.5, 0.5), (5.1, 3.9)]},
    ):
        goal = plane_of("test", read_value("test", geometry))
        assert masks_related("intersects", from_masks(mask[None]), goal).all(), geometry
    goal = plane_of("test", read_value("test", {"type": "LineString", "coordinates": [(-5, -1), (3.9, 0.9), (4.9, 3)]}))
    assert masks_related("outside", from_masks(mask[None]), goal).all()


def test_areas_equal_shapely() -> None:
    generator = np.random.default_rng(11)
    found = [_geometry(generator, 8) for _ in range(200)]
    areas = PlaneShapes.of(list(map(_plane, found))).areas()
    assert areas.tolist() == pytest.approx([geometry.area for geometry in found], rel=1e-12)


def test_areas_of_unions_and_crossings() -> None:
    square = [(0, 0), (4, 0), (4, 4), (0, 4), (0, 0)]
    shapes = [
        {"type": "MultiPolygon", "coordinates": [[square], [[(x + 2, y) for x, y in square]]]},
        {"type": "Polygon", "coordinates": [[(0, 0), (2, 2), (2, 0), (0, 2), (0, 0)]]},
        {"type": "LineString", "coordinates": square},
        {"type": "Polygon", "coordinates": [square, HOLE]},
    ]
    planes = PlaneShapes.of([plane_of("test", read_value("test", shape)) for shape in shapes])
    assert planes.areas().tolist() == [24, 2, 0, 12]
