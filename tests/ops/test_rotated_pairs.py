"""Pairs of rotated boxes: every kernel stores what the reference stores, and assigns as boxes do where angles are 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.examples_rotated import corners
from tests.fuzz import seeds
from tests.native.sim import simulated
from tests.ops.backends import BACKENDS, kernel
from tests.ops.test_rotated import random_rows
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.assign.cpu import assign as assign_arrays
from valor_gpu.ops.assign.match_batch import (
    AGNOSTIC,
    HASHED,
    USER_INPUT,
    WANT_MATCHES,
    MatchBatch,
    MatchRule,
    to_arguments,
)
from valor_gpu.ops.assign.op import _assign_on_cuda, assign
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ops.pairs.cpu import Found, stored
from valor_gpu.ops.pairs.rows import BATCH_FIELDS
from valor_gpu.ops.rotated import cpu as _rotated_cpu
from valor_gpu.ops.rotated import op as rotated
from valor_gpu.ops.rotated.cpu import CORNERS, DEGREES, RADIANS_CLOCKWISE
from valor_gpu.ops.rotated.op import rotated_pairs

Op = Callable[..., Any]
AREAS = [[0, 1e10], [0, 50], [50, 1e10]]


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "rotated_pairs", rotated._pairs_on_cuda)


def random_batch(seed: int, images: int = 6, most: int = 12, code: int = DEGREES, one_each: bool = True) -> MatchBatch:
    """Images of up to ``most`` rows a side, with crowds; some of them without rows."""
    rng = np.random.default_rng(seed)
    lengths = torch.from_numpy(rng.integers(0, most + 1, (2, images)))
    sides: list[list[list[Tensor]]] = []
    for side in range(2):
        sizes = lengths[side].tolist()
        n = sum(sizes)
        rows = random_rows(n, 2 * seed + side, 12.0)
        columns = [
            corners(rows) if code == CORNERS else rows,
            torch.from_numpy(rng.integers(0, 3, n)),
            torch.from_numpy(np.round(rng.random(n), 1)) if side == 0 else torch.from_numpy(rng.integers(0, 5, n) == 0),
        ]
        sides.append([list(column.split(sizes)) if one_each else [column] for column in columns])
    (boxes, labels, scores), (gt_boxes, gt_labels, gt_flags) = sides
    return MatchBatch(
        lengths, boxes, scores, labels, gt_boxes=gt_boxes, gt_labels=gt_labels, gt_flags=gt_flags, box_format=code,
        gt_box_format=code,
    )  # fmt: skip


def arguments(batch: MatchBatch, lowest: float = 0.5, agnostic: bool = False) -> tuple[Any, ...]:
    return (*(getattr(batch, name) for name in BATCH_FIELDS), lowest, agnostic)


def lists(found: Found) -> Iterator[tuple[list[int], list[float]]]:
    """Of each detection the ground truths and similarities in the used part of its room."""
    for first, end, count in zip(found.offsets.tolist(), found.offsets[1:].tolist(), found.counts.tolist()):
        assert 0 <= count <= end - first
        used = slice(first, first + count)
        yield found.ground_truths[used].tolist(), found.similarities[used].tolist()


def check(op: Op, *given: Any) -> Found:
    got, expected = Found(*op(*given)), Found(*_library.reference("rotated_pairs")(*given))
    assert list(lists(got)) == list(lists(expected))
    for name in ("areas", "gt_own_areas", "hashes", "gt_hashes", "error"):
        a, b = getattr(got, name), getattr(expected, name)
        assert a.dtype == b.dtype and torch.equal(a.view(torch.int64), b.view(torch.int64)), name
    assert int(got.offsets[-1]) == len(got.similarities) == len(got.ground_truths)
    return got


@pytest.mark.smoke
@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("code", [CORNERS, DEGREES, RADIANS_CLOCKWISE])
def test_every_kernel_equals_the_reference(op: Op, code: int, seed: int) -> None:
    batch = random_batch(seed, code=code, one_each=bool(seed % 2))
    found = check(op, *arguments(batch, (0.5, 0.1, 0.75)[seed % 3], seed == 2))
    assert found.counts.sum() > 0


@pytest.mark.parametrize("lowest", [0.0, -1.0, 1e-300, 0.999999, 1 - 1e-10])
def test_lowest_thresholds(op: Op, lowest: float) -> None:
    batch = random_batch(4)
    found = check(op, *arguments(batch, lowest, True))
    if lowest <= 0:  # every pair, those of similarity 0 too
        sizes = batch.lengths.prod(0)
        assert int(found.counts.sum()) == int(sizes.sum())


@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0), (1, 1), (1, 100), (70, 33)])
def test_sizes(op: Op, sizes: tuple[int, int]) -> None:
    n, m = sizes
    batch = MatchBatch(
        torch.tensor([[n], [m]]), [random_rows(n, 1, 8.0)], [torch.rand(n)], [torch.zeros(n, dtype=torch.int32)],
        gt_boxes=[random_rows(m, 2, 8.0).float()], gt_labels=[torch.zeros(m, dtype=torch.uint8)], box_format=DEGREES,
        gt_box_format=DEGREES,
    )  # fmt: skip
    check(op, *arguments(batch, 0.05))


@pytest.mark.parametrize("padded", [False, True])
def test_padding_has_no_pairs(op: Op, padded: bool) -> None:
    """Rows beyond the counts may hold anything; a count that is none leaves no row or all of them."""
    rng = np.random.default_rng(7)
    boxes, gt_boxes = (random_rows(4 * 9, seed, 10.0).view(4, 9, 5) for seed in (1, 2))
    if padded:
        boxes[:, 6:] = np.nan
        gt_boxes[:, 7:, 2] = -1
    labels = torch.from_numpy(rng.integers(0, 2, (2, 36)))
    batch = MatchBatch(
        torch.full((2, 4), 9), [boxes.flatten(0, 1)], [torch.rand(36)], [labels[0]], gt_boxes=[gt_boxes.flatten(0, 1)],
        gt_labels=[labels[1]], counts=torch.tensor([6, 0, -3, 5]) if padded else None,
        gt_counts=torch.tensor([7, 7, 7, 2]) if padded else None, box_format=DEGREES, gt_box_format=DEGREES,
    )  # fmt: skip
    found = check(op, *arguments(batch, 0.0))
    if padded:
        assert not found.counts.view(4, 9)[1:3].any() and not found.counts.view(4, 9)[:, 6:].any()
        assert not found.hashes.view(4, 9)[:, 6:].any()


def test_the_first_bad_row_is_reported(op: Op) -> None:
    batch = random_batch(5)
    batch.boxes[3][1:2, 2] = -1
    batch.boxes[4][0] = np.inf
    batch.gt_boxes[3][2:3, 0] = np.nan
    found = check(op, *arguments(batch))
    assert rotated.describe_box(int(found.error)) == "preds[3]['boxes'][1] must have a width and a height of at least 0"


@pytest.mark.parametrize("seed", seeds(3))
def test_the_order_of_lanes_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kernel("simulated", "rotated_pairs", rotated._pairs_on_cuda)
    given = arguments(random_batch(6, images=3, most=40), 0.1)
    expected = Found(*run(*given))
    monkeypatch.setenv("VALOR_SIM_SEED", str(seed + 1))
    simulated()
    got = Found(*run(*given))
    assert list(lists(got)) == list(lists(expected))


# ------------------------------------------------------------------------------------------------------------- matching


def rule(options: int = 0, thresholds: tuple[float, ...] = (0.5, 0.75)) -> MatchRule:
    return MatchRule.make(thresholds, AREAS, [1, 5, 100], options | HASHED | USER_INPUT | WANT_MATCHES)


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("options", [0, AGNOSTIC])
def test_unrotated_boxes_match_as_boxes_do(options: int, seed: int) -> None:
    """The same outcomes and matches; hashes are of other contents."""
    batch = random_batch(20 + seed, images=10)
    sides = {"boxes": batch.boxes, "gt_boxes": batch.gt_boxes}
    upright = replace(batch, **{name: [b * _UPRIGHT for b in boxes] for name, boxes in sides.items()})
    plain = replace(
        batch, **{name: [b[:, :4].contiguous() for b in boxes] for name, boxes in sides.items()},
        box_format=BOX_FORMATS.index("cxcywh"), gt_box_format=BOX_FORMATS.index("cxcywh"),
    )  # fmt: skip
    choices = rule(options)
    got, expected = assign(rotated_pairs(upright, choices)[0], choices), assign(plain, choices)
    for name in ("detections", "ground_truths", "matches"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name


_UPRIGHT = torch.tensor([1.0, 1, 1, 1, 0])


@pytest.mark.parametrize("padded", [False, True])
def test_both_kernels_on_a_device_give_what_the_cpu_gives(padded: bool) -> None:
    """Pairs with room for every ground truth, assigned where they lie."""
    batch = random_batch(33, images=5, one_each=False)
    if padded:
        counts = [torch.tensor([3, 0, 5, 1, 4]), torch.tensor([2, 6, 4, 0, 6])]
        n, m = 5 * 6, 5 * 8
        sides = {"boxes": n, "scores": n, "labels": n, "gt_boxes": m, "gt_labels": m, "gt_flags": m}
        rows = {name: [torch.cat([*getattr(batch, name)] * 5)[:size]] for name, size in sides.items()}
        lengths = torch.tensor([[6] * 5, [8] * 5])
        batch = replace(batch, **rows, lengths=lengths, counts=counts[0], gt_counts=counts[1])
    find, match = (kernel("simulated", name, run) for name, run in (
        ("rotated_pairs", rotated._pairs_on_cuda), ("assign", _assign_on_cuda),
    ))  # fmt: skip
    found = Found(*find(*arguments(batch)))
    got = match(*to_arguments(stored(batch, found), rule(), torch.from_numpy))
    expected = assign(rotated_pairs(batch, rule())[0], rule())
    for a, b in zip(got[:4], expected[:4]):
        assert torch.equal(a, b)
    assert (expected.matches >= 0).any()


def test_numpy_arrays_give_what_tensors_give() -> None:
    batch = random_batch(30, images=10, one_each=False)
    names = ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "gt_flags")
    arrays = replace(batch, lengths=batch.lengths.numpy(), **{n: [x.numpy() for x in getattr(batch, n)] for n in names})
    got = assign_arrays(_rotated_cpu.rotated_pairs(arrays, 0.5), rule())
    expected = assign(rotated_pairs(batch, rule())[0], rule())
    for a, b in zip(got[:4], expected[:4]):
        assert np.array_equal(a, b.numpy())


def test_threads_change_nothing() -> None:
    given = arguments(random_batch(8, images=300, most=60), 0.1)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 4):
            torch.set_num_threads(threads)
            found.append(Found(*torch.ops.valor_gpu.rotated_pairs(*given)))
    finally:
        torch.set_num_threads(before)
    assert list(lists(found[0])) == list(lists(found[1])) and found[0].counts.sum() > 1000
    for a, b in zip(found[0][4:], found[1][4:]):
        assert torch.equal(a, b)


def test_bad_rows_raise_on_the_cpu() -> None:
    batch = random_batch(31)
    batch.gt_boxes[2][0, 3] = -2
    with pytest.raises(InputError, match=r"target\[2\]\['boxes'\]\[0\] must have a width and a height of at least 0"):
        rotated_pairs(batch, rule())
    short = replace(batch, labels=[x[:-1] for x in batch.labels])
    with pytest.raises(InputError, match=r"labels must have .* rows, the sum of lengths, but has"):
        rotated_pairs(short, rule())


def test_opcheck() -> None:
    given = arguments(random_batch(3, images=2, most=4))
    torch.library.opcheck(
        torch.ops.valor_gpu.rotated_pairs.default, given, test_utils=("test_schema", "test_faketensor")
    )


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("boxes", lambda a: a[:, :-1], r"boxes must have shape \[3, 5\] but has \[3, 4\]"),
        ("gt_boxes", lambda a: a.astype(">f8"), "gt_boxes must be floating but is >f8"),
        ("labels", lambda a: a.astype(object), "labels must be integer but is object"),
        ("labels", lambda a: a.astype(np.float64), "labels must be integer but is float64"),
        ("counts", lambda a: a.astype(np.int32), "counts must be int64 but is int32"),
        ("gt_counts", lambda a: a[:1], r"gt_counts must have shape \[2\] but has \[1\]"),
        ("lengths", lambda a: a - np.array([[2, -2], [0, 0]]), "lengths must be at least 0"),
    ],
)
def test_what_is_read_by_address_is_checked(name: str, change: Callable[[Any], Any], message: str) -> None:
    rows, labels, counts = np.ones((3, 5)), np.zeros(3, np.int64), np.ones(2, np.int64)
    batch = MatchBatch(
        np.array([[1, 2], [2, 1]]), [rows], [labels + 0.5], [labels], gt_boxes=[rows], gt_labels=[labels],
        counts=counts, gt_counts=counts, box_format=DEGREES, gt_box_format=DEGREES,
    )  # fmt: skip
    assert _rotated_cpu.rotated_pairs(batch, 0.5).pairs is not None
    given = getattr(batch, name)
    changed = [change(given[0])] if isinstance(given, list) else change(given)
    with pytest.raises(InputError, match=message):
        _rotated_cpu.rotated_pairs(replace(batch, **{name: changed}), 0.5)
