"""A few masks in one native call: what the long way gives, and None for everything else."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from valor_gpu import native, native_objects
from valor_gpu.coco import many_masks, mask
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs import few_masks as few
from valor_gpu.inputs.rle_dicts import from_dicts, to_dicts
from valor_gpu.ops.boxes.cpu import box_iou
from valor_gpu.ops.polygons import cpu as polygons
from valor_gpu.ops.runs import cpu as codec

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu"))

RLE = {"size": [2, 2], "counts": b"13"}


def masks(count: int, seed: int = 0, size: tuple[int, int] = (37, 53)) -> list[dict[str, Any]]:
    """Masks of blocks and noise, the first without a pixel, the second with all."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((count, *size), np.uint8)
    for k, one in enumerate(dense):
        top, left = rng.integers(0, 30, 2)
        one[top : top + 9, left : left + 20] = (
            rng.random((min(9, size[0] - top), min(20, size[1] - left))) < (k % 4) / 3
        )
    dense[1:2] = 1
    return to_dicts(codec.from_masks(dense))


def as_text(dicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"counts": rle["counts"].decode(), "size": tuple(rle["size"]), "more": 1} for rle in dicts]


@pytest.mark.smoke
@pytest.mark.parametrize("count", [1, 2, 7, 20])
def test_numbers_are_those_of_the_long_way(count: int) -> None:
    found, others = masks(count), [*masks(count + 3, 1), *masks(1, 2, (37, 52)), {"size": [37, 53], "counts": b""}]
    crowd = [k % 2 for k in range(len(others))]
    runs, other_runs = from_dicts(found)[0], from_dicts(others)[0]
    for given in (found, as_text(found), tuple(found)):
        areas, boxes = few.areas(given), few.boxes(given)
        assert areas.dtype == np.uint32 and areas.tolist() == codec.areas(runs).tolist()
        assert boxes.dtype == np.float64 and boxes.tolist() == codec.boxes(runs).tolist()
        for flags in (crowd, tuple(crowd), np.array(crowd), np.array(crowd, bool)):
            iou = few.iou(given, others, flags)
            assert iou.flags.f_contiguous
            assert iou.tolist() == codec.iou(runs, other_runs, np.array(crowd, bool)).tolist()
        for intersect in (False, True):
            assert few.merge(given, intersect) == to_dicts(codec.merge(runs, [0, count], intersect))[0]
    assert (few.areas(found[0]), few.boxes(found[0]).tolist()) == (0, [0, 0, 0, 0])
    assert isinstance(few.areas(found[-1]), np.uint32)


@pytest.mark.smoke
@pytest.mark.parametrize("count", [1, 2, 7, 20])
def test_strings_are_those_of_the_long_way(count: int) -> None:
    found = masks(count)
    listed = [{"size": rle["size"], "counts": from_dicts(rle)[0].counts.tolist()} for rle in found]
    empty = {"size": [3, 4], "counts": []}
    assert few.from_objects((*listed, empty), 0, 0) == [*found, {**empty, "counts": b""}]
    assert few.from_objects(listed[-1], None, None) == found[-1]
    dense = codec.to_masks(from_dicts(found)[0]).transpose(1, 2, 0)
    for given in (dense, np.ascontiguousarray(dense), dense.astype(bool), np.repeat(dense, 2, 2)[:, :, ::2]):
        if given.shape == dense.shape:
            assert few.from_masks(given) == found
            assert few.from_masks(given[:, :, -1]) == found[-1]
    rng = np.random.default_rng(count)
    rings = [(rng.random(2 * (3 + k)) * 60 - 5).tolist() for k in range(count)]
    rings[0] = [7, 8, np.float64(20.5), 9.5, 12, 30]
    drawn = to_dicts(polygons.rasterise(*polygons.join_rings([[ring] for ring in rings]), [[37, 53]] * count))
    assert few.from_objects(rings, 37, 53) == few.from_objects(tuple(map(tuple, rings)), 37, 53) == drawn
    assert few.from_objects(rings[-1], 37, 53) == drawn[-1]


@pytest.mark.smoke
@pytest.mark.parametrize("count", [1, 2, 7])
def test_pixels_are_those_of_the_long_way(count: int) -> None:
    found = [*masks(count), {"size": [37, 53], "counts": b""}]
    dense = codec.to_masks(from_dicts(found)[0]).transpose(1, 2, 0)
    for given in (found, as_text(found), tuple(found)):
        made = few.to_masks(given)
        assert made is not None and made.strides == dense.strides and made.dtype == np.uint8 and made.flags.writeable
        assert np.array_equal(made, dense)
    one = few.to_masks(found[0])
    assert one is not None and one.flags.f_contiguous and np.array_equal(one, dense[:, :, 0])


@pytest.mark.smoke
def test_boxes_are_those_of_the_long_way() -> None:
    boxes = np.random.default_rng(3).random((9, 4)) * 50
    boxes[8] = [1, np.nan, 3, np.inf]
    crowd = [0, 1] * 4 + [2]
    expected = box_iou(boxes[::2], boxes, box_format="xywh", crowd=np.array(crowd, bool))
    for rows in (boxes[::2], boxes[::2].tolist(), list(map(tuple, boxes[::2]))):
        for columns in (np.asfortranarray(boxes), boxes.tolist(), list(map(list, boxes))):
            found = few.iou(rows, columns, crowd)
            assert found is not None and found.flags.f_contiguous
            assert np.array_equal(found, expected, equal_nan=True)
    whole = np.arange(8.0).reshape(2, 4) + 1
    drawn = polygons.rasterise(*polygons.join_rings([[ring] for ring in many_masks._corners(whole)]), [[20, 20]] * 2)
    for given in (whole, whole.tolist(), whole.astype(int).tolist()):
        assert few.from_objects(given, 20, 20) == to_dicts(drawn)
    assert few.from_objects([1, 2, 3, 4], 20, 20) == to_dicts(drawn)[0]


NOT_PLAIN: dict[str, Any] = {
    "no list": {1: RLE}.values(), "empty": [], "no dict": [RLE, 5], "no counts": [{"size": [2, 2]}],
    "no size": [{"counts": b"13"}],
    "three sizes": [{"size": [2, 2, 2], "counts": b"13"}, {"size": [2], "counts": b"1"}],
    "size with a fraction": [{"size": [2.0, 2], "counts": b"13"}],
    "negative size": [{"size": [-2, -2], "counts": b"13"}],
    "too many pixels": [{"size": [1 << 16, 1 << 15], "counts": b""}], "huge": [{"size": [1 << 70, 1], "counts": b""}],
    "overflow": [{"size": [1 << 32, 1 << 32], "counts": b""}],
    "beyond ASCII": [{"size": [2, 2], "counts": "1é"}], "character": [{"size": [2, 2], "counts": b"1 "}],
    "unfinished": [{"size": [2, 2], "counts": b"1P"}], "sum": [RLE, {"size": [2, 2], "counts": b"14"}],
    "negative run": [{"size": [2, 2], "counts": b"O5"}], "long number": [{"size": [2, 2], "counts": b"P" * 13 + b"0"}],
    "flags": [{"size": [1, 2], "counts": [True, True]}], "real runs": [{"size": [1, 2], "counts": [1.0, 1.0]}],
    "long list": [{"size": [1, 2], "counts": [1, 2]}], "below 0": [{"size": [1, 2], "counts": [3, -1]}],
    "flag of a size": [{"size": [True, 2], "counts": b"02"}], "array": [{"size": [1, 2], "counts": np.array([1, 1])}],
    "number": [{"size": [1, 2], "counts": 3}],
    "memory": [{"size": [2, 2], "counts": memoryview(b"13")}], "huge run": [{"size": [1, 2], "counts": [1 << 80]}],
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_long_way(name: str) -> None:
    given = NOT_PLAIN[name]
    assert few.areas(given) is few.boxes(given) is few.merge(given, False) is few.to_masks(given) is None
    assert few.from_objects(given, 2, 2) is None
    assert few.iou(given, [RLE], [0]) is few.iou([RLE], given, [0]) is None


@pytest.mark.parametrize(
    "name",
    sorted({*NOT_PLAIN} - {"no list", "empty", "flags", "real runs", "number", "flag of a size", "array", "memory"}),
)
def test_and_the_long_way_says_what_is_wrong(name: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=r"rleObjs\[[01]\]"):
        mask.area(NOT_PLAIN[name])


def test_forms_may_be_mixed() -> None:
    mixed = [RLE, {"size": (2, 2), "counts": "13"}, {"size": [2, 2], "counts": [1, 3]}]
    assert few.areas(mixed).tolist() == [3, 3, 3]
    assert few.merge(mixed, True) == RLE


def test_the_few_are_few() -> None:
    many = [RLE] * 200
    assert few.areas(many).tolist() == [3] * 200
    assert few.iou(many, many, [0] * 200) is None
    long = {"size": [1 << 15, 1 << 15], "counts": b"1" * ((1 << 20) + 1)}
    assert few.areas([long]) is None
    assert few.merge([RLE, {"size": [1, 4], "counts": b"13"}], False) is None
    assert few.to_masks([RLE, {"size": [1, 4], "counts": b"13"}]) is None
    assert few.to_masks({"size": [1 << 12, 1 << 11], "counts": b""}) is None
    assert few.from_masks(np.zeros((0, 5, 2), bool)) is few.from_masks(np.zeros((1 << 12, 1 << 11), bool)) is None
    for given in (np.zeros((2, 2), np.int8), np.zeros((2, 2), ">u2"), np.zeros(4, bool), [[0, 1]], b"abc", 5, None):
        assert few.from_masks(given) is None
    wide = [0, 0, 5000, 0, 5000, 5] * 2000
    assert few.from_objects([wide], 6, 5000) is few.from_objects([[0, 0, 1, 1]] * 3, 6, 1 << 27) is None


def test_an_object_that_changes_while_it_is_read_is_harmless() -> None:
    class Key(str):
        def __hash__(self) -> int:
            return hash("size")

        def __eq__(self, other: object) -> bool:
            given.clear()
            return False

    given: list[Any] = []
    given += [{Key("other"): 1, "size": [2, 2], "counts": b"13"}, RLE]
    assert few.areas(given) is None
    assert given == []


def test_an_interrupt_reaches_the_caller() -> None:
    class Key(str):
        def __hash__(self) -> int:
            return hash("size")

        def __eq__(self, other: object) -> bool:
            raise KeyboardInterrupt("now")

    with pytest.raises(KeyboardInterrupt, match="now"):
        few.areas([{Key("other"): 1, "size": [2, 2], "counts": b"13"}])


def test_references_are_given_back() -> None:
    size, counts, ring = [2, 2], bytearray(b"13").decode(), [0.0, 0.0, 1.5, 0.0, 1.5, 1.5]
    given: list[Any] = [{"size": size, "counts": counts}]
    kept = [size, counts, ring, given, given[0], None, *ring]
    before = [sys.getrefcount(one) for one in kept]
    dense, boxes = np.ones((2, 2), bool), np.ones((1, 4))
    kept_arrays = [sys.getrefcount(dense), sys.getrefcount(boxes)]
    for _ in range(50):
        few.areas(given), few.boxes(given), few.merge(given, False), few.to_masks(given), few.iou(given, given, [0])
        few.from_objects([ring], 2, 2), few.from_objects(given, 2, 2), few.from_masks(dense)
        few.iou(boxes, boxes, [0]), few.areas([*given, 5]), few.iou(boxes, [[1, 2, 3]], [0])
    after = [sys.getrefcount(one) for one in kept]
    assert after[:5] == before[:5] and after[6:] == before[6:]
    assert abs(after[5] - before[5]) < 40  # None is used elsewhere too
    assert [sys.getrefcount(dense), sys.getrefcount(boxes)] == kept_arrays


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [(sys, "implementation", SimpleNamespace(name="pypy")), (ctypes, "pythonapi", SimpleNamespace(PyList_Size=None))],
)
def test_another_python_goes_the_long_way(place: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, name, value)
    native_objects._host_is_known.cache_clear()
    native_objects.function.cache_clear()
    try:
        assert few.areas(RLE) is few.from_masks(np.ones((2, 2), bool)) is None
        assert mask.area(RLE) == 3 and mask.encode(mask.decode(RLE)) == RLE
    finally:
        native_objects._host_is_known.cache_clear()
        native_objects.function.cache_clear()


@pytest.mark.parametrize("flags", [[0, 0], 1, [300], [-1], [0.5], "0", None, np.zeros((1, 1)), {0}])
def test_flags_that_are_none(flags: Any) -> None:
    assert few.iou([RLE], [RLE], flags) is None
    assert few.iou(np.ones((1, 4)), np.ones((1, 4)), flags) is None


@pytest.mark.parametrize(
    ("rings", "height", "width"),
    [
        ([[0, 0, 5, 0, 5]], 4, 4), ([[0, 0, 5, 0, 5, 5], [0, 0, 5, 0]], 4, 4), ([], 4, 4),
        ([[0, 0, 5, 0, 5, "5"]], 4, 4),
        ([[0, 0, 5, 0, 5, float("nan")]], 4, 4), ([[0, 0, 5, 0, 5, 3e8]], 4, 4), ([[0, 0, 5, 0, 5, 5]], 4.0, 4),
        ([[0, 0, 5, 0, 5, 5]], -4, 4), ([[0, 0, 5, 0, 5, 5]], 1 << 16, 1 << 16), ([[[0, 0], [5, 0], [5, 5]] * 2], 4, 4),
    ],
)  # fmt: skip
def test_rings_that_are_none(rings: Any, height: Any, width: Any) -> None:
    assert few.from_objects(rings, height, width) is None


@pytest.mark.parametrize(
    "boxes", [[[1, 2, 3]], [[1, 2, 3, "4"]], 5, np.ones(4), np.ones((2, 4), bool), np.ones((2, 4), ">f8"), [{}], []]
)
def test_boxes_that_are_none(boxes: Any) -> None:
    assert few.from_objects(boxes, 5, 5) is None
    assert few.iou(boxes, boxes, [0]) is None
