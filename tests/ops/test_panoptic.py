"""Panoptic counts: every kernel equals the definition by bytes, which equals plain Python over sets of pixels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, library

from testing import examples_panoptic as made
from testing.parity import differences
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.error_codes import NO_ERROR, raise_error
from valor_gpu.ops.panoptic import cpu as _panoptic_cpu
from valor_gpu.ops.panoptic import op as panoptic
from valor_gpu.ops.panoptic.cpu import CROWD, EXCUSES, Segments, count_image
from valor_gpu.ops.panoptic.op import count_panoptic, panoptic_error

Run = Callable[..., Any]
NAME = "count_panoptic"


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Run:
    """Calls the op as one backend computes it."""
    return kernel(request.param, NAME, panoptic._count_panoptic_cuda)


def check(got: Any, *args: Any) -> None:
    assert differences(tuple(got), tuple(_library.reference(NAME)(*args))) == ""


# ------------------------------------------------------------------------------------------------------------- parity


def test_examples(run: Run) -> None:
    for text, args in made.panoptic_examples(True):
        assert differences(tuple(run(*args)), tuple(_library.reference(NAME)(*args))) == "", text


@pytest.mark.smoke
def test_small_scenes(run: Run) -> None:
    for modified in (False, True):
        args = *made.batch_of(0, 2, 9, 14), made.CATEGORIES, made.THINGS, modified, False
        check(run(*args), *args)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_orders_of_lanes(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated = kernel("simulated", NAME, panoptic._count_panoptic_cuda)
    for modified in (False, True):
        args: Any = *made.batch_of(int(seed), 2, 30, 75, 20), made.CATEGORIES, made.THINGS, modified, True
        check(simulated(*args), *args)
    pixels = torch.arange(90 * 90).reshape(1, 90, 90)  # more segments than small tables hold, beside an image of few
    noise = torch.cat([torch.stack([pixels % 2, pixels // 2], -1), torch.ones(1, 90, 90, 2, dtype=torch.int64)])
    args = noise, noise.roll(1, 2), (0, 1), 2, False, False
    check(simulated(*args), *args)


def test_large_tables_serve_images_one_after_another() -> None:
    """1,900 x 1,000 pixels have room for 2.4 million segments, so that the second image waits for the first."""
    target = torch.ones(3, 1900, 1000, 2, dtype=torch.uint8)
    preds = target.clone()
    for image in (0, 2):  # few pixels of another category, in more places than small tables have slots
        preds[image, ::2, ::3] = torch.tensor([2, image + 5], dtype=torch.uint8)
        preds[image, 1::400, :600:2, 1] = torch.arange(300).to(torch.uint8)
    side = preds.to(torch.int32)
    side[0, :9, :, 1] += torch.arange(9000, dtype=torch.int32).reshape(9, 1000)
    side[2, 5:14, :, 1] -= torch.arange(9000, dtype=torch.int32).reshape(9, 1000)
    args = side, target, (1, 2), 2, False, False
    got = kernel("simulated", NAME, panoptic._count_panoptic_cuda)(*args)
    assert differences(tuple(got), tuple(panoptic._count_panoptic_cpu(*args))) == ""


@pytest.mark.parametrize("seed", seeds(4))
def test_strides_of_every_kind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides = made.batch_of(seed, 3, 24, 40)
    chosen = [slice(int(a), None, int(b)) for a, b in zip(rng.integers(0, 3, 3), rng.choice([1, 1, 2], 3))]
    order = (*(int(i) for i in rng.permutation(3)), 3)
    views = [side[tuple(chosen)].permute(order) for side in sides]
    args: Any = *views, made.CATEGORIES, made.THINGS, bool(seed % 2), True
    check(panoptic._count_panoptic_cpu(*args), *args)


def test_instances_that_are_broadcast() -> None:
    category = torch.tensor([[[[1], [1], [6]]]]).expand(1, 2, 3, 2)
    args: Any = category, category.flip(1), made.CATEGORIES, made.THINGS, False, False
    check(panoptic._count_panoptic_cpu(*args), *args)


def test_threads_give_the_same_counts() -> None:
    args: Any = *made.batch_of(6, 7, 50, 60), made.CATEGORIES, made.THINGS, False, True
    before = torch.get_num_threads()
    try:
        counted = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            counted.append(panoptic._count_panoptic_cpu(*args))
    finally:
        torch.set_num_threads(before)
    assert differences(*counted) == ""


# --------------------------------------------------------------------------------------------------------- definition


def segments_of_pixels(side: Tensor, things: set[int], stuffs: set[int]) -> dict[tuple[int, int], set[int]]:
    """Pixels of each segment ``(category, instance)`` of an image ``[P, 2]``."""
    segments = defaultdict(set)
    for pixel, (category, instance) in enumerate(side.tolist()):
        if category in things | stuffs:
            segments[category, instance if category in things else 0].add(pixel)
    return segments


def qualities(preds: Tensor, target: Tensor, things: set[int], stuffs: set[int], modified: bool) -> dict[int, Any]:
    """Of each category the sum of IoUs, true positives, false positives and false negatives of one image ``[P, 2]``.

    Sets of pixels, by the text of the paper: void of the ground truth is removed from predictions, and what was
    predicted as void from the ground truth; then IoU above 1/2 matches, and what is mostly void is not counted.
    """
    sides = [segments_of_pixels(side, things, stuffs) for side in (preds, target)]
    full = [set().union(*segments.values()) for segments in sides]
    free = stuffs if modified else set()
    scores: dict[int, list[Any]] = {category: [Fraction(0), 0, 0, 0] for category in things | stuffs}
    matched: list[set[Any]] = [set(), set()]
    for (name, pixels), (other, true) in product(sides[0].items(), sides[1].items()):
        common, union = len(pixels & true), len((pixels & full[1]) | (true & full[0]))
        if name[0] == other[0] and (2 * common > union or (common and name[0] in free)):
            scores[name[0]][0] += Fraction(common, union)
            scores[name[0]][1] += name[0] not in free
            matched[0].add(name)
            matched[1].add(other)
    for side, row in ((0, 2), (1, 3)):
        for name, pixels in sides[side].items():
            if name[0] in free:
                scores[name[0]][1] += side
            elif name not in matched[side] and 2 * len(pixels - full[1 - side]) <= len(pixels):
                scores[name[0]][row] += 1
    return scores


def exact_sum(table: Tensor, column: int) -> Fraction:
    return sum((Fraction(int(table[5 + i, column]), 2 ** (32 * (i + 1))) for i in range(3)), Fraction(0))


@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize("seed", seeds(12))
def test_sets_of_pixels(seed: int, modified: bool) -> None:
    shape = [(6, 7), (13, 17), (1, 30), (25, 20)][seed % 4]
    preds, target = made.batch_of(seed, 2, *shape)
    things, stuffs = set(made.CATEGORIES[: made.THINGS]), set(made.CATEGORIES[made.THINGS :])
    tables = count_panoptic(preds, target, made.CATEGORIES, made.THINGS, modified=modified, allow_unknown=True).tables
    for image in range(2):
        expected = qualities(preds[image].flatten(0, 1), target[image].flatten(0, 1), things, stuffs, modified)
        for column, category in enumerate(made.CATEGORIES):
            iou, *counts = expected[category]
            assert tables[image, :3, column].tolist() == counts, (image, category)
            assert abs(exact_sum(tables[image], column) - iou) < 1e-14


def test_an_iou_of_one_half_is_no_match() -> None:
    target = torch.tensor([[[1, 0]] * 4 + [[0, 9]] * 2])
    half = torch.tensor([[[1, 0]] * 2 + [[0, 0]] * 4])
    more = torch.tensor([[[1, 0]] * 3 + [[0, 0]] * 3])
    for preds, counts in ((half, [0, 1, 1]), (more, [1, 0, 0])):
        assert count_panoptic(preds, target, [1, 0], 1).tables[0, :3, 0].tolist() == counts


def test_by_hand() -> None:
    """A thing of 7 pixels and stuff of 4, one pixel void; the predictions of the table have their counts and IoUs."""
    target = torch.tensor([[[1, 3]] * 7 + [[9, 9]] + [[2, 0]] * 4])
    for stuff_first, counts, iou in (
        (3, [[0, 0], [1, 1], [1, 1]], [Fraction(0), Fraction(0)]),  # 4 / (6 - 1 + 7 - 4) = 1/2; 3 / (6 + 4 - 3) = 3/7
        (2, [[1, 0], [0, 1], [0, 1]], [Fraction(5, 8), Fraction(0)]),  # 5 / (7 - 1 + 7 - 5); 3 / (5 + 4 - 3) = 1/2
        (1, [[1, 1], [0, 0], [0, 0]], [Fraction(6, 8), Fraction(3, 5)]),  # 6 / (8 - 1 + 7 - 6); 3 / (4 + 4 - 3)
    ):
        preds = torch.tensor([[[2, 0]] * stuff_first + [[1, 1]] * (9 - stuff_first) + [[2, 0]] * 3])
        table = count_panoptic(preds, target, [1, 2], 1).tables[0]
        assert table[:5].tolist() == [*counts, [1, 1], [1, 1]]
        assert [float(exact_sum(table, c)) for c in range(2)] == pytest.approx([float(x) for x in iou], abs=1e-15)


# --------------------------------------------------------------------------------------------------------- maps of ids


def ids_image(preds: Sequence[int], target: Sequence[int], dtype: Any = np.int64) -> list[Any]:
    return [np.array(side, dtype).reshape(2, -1) for side in (preds, target)]


def segments_of(*rows: tuple[int, int, int]) -> Segments:
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Segments(columns[:, 0], columns[:, 1], columns[:, 2])


NONE = segments_of()


def test_a_prediction_on_a_crowd_of_its_category_is_excused() -> None:
    preds, target = ids_image([5] * 6 + [6] * 6, [7] * 4 + [0] + [8] + [8] * 6)
    for flags, table in (
        (CROWD | EXCUSES, [[0, 0], [1, 0], [0, 1]]),
        (CROWD, [[0, 0], [2, 0], [0, 1]]),
        (0, [[1, 0], [1, 0], [0, 1]]),
    ):
        true = segments_of((8, 1, 0), (7, 0, flags))
        counted = count_image(preds, target, segments_of((6, 0, 0), (5, 0, 0)), true, 2)
        assert counted.table[:3].tolist() == table
        assert counted.areas.tolist() == [6, 6] and counted.target_areas.tolist() == [7, 4]


@pytest.mark.parametrize("with_library", [True, False])
def test_a_prediction_is_excused_by_more_than_half(with_library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_library:
        monkeypatch.setattr("valor_gpu.native.usable", lambda name: False)
    for void, false in ((2, 1), (3, 1), (4, 0)):
        preds, target = ids_image([5] * 6, [0] * void + [8] * (6 - void))
        counted = count_image(preds, target, segments_of((5, 0, 0)), segments_of((8, 1, 0)), 2)
        assert counted.table[:3].tolist() == [[0, 0], [false, 0], [0, 1]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_ids_of_every_dtype(dtype: Any) -> None:
    top = int(min(np.iinfo(dtype).max, 2**63 - 1))
    preds, target = ids_image([top] * 3 + [0] * 3, [top] * 2 + [1] * 4, dtype)
    counted = count_image(preds, target, segments_of((top, 0, 0)), segments_of((1, 1, 0), (top, 0, 0)), 2)
    assert counted.table[:3].tolist() == [[1, 0], [0, 0], [0, 1]] and counted.error is None
    assert Fraction(int(counted.table[5, 0]), 2**32) == pytest.approx(2 / 3)


@pytest.mark.smoke
def test_red_green_and_blue_are_24_bits() -> None:
    ids = np.array([[1, 256, 65536], [0x010203, 0xFFFFFF, 0]])
    pixels = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], -1).astype(np.uint8)
    listed = segments_of(*((int(i), 0, 0) for i in ids.ravel() if i))
    for side in (pixels, np.asfortranarray(pixels), ids.astype(np.uint32)):
        counted = count_image(side, pixels, listed, listed, 1)
        assert counted.areas.tolist() == counted.target_areas.tolist() == [1] * 5
        assert counted.table[:5, 0].tolist() == [5, 0, 0, 5, 5] and counted.error is None


def test_the_first_id_without_a_segment_is_named() -> None:
    preds, target = ids_image([5, 5, 5, 5, 9, 5], [5, 5, 5, 5, 5, 4])
    one = segments_of((5, 0, 0))
    assert count_image(preds, target, one, one, 1).error == (False, 1, 1)
    assert count_image(target, target, one, one, 1).error == (True, 1, 2)  # of both sides, the ground truth
    assert count_image(np.full_like(target, 5), target, one, one, 1).error == (True, 1, 2)


@pytest.mark.parametrize("seed", seeds(6))
def test_ids_without_void_equal_categories_and_instances(seed: int) -> None:
    """Void of the ground truth alone: the protocols differ where a prediction is void."""
    rng = np.random.default_rng(seed)
    target = made.scene_of(rng, 20, 30)
    preds = made.predicted_from(rng, target)
    preds[preds[..., 0] == made.UNKNOWN, 0] = made.CATEGORIES[0]
    sides = []
    for side in (preds, target):
        side[np.isin(side[..., 0], made.CATEGORIES[made.THINGS :]), 1] = 0
        names, ids = np.unique(side.reshape(-1, 2), axis=0, return_inverse=True)
        known = np.isin(names[:, 0], made.CATEGORIES)
        ids = np.where(known[ids], ids + 1, 0).reshape(side.shape[:2])
        rows = [made.CATEGORIES.index(c) for c in names[known, 0]]
        sides.append((ids, segments_of(*((int(i) + 1, r, 0) for i, r in zip(np.flatnonzero(known), rows)))))
    counted = count_image(sides[0][0], sides[1][0], sides[0][1], sides[1][1], len(made.CATEGORIES))
    own, true = (torch.from_numpy(side)[None] for side in (preds, target))
    expected = count_panoptic(own, true, made.CATEGORIES, made.THINGS, allow_unknown=True).tables[0]
    assert np.array_equal(counted.table, expected.numpy()) and counted.error is None


@pytest.mark.parametrize("seed", seeds(6))
def test_plain_numpy_counts_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    sides: Any = [rng.integers(0, 9, (5 + seed, 40)) for _ in range(2)]
    sides[1] = np.where(rng.random(sides[0].shape) < 0.8, sides[0] + 1, sides[1])
    listed: Any = [
        Segments(rng.permutation(np.arange(1, 9 + side)), rng.integers(0, 3, 8 + side), np.zeros(8 + side, np.int64))
        for side in range(2)
    ]
    listed[1].flags[:] = rng.choice([0, 0, CROWD, CROWD | EXCUSES], 9)
    pixels = np.stack([sides[0], np.zeros_like(sides[0]), np.zeros_like(sides[0])], -1).astype(np.uint8)
    expected = [count_image(side, sides[1], listed[0], listed[1], 3) for side in (sides[0], pixels)]
    bad = count_image(sides[0], sides[1] + 1, listed[0], listed[1], 3)
    monkeypatch.setattr("valor_gpu.native.usable", lambda name: False)
    for image, native in zip((sides[0], pixels), expected):
        plain = count_image(image, sides[1], listed[0], listed[1], 3)
        assert all(np.array_equal(a, b) for a, b in zip(plain[:3], native[:3])) and plain.error == native.error
    assert count_image(sides[0], sides[1] + 1, listed[0], listed[1], 3).error == bad.error is not None
    assert count_image(sides[0][:0], sides[1][:0], listed[0], listed[1], 3).table.sum() == 0


# ------------------------------------------------------------------------------------------------------------- errors


def test_the_first_unknown_category_is_named() -> None:
    target = torch.ones(2, 3, 4, 2, dtype=torch.int64)
    preds = target.clone()
    preds[1, 2, 1, 0] = preds[1, 2, 3, 0] = -7
    counted = count_panoptic(preds, target, [1, 2], 1)
    with pytest.raises(InputError, match=r"^preds\[1, 2, 1\] must have a category of 1, 2 but has -7: allow_unknown"):
        raise_error(counted.error, panoptic_error(preds.shape, [1, 2], preds))
    assert panoptic_error(preds.shape, range(20))(int(counted.error)).startswith(
        "preds[1, 2, 1] must have a category of 0, 1, 2, 3, 4, 5, 6, 7, ...: allow"
    )
    assert int(count_panoptic(target, preds, [1, 2], 1).error) == NO_ERROR
    assert counted.tables[1, _panoptic_cpu.TRUE_POSITIVES].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: count_panoptic(a.float(), a, [1], 1), "preds must have dtype .* but got torch.float32"),
        (lambda a: count_panoptic(a[..., :1], a, [1], 1), r"preds must have shape \[B, ..., 2\] but got \[1, 3, 1\]"),
        (lambda a: count_panoptic(a[0], a[0], [1], 1), r"preds must have shape \[B, ..., 2\] but got \[3, 2\]"),
        (lambda a: count_panoptic(a, a[:, 1:], [1], 1), r"target must have shape \[1, 3, 2\] but got \[1, 2, 2\]"),
        (lambda a: count_panoptic(a, a, [], 0), "categories must not be empty"),
        (lambda a: count_panoptic(a, a, [1, 1], 0), r"categories must all be different but got \[1, 1\]"),
        (lambda a: count_panoptic(a, a, [2**63], 0), "categories must fit in int64 but got 9223372036854775808"),
        (lambda a: count_panoptic(a, a, [1], 2), "things must be at most 1, the number of categories, but got 2"),
        (lambda a: count_panoptic(a.to(torch.uint64), a, [-1], 1), "at least 0 for maps of torch.uint64 but got -1"),
        (lambda a: count_image(a[0].numpy(), a.float()[0].numpy(), NONE, NONE, 1), "target must be integers"),
        (lambda a: count_image(a[0].numpy(), a[0, 1:].numpy(), NONE, NONE, 1), r"preds must have shape \[2"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call: Callable[[Tensor], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(torch.zeros(1, 3, 2, dtype=torch.int64))


def test_an_image_of_too_many_pixels_is_an_error() -> None:
    huge = torch.zeros(1, dtype=torch.uint8).expand(1, 2**16, 2**16, 2)
    with pytest.raises(InputError, match="target must have at most 2147483647 pixels an image but has shape"):
        count_panoptic(huge, huge, [1], 1)


def test_opcheck() -> None:
    for text, args in made.panoptic_examples(True):
        if text.startswith(("3 of", "transposed", "unknown")):
            library.opcheck(getattr(torch.ops.valor_gpu, NAME).default, args)
