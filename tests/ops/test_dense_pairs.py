"""Pairs of dense masks: every kernel stores what the reference stores, and the reference has pycocotools' numbers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.oracles import pycocotools
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.assign.cpu import NUMPY
from valor_gpu.ops.assign.cpu import assign as assign_arrays
from valor_gpu.ops.assign.match_batch import (
    AGNOSTIC,
    HASHED,
    USER_INPUT,
    WANT_MATCHES,
    MatchBatch,
    MatchRule,
    Pairs,
    to_arguments,
)
from valor_gpu.ops.assign.op import _assign_on_cuda, assign
from valor_gpu.ops.masks import cpu as _dense_pairs_cpu
from valor_gpu.ops.masks import op as masks
from valor_gpu.ops.masks.cpu import plan
from valor_gpu.ops.masks.op import dense_pairs
from valor_gpu.ops.pairs.cpu import Found, stored

Op = Callable[..., Any]
Sides = tuple[list[Tensor], list[Tensor]]


def each(sides: Sides, change: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """Both sides, image by image."""
    return [change(x) for x in sides[0]], [change(x) for x in sides[1]]


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "dense_pairs", masks._pairs_on_cuda)


def blobs(rng: np.random.Generator, count: int, height: int, width: int) -> Tensor:
    """Rectangles with ragged rims; some empty, some full."""
    out = np.zeros((count, height, width), np.uint8)
    for mask in out:
        y, x = rng.integers(0, height + 1, 2), rng.integers(0, width + 1, 2)
        mask[y.min() : y.max(), x.min() : x.max()] = rng.integers(1, 256)
        mask[rng.random(mask.shape) < 0.02] ^= 1
        if rng.random() < 0.1:
            mask[:] = rng.integers(0, 2)
    return torch.from_numpy(out)


def random_batch(seed: int, sizes: list[tuple[int, int, int, int]], labels: int = 2) -> tuple[MatchBatch, Sides]:
    """Images of so many detections, ground truths, rows and columns, with crowds."""
    rng = np.random.default_rng(seed)
    lengths = torch.tensor([[n for n, *_ in sizes], [m for _, m, *_ in sizes]], dtype=torch.int64)
    sides = [blobs(rng, n, h, w) for n, _, h, w in sizes], [blobs(rng, m, h, w) for _, m, h, w in sizes]
    n, m = (int(total) for total in lengths.sum(1))
    for ours, theirs in zip(*sides):  # some equal ones, some that differ a little
        for j in range(min(len(ours), len(theirs))):
            noise = torch.from_numpy(rng.random(ours[j].shape) < (0.0, 0.01, 0.2)[j % 3])
            ours[j] = torch.where(noise, 1 - theirs[j].clamp(max=1), theirs[j])
    batch = MatchBatch(
        lengths, [], [torch.from_numpy(np.round(rng.random(n), 1))], [torch.from_numpy(rng.integers(0, labels, n))],
        gt_labels=[torch.from_numpy(rng.integers(0, labels, m))],
        gt_flags=[torch.from_numpy((rng.random(m) < 0.2).astype(np.uint8))],
    )  # fmt: skip
    return batch, sides


RAGGED = [(3, 4, 9, 13), (0, 2, 5, 5), (2, 0, 1, 1), (5, 3, 33, 31), (4, 4, 16, 64), (0, 0, 7, 7), (2, 2, 0, 4)]


def arguments(
    batch: MatchBatch, sides: Sides, lowest: float = 0.5, agnostic: bool = False, boundaries: Sides = ([], [])
) -> tuple[Any, ...]:
    return (*sides, *boundaries, *(getattr(batch, name) for name in masks._BATCH_FIELDS), lowest, agnostic)


def lists(found: Found | Pairs) -> list[tuple[list[int], list[float]]]:
    out = []
    for first, count in zip(found.offsets.tolist(), found.counts.tolist()):
        used = slice(first, first + count)
        out.append((found.ground_truths[used].tolist(), found.similarities[used].tolist()))
    return out


def check(op: Op, *given: Any) -> Found:
    got, expected = Found(*op(*given)), Found(*_library.reference("dense_pairs")(*given))
    assert lists(got) == lists(expected)
    for name in ("areas", "gt_own_areas", "hashes", "gt_hashes", "error"):
        a, b = getattr(got, name), getattr(expected, name)
        assert a.dtype == b.dtype and torch.equal(a.view(torch.int64), b.view(torch.int64)), name
    return got


@pytest.mark.smoke
@pytest.mark.parametrize("lowest", [0.5, 0.0])
def test_every_kernel_equals_the_reference(op: Op, lowest: float) -> None:
    batch, sides = random_batch(1, RAGGED)
    found = check(op, *arguments(batch, sides, lowest))
    assert found.counts.sum() >= 3


@pytest.mark.parametrize("seed", seeds(2))
def test_random_batches(op: Op, seed: int) -> None:
    rng = np.random.default_rng([seed, 7])
    rows = [(*rng.integers(0, 6, 2).tolist(), *rng.integers(0, 50, 2).tolist()) for _ in range(8)]
    sizes = [(n, m, h, w) for n, m, h, w in rows]
    batch, sides = random_batch(seed + 10, sizes)
    check(op, *arguments(batch, sides, (0.1, 0.5, 0.75)[seed % 3], bool(seed % 2)))


@pytest.mark.parametrize("lowest", [0.5, 0.0])
def test_boundaries_lower_the_similarity(op: Op, lowest: float) -> None:
    batch, sides = random_batch(3, RAGGED)
    _, inner = random_batch(4, RAGGED)
    rims = tuple([a * (b != 0) for a, b in zip(*pair)] for pair in zip(sides, inner))
    check(op, *arguments(batch, sides, lowest, True, (rims[0], rims[1])))


def test_a_mask_of_many_tiles_and_an_image_with_many_of_a_class(op: Op) -> None:
    """More than 32 ground truths of a class, and more pixels than the warps of a block take at once."""
    batch, sides = random_batch(5, [(2, 70, 3, 5), (1, 2, 330, 401)], labels=1)
    found = check(op, *arguments(batch, sides, 0.0))
    assert found.counts.tolist() == [70, 70, 2]


def test_masks_begin_at_any_byte(op: Op) -> None:
    batch, sides = random_batch(6, [(3, 3, 9, 11)] * 2)
    moved = []
    for k, side in enumerate(sides):
        room = torch.empty(2000, dtype=torch.uint8)
        moved.append([room[1 + 900 * i + 5 * k :][: x.numel()].view(x.shape).copy_(x) for i, x in enumerate(side)])
    check(op, *arguments(batch, (moved[0], [x.transpose(1, 2).contiguous().transpose(1, 2) for x in moved[1]]), 0.1))


def test_padding_has_no_pairs(op: Op) -> None:
    batch, sides = random_batch(7, [(4, 5, 6, 7)] * 3, labels=1)
    padded = replace(batch, counts=torch.tensor([2, 0, 9]), gt_counts=torch.tensor([5, 3, -1]))
    found = check(op, *arguments(padded, sides, 0.0))
    assert found.counts.tolist() == [5, 5, 0, 0] + [0] * 8
    assert not found.areas.view(3, 4)[0, 2:].any() and not found.hashes.view(3, 4)[1].any()


def test_bool_masks_and_columns_of_each_image(op: Op) -> None:
    batch, sides = random_batch(8, RAGGED)
    split: dict[str, Any] = {n: list(getattr(batch, n)[0].split(batch.lengths[k].tolist()))
             for n, k in (("labels", 0), ("gt_labels", 1), ("gt_flags", 1))}  # fmt: skip
    check(op, *arguments(replace(batch, **split), each(sides, lambda x: x != 0)))


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    batch, sides = random_batch(9, [(3, 40, 20, 33), (2, 3, 90, 101)], labels=1)
    check(kernel("simulated", "dense_pairs", masks._pairs_on_cuda), *arguments(batch, sides, 0.1))


def test_similarities_are_those_of_pycocotools() -> None:
    coco_mask = pycocotools("mask")
    batch, sides = random_batch(11, [(9, 8, 37, 41)], labels=1)
    found, _ = dense_pairs(batch, *sides, rule((0.0,)))
    assert found.pairs is not None
    encoded = [[coco_mask.encode(np.asfortranarray(m != 0)) for m in side[0].numpy()] for side in sides]
    expected = coco_mask.iou(*encoded, batch.gt_flags[0].tolist())
    got = np.zeros_like(expected)
    for d, (gts, values) in enumerate(lists(found.pairs)):
        got[d, gts] = values
    assert got.tolist() == expected.tolist()
    assert found.areas[0].tolist() == [float(coco_mask.area(m)) for m in encoded[0]]


def test_hashes_tell_masks_apart() -> None:
    """Every place of one pixel, every size of no pixel, two pixels that swap words, bit 63 that moves."""

    def hashed(*values: Any) -> list[int]:
        side = [torch.from_numpy(np.asarray(v, np.uint8)) for v in values]
        lengths = torch.tensor([[len(s) for s in side], [0] * len(side)])
        n = int(lengths.sum())
        labels = torch.zeros(n, dtype=torch.int64)
        batch = MatchBatch(lengths, [], [torch.zeros(n)], [labels], gt_labels=[labels[:0]])
        none = [torch.zeros(0, *s.shape[1:], dtype=torch.uint8) for s in side]
        return list(dense_pairs(batch, side, none, rule())[0].hashes[0].tolist())

    ones = np.eye(600, dtype=np.uint8).reshape(600, 20, 30)
    twos = [(ones[i] | ones[i + 64])[None] for i in range(500)]
    sizes = [np.zeros((1, h, w)) for h, w in ((1, 6), (6, 1), (2, 3), (3, 2), (0, 5), (5, 0))]
    found = hashed(ones, *twos, *sizes)
    assert len(set(found)) == len(found)


# -------------------------------------------------------------------------------------------------------------- memory


def numpy_batch(batch: MatchBatch) -> MatchBatch:
    names = ("scores", "labels", "gt_labels", "gt_flags")
    columns: dict[str, Any] = {n: [x.numpy() for x in getattr(batch, n)] for n in names}
    return replace(batch, lengths=batch.lengths.numpy(), **columns)


def test_groups_of_images_change_nothing_and_bound_memory() -> None:
    batch, sides = random_batch(12, [(2, 3, 64, 50), (1, 4, 30, 64), (3, 2, 80, 80), (2, 0, 5, 5), (1, 2, 64, 64)])
    arrays, pixels = numpy_batch(batch), each(sides, Tensor.numpy)
    whole = plan(arrays.lengths, *pixels, NUMPY)
    assert whole.groups == [(0, 5)] and whole.packed == 50 * 3 + 30 * 4 + 100 * 2 + 64 * 2 and whole.largest == 100
    tiled = plan(arrays.lengths, *pixels, NUMPY, budget=8 * 250)
    assert tiled.groups == [(0, 1), (1, 2), (2, 4), (4, 5)] and tiled.packed == 200
    assert tiled.scratch_bytes(3) == 8 * (200 + 3 * 100)
    results = [_dense_pairs_cpu.run(arrays, [pixels], 0.1, False, NUMPY, budget) for budget in (1 << 26, 8 * 250, 0)]
    for other in results[1:]:
        for a, b in zip(results[0], other):
            assert np.array_equal(a, b)


def test_the_peak_is_what_the_plan_says() -> None:
    """Packed ground truths of the largest group, not of all; what C++ holds itself is one packed mask a thread."""
    count, size = 12, 256
    mask = np.ones((4, size, size), bool)
    labels = np.zeros(4 * count, np.int64)
    batch = MatchBatch(np.full((2, count), 4), [], [labels + 0.5], [labels], gt_labels=[labels])
    budget = 2 * 4 * size * size // 8
    planned = plan(batch.lengths, [mask] * count, [mask] * count, NUMPY, budget)
    assert planned.packed * 8 == budget and len(planned.groups) == count // 2
    sides = [([mask] * count, [mask] * count)]
    _dense_pairs_cpu.run(batch, sides, 0.5, False, NUMPY, budget)
    tracemalloc.start()
    _dense_pairs_cpu.run(batch, sides, 0.5, False, NUMPY, budget)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert budget <= peak <= planned.scratch_bytes(0) + 20_000


# ------------------------------------------------------------------------------------------------------------ matching


def rule(thresholds: tuple[float, ...] = (0.3, 0.75), options: int = 0) -> MatchRule:
    return MatchRule.make(thresholds, [[0, 1e10], [0, 200]], [1, 100], options | HASHED | USER_INPUT | WANT_MATCHES)


@pytest.mark.parametrize("options", [0, AGNOSTIC])
def test_masks_are_matched_where_they_lie(options: int) -> None:
    batch, sides = random_batch(13, RAGGED)
    find, match = (kernel("simulated", name, run) for name, run in (
        ("dense_pairs", masks._pairs_on_cuda), ("assign", _assign_on_cuda),
    ))  # fmt: skip
    choices = rule(options=options)
    found = Found(*find(*arguments(batch, sides, 0.3, bool(options))))
    got = match(*to_arguments(stored(batch, found), choices, torch.from_numpy))
    expected = assign(dense_pairs(batch, *sides, choices)[0], choices)
    arrays = assign_arrays(
        _dense_pairs_cpu.dense_pairs(numpy_batch(batch), *each(sides, Tensor.numpy), 0.3, bool(options)),
        choices,
    )
    for a, b, c in zip(got[:4], expected[:4], arrays[:4]):
        assert torch.equal(a, b) and np.array_equal(b.numpy(), c)
    assert (expected.matches >= 0).any()


def test_opcheck() -> None:
    batch, sides = random_batch(14, RAGGED[:4])
    torch.library.opcheck(
        torch.ops.valor_gpu.dense_pairs.default, arguments(batch, sides), test_utils=("test_schema", "test_faketensor")
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b: (a[:-1], b), "masks must have one entry for each of 2 images but has 1"),
        (lambda a, b: ([a[0], a[1].astype(np.float32)], b), r"masks\[1\] must be bool or uint8 but is float32"),
        (lambda a, b: (a, [b[0][:, 0], b[1]]), r"gt_masks\[0\] must have shape \[2, H, W\] but has \[2, 5\]"),
        (lambda a, b: (a, [b[0][:1], b[1]]), r"gt_masks\[0\] must have shape \[2, H, W\] but has \[1, 4, 5\]"),
        (lambda a, b: (a, [b[0], b[1][:, 1:]]), r"gt_masks\[1\] must have masks of 6 x 7 pixels .* but has 5 x 7"),
        (lambda a, b: (a, [b[0], [1]]), r"gt_masks\[1\] must be bool or uint8 but is list"),
    ],
)
def test_bad_masks_are_named(change: Callable[..., Any], message: str) -> None:
    batch, sides = random_batch(15, [(2, 2, 4, 5), (3, 1, 6, 7)])
    ours, theirs = change(*each(sides, Tensor.numpy))
    with pytest.raises(InputError, match=message):
        _dense_pairs_cpu.dense_pairs(numpy_batch(batch), ours, theirs, 0.5)


def test_masks_with_too_many_pixels_cost_no_memory() -> None:
    huge = np.broadcast_to(np.zeros((1, 1, 1), bool), (1, 1 << 16, 1 << 16))
    batch = MatchBatch(np.array([[1], [0]]), [], [np.ones(1)], [np.zeros(1, int)])
    with pytest.raises(InputError, match=r"masks\[0\] must have at most 2147483647 pixels each but have 65536 x 65536"):
        _dense_pairs_cpu.dense_pairs(batch, [huge], [np.zeros((0, 1, 1), bool)], 0.5)
