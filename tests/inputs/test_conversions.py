"""Boxes, polygons and rasters made of one another, against recorded cases of Valor's engines and shapely."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.valor import cases
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs import polygon_to_box, raster_to_box, raster_to_polygon, to_raster
from valor_gpu.inputs.conversions import rasters_of
from valor_gpu.inputs.mask_outlines import hulls_of, outlines_of
from valor_gpu.inputs.outlines import Outlines
from valor_gpu.ops.runs import cpu as codec
from valor_gpu.ops.runs.op import Runs

CASES = cases.read("geometry_cases")
GEOMETRIES, MASKS = CASES["inputs"]["geometries"], CASES["inputs"]["masks"]
SIZE = CASES["inputs"]["height"], CASES["inputs"]["width"]
API, CORE = CASES["expected"]["api"], CASES["expected"]["core"]
RASTERISED = {
    "box_half_pixels": "the server rounds coordinates to whole pixels first",
    "diamond": "the server gives a pixel whose centre lies on an edge to the right of a shape, not to the left",
    "rotated_box_30deg": "the server rounds coordinates to whole pixels first",
    "clipped_box": "the server's raster grows with the geometry; the pixels inside the image are ours",
}
"""Rasters of Valor's server that differ from ours, and why."""


def dense(mask: dict[str, Any]) -> NDArray[np.bool_]:
    counts = mask["rle_row_major"]
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape(mask["shape"])


def points(text: str) -> set[tuple[float, ...]]:
    """The corners of a polygon of one ring in well-known text."""
    return {tuple(map(float, point.split())) for point in text.removeprefix("POLYGON((").removesuffix("))").split(",")}


def area(ring: list[list[float]]) -> float:
    """Positive where the ring runs clockwise as seen in the image."""
    return sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in itertools.pairwise(ring)) / 2


@pytest.mark.parametrize("name", GEOMETRIES)
def test_rasters_are_those_of_the_server(name: str) -> None:
    ours, theirs = to_raster(GEOMETRIES[name]["rings"], SIZE), dense(API["rasterize"][name])
    if name == "clipped_box":
        theirs = theirs[: SIZE[0], : SIZE[1]]
    assert np.array_equal(ours, theirs) == (name == "clipped_box" or name not in RASTERISED)


@pytest.mark.parametrize("name", sorted(GEOMETRIES.keys() - {"box_half_pixels", "polygon_with_hole", "diamond",
                                                            "rotated_box_30deg"}))  # fmt: skip
def test_rasters_of_whole_pixels_are_those_of_pycocotools(name: str) -> None:
    theirs = dense(CASES["expected"]["coco"]["rasterize"][name])
    assert np.array_equal(to_raster(GEOMETRIES[name]["rings"], SIZE), theirs)


@pytest.mark.parametrize("name", MASKS)
def test_boxes_of_rasters_are_those_of_both_engines(name: str) -> None:
    xmin, ymin, xmax, ymax = raster_to_box(dense(MASKS[name]))
    assert [xmin, xmax, ymin, ymax] == CORE["from_mask"][name]["box"]
    assert points(API["from_mask"][name]["box"]) == {(xmin, ymin), (xmin, ymax), (xmax, ymax), (xmax, ymin)}


@pytest.mark.parametrize("name", MASKS)
def test_hulls_are_those_of_the_server(name: str) -> None:
    theirs = API["from_mask"][name]["polygon"]
    if theirs is None:  # the server raises an error too
        with pytest.raises(InputError, match="mask must have pixels in several rows and columns for the hull"):
            raster_to_polygon(dense(MASKS[name]), "hull")
        return
    ((ring,),) = raster_to_polygon(dense(MASKS[name]), "hull")
    assert set(map(tuple, ring)) == points(theirs)
    assert area(ring) == API["from_mask"][name]["polygon_area"]


@pytest.mark.parametrize("name", API["polygon_to_box"])
def test_boxes_of_polygons_are_those_of_both_engines(name: str) -> None:
    xmin, ymin, xmax, ymax = polygon_to_box(GEOMETRIES[name]["rings"])
    assert [xmin, xmax, ymin, ymax] == CORE["polygon_to_box"][name]
    assert points(API["polygon_to_box"][name]) == {(xmin, ymin), (xmin, ymax), (xmax, ymax), (xmax, ymin)}


@pytest.mark.parametrize("name", MASKS)
def test_outlines_have_the_area_of_their_pixels(name: str) -> None:
    polygons = raster_to_polygon(dense(MASKS[name]))
    assert sum(area(ring) for polygon in polygons for ring in polygon) == API["from_mask"][name]["pixels"]
    assert np.array_equal(to_raster(polygons, SIZE), dense(MASKS[name]))


def noise(seed: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng(seed)
    shape = rng.integers(0, 4), *rng.integers(1, 9, 2)
    return rng.random(shape) < rng.choice([0.1, 0.5, 0.8, 1, 0])


@pytest.mark.parametrize("seed", range(60))
def test_outlines_of_noise_are_valid_polygons(seed: int) -> None:
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    masks = noise(seed)
    outlines = outlines_of(codec.from_masks(masks))
    assert outlines.num_shapes == len(masks)
    for row, mask in enumerate(masks):
        polygons = outlines.listed(row)
        assert all(area(boundary) > 0 for boundary, *_ in polygons)
        assert all(area(hole) < 0 for _, *holes in polygons for hole in holes)
        whole = shapely.MultiPolygon([shapely.Polygon(boundary, holes) for boundary, *holes in polygons])
        assert whole.is_valid
        assert whole.area == mask.sum()
        back = rasters_of(outlines.take(np.array([row])), [mask.shape]) if polygons else codec.from_masks(mask[None])
        assert np.array_equal(codec.to_masks(back)[0], mask)


@pytest.mark.parametrize("seed", range(20))
def test_hulls_of_noise_are_those_of_shapely(seed: int) -> None:
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    masks = noise(seed)
    outlines = hulls_of(codec.from_masks(masks))
    for row, mask in enumerate(masks):
        rows, columns = np.nonzero(mask)
        theirs = shapely.MultiPoint(list(zip(columns, rows))).convex_hull
        rings = [ring for (ring,) in outlines.listed(row)]
        assert sum(map(area, rings)) == theirs.area
        assert {tuple(point) for ring in rings for point in ring} == set(map(tuple, shapely.get_coordinates(theirs)))


def test_runs_with_nothing_between_them_are_one() -> None:
    parts = Runs(np.array([1, 2, 0, 3, 3], np.int32), np.array([0, 5]), np.array([[3, 3]], np.int32))
    whole = codec.from_masks(codec.to_masks(parts))
    assert outlines_of(parts).listed(0) == outlines_of(whole).listed(0)


def test_a_hole_that_touches_the_boundary_stays_a_hole() -> None:
    mask = np.ones((4, 4), bool)
    mask[0, 0] = mask[1, 1] = False
    ((boundary, hole),) = raster_to_polygon(mask)
    assert (area(boundary), area(hole)) == (15, -1)


def test_polygons_of_a_multipolygon_are_united() -> None:
    square, shifted = ([[x + dx, y] for x, y in ((0, 0), (2, 0), (2, 2), (0, 2), (0, 0))] for dx in (0, 1))
    assert to_raster([[square], [shifted]], (2, 4)).tolist() == [[True, True, True, False]] * 2
    assert to_raster(square, (2, 4)).sum() == 4
    assert to_raster([square], (2, 4)).sum() == 4


def test_shapes_beyond_the_image_are_cut_off() -> None:
    assert to_raster((-5, -5, 2, 1), (3, 4)).tolist() == [[True, True, False, False], [False] * 4, [False] * 4]
    assert not to_raster((10, 10, 20, 20), (3, 4)).any()


def test_run_lengths_and_tensors_are_masks() -> None:
    torch = pytest.importorskip("torch")
    mask = dense(MASKS["L_mask"])
    assert raster_to_box(torch.from_numpy(mask)) == raster_to_box(mask)
    assert raster_to_box({"size": [2, 2], "counts": [2, 2]}) == (1, 0, 2, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: raster_to_box(np.zeros((2, 3))), InputError, r"mask must be bool or uint8 \[H, W\] but got float64"),
        (lambda: to_raster((0, 0, 1, 1), 3), InputError, "size must be two integers of at least 0, .* but got 3"),
        (lambda: to_raster((0, 0, 1, 1), (2.0, 3)), InputError, "size must be two integers of at least 0"),
        (lambda: to_raster((0, 0, 1, 1), (2, -3)), InputError, "size must be two integers of at least 0"),
        (lambda: raster_to_box(np.zeros((2, 3), bool)), InputError, "mask must have at least one pixel set for a box"),
        (lambda: raster_to_polygon(np.zeros((2, 3), bool)), InputError, "at least one pixel set for a polygon"),
        (lambda: raster_to_polygon(np.zeros((2, 3), bool), "hull"), InputError, "at least one pixel set"),
        (lambda: raster_to_polygon(np.eye(3, dtype=bool), "hull"), InputError, "several rows and columns"),
        (lambda: raster_to_polygon(np.eye(3, dtype=bool), "convex"), InputError, "rule must be one of"),
        (lambda: raster_to_polygon(np.ones((2, 3))), InputError, "mask must be bool or uint8"),
        (lambda: raster_to_polygon(np.ones((1, 2, 3), bool)), InputError, r"\[H, W\] but got \[1"),
        (lambda: raster_to_polygon(7), InputError, "mask must be bool or uint8 .* but got int"),
        (lambda: polygon_to_box([[0, 0], [1, 1]]), InputError, "rings of at least 3 points but one has 2"),
        (lambda: polygon_to_box([[[0, 0], [1, 1], [math.nan, 2]]]), InputError, "finite coordinates but got .*nan"),
        (lambda: polygon_to_box([[[0, 0], [1, 1], [2, 2, 3]]]), InputError, r"points \(x, y\) but got \[2, 2, 3\]"),
        (lambda: polygon_to_box([[[[0, 0], [1, 1], [1, 2]]], []]), InputError, "one is empty"),
        (lambda: polygon_to_box([]), InputTypeError, "polygon must be a box of 4 numbers"),
        (lambda: to_raster((1, 2, 3), (4, 4)), InputTypeError, "shape must be a box of 4 numbers"),
        (lambda: to_raster("box", (4, 4)), InputTypeError, "shape must be a box of 4 numbers"),
        (lambda: to_raster((0, 0, 1, 1e9), (4, 4)), InputError, "coordinates from -2e8 to 2e8"),
    ],
)  # fmt: skip
def test_what_is_no_shape_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_outlines_are_joined_and_taken() -> None:
    corners = [[(0, 0), (1, 0), (1, 1), (0, 0)]], [[(2, 2), (3, 2), (3, 3), (2, 2)]]
    parts = [Outlines.of([[polygon]]) for polygon in corners] + [Outlines.of([])]
    whole = Outlines.join(parts)
    assert (whole.num_shapes, Outlines.join([]).num_shapes) == (2, 0)
    assert [whole.take(np.array([1, 0, 1])).listed(row) for row in range(3)] == [
        parts[row].listed(0) for row in (1, 0, 1)
    ]
    assert Outlines.of([[], [[[(0, 0), (1, 1), (1, 0), (0, 0)]]]]).shapes.tolist() == [0, 0, 1]
