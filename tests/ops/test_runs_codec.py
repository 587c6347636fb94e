"""Run lengths on the CPU against pycocotools.mask, byte for byte; hostile strings are errors."""

from __future__ import annotations

import gzip
import itertools
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

from testing.masks import SHAPES, random_counts, random_mask
from testing.oracles import pycocotools
from tests.checkout import ROOT
from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.ops.runs import cpu as native
from valor_gpu.ops.runs.op import Runs

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools.decode


def oracle() -> Any:
    return pycocotools("mask")


def encoded(masks: list[Any]) -> list[dict[str, Any]]:
    """What pycocotools makes of dense masks."""
    return [oracle().encode(np.asfortranarray(mask)) for mask in masks]


def decoded(rles: list[dict[str, Any]]) -> Runs:
    """Runs of pycocotools' dicts."""
    texts = [rle["counts"] if isinstance(rle["counts"], bytes) else rle["counts"].encode() for rle in rles]
    offsets = np.cumsum([0, *map(len, texts)])
    return native.decode_strings(b"".join(texts), offsets, np.array([rle["size"] for rle in rles]).reshape(-1, 2))


def texts_of(runs: Runs) -> list[bytes]:
    text, offsets = native.encode_strings(runs)
    return [text[first:end].tobytes() for first, end in itertools.pairwise(offsets)]


def uncompressed(counts: list[int], size: list[int]) -> dict[str, Any]:
    """A dict with a string, by pycocotools."""
    return oracle().frPyObjects({"counts": counts, "size": size}, *size)  # type: ignore[no-any-return]


def written(counts: list[int]) -> bytes:
    """COCO's string by its definition: pycocotools writes beyond its buffer of 6 characters per run for long ones."""
    text = ""
    for i, count in enumerate(counts):
        value = count - counts[i - 2] if i > 2 else count
        while True:
            group, value = value & 31, value >> 5
            more = value != (-1 if group & 16 else 0)
            text += chr(48 + group + 32 * more)
            if not more:
                break
    return text.encode()


def canonical(rles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same masks without runs of length 0: where two meet, pycocotools' walks end and leave out the rest."""
    return [oracle().encode(np.asfortranarray(oracle().decode(rle))) for rle in rles]


def runs_of(counts: list[int], size: list[int]) -> Runs:
    return Runs(np.array(counts, np.int32), np.array([0, len(counts)]), np.array([size], np.int32))


def same(left: Any, right: Any) -> None:
    assert left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def random_rles(seed: int, count: int = 12) -> list[dict[str, Any]]:
    """Masks of two sizes, some with runs of length 0."""
    rng = np.random.default_rng(seed)
    rles = []
    for shape in rng.choice(SHAPES, 2).tolist():
        rles += encoded([random_mask(rng, *shape) for _ in range(count // 2 - 1)])
        rles.append(uncompressed(random_counts(rng, shape[0] * shape[1]), shape))
    return [rles[i] for i in rng.permutation(len(rles))]


# -------------------------------------------------------------------------------------------------------------- codec


@pytest.mark.smoke
@pytest.mark.parametrize("shape", SHAPES)
def test_dense_masks_of_any_strides(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape[0] * 1000 + shape[1])
    masks = np.stack([random_mask(rng, *shape) for _ in range(8)])
    expected = encoded(list(masks))
    wide = np.zeros((8, 2 * shape[0], shape[1] + 70), np.uint8)
    wide[:, ::2, 3 : 3 + shape[1]] = masks
    flipped = np.ascontiguousarray(masks[:, ::-1, ::-1])
    layouts = [
        masks, masks != 0, masks * np.uint8(255), np.asfortranarray(masks),
        masks.transpose(0, 2, 1).copy().transpose(0, 2, 1),
        np.ascontiguousarray(masks.transpose(1, 2, 0)).transpose(2, 0, 1), wide[:, ::2, 3 : 3 + shape[1]],
        np.asfortranarray(wide)[:, ::2, 3 : 3 + shape[1]], flipped[:, ::-1, ::-1],
    ]  # fmt: skip
    for layout in layouts:
        runs = native.from_masks(layout)
        assert texts_of(runs) == [rle["counts"] for rle in expected]
        assert np.array_equal(native.to_masks(runs), masks)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 4, 0), (1, 0, 0)])
def test_masks_without_pixels(shape: tuple[int, int, int]) -> None:
    masks = np.zeros(shape, np.uint8)
    runs = native.from_masks(masks)
    assert runs.counts.tolist() == [0] * shape[0] and native.to_masks(runs).shape == (shape if shape[0] else (0, 0, 0))
    assert native.areas(runs).tolist() == [0] * shape[0] and not native.boxes(runs).any()


def test_every_nonzero_byte_is_set() -> None:
    mask = np.arange(256, dtype=np.uint8).reshape(1, 4, 64)
    assert native.areas(native.from_masks(mask)).tolist() == [255]
    assert native.from_masks(mask).counts.tolist() == [1, 255]


@pytest.mark.parametrize("seed", seeds(25))
def test_random_rles(seed: int) -> None:
    rles = random_rles(seed)
    runs = decoded(rles)
    assert texts_of(runs) == [rle["counts"] for rle in rles]
    same(native.areas(runs), np.array([oracle().area(rle) for rle in rles], np.int64))
    has_pixels = native.areas(runs) > 0
    same(native.boxes(runs)[has_pixels], oracle().toBbox(rles)[has_pixels])
    assert not native.boxes(runs)[~has_pixels].any()
    for i, rle in enumerate(rles):
        same(native.to_masks(runs.take([i]))[0], oracle().decode(rle))


def test_real_masks() -> None:
    with gzip.open(ROOT / "tests" / "data" / "yolact_resnet50_10_images.json.gz") as file:
        rles = [record["segmentation"] for record in json.load(file)]
    runs = decoded(rles)
    assert texts_of(runs) == [rle["counts"].encode() for rle in rles]
    same(native.boxes(runs), oracle().toBbox(rles))
    same(native.areas(runs), np.array([oracle().area(rle) for rle in rles], np.int64))


@pytest.mark.smoke
@pytest.mark.parametrize(
    "counts", [[2**31 - 1], [0, 2**31 - 1], [1, 2**31 - 3, 0, 1], [2**30, 2**30 - 1], [5, 0, 0, 2**31 - 6], []]
)
def test_long_runs(counts: list[int]) -> None:
    runs = runs_of(counts, [1, 2**31 - 1])
    text = texts_of(runs)[0]
    assert text == written(counts)
    assert decoded([{"counts": text, "size": [1, 2**31 - 1]}]).counts.tolist() == counts
    assert native.areas(runs).tolist() == [sum(counts[1::2])]
    assert native.boxes(runs)[0, 2] == (sum(counts[:-1]) + counts[-1] - counts[0] if len(counts) > 1 else 0)


# ------------------------------------------------------------------------------------------------------ iou and merge


@pytest.mark.smoke
@pytest.mark.parametrize("seed", seeds(10))
def test_iou(seed: int) -> None:
    rles, gts = random_rles(seed), random_rles(seed + 100000, 8)
    gts += rles[:2]
    crowd = np.random.default_rng(seed).integers(0, 2, len(gts))
    same(
        native.iou(decoded(rles), decoded(gts), crowd.astype(bool)),
        np.ascontiguousarray(oracle().iou(rles, gts, crowd)),
    )
    same(native.iou(decoded(rles), decoded(gts)), np.ascontiguousarray(oracle().iou(rles, gts, [0] * len(gts))))


def test_iou_of_nothing() -> None:
    rles = random_rles(0)
    none = Runs.empty([])
    assert native.iou(none, decoded(rles)).shape == (0, len(rles)) and native.iou(decoded(rles), none).size == 0
    assert native.iou(Runs.empty([[4, 4]]), Runs.empty([[4, 4]])).tolist() == [[0.0]]


@pytest.mark.smoke
@pytest.mark.parametrize("seed", seeds(10))
def test_merge(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, rles = [0], []
    for shape in rng.choice(SHAPES, 4).tolist():
        rles += encoded([random_mask(rng, *shape) for _ in range(int(rng.integers(1, 5)))])
        groups.append(len(rles))
    for intersect in (False, True):
        merged = native.merge(decoded(rles), groups, intersect)
        expected = [oracle().merge(rles[i:j], intersect) for i, j in itertools.pairwise(groups)]
        assert texts_of(merged) == [rle["counts"] for rle in expected]
        assert merged.sizes.tolist() == [rle["size"] for rle in expected]


def test_merge_goes_on_where_runs_of_length_0_meet() -> None:
    """pycocotools stops there and leaves the rest of the mask out."""
    runs = Runs.join([runs_of([2, 0, 3, 1], [2, 3]), runs_of([2, 0, 1, 3], [2, 3])])
    assert native.areas(native.merge(runs, [0, 2])).tolist() == [3]


def test_merge_of_masks_without_runs() -> None:
    runs = Runs.join([runs_of([], [2, 3]), runs_of([1, 2, 3], [2, 3]), runs_of([], [2, 3])])
    assert native.merge(runs, [0, 3]).counts.tolist() == [1, 2, 3]
    assert native.merge(runs, [0, 3], intersect=True).counts.tolist() == [6]
    assert native.merge(runs, [0, 1]).counts.tolist() == [] and len(native.merge(runs, [1])) == 0


# ------------------------------------------------------------------------------------------------------------ hostile


HOSTILE = [
    (b"5 4", (3, 3), r"must hold characters from '0' to 'o' but has b' ' at position 1"),
    (b"5\xff", (3, 3), r"must hold characters from '0' to 'o' but has b'\\xff' at position 1"),
    (b"p", (3, 3), r"must hold characters from '0' to 'o' but has b'p' at position 0"),
    (b"\x00", (3, 3), r"must hold characters from '0' to 'o' but has b'\\x00' at position 0"),
    (b"54P", (3, 3), r"must end with a complete number but breaks off after 3 characters"),
    (b"5" + b"o" * 1000, (3, 3), r"must be numbers of at most 12 characters but run 1 has more"),
    (b"5?O", (3, 3), r"must be runs of at least 0 but run 2 is -1"),
    (b"531J", (3, 3), r"must be runs of at least 0 but run 3 is -3"),
    (b"PPPPPPPPPPP?", (3, 3), r"must be runs of at most 2147483647 but run 0 is 540431955284459520"),
    (b"PPPPPP2", (3, 3), r"must be runs of at most 2147483647 but run 0 is 2147483648"),
    (b"54", (3, 3), None),
    (b"55", (3, 3), r"must add up to 3 x 3 pixels, 9, but add up to 10"),
    (b"5", (3, 3), r"must add up to 3 x 3 pixels, 9, but add up to 5"),
    (b"55", (0, 3), r"must add up to 0 x 3 pixels, 0, but add up to 10"),
    (b"ooooo?" * 3, (30000, 30000), r"must be runs of at most|must add up to|at least 0"),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("text", "size", "said"), HOSTILE)
def test_hostile_strings_are_named(text: bytes, size: tuple[int, int], said: str | None) -> None:
    offsets = np.array([0, 1, 1 + len(text)])
    if said is None:
        assert native.decode_strings(b"1" + text, offsets, [[1, 1], size]).counts.tolist() == [1, 5, 4]
        return
    for places, name in ((None, "counts of mask 1"), (lambda i: f"annotations[{i + 6}]", r"annotations\[7\]")):
        with pytest.raises(InputError, match=f"{name} ({said})"):
            native.decode_strings(b"1" + text, offsets, [[1, 1], size], places)
    assert native.explain_string(text, *size) != "is a mask"


@pytest.mark.parametrize("seed", seeds(100))
def test_random_bytes_are_masks_or_errors(seed: int) -> None:
    """Nothing is accepted that does not encode to runs of the right sum; nothing crashes."""
    rng = np.random.default_rng(seed)
    low, high = ((48, 112), (48, 80), (0, 256))[seed % 3]
    text = rng.integers(low, high, int(rng.integers(1, 20))).astype(np.uint8)
    values = [2**31 - 1, 0, 1, int(rng.integers(1, 500))]
    size = [1, values[seed % 4]]
    try:
        runs = native.decode_strings(text, np.array([0, len(text)]), [size])
    except InputError as error:
        assert native.explain_string(text.tobytes(), *size) in str(error)
        return
    assert runs.counts.min() >= 0 and runs.counts.sum(dtype=np.int64) == size[1]
    assert native.explain_string(text.tobytes(), *size) == "is a mask"
    again = oracle().area({"counts": text.tobytes(), "size": size})
    assert native.areas(runs).tolist() == [again]


def test_a_billion_pixels_cost_no_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="must add up to 32000 x 32000 pixels"):
            native.decode_strings(b"5", [0, 1], [[32000, 32000]])
        runs = decoded([uncompressed([10**9, 5], [5, 200000001])])
        native.merge(Runs.join([runs, runs]), [0, 2])
        native.iou(runs, runs)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (runs_of([3, 7], [3, 3]), "runs of mask 0 must add up to its 3 x 3 pixels, 9, but add up to 10"),
        (runs_of([10, -1], [3, 3]), "runs of mask 0 must be at least 0 but run 1 is -1"),
        (runs_of([9], [-3, -3]), r"sizes\[0\] must be at least 0 x 0"),
        (Runs(np.zeros(1, np.int64), np.array([0, 1]), np.zeros((1, 2), np.int32)), "counts of runs must have dtype"),
        (Runs(np.zeros(1, np.int32), np.array([0, 2]), np.zeros((1, 2), np.int32)), "offsets of runs must ascend"),
        (Runs(np.zeros(3, np.int32), np.array([0, 2, 1]), np.zeros((2, 2), np.int32)), "offsets of runs must ascend"),
        (Runs(np.zeros(1, np.int32), np.array([0]), np.zeros((1, 2), np.int32)), r"offsets .* must have shape \[2\]"),
    ],
)
@pytest.mark.parametrize("function", [native.areas, native.boxes, native.encode_strings, native.to_masks])
def test_runs_that_are_none(function: Any, runs: Runs, said: str) -> None:
    with pytest.raises(InputError, match=said):
        function(runs)


def test_other_arguments_that_are_none() -> None:
    two = Runs.empty([[2, 2], [2, 3]])
    with pytest.raises(InputError, match="masks must have one size but mask 0 is 2 x 2 and mask 1 is 2 x 3"):
        native.to_masks(two)
    with pytest.raises(InputError, match=r"one size but mask 0 is \[2, 2\] and mask 1 is \[2, 3\]"):
        native.merge(two, [0, 2])
    with pytest.raises(InputError, match="group 1 is empty"):
        native.merge(two, [0, 1, 1])
    with pytest.raises(InputError, match=r"groups must have shape \[1\] but got \[0\]"):
        native.merge(two, [])
    with pytest.raises(InputError, match="groups must ascend from 0 to 2"):
        native.merge(two, [0, 3])
    with pytest.raises(InputError, match=r"masks must be bool or uint8 \[N, H, W\] but got float64 \[1, 2, 2\]"):
        native.from_masks(np.zeros((1, 2, 2)))
    with pytest.raises(InputError, match=r"sizes\[0\] must .* at most 2147483647 pixels but is 65536 x 65536"):
        native.from_masks(np.broadcast_to(np.zeros(1, np.uint8), (1, 65536, 65536)))
    with pytest.raises(InputError, match=r"crowd must have shape \[2\] but got \[1\]"):
        native.iou(two, two, [True])
    with pytest.raises(InputError, match="text must be bytes or uint8"):
        native.decode_strings(np.zeros(3), [0, 3], [[1, 1]])
