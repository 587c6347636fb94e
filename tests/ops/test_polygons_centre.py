"""Rule centre: pixels are those whose centre is inside, and polygons that tile the plane tile the pixels."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.fuzz import seeds
from valor_gpu.ops.polygons.cpu import join_rings, rasterise
from valor_gpu.ops.runs.op import Runs

Grid = NDArray[np.bool_]


def grids(runs: Runs) -> list[Grid]:
    """bool ``[H, W]`` of each mask."""
    found = []
    for first, end, (height, width) in zip(runs.offsets, runs.offsets[1:], runs.sizes.tolist()):
        counts = runs.counts[first:end]
        found.append(np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height).T)
    return found


def fill(polygons: list[list[Any]], height: int, width: int) -> list[Grid]:
    return grids(rasterise(*join_rings(polygons), [[height, width]] * len(polygons), "centre"))


def even_odd(rings: list[Any], height: int, width: int) -> Grid:
    """Even-odd in exact arithmetic, one pixel after another: how many edges lie above its moved centre."""
    inside = np.zeros((height, width), bool)
    edges = []
    for ring in rings:
        points = [(Fraction(float(x)), Fraction(float(y))) for x, y in np.reshape(ring, (-1, 2))]
        edges += list(zip(points, [*points[1:], points[0]]))
    half = Fraction(1, 2)
    for column, row in np.ndindex(width, height):
        x, y = column + half, row + half
        for a, b in edges:
            (x0, y0), (x1, y1) = sorted((a, b), key=lambda point: point[0])
            if x0 <= x < x1 and y0 + (x - x0) * (y1 - y0) / (x1 - x0) <= y:
                inside[row, column] ^= True
    return inside


@pytest.mark.smoke
def test_a_square_has_the_pixels_whose_centres_it_holds() -> None:
    [square, shifted] = fill([[[1, 1, 3, 1, 3, 3, 1, 3]], [[1.5, 0.5, 3.5, 0.5, 3.5, 2.5, 1.5, 2.5]]], 4, 5)
    assert np.argwhere(square).tolist() == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert np.argwhere(shifted).tolist() == [[0, 1], [0, 2], [1, 1], [1, 2]]  # left and upper edges belong to it


def test_rings_inside_others_are_holes() -> None:
    outer, hole, island = [0, 0, 9, 0, 9, 9, 0, 9], [2, 2, 7, 2, 7, 7, 2, 7], [4, 4, 5, 4, 5, 5]
    expected = np.ones((9, 9), bool)
    expected[2:7, 2:7] = False
    assert np.array_equal(fill([[outer, hole]], 9, 9)[0], expected)
    [ringed] = fill([[outer, hole, [x - 0.01 if i % 2 == 0 else x + 0.01 for i, x in enumerate(island)]]], 9, 9)
    assert ringed.sum() - expected.sum() == 1 and ringed[4, 4]


@pytest.mark.parametrize("seed", seeds(3))
def test_centres_on_edges_follow_the_stated_rule(seed: int) -> None:
    """Vertices on halves of pixels: many centres lie on edges and vertices."""
    rng = np.random.default_rng([seed, 3])
    for _ in range(12):
        height, width = (int(n) for n in rng.integers(1, 9, 2))
        rings = [
            rng.integers(-2, 2 * max(height, width) + 3, (int(rng.integers(3, 8)), 2)) / 2
            for _ in range(int(rng.integers(1, 4)))
        ]
        assert np.array_equal(fill([rings], height, width)[0], even_odd(rings, height, width))


@pytest.mark.parametrize("seed", seeds(3))
def test_equals_shapely(seed: int) -> None:
    """Even-odd over stars, which may hold and cross one another."""
    shapely = pytest.importorskip("shapely")
    rng = np.random.default_rng([seed, 4])
    height, width = 70, 90
    rows, columns = np.mgrid[:height, :width] + 0.5
    areas = []
    for _ in range(6):
        rings, expected = [], np.zeros((height, width), bool)
        for _ in range(int(rng.integers(1, 6))):
            angles = np.sort(rng.random(int(rng.integers(3, 30)))) * 2 * np.pi
            rays = np.stack((np.cos(angles), np.sin(angles)), 1) * rng.uniform(3, 50, (len(angles), 1))
            rings.append(rays + rng.uniform(-10, 90, 2))
            star = shapely.Polygon(rings[-1])
            if not star.is_valid:  # its centre is not inside
                rings.pop()
                continue
            expected ^= shapely.contains_xy(star, columns, rows)
        assert np.array_equal(fill([rings], height, width)[0], expected)
        areas.append(expected.sum())
    assert min(areas) > 50


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("step", [0.5, 0.2, 0.0])
def test_polygons_that_share_edges_share_no_pixel_and_lose_none(seed: int, step: float) -> None:
    rng = np.random.default_rng([seed, 5])
    size = 6.0
    points = np.stack(np.meshgrid(np.arange(9) * size, np.arange(7) * size, indexing="ij"), 2)
    points += rng.uniform(-1.4, 1.4, points.shape)
    if step:
        points = np.round(points / step) * step
    points[[0, -1], :, 0] += [[-2], [2]]
    points[:, [0, -1], 1] += [-2, 2]
    tiles: list[list[Any]] = []
    for i, j in np.ndindex(8, 6):
        a, b, c, d = points[i, j], points[i + 1, j], points[i + 1, j + 1], points[i, j + 1]
        tiles += [[[a, b, c]], [[c, d, a]]] if rng.random() < 0.5 else [[[d, b, a]], [[b, c, d]]]
    assert np.array_equal(np.sum(fill(tiles, 36, 48), 0), np.ones((36, 48)))


def test_direction_and_first_vertex_do_not_matter() -> None:
    rng = np.random.default_rng(8)
    ring = rng.uniform(-5, 30, (11, 2))
    first, *others = fill([[ring], [ring[::-1]], [np.roll(ring, 4, 0)], [ring, ring, ring]], 25, 25)
    assert first.any() and all(np.array_equal(first, other) for other in others)
