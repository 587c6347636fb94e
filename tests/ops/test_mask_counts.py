"""Counts of labelled masks: the C++ kernel equals the definition, and the definition equals counts pixel by pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.mask_counts import cpu as ours
from valor_gpu.ops.mask_counts.cpu import count_mask_sets
from valor_gpu.ops.mask_counts.reference import MaskCounts, MaskSet, count_mask_set

SHAPES = [(0, 0), (0, 5), (1, 1), (3, 21), (8, 8), (5, 13), (31, 33), (64, 65), (100, 130)]
CHOICES = [(exclusive, pairs) for exclusive in (False, True) for pairs in (False, True)]


def random_set(rng: np.random.Generator, shape: tuple[int, int], dtype: Any = np.bool_) -> MaskSet:
    """Blobs and noise, several masks of a label, masks that overlap, masks without pixels."""
    labels = int(rng.integers(1, 6))
    sides: list[Any] = []
    for _ in range(2):
        masks, codes = [], []
        for _ in range(int(rng.integers(0, 6))):
            mask = rng.random(shape) < rng.choice([0.0, 0.02, 0.5, 1.0])
            if rng.random() < 0.5:
                mask[: int(rng.integers(0, shape[0] + 1))] = False
            masks.append((mask * rng.integers(1, 256, shape)).astype(dtype) if dtype == np.uint8 else mask)
            codes.append(int(rng.integers(labels)))
        sides += [masks, codes]
    return MaskSet(*sides, labels)


def by_pixel(one: MaskSet, exclusive: bool) -> MaskCounts:
    """Sets of labels of each pixel, in Python."""
    masks = (*one.gt_masks, *one.masks)
    pixels = masks[0].size if masks else 0
    counts = np.zeros((3, one.num_labels), np.int64)
    matrix = np.zeros((one.num_labels + 1, one.num_labels + 1), np.int64)
    totals = dict.fromkeys(("agreeing", "neither", "gt_overlap", "overlap"), 0)
    for pixel in range(pixels):
        sides = []
        for name, listed, labels in (
            ("gt_overlap", one.gt_masks, one.gt_labels),
            ("overlap", one.masks, one.labels),
        ):
            here = list(dict.fromkeys(c for mask, c in zip(listed, labels) if mask.reshape(-1)[pixel]))
            totals[name] += len(here) > 1
            sides.append(set(here[:1] if exclusive else here))
        true, found = sides
        totals["agreeing"] += true == found
        totals["neither"] += not true and not found
        for row, chosen in enumerate((true & found, found, true)):
            counts[row, list(chosen)] += 1
        for a in true or {one.num_labels}:
            for b in found or {one.num_labels}:
                matrix[a, b] += 1
    return MaskCounts(counts, **totals, pairs=matrix)


def check(found: MaskCounts, expected: MaskCounts, pairs: bool) -> None:
    assert found.counts.dtype == np.int64 and np.array_equal(found.counts, expected.counts)
    assert found[1:5] == expected[1:5]
    if pairs:
        assert found.pairs is not None and np.array_equal(found.pairs, expected.pairs)
    else:
        assert found.pairs is None


@pytest.mark.parametrize(("exclusive", "pairs"), CHOICES)
def test_the_definition_counts_pixels(exclusive: bool, pairs: bool) -> None:
    rng = np.random.default_rng(1)
    for shape in SHAPES[:6]:
        for _ in range(8):
            one = random_set(rng, shape)
            check(count_mask_set(one, exclusive, pairs), by_pixel(one, exclusive), pairs)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
@pytest.mark.parametrize(("exclusive", "pairs"), CHOICES)
def test_the_kernel_equals_the_definition(exclusive: bool, pairs: bool, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    sets = [random_set(rng, shape, dtype) for shape in SHAPES for _ in range(6)]
    for found, one in zip(count_mask_sets(sets, exclusive=exclusive, pairs=pairs), sets, strict=True):
        check(found, count_mask_set(one, exclusive, pairs), pairs)


def test_pieces_of_a_large_image_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    sets = [random_set(rng, (97, 130)) for _ in range(5)]
    whole = list(count_mask_sets(sets, pairs=True))
    monkeypatch.setattr(ours, "PIECE", 64)
    monkeypatch.setattr(ours, "_PIXELS_PER_HELPER", 1)
    for found, expected in zip(count_mask_sets(sets, pairs=True), whole, strict=True):
        check(found, expected, True)


def test_groups_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    sets = [random_set(rng, (31, 33)) for _ in range(9)]
    whole = list(count_mask_sets(sets, pairs=True))
    for size in (0, 2000):
        monkeypatch.setattr(ours, "GROUP_BYTES", size)
        for found, expected in zip(count_mask_sets(sets, pairs=True), whole, strict=True):
            check(found, expected, True)


def test_strides_are_honoured() -> None:
    mask = np.random.default_rng(5).random((40, 64)) < 0.5
    masks = [mask[::2, ::2], np.asfortranarray(mask)[::2, ::2], mask.copy()[::2, ::2]]
    found = count_mask_sets([MaskSet([one], [0], [masks[-1]], [0], 1) for one in masks])
    assert [one.counts.tolist() for one in found] == [[[int(masks[0].sum())]] * 3] * 3


def test_without_the_library_the_definition_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    one = random_set(np.random.default_rng(6), (9, 9))
    (expected,) = count_mask_sets([one], pairs=True)
    monkeypatch.setattr(native, "usable", lambda name: False)
    check(*count_mask_sets([one], pairs=True), expected, True)


BAD: list[tuple[MaskSet, str]] = [
    (MaskSet([np.ones((2, 2), bool)], [0], [np.ones((2, 3), bool)], [0], 1), r"masks\[0\] of set 1 .* \[2, 2\] but"),
    (MaskSet([np.ones((2, 2))], [0], [], [], 1), r"gt_masks\[0\] of set 1 must be bool or uint8 .* float64"),
    (MaskSet([np.ones((2, 2), bool)], [1], [], [], 1), r"gt_masks\[0\] of set 1 must be from 0 to 0 but is 1"),
    (MaskSet([], [], [np.ones((2, 2), bool)], [], 1), r"masks of set 1 must have one label each but 1 have 0"),
]


@pytest.mark.parametrize(("one", "message"), BAD)
def test_bad_sets_are_rejected(one: MaskSet, message: str) -> None:
    with pytest.raises(InputError, match=message):
        count_mask_sets([MaskSet([], [], [], [], 0), one])
