"""Relations of geometries against shapely, over grids, where much touches, and over all floats."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import shapely
from shapely.geometry import shape as shaped

from valor_gpu.valor.filters.planar import PlaneShapes, orientations, relate
from valor_gpu.valor.filters.relations import mask_areas, masks_related, plane_of, polygons_of
from valor_gpu.valor.filters.slabs import Plane, covers
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
def test_relations_equal_shapely(grid: int) -> None:
    generator = np.random.default_rng(grid)
    for _ in range(60):
        wanted, others = _geometry(generator, grid), [_geometry(generator, grid) for _ in range(25)]
        shapes, goal = PlaneShapes.of(list(map(_plane, others))), _plane(wanted)
        assert relate("intersects", shapes, goal).tolist() == [other.intersects(wanted) for other in others]
        assert relate("inside", shapes, goal).tolist() == [wanted.covers(other) for other in others]


def test_slabs_decide_alone() -> None:
    generator = np.random.default_rng(7)
    for grid in (3, 5, 8) * 40:
        whole, part = _geometry(generator, grid), _geometry(generator, grid)
        assert covers(_plane(whole), _plane(part)) == whole.covers(part), (whole.wkt, part.wkt)


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


def test_orientations_are_exact() -> None:
    generator = np.random.default_rng(0)
    steps = 0.5 + generator.integers(-3, 4, (2, 3, 4000)) * 2.0**-53
    steps[:, :, ::2] *= 2.0 ** generator.integers(-300, 300, (2, 1, 2000))
    a, b, c = steps.transpose(1, 0, 2)
    exact = []
    for corners in np.concatenate([a, b, c]).T.tolist():
        ax, ay, bx, by, cx, cy = map(Fraction, corners)
        exact.append(np.sign((ax - cx) * (by - cy) - (ay - cy) * (bx - cx)))
    assert orientations(a, b, c).tolist() == exact
    assert set(exact) == {-1, 0, 1}


def test_huge_and_tiny_coordinates() -> None:
    for scale in (2.0**-1070, 2.0**-540, 2.0**500, 2.0**1000):
        boxes = np.array([[(0, 0), (2, 0), (2, 2), (0, 2), (0, 0)], [(4, 4), (5, 4), (5, 5), (4, 5), (4, 4)]]) * scale
        for height, inside in ((7, True), (6, True), (5, False)):  # (2, 2) lies on the side of the one of height 6
            goal = Plane(np.zeros((0, 2)), [], [[np.array([(0, 0), (3, 0), (0, height), (0, 0)]) * scale]])
            assert relate("intersects", polygons_of(boxes), goal).tolist() == [True, False]
            assert relate("inside", polygons_of(boxes[:, ::-1]), goal).tolist() == [inside, False]


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
