"""``valor_gpu.coco.mask`` against ``pycocotools.mask``: values, dtypes, orders and kinds of what comes back."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from testing.masks import SHAPES, random_counts, random_mask
from testing.oracles import pycocotools
from tests.fuzz import seeds
from tests.ops.test_runs_codec import canonical, random_rles
from valor_gpu.coco import mask
from valor_gpu.errors import InputError, InputTypeError

oracle = pycocotools("mask")

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools.decode


def same(got: Any, expected: Any) -> None:
    """Equal bytes, dtypes, types and orders."""
    assert type(got) is type(expected)
    if isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        for order in ("C_CONTIGUOUS", "F_CONTIGUOUS"):
            assert got.flags[order] == expected.flags[order]
        assert got.tobytes() == expected.tobytes()
    else:
        assert got == expected


def one_size(seed: int, count: int = 6) -> list[dict[str, Any]]:
    """Masks of one size with pixels, as pycocotools encodes them."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    masks = [random_mask(rng, *shape) for _ in range(count)]
    return [oracle.encode(np.asfortranarray(m)) for m in masks if m.any()]


@pytest.mark.parametrize("seed", seeds(15))
def test_every_function(seed: int) -> None:
    rles, others = one_size(seed), random_rles(seed)
    others = [rle for rle in canonical(others) if oracle.area(rle)]
    for given in (rles, [*rles, *others]):
        same(mask.area(given), oracle.area(given))
        same(mask.toBbox(given), oracle.toBbox(given))
        crowd = np.random.default_rng(seed).integers(0, 2, len(given)).tolist()
        same(mask.iou(given, given, crowd), oracle.iou(given, given, crowd))
    same(mask.decode(rles), oracle.decode(rles))
    same(mask.encode(oracle.decode(rles)), oracle.encode(oracle.decode(rles)))
    for rle in rles:
        same(mask.decode(rle), oracle.decode(rle))
        same(mask.area(rle), oracle.area(rle))
        same(mask.toBbox(rle), oracle.toBbox(rle))
        same(mask.encode(oracle.decode(rle)), oracle.encode(oracle.decode(rle)))
        text = {**rle, "counts": rle["counts"].decode()}
        same(mask.decode(text), oracle.decode(text))
    for intersect in (0, 1, False, True):
        same(mask.merge(rles, intersect), oracle.merge(rles, intersect))
        same(mask.merge(rles[:1], intersect=intersect), oracle.merge(rles[:1], intersect=intersect))


@pytest.mark.parametrize("seed", seeds(10))
def test_polygons_boxes_and_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    h, w = (int(n) for n in rng.integers(1, 60, 2))
    points = [(rng.random(2 * int(rng.integers(3, 9))) * 80 - 10).tolist() for _ in range(4)]
    same(mask.frPyObjects(points, h, w), oracle.frPyObjects(points, h, w))
    same(mask.merge(mask.frPyObjects(points, h, w)), oracle.merge(oracle.frPyObjects(points, h, w)))
    boxes = rng.random((5, 4)) * 50 - 5
    same(mask.frPyObjects(boxes, h, w), oracle.frPyObjects(boxes, h, w))
    same(mask.frPyObjects(boxes.tolist(), h, w), oracle.frPyObjects(boxes, h, w))
    same(mask.frPyObjects(boxes[0].tolist(), h, w), oracle.frPyObjects(boxes[:1], h, w)[0])
    same(mask.frPyObjects(points[0], h, w), oracle.frPyObjects(points[:1], h, w)[0])
    runs = [{"size": [h, w], "counts": random_counts(rng, h * w)} for _ in range(3)]
    same(mask.frPyObjects(runs, h, w), oracle.frPyObjects(runs, h, w))
    same(mask.frPyObjects(runs[0], 1, 1), oracle.frPyObjects(runs[0], 1, 1))
    assert mask.area(runs).tolist() == [sum(rle["counts"][1::2]) for rle in runs]


def test_boxes_have_the_iou_of_pycocotools() -> None:
    rng = np.random.default_rng(1)
    boxes, gts, crowd = np.round(rng.random((9, 4)) * 8), rng.random((7, 4)) * 8, rng.integers(0, 2, 7)
    for given in (lambda a: a, lambda a: a.tolist(), lambda a: list(a)):
        same(mask.iou(given(boxes), given(gts), crowd), oracle.iou(given(boxes), given(gts), crowd))


def test_nothing() -> None:
    rle = one_size(4)[0]
    same(mask.iou([], [rle], [0]), oracle.iou([], [rle], [0]))
    same(mask.iou([rle], [], []), [])
    same(mask.merge([]), {"size": [0, 0], "counts": b""})
    same(mask.area([]), np.zeros(0, np.uint32))
    same(mask.toBbox([]), np.zeros((0, 4)))
    same(mask.encode(np.zeros((3, 4, 0), np.uint8)), [])
    for shape in ((0, 0), (0, 5), (5, 0)):
        same(mask.encode(np.zeros(shape, np.uint8)), oracle.encode(np.zeros(shape, np.uint8, "F")))
    empty = {"size": [4, 5], "counts": b""}
    assert mask.area(empty) == 0 and not mask.toBbox(empty).any() and not mask.decode(empty).any()


def test_masks_of_different_sizes() -> None:
    a, b = (oracle.encode(np.ones(shape, np.uint8, "F")) for shape in ((3, 4), (4, 3)))
    same(mask.merge([a, b]), oracle.merge([a, b]))
    same(mask.iou([a], [b], [0]), oracle.iou([a], [b], [0]))
    with pytest.raises(InputError, match="masks must have one size but mask 0 is 3 x 4 and mask 1 is 4 x 3"):
        mask.decode([a, b])


def test_the_area_of_more_than_255_masks() -> None:
    """pycocotools 2.0.11 raises OverflowError for them."""
    rle = one_size(7)[0]
    same(mask.area([rle] * 300), np.full(300, oracle.area(rle), np.uint32))


def test_dense_masks_need_no_special_order() -> None:
    masks = np.random.default_rng(2).integers(0, 2, (9, 11, 3), np.uint8)
    expected = oracle.encode(np.asfortranarray(masks))
    for given in (masks, masks != 0, np.asfortranarray(masks), masks * np.uint8(255), masks.copy()[::-1][::-1]):
        assert mask.encode(given) == expected
    assert mask.encode(masks[:, :, 1]) == expected[1]


def test_a_polygon_across_many_columns() -> None:
    wide, message = (
        200_000_000,
        r"ring 0 of mask 1 must leave the mask with at most 16777216 crossings .* of 200000000 c",
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for ring in ([0, 0, wide, 0, wide, 5, 0, 5], [0, 0, wide, 9, 0, 5], [0, 0, wide, 5, wide, 5.4]):
        with pytest.raises(InputError, match=message):
            mask.frPyObjects([[3, 3, 8, 3, 8, 8], ring], 10, wide)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert int(mask.area(mask.frPyObjects([[0, 0, 300_000, 9, 0, 5]], 10, wide))[0]) > 300_000


def test_sizes_of_images_may_be_floats() -> None:
    """Some files have 480.0; pycocotools cuts fractions off, which are an error here."""
    rings = [[0, 0, 3, 0, 3, 3]]
    for height, width in ((4.0, 5), (np.float32(4), np.int32(5)), (4, np.float64(5))):
        same(mask.frPyObjects(rings, height, width), oracle.frPyObjects(rings, height, width))
    for height in (4.5, np.inf, np.nan, np.float32(4.5), "4"):
        with pytest.raises(InputError, match="h must be an integer but got"):
            mask.frPyObjects(rings, height, 5)


BAD: list[tuple[Any, str]] = [
    ({"size": [3, 3], "counts": b"5?O"}, r"rleObjs\['counts'\] must be runs of at least 0 but run 2 is -1"),
    ([{"size": [1, 1], "counts": b"1"}, {"size": [3, 3], "counts": "5"}],
     r"rleObjs\[1\]\['counts'\] must add up to 3 x 3"),
    ({"size": [3, 3], "counts": "5é"}, r"must hold characters from '0' to 'o' but has b'\\xc3' at position 1"),
    ({"size": [3, 3], "counts": "5\ud800"}, r"has b'\\xed' at position 1"),
    ({"size": [3, 3], "counts": bytearray(b"5\x004")}, r"has b'\\x00' at position 1"),
    ({"size": [3, 3], "counts": b"5\x004"}, r"has b'\\x00' at position 1"),
    ({"size": [3, 3], "counts": b"5P"}, "must end with a complete number"),
    ({"size": [-3, -3], "counts": b"9"}, r"rleObjs\['size'\] must be at least 0 x 0 .* but is -3 x -3"),
    ({"size": [10**9, 10**9], "counts": b"9"}, "must .* have at most 2147483647 pixels"),
    ({"size": [3], "counts": b"9"}, r"rleObjs\['size'\] must be \[height, width\], two integers, but got \[3\]"),
    ({"size": [3.0, 3.0], "counts": b"9"}, r"must be \[height, width\], two integers, but got \[3.0, 3.0\]"),
    ({"size": 9, "counts": b"9"}, "two integers, but got 9"),
    ({"counts": b"9"}, "rleObjs must be a dict with 'size' and 'counts' but got a dict with 'counts'"),
    ([b"9"], r"rleObjs\[0\] must be a dict with 'size' and 'counts' but got bytes"),
    (None, "rleObjs must be a dict with 'size' and 'counts' but got NoneType"),
    ({"size": [3, 3], "counts": [9, -1, 1]}, r"rleObjs\['counts'\] must be runs from 0 to 2147483647 but run 1 is -1"),
    ({"size": [3, 3], "counts": [4, 4]}, "must add up to 3 x 3 pixels, 9, but add up to 8"),
    ({"size": [3, 3], "counts": [4.5, 4.5]}, "must be str, bytes or a list of integers"),
    ({"size": [3, 3], "counts": [2**70]}, "must be str, bytes or a list of integers"),
    ({"size": [3, 3], "counts": [[9]]}, "must be str, bytes or a list of integers"),
    ({"size": [3, 3], "counts": None}, "must be str, bytes or a list of integers but got None"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), BAD)
@pytest.mark.parametrize("function", [mask.decode, mask.area, mask.toBbox])
def test_what_is_no_mask_is_named(function: Any, given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        function(given)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mask.decode([]), "rleObjs must hold at least one mask but is empty"),
        (lambda: mask.encode(np.zeros((2, 2))), r"bimask must be bool or uint8 .* but got float64 \[2, 2\]"),
        (lambda: mask.encode(np.zeros(4, np.uint8)), r"bimask must be .* but got uint8 \[4\]"),
        (lambda: mask.iou(one_size(4), one_size(4), [0]),
         r"iscrowd must have the length of gt, \d, but got shape \[1\]"),
        (lambda: mask.iou(one_size(4)[:1], one_size(4)[:1], [-1]), r"iscrowd must be flags but got \[-1\]"),
        (lambda: mask.iou([[0, 0, 1, 10**400]], [[0, 0, 1, 1]], [0]), r"dt must be boxes"),
        (lambda: mask.frPyObjects(np.array(1.0), 4, 4), "pyobj must be polygons, boxes or dicts but got ndarray"),
        (lambda: mask.frPyObjects([[10**400] * 6], 4, 4), "ring 0 of mask 0 must be a list of numbers"),
        (lambda: mask.iou([[0, 0, 1, 1]], one_size(4)[:1], [0]), "dt and gt must both be masks or both be boxes"),
        (lambda: mask.iou([[0, 0, 1]], [[0, 0, 1, 1]], [0]), r"dt must be boxes \[x, y, width, height\], shape"),
        (lambda: mask.iou("ab", [[0, 0, 1, 1]], [0]), "dt must be a list of dicts or boxes"),
        (lambda: mask.frPyObjects([], 4, 4), "pyobj must be polygons, boxes or dicts but got list"),
        (lambda: mask.frPyObjects("abc", 4, 4), "pyobj must be polygons, boxes or dicts but got str 'abc'"),
        (lambda: mask.frPyObjects([[0, 0, 3, 0, 3]], 4, 4), "must have an even number of at least 6 coordinates"),
        (lambda: mask.frPyObjects([[0, 0, 3, 0, 3, np.nan]], 4, 4),
         r"coordinates from -2e8 to 2e8 but vertex 2 is \(3.0, nan\)"),
        (lambda: mask.frPyObjects([[0, 0, 3, 0, 3, 1e300]], 4, 4), "coordinates from -2e8 to 2e8"),
        (lambda: mask.frPyObjects(np.full((1, 4), np.inf), 4, 4), "coordinates from -2e8 to 2e8"),
        (lambda: mask.frPyObjects([[0, 0, 3, 0, 3, 3]], 4.5, 4), "h must be an integer but got 4.5"),
        (lambda: mask.frPyObjects([[0, 0, 3, 0, 3, 3]], -4, 4), r"sizes\[0\] must be at least 0 x 0"),
        (lambda: mask.frPyObjects([[0, 0, 3, 0, 3, 3]], 10**5, 10**5), "at most 2147483647 pixels"),
        (lambda: mask.frPyObjects({"size": [2, 2], "counts": [1]}, 2, 2), r"pyobj\['counts'\] must add up to 2 x 2"),
    ],
)  # fmt: skip
def test_other_errors_are_clear(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()


def test_wrong_types_are_type_errors() -> None:
    with pytest.raises(InputTypeError, match="rleObjs must be a dict"):
        mask.area(3)


def test_torch_is_not_imported() -> None:
    code = (
        "import sys, numpy, valor_gpu.coco.mask as m; m.encode(numpy.ones((2, 2), 'u1')); exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
