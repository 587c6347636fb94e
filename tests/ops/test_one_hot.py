"""Counts of one-hot maps: every kernel equals the definition by bytes, which equals numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, library

from testing import examples_one_hot as made
from testing.examples_pixels import INTS, labels_of
from testing.parity import differences
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.error_codes import NO_ERROR, raise_error
from valor_gpu.ops.one_hot import op as one_hot
from valor_gpu.ops.one_hot.op import count_one_hot, one_hot_error
from valor_gpu.ops.pixel_counts.op import count_pixels

Run = Callable[..., Any]
NAME = "count_one_hot"


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Run:
    """Calls the op as one backend computes it."""
    return kernel(request.param, NAME, one_hot._count_one_hot_cuda)


def check(got: Any, args: Any, text: str = "") -> None:
    assert differences(tuple(got), tuple(_library.reference(NAME)(*args))) == "", text


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_examples(run: Run) -> None:
    for text, args in made.one_hot_examples(True):
        check(run(*args), args, text)


@pytest.mark.smoke
def test_small_maps(run: Run) -> None:
    rng = random(1)
    hot, truth = made.hot_of(rng, (2, 5, 31), 3, torch.int16), labels_of(rng, (2, 5, 31), 3)
    for args in ((hot[..., 1:], truth[..., 1:], 3, 2, True), (truth, hot, 3, None, False), (hot, hot, 3, 1, False)):
        check(run(*args), args)
    for pixels in (1100, 1104):  # channels that begin at multiples of 4 bytes, and of 16
        line, labels = made.hot_of(rng, (1, pixels), 3), labels_of(rng, (1, pixels), 3, dtype=torch.uint8)
        for args in ((line, labels, 3, 2, False), (line.short(), line, 3, 1, True)):
            check(run(*args), args)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_long_lines_of_every_pair_of_types(run: Run, dtype: torch.dtype) -> None:
    """Lines that are read by loads of 16 bytes, of 4, and a pixel at a time, with bad values, ignored and not."""
    rng = random(INTS.index(dtype))
    for number, other in enumerate(INTS):
        labels = other if other != torch.bool else torch.uint8
        pixels = (1092, 1600, 1031)[number % 3]  # of channels that begin at multiples of 4 bytes, of 16, and anywhere
        hot, second = made.hot_of(rng, (2, pixels), 3, dtype), made.hot_of(rng, (2, pixels), 3, other)
        truth = labels_of(rng, (2, pixels), 4, dtype=labels)
        for _ in range(2):
            for args in (
                (hot, second, 3, 1, True), (hot, second, 3, None, False), (hot, truth, 3, 3, False),
                (hot, truth, 3, 255, True), (hot, truth, 3, -1, True), (truth, hot, 3, 2, True),
            ):  # fmt: skip
                check(run(*args), args, f"{dtype}, {other}, {args[2:]}")
            if dtype == torch.bool:
                break
            hot[1, 2, 700] = 2  # where a load of several pixels brings it
            truth[0, 900] = 2 ** (8 * truth.element_size() - 1) - 1
        assert run(hot, truth, 3, None, True)[2] != NO_ERROR


def test_labels_that_their_type_lacks_are_no_class(run: Run) -> None:
    """Bits of 200 in int8 are those of -56, which 260 classes do not have, and class 259 no uint8."""
    truth = torch.full((1, 1100), -56, dtype=torch.int8)
    hot = torch.ones((1, 260, 1100), dtype=torch.bool)
    for label, ignored in ((-56, None), (-56, 200), (3, 259), (3, -253)):
        for labels in (truth.fill_(label), truth.to(torch.int16), (truth.int() % 256).to(torch.uint8)):
            args = (hot, labels, 260, ignored, False)
            check(run(*args), args, f"{label}, {ignored}, {labels.dtype}")


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_orders_of_lanes(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    rng = random(int(seed))
    hot, truth = made.hot_of(rng, (2, 40, 130), 9, torch.uint8), labels_of(rng, (2, 40, 130), 10)
    simulated = kernel("simulated", NAME, one_hot._count_one_hot_cuda)
    for args in ((hot, truth, 9, 9, True), (truth, hot, 9, 4, False), (hot, hot.flip(0), 9, None, True)):
        check(simulated(*args), args)


@pytest.mark.parametrize("seed", seeds(3))
def test_strides_of_every_kind(run: Run, seed: int) -> None:
    rng = random(seed)
    hot = made.hot_of(rng, (3, 6, 5, 140), 4, torch.int8), made.hot_of(rng, (3, 6, 5, 140), 4)
    order = (0, 1, *(int(i) + 2 for i in rng.permutation(3)))
    step = int(rng.integers(1, 3))
    sides = hot[0].permute(order)[..., ::step], hot[1].permute(order)[..., ::step]
    truth = labels_of(rng, (*sides[0].shape[:1], *sides[0].shape[2:]), 4)
    for args in ((*sides, 4, 3, bool(seed % 2)), (sides[0], truth, 4, 0, True), (truth, sides[1], 4, 0, False)):
        check(run(*args), args)


# ------------------------------------------------------------------------------------------------------------ oracles


@pytest.mark.parametrize("classes", [1, 2, 19])
def test_numpy(classes: int) -> None:
    rng = random(classes)
    preds, target = made.hot_of(rng, (3, 70, 90), classes), made.hot_of(rng, (3, 70, 90), classes)
    a, b = preds.numpy(), target.numpy()
    expected = np.stack([(a & b).sum((2, 3)), a.sum((2, 3)), b.sum((2, 3))], 1)
    assert count_one_hot(preds, target, classes, per_image=True).counts.tolist() == expected.tolist()
    assert count_one_hot(preds, target, classes).counts.tolist() == expected.sum(0).tolist()
    kept = ~b[:, :1]
    found = count_one_hot(preds, target, classes, ignore_index=0)
    assert found.counts[1].tolist() == (a & kept).sum((0, 2, 3)).tolist()
    assert int(found.ignored) == b[:, 0].sum() and int(found.error) == NO_ERROR


@pytest.mark.parametrize("classes", [2, 19, 1000])
def test_labels_made_one_hot_count_as_labels(classes: int) -> None:
    rng = random(classes)
    preds, target = labels_of(rng, (2, 30, 40), classes, 7), labels_of(rng, (2, 30, 40), classes, 7)
    hot = [torch.nn.functional.one_hot(side, classes).movedim(-1, 1) for side in (preds, target)]
    for ignore_index in (None, 1):
        expected = count_pixels(preds, target, classes, ignore_index=ignore_index, per_image=True).counts
        for sides in (hot, (hot[0], target), (preds, hot[1].contiguous())):
            own = count_one_hot(sides[0], sides[1], classes, ignore_index=ignore_index, per_image=True)
            assert torch.equal(own.counts, expected)
            assert int(own.ignored) == (0 if ignore_index is None else int((target == 1).sum()))


@pytest.mark.parametrize("classes", [2, 3, 5, 32, 128, 129])
def test_channels_side_by_side(classes: int) -> None:
    generator = random(classes)
    for dtype, pixels, ignore in ((torch.int64, 4096, None), (torch.uint8, 4097, None), (torch.int16, 37, 1)):
        sides = [torch.from_numpy(generator.integers(0, 2, (2, pixels, classes))).to(dtype) for _ in range(2)]
        if pixels == 37:
            sides[1][1, 36, classes - 1] = 3
        args = (*(side.movedim(-1, 1) for side in sides), classes, ignore, pixels == 4097)
        check(one_hot._count_one_hot_cpu(*args), args)
        unaligned = (*(side[..., 1:] for side in args[:2]), *args[2:])
        check(one_hot._count_one_hot_cpu(*unaligned), unaligned)


def test_threads_give_the_same_counts() -> None:
    rng = random(9)
    hot, truth = made.hot_of(rng, (5, 200, 301), 12), labels_of(rng, (5, 200, 301), 12)
    truth[3, 7, 11] = 12
    before = torch.get_num_threads()
    try:
        for per_image in (False, True):
            counted = []
            for threads in (1, 3):
                torch.set_num_threads(threads)
                counted.append(count_one_hot(hot, truth, 12, ignore_index=3, per_image=per_image))
            assert all(torch.equal(a, b) for a, b in zip(*counted)) and int(counted[0].counts.sum()) > 0
    finally:
        torch.set_num_threads(before)
    with pytest.raises(InputError, match=r"^target\[3, 7, 11\] must be a class index from 0 to 11 but is 12$"):
        raise_error(counted[0].error, one_hot_error(hot, truth, 12))


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("side", "place", "value"),
    [("preds", (1, 2, 4, 130), 7), ("target", (2, 0, 0, 0), -1), ("preds", (0, 3, 0, 5), 255)],
)
def test_the_first_bad_value_is_named(run: Run, side: str, place: tuple[int, ...], value: int) -> None:
    maps = {name: made.hot_of(random(1), (3, 6, 200), 4, torch.int16) for name in ("preds", "target")}
    maps[side][place] = maps[side][2, 3, 5, 199] = value
    error = run(maps["preds"], maps["target"], 4, None, False)[2]
    with pytest.raises(InputError, match=rf"^{side}\[{', '.join(map(str, place))}\] must be 0 or 1 but is {value}$"):
        raise_error(error, one_hot_error(maps["preds"], maps["target"], 4))


def test_ignored_pixels_have_no_errors() -> None:
    preds, target = torch.tensor([[[1, 5], [0, 0]]]), torch.tensor([[0, -1]])
    assert int(count_one_hot(preds, target, 2, ignore_index=-1).error) == NO_ERROR
    assert int(count_one_hot(preds, torch.tensor([[[1, 0], [0, 1]]]), 2, ignore_index=1).error) == NO_ERROR
    assert int(count_one_hot(preds, torch.tensor([[[1, 0], [0, 1]]]), 2, ignore_index=255).error) != NO_ERROR


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: count_one_hot(a.float(), a, 3), "preds must have dtype .* but got torch.float32"),
        (lambda a: count_one_hot(a, a, 2), r"preds must have shape \[B, 2, ...\] but got \[2, 3, 5\]"),
        (lambda a: count_one_hot(a[:, 0], a[..., :4], 3), r"\[2, 5\], but has \[2, 4\]: preds are \[2, 5\] and target"),
        (lambda a: count_one_hot(a, a[0, 0], 3), r"images and pixels of preds, \[2, 5\], but has \[5\]"),
        (lambda a: count_one_hot(a, a, 0), "num_classes must be at least 1 but got 0"),
        (lambda a: count_one_hot(a[0, 0], a[0, 0], 3), r"preds must have shape \[B, 3, ...\] but got \[5\]"),
    ],
)
def test_errors_name_the_argument(call: Callable[[Tensor], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(torch.zeros(2, 3, 5, dtype=torch.int64))


def test_opcheck() -> None:
    for text, args in made.one_hot_examples(True):
        if text in ("channels last", "2 among preds", "(0, 4, 5) of 2"):
            library.opcheck(getattr(torch.ops.valor_gpu, NAME).default, args)
