"""The intake of masks: every form becomes every other, as pycocotools and numpy have them; bad ones are named."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from testing.oracles import pycocotools
from valor_gpu.errors import InputError
from valor_gpu.inputs.masks import Masks
from valor_gpu.ops.masks.op import pack_masks
from valor_gpu.ops.runs.cpu import from_masks
from valor_gpu.ops.runs.op import Runs

RNG = np.random.default_rng(3)
DENSE = (RNG.random((5, 9, 13)) < 0.3).astype(np.uint8)
DENSE[1] = 0
DENSE[2] = 1
SIZE = (9, 13)


def coco_mask() -> Any:
    return pycocotools("mask")


def rle(mask: Any, kind: str) -> dict[str, Any]:
    encoded = coco_mask().encode(np.asfortranarray(mask))
    if kind == "list":
        return {"size": list(mask.shape), "counts": from_masks(mask[None]).counts.tolist()}
    return {"size": encoded["size"], "counts": encoded["counts"] if kind == "bytes" else encoded["counts"].decode()}


def words() -> Any:
    return pack_masks(torch.from_numpy(DENSE)).words


FORMS: dict[str, Any] = {
    "uint8": lambda: Masks.of(DENSE * 7),
    "bool": lambda: Masks.of(DENSE > 0),
    "strided": lambda: Masks.of(np.asfortranarray(DENSE)),
    "tensor": lambda: Masks.of(torch.from_numpy(DENSE)),
    "bool tensor": lambda: Masks.of(torch.from_numpy(DENSE) > 0),
    "str": lambda: Masks.of([rle(m, "str") for m in DENSE]),
    "bytes": lambda: Masks.of([rle(m, "bytes") for m in DENSE], SIZE),
    "list": lambda: Masks.of(tuple(rle(m, "list") for m in DENSE)),
    "mixed": lambda: Masks.of([rle(m, kind) for m, kind in zip(DENSE, ("str", "list", "bytes", "list", "str"))]),
    "words": lambda: Masks.from_words(words().numpy(), SIZE),
    "words of tensors": lambda: Masks.from_words(words(), SIZE, torch.from_numpy(DENSE.sum((1, 2), dtype=np.int64))),
    "runs": lambda: Masks.from_runs(from_masks(DENSE)),
    "itself": lambda: Masks.of(Masks.of(DENSE)),
}


@pytest.mark.parametrize("first", ["runs", "words", "dense", "areas", "boxes"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_becomes_every_other(form: str, first: str) -> None:
    masks = FORMS[form]()
    assert len(masks) == 5 and masks.sizes.tolist() == [list(SIZE)] * 5
    made = getattr(masks, first)()
    assert getattr(masks, first)() is made
    encoded = [coco_mask().encode(np.asfortranarray(m)) for m in DENSE]
    assert np.array_equal(np.asarray(masks.dense()) != 0, DENSE != 0)
    assert np.array_equal(masks.runs().counts, from_masks(DENSE).counts)
    assert np.array_equal(np.asarray(masks.words()), words())
    assert masks.areas().dtype == np.int64 and masks.areas().tolist() == [int(coco_mask().area(m)) for m in encoded]
    assert masks.boxes().tolist() == coco_mask().toBbox(encoded).tolist()


def test_a_repr_says_how_many_and_how_large() -> None:
    assert repr(FORMS["mixed"]()) == "Masks(5, form='runs', 9 x 13)"
    assert repr(FORMS["tensor"]()) == "Masks(5, form='dense', 9 x 13)"
    two = Masks.of([rle(np.ones((2, 3), np.uint8), "str"), rle(np.ones((4, 3), np.uint8), "list")])
    assert repr(two) == "Masks(2, form='runs', 2 sizes)"
    assert repr(Masks.of([])) == "Masks(0, form='runs', 0 sizes)"


def test_what_came_is_kept() -> None:
    given = torch.from_numpy(DENSE)
    masks = Masks.of(given)
    assert masks.dense() is given and isinstance(masks.words(), torch.Tensor)
    assert Masks.of(masks) is masks
    assert len(Masks.of([])) == 0 and Masks.of([]).runs().counts.tolist() == []
    assert Masks.of([]).dense().shape == (0, 0, 0)


# ------------------------------------------------------------------------------------------------------------ polygons


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_polygons_are_those_of_pycocotools() -> None:
    flat: list[list[Any]] = [[[1, 1, 8, 2, 6, 7], [2, 5, 9, 5, 9, 8.5]], [[0, 0, 4, 0, 4, 4, 0, 4]], []]
    expected = [
        coco_mask().decode(coco_mask().merge(coco_mask().frPyObjects(rings, 9, 13))) if rings else np.zeros(SIZE)
        for rings in flat
    ]
    pairs = [[np.reshape(ring, (-1, 2)).tolist() for ring in rings] for rings in flat]
    multi = [[rings] if rings else [] for rings in flat]
    for form in (
        flat,
        pairs,
        multi,
        [[rings] if rings else [] for rings in pairs],
        [[np.array(r) for r in x] for x in flat],
    ):
        assert np.array_equal(Masks.of(form, SIZE).dense(), expected)


def test_polygons_beside_run_lengths() -> None:
    square = [[0, 0, 4, 0, 4, 4, 0, 4]]
    masks = Masks.of([square, rle(DENSE[0], "str"), square, rle(DENSE[3], "list")], SIZE)
    alone = Masks.of([square], SIZE).dense()[0]
    assert np.array_equal(masks.dense(), [alone, DENSE[0], alone, DENSE[3]])


def test_rings_inside_others_are_holes_by_pixel_centres() -> None:
    outer, hole = [0, 0, 6, 0, 6, 6, 0, 6], [2, 2, 4, 2, 4, 4, 2, 4]
    masks = Masks.of([[[outer, hole]]], [8, 8], rule="centre")
    assert masks.areas().tolist() == [32] and masks.boxes().tolist() == [[0, 0, 6, 6]]
    assert Masks.of([[outer, hole]], [[8, 8]], rule="centre").areas().tolist() == [32]


def test_sizes_may_differ_where_nothing_needs_one() -> None:
    masks = Masks.of([rle(DENSE[0], "str"), rle(DENSE[0, :4, :4], "str")])
    assert masks.sizes.tolist() == [[9, 13], [4, 4]]
    assert masks.areas().tolist() == [int(DENSE[0].sum()), int(DENSE[0, :4, :4].sum())]
    for form in ("dense", "words"):
        with pytest.raises(InputError, match="masks must have one size but mask 0 is 9 x 13 and mask 1 is 4 x 4"):
            getattr(masks, form)()


# ---------------------------------------------------------------------------------------------- label maps and logits


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_label_maps(dtype: Any, as_tensor: bool) -> None:
    maps = RNG.integers(0, 4, (2, 6, 7)).astype(dtype) * 3
    given: Any = torch.from_numpy(maps) if as_tensor else maps
    masks = Masks.from_label_map(given)
    assert masks.labels.tolist() == [0, 3, 6, 9] * 2 and masks.images.tolist() == [0] * 4 + [1] * 4
    assert np.array_equal(masks.dense(), [maps[i] == c for i in range(2) for c in (0, 3, 6, 9)])
    one = Masks.from_label_map(given[1], classes=torch.tensor([9, 5]) if as_tensor else (9, 5))
    assert one.labels.tolist() == [9, 5] and one.areas().tolist() == [int((maps[1] == 9).sum()), 0]


@pytest.mark.parametrize("as_tensor", [False, True])
def test_logits_take_the_first_largest_and_nan_wins(as_tensor: bool) -> None:
    logits = RNG.integers(0, 3, (2, 4, 5, 6)).astype(np.float32)
    logits[0, 2, 0, 0] = logits[1, 1, 2, 2] = logits[1, 3, 2, 2] = np.nan
    logits[:, :, 4] = -np.inf
    given: Any = torch.from_numpy(logits) if as_tensor else logits
    labels = torch.from_numpy(logits).argmax(1).numpy()
    masks = Masks.from_logits(given, classes=range(4))
    assert np.array_equal(masks.dense(), [labels[i] == c for i in range(2) for c in range(4)])
    assert labels[0, 0, 0] == 2 and labels[1, 2, 2] == 1 and not labels[:, 4].any()


# ----------------------------------------------------------------------------------------------------------- bad forms

SQUARE = [[0, 0, 4, 0, 4, 4]]
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Masks.of(DENSE.astype(np.float32)),
            r"masks must be bool or uint8 \[N, H, W\] but got float32 \[5, 9, 13\]",
        ),
        (
            lambda: Masks.of(torch.from_numpy(DENSE[0])),
            r"masks must be bool or uint8 \[N, H, W\] but got uint8 \[9, 13\]: label maps and logits have methods",
        ),
        (lambda: Masks.of(5), "masks must be an array, a tensor, dicts or polygons but got int"),
        (lambda: Masks.of("abc"), "masks must be an array, a tensor, dicts or polygons but got str"),
        (
            lambda: Masks.of([5]),
            r"masks\[0\] must be a dict with 'size' and 'counts' or a list of polygons but got int",
        ),
        (lambda: Masks.of([SQUARE, {"size": [2, 2]}], (2, 2)), r"masks\[1\] must be a dict with 'size' and 'counts'"),
        (
            lambda: Masks.of({"size": [2, 2], "counts": [1, 4]}),
            r"masks\[0\]\['counts'\] must add up to 2 x 2 pixels, 4, but add up to 5",
        ),
        (
            lambda: Masks.of([SQUARE, {"size": [2, 2], "counts": "11"}], (2, 2)),
            r"masks\[1\]\['counts'\] must add up to 2 x 2 pixels",
        ),
        (lambda: Masks.of([{"size": [2, 2], "counts": [5, -1]}]), r"masks\[0\]\['counts'\] must be runs from 0"),
        (lambda: Masks.of([{"size": [2, 2], "counts": b"\x01"}]), r"masks\[0\]\['counts'\] must hold characters"),
        (
            lambda: Masks.of([{"size": [1 << 20, 1 << 20], "counts": "0"}]),
            r"masks\[0\]\['size'\] must .* at most 2147483647 pixels",
        ),
        (
            lambda: Masks.of([{"size": [2, 2], "counts": [4]}], (3, 3)),
            r"masks\[0\]\['size'\] must be size, \[3, 3\], but is \[2, 2\]",
        ),
        (
            lambda: Masks.of([SQUARE]),
            r"size must be \[height, width\] of the image for masks\[0\], a polygon, but is None",
        ),
        (lambda: Masks.of([SQUARE], (2, 2, 2)), r"size must be \[height, width\], or one of each of 1 masks"),
        (lambda: Masks.of([SQUARE], (-1, 2)), r"sizes\[0\] must be at least 0 x 0"),
        (lambda: Masks.of([SQUARE], (9, 9), rule="x"), "rule must be one of 'coco', 'centre' but got 'x'"),
        (
            lambda: Masks.of([{"size": [2, 2], "counts": [4]}, [[0, 0, 1]]], (2, 2)),
            "ring 0 of mask 1 must have an even number",
        ),
        (lambda: Masks.of([SQUARE, [[0, 0, 4, 0, np.nan, 4]]], (9, 9)), "ring 0 of mask 1 must have coordinates"),
        (lambda: Masks.of([SQUARE], ((9,), (9, 9))), r"size must be \[height, width\], or one of each of 1 masks"),
        (lambda: Masks.of([ENDLESS], (9, 9)), r"masks\[0\] must hold rings \[x0, y0, x1, y1, ...\]"),
        (lambda: Masks.of([[3]], (9, 9)), r"masks\[0\] must hold rings \[x0, y0, x1, y1, ...\]"),
        *(
            (
                lambda form=form: Masks.of([SQUARE, form(DENSE[0])], SIZE),
                r"masks\[1\] must be .* is a map of 9 x 13 pixels",
            )
            for form in (np.asarray, np.ndarray.tolist, lambda map: (map > 0).tolist(), lambda map: 255.0 * (map > 0))
        ),
        (lambda: Masks.of([np.zeros(SIZE)], SIZE), r"masks\[0\] must be a dict .* but is a map of 9 x 13 pixels: give"),
        (
            lambda: Masks.from_words(words()[:, :1], SIZE),
            r"words must be int64 \[N, 2\] for 9 x 13 pixels but got int64 \[5, 1\]",
        ),
        (lambda: Masks.from_words(~words(), SIZE), "words must have no bit set beyond pixel 116"),
        (
            lambda: Masks.from_label_map(DENSE.astype(float)),
            r"label_map must be integers \[H, W\] or \[B, H, W\] but got float64",
        ),
        (lambda: Masks.from_label_map([[1]]), "label_map must be an array or a tensor but got list"),
        (lambda: Masks.from_dense([DENSE[0]]), "masks must be an array or a tensor but got list"),
        (lambda: Masks.from_words(words().tolist(), SIZE), "words must be an array or a tensor but got list"),
        (lambda: Masks.from_logits(None), "logits must be an array or a tensor but got NoneType"),
        (lambda: Masks.from_label_map(np.array([[1, -2]])), "label_map must be at least 0 but has -2"),
        (lambda: Masks.from_label_map(DENSE, classes=[0.5]), "classes must be a list of integers but got"),
        (
            lambda: Masks.from_logits(DENSE),
            r"logits must be floating \[B, C, H, W\] with two or more classes but got uint8",
        ),
        (lambda: Masks.from_logits(np.zeros((1, 0, 2, 2))), "logits must be floating .* with two or more classes"),
        (
            lambda: Masks.from_logits(np.zeros((1, 1, 2, 2))),
            r"two or more classes but got float64 \[1, 1, 2, 2\]: masks of one channel are logits > 0",
        ),
        (
            lambda: Masks.from_runs(Runs(np.array([3], np.int32), np.array([0, 1]), np.array([[2, 2]], np.int32))),
            "runs of mask 0 must add up to its 2 x 2 pixels, 4, but add up to 3",
        ),
    ],
)
def test_bad_forms_are_named(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_numpy_forms_need_no_torch() -> None:
    program = (
        "import sys, numpy as np; from valor_gpu.inputs.masks import Masks\n"
        "masks = Masks.of(np.eye(4, dtype=np.uint8)[None])\n"
        "masks.words(), masks.areas(), masks.boxes(), Masks.from_label_map(np.eye(3, dtype=int)).runs()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
