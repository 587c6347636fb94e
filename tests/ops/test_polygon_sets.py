"""Signed edges of polygons: C++ makes what the rational definition makes, and their areas are those of shapely."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from testing.examples_polygon_iou import random_item, random_set, star
from testing.growth import FACTOR, growth
from tests.fuzz import seeds, seeds_with_smoke
from valor_gpu import native as native_library
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.ops.polygon_sets import op as polygon_sets
from valor_gpu.ops.polygon_sets import reference as definition
from valor_gpu.ops.polygon_sets.op import PolygonSet
from valor_gpu.ops.polygons.cpu import ends_of

SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4]]
HOLE = [[1, 1], [1, 3], [3, 3], [3, 1]]


def by_definition(items: list[Any]) -> tuple[NDArray[Any], ...]:
    rings, polygons, counts = polygon_sets._flatten(items, "polygons")
    points = np.concatenate([np.zeros((0, 2)), *rings])
    made = definition.make_set(points, ends_of([len(ring) for ring in rings]), ends_of(polygons), ends_of(counts))
    assert not isinstance(made, int)
    return made


def check(items: list[Any]) -> PolygonSet:
    """C++ gives the edges of the definition; the low halves of slopes and areas differ in their last bits."""
    got, expected = PolygonSet.of(items), by_definition(items)
    assert got.offsets.tolist() == expected[1].tolist() and got.hashes.tolist() == expected[3].tolist()
    for array, wanted, low in ((got.edges, expected[0], 3), (got.shapes, expected[2], 1)):
        assert array.shape == wanted.shape
        differ = array != wanted
        near = np.abs(array[:, low] - wanted[:, low]) <= 1e-29 * np.maximum(1, np.abs(array[:, low - 1])).clip(max=1e9)
        assert not differ[near].any(0)[[c for c in range(differ.shape[1]) if c != low]].any(), array[differ.any(1)]
        assert near.all()
    return got


def even_odd_area(item: list[Any]) -> float:
    """The faces of all segments, each by whether a point of it is inside."""
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    rings = [np.asarray(ring, float).tolist() for polygon in item for ring in polygon]
    lines = shapely.union_all([shapely.LineString([*ring, ring[0]]) for ring in rings if len(ring) > 1])
    total = 0.0
    for face in shapely.polygonize([*shapely.get_parts(lines)]).geoms:
        x, y = face.representative_point().coords[0]
        total += face.area * any(sum(crosses(ring, x, y) for ring in polygon) % 2 for polygon in item)
    return total


def crosses(ring: Any, x: float, y: float) -> int:
    """How many edges of a ring are to the right of a point."""
    points = np.asarray(ring, float).tolist()
    return sum(
        x < ax + (y - ay) / (by - ay) * (bx - ax)
        for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1])
        if (ay > y) != (by > y)
    )


def scribbles(rng: np.random.Generator, count: int, points: int, grid: int) -> list[Any]:
    """Items of up to 3 polygons of up to 2 rings that cross, touch and repeat points of a small grid."""
    return [
        [
            [np.round(rng.random((points, 2)) * grid).tolist() for _ in range(rng.integers(1, 3))]
            for _ in range(rng.integers(1, 4))
        ]
        for _ in range(count)
    ]


# -------------------------------------------------------------------------------------------------------------- areas


@pytest.mark.parametrize("seed", seeds_with_smoke(3))
def test_equals_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = [random_item(rng, 20.0) for _ in range(12)]
    for points, grid in ((3, 3), (4, 4), (6, 5), (8, 3)):
        items += scribbles(rng, 6, points, grid)
    check(items)


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("points", [3, 5, 8, 20, 50])
def test_equals_the_faces_of_shapely(points: int, seed: int) -> None:
    rng = np.random.default_rng([seed, points])
    for grid in (3, 6, 10):
        items = scribbles(rng, 10 if points < 50 else 2, points, grid)
        items += [[[rng.random((points, 2)) * grid]] for _ in range(2)]
        areas = PolygonSet.of(items).areas
        assert areas == pytest.approx([even_odd_area(item) for item in items], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("seed", seeds(3))
def test_areas_of_plain_rings_are_exact(seed: int) -> None:
    """The double nearest to the sum of rational numbers."""
    rng = np.random.default_rng(seed)
    rings = [star(rng, int(rng.integers(3, 80)), rng.random(2) * 1e4, 30) for _ in range(40)]
    for ring, area in zip(rings, PolygonSet.of([[[ring]] for ring in rings]).areas.tolist()):
        points = [tuple(map(Fraction, point)) for point in ring.tolist()]
        twice = sum((ax * by - ay * bx for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1])), Fraction(0))
        assert area == float(abs(twice) / 2)


HAND_MADE: dict[str, tuple[Any, float | None]] = {
    "hole": ([[SQUARE, HOLE]], 12.0),
    "hole that runs the same way": ([[SQUARE, HOLE[::-1]]], 12.0),
    "polygon inside another": ([[SQUARE], [HOLE]], 16.0),
    "hole, and an island in it": ([[SQUARE, HOLE], [[[1.5, 1.5], [2.5, 1.5], [2.5, 2.5], [1.5, 2.5]]]], 13.0),
    "island in one polygon": ([[SQUARE, HOLE, [[1.5, 1.5], [2.5, 1.5], [2.5, 2.5], [1.5, 2.5]]]], 13.0),
    "bow tie": ([[[[0, 0], [2, 2], [2, 0], [0, 2]]]], 2.0),
    "bow tie through a corner": ([[[[0, 0], [1, 1], [2, 0], [2, 2], [1, 1], [0, 2]]]], 2.0),
    "ring gone round twice": ([[[*SQUARE, *SQUARE]]], 0.0),
    "loop gone round twice": ([[[[0, 0], [3, 0], [3, 3], [0, 3], [0, 0], [1, 0], [1, 1], [0, 1]]]], 8.0),
    "the same polygon twice": ([[SQUARE], [SQUARE]], 16.0),
    "the same ring twice": ([[SQUARE, SQUARE]], 0.0),
    "neighbours with a common edge": ([[SQUARE], [[[4, 0], [8, 0], [8, 4], [4, 4]]]], 32.0),
    "two that overlap": ([[SQUARE], [[[2, 2], [6, 2], [6, 6], [2, 6]]]], 28.0),
    "two rings that overlap": ([[SQUARE, [[2, 2], [6, 2], [6, 6], [2, 6]]]], 24.0),
    "spike": ([[[[0, 0], [4, 0], [9, 0], [4, 0], [4, 4], [0, 4]]]], 16.0),
    "upright spike": ([[[[0, 0], [4, 0], [4, 4], [4, 9], [4, 4], [0, 4]]]], 16.0),
    "closed": ([[[*SQUARE, SQUARE[0]]]], 16.0),
    "points repeated": ([[[point for point in SQUARE for _ in range(3)]]], 16.0),
    "corner on an upright edge": ([[[[0, 0], [2, 0], [2, 4], [0, 4], [2, 2]]]], 4.0),
    "tooth that reaches an upright edge": ([[[[4, 0], [4, 4], [0, 4], [4, 2], [0, 0]]]], 8.0),
    "pentagram": ([[[[0, 3], [6, 3], [1, 6], [3, 0], [5, 6]]]], None),
    "a point": ([[[[1, 1], [1, 1], [1, 1]]]], 0.0),
    "a line": ([[[[0, 0], [1, 1], [3, 3], [2, 2]]]], 0.0),
    "an upright line": ([[[[0, 0], [0, 3], [0, 1]]]], 0.0),
    "two points": ([[[[0, 0], [1, 5]]]], 0.0),
    "no point": ([[[]]], 0.0),
    "no ring": ([[]], 0.0),
    "no polygon": ([], 0.0),
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_hand_made(name: str) -> None:
    """In all four directions: what is upright becomes level."""
    item, area = HAND_MADE[name]
    wanted = even_odd_area(item) if area is None else area
    turns: list[Callable[[float, float], list[float]]] = [
        lambda x, y: [x, y], lambda x, y: [y, x], lambda x, y: [-x, y], lambda x, y: [-y, x + 0.5 * y],
    ]  # fmt: skip
    turned = [[[[turn(x, y) for x, y in ring] for ring in polygon] for polygon in item] for turn in turns]
    assert check(turned).areas.tolist() == pytest.approx([wanted] * 4, rel=1e-15, abs=0)


def test_bounds_and_boxes() -> None:
    made = PolygonSet.of(
        [[[SQUARE]], [[SQUARE, HOLE]], [[HOLE]], [[[[0, 0], [8, 0], [8, 4], [8, 9], [8, 4], [0, 4]]]], []]
    )
    assert made.bounds.tolist() == [[0, 0, 4, 4], [0, 0, 4, 4], [1, 1, 3, 3], [0, 0, 8, 4], [0, 0, 0, 0]]
    assert made.shapes[:, 8].tolist() == [1, 0, 1, 1, 0]


# ------------------------------------------------------------------------------------------------------- hard numbers


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1e-80, 1e80, 1e160, 1e300, 2e307])
def test_any_scale(scale: float) -> None:
    """Powers of two move nothing but the exponent; areas beyond float64 are infinite or 0."""
    power = 2.0 ** np.round(np.log2(scale))
    items = [[[SQUARE, HOLE]], [[[[0, 0], [2, 2], [2, 0], [0, 2]]]], [[[[0, 0], [1, 1], [2, 2]]]]]
    grown = [[[(np.array(ring) * power).tolist() for ring in polygon] for polygon in item] for item in items]
    made = check(grown)
    with np.errstate(all="ignore"):
        assert made.areas.tolist() == [12 * power * power, 2 * power * power, 0.0]


@pytest.mark.parametrize("seed", seeds(5))
def test_any_mixture_of_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [0.0, -0.0, 1.0, 2.0, 3.0, 5e-324, 1e-300, 1e-160, 1e-8, 1e8, 1e154, 1e300, -1e300, 1.7e308, -1.7e308]
    items = [[[rng.choice(values, (int(rng.integers(1, 9)), 2))]] for _ in range(200)]
    made = PolygonSet.of(items)
    assert not np.isnan(made.shapes).any() and not np.isnan(made.edges).any()
    assert (made.shapes[:, 0] >= 0).all() and (made.areas >= 0).all()


@pytest.mark.parametrize("seed", seeds(3))
def test_edges_that_nearly_coincide(seed: int) -> None:
    """Copies moved by a few units in the last place: the union is one of them, the parity next to nothing."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        ring = star(rng, int(rng.integers(3, 30)), rng.random(2) * 10, 5)
        moved = ring + rng.integers(-2, 3, ring.shape) * np.spacing(ring)
        union, parity, one = PolygonSet.of([[[ring], [moved]], [[ring, moved]], [[ring]]]).areas
        assert union == pytest.approx(one, rel=1e-13)
        assert 0 <= parity <= 1e-13 * one


# Work grows with the points times the edges that cross one horizontal line, which in two kinds are half of all.
KINDS = {"circle": 1, "comb": 1, "spiral": 1, "overlapping circles": 1, "upright comb": 2, "triangles": 2}


@pytest.mark.parametrize(("kind", "power"), KINDS.items())
def test_work_grows_with_the_points(kind: str, power: int) -> None:
    rings = {n: rings_of(kind, n) for n in (2_500, 2_500 * FACTOR)}
    assert growth(lambda n: PolygonSet.of([rings[n]]).areas[0], 2_500) < 3 * FACTOR**power
    assert PolygonSet.of([rings[2_500]]).areas[0] > 0


def rings_of(kind: str, n: int) -> list[list[np.ndarray]]:
    step = np.arange(n) / n
    circle = np.stack((np.cos(2 * np.pi * step), np.sin(2 * np.pi * step)), 1) * 100
    comb = np.stack((np.arange(n) // 2 * 1.0, np.arange(n) // 2 % 2 * 1000.0), 1)
    comb[-1] = [n / 2, -5.0]
    arm = 1 + 40 * step
    spiral = np.stack((np.cos(100 * np.pi * step), np.sin(100 * np.pi * step)), 1) * arm[:, None]
    return {
        "circle": [[circle]],
        "comb": [[comb]],
        "upright comb": [[comb[:, ::-1]]],
        "spiral": [[np.concatenate((spiral, spiral[::-1] * 1.001))]],
        "triangles": [[circle[i : i + 3]] for i in range(0, n, 3)],
        "overlapping circles": [[circle[: n // 2]], [circle[: n // 2] + 3]],
    }[kind]


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_thousands_of_parts_that_touch_take_little_memory() -> None:
    program = """
import numpy as np
from valor_gpu.ops.polygon_sets.op import PolygonSet
square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
parts = [[square + [x, y]] for x in range(250) for y in range(x % 2, 250, 2)]
print(PolygonSet.of([parts]).areas[0])
print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    area, peak = done.stdout.split()
    assert float(area) == 31_250
    assert int(peak) < 400  # MB; a bit for each part in each segment would take 1,000


def test_too_many_meetings_are_an_error() -> None:
    ring = np.random.default_rng(0).random((4500, 2))
    with pytest.raises(InputError, match=r"polygons\[1\] must have edges that meet in at most 4194304 places"):
        PolygonSet.of([[], [[ring]]])


# ------------------------------------------------------------------------------------------------------ sets and input


def test_take_and_join() -> None:
    made = random_set(20, 3)
    rows = [4, -1, 4, 0]
    parts = [made.take([row]) for row in rows]
    for got in (made.take(rows), PolygonSet.join(parts), made.take(np.array(rows))):
        assert got.areas.tolist() == made.areas[rows].tolist() and got.hashes.tolist() == made.hashes[rows].tolist()
        assert [e.tolist() for e in np.split(got.edges, got.offsets[1:-1])] == [
            made.edges[made.offsets[r] : made.offsets[r + 1]].tolist() for r in np.arange(20)[rows]
        ]
    assert len(made.take([])) == len(PolygonSet.join([])) == 0
    assert len(made.take(made.areas > 0)) == int((made.areas > 0).sum())


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        (5, InputTypeError, r"^polygons must be list or tuple"),
        ([3], InputTypeError, r"^polygons\[0\] must be list or tuple"),
        ([[], [[SQUARE], 7]], InputTypeError, r"^polygons\[1\]\[1\] must be list or tuple"),
        ([[SQUARE]], InputError, r"^polygons\[0\]\[0\]\[0\] must be points \[\[x, y\], ...\] but has shape \[2\]"),
        ([[[[1, 2, 3]]]], InputError, r"^polygons\[0\]\[0\]\[0\] must be points \[\[x, y\], ...\] but has shape \[3\]"),
        ([[[["a", "b"]]]], InputError, r"^polygons\[0\]\[0\]\[0\] must be points \[\[x, y\], ...\] but cannot be read"),
        ([[], [[SQUARE, [[0, 0], [1, np.nan]]]]], InputError, r"^polygons\[1\]\[0\]\[1\]\[1\] must be finite but is"),
        ([[[[[np.inf, 1]]]]], InputError, r"^polygons\[0\]\[0\]\[0\]\[0\] must be finite but is \(inf, 1.0\)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("native", [True, False])
def test_bad_input_names_the_item(
    items: Any, error: type[Exception], message: str, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(native_library, "usable", lambda name: False)
    with pytest.raises(error, match=message):
        PolygonSet.of(items)


def test_the_first_bad_item_is_named() -> None:
    items: list[Any] = [[[SQUARE]] for _ in range(2000)]
    for bad in (1700, 900):
        items[bad] = [[[[0.0, np.nan]]]]
    with pytest.raises(InputError, match=r"polygons\[900\]"):
        PolygonSet.of(items)
