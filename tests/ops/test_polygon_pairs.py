"""Pairs of polygons: every kernel stores what the definition stores, and rectangles match as boxes do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from testing.examples_polygon_iou import pair_arguments, random_set
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, kernel
from tests.ops.test_rotated_pairs import lists
from valor_gpu.errors import InputError
from valor_gpu.ops import _library, polygon_iou
from valor_gpu.ops.assign.match_batch import HASHED, USER_INPUT, WANT_MATCHES, MatchBatch, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.pairs.cpu import Found
from valor_gpu.ops.polygon_areas import cpu as _polygon_areas_cpu
from valor_gpu.ops.polygon_areas.op import _BATCH_FIELDS, _pairs_on_cuda, polygon_pairs
from valor_gpu.ops.polygon_sets.op import PolygonSet

Op = Callable[..., Any]


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "polygon_pairs", _pairs_on_cuda)


def check(op: Op, *given: Any) -> Found:
    got, expected = Found(*op(*given)), Found(*_library.reference("polygon_pairs")(*given))
    assert list(lists(got)) == list(lists(expected))
    for name in ("areas", "gt_own_areas", "hashes", "gt_hashes", "error"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name
    return got


@pytest.mark.smoke
@pytest.mark.parametrize(("lowest", "agnostic"), [(0.3, False), (1e-300, True), (0.0, False)])
def test_every_kernel_equals_the_definition(op: Op, lowest: float, agnostic: bool) -> None:
    found = check(op, *pair_arguments([(6, 5), (0, 3), (4, 0), (5, 7)], lowest, agnostic))
    assert found.counts.sum() > 0


@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0), (1, 1), (1, 33)])
def test_sizes(op: Op, sizes: tuple[int, int]) -> None:
    check(op, *pair_arguments([sizes], 0.05))


def test_padding_has_no_pairs(op: Op) -> None:
    given = list(pair_arguments([(5, 6)] * 3, 0.0, True))
    given[4:6] = torch.tensor([5, 0, 3]), torch.tensor([2, 6, 4])
    found = check(op, *given)
    assert found.counts.view(3, 5).tolist() == [[2] * 5, [0] * 5, [4] * 3 + [0] * 2]


def batch_of(seed: int, sides: tuple[PolygonSet, PolygonSet], crowds: bool = True) -> MatchBatch:
    """One image with two classes."""
    rng = np.random.default_rng(seed)
    n, m = map(len, sides)
    labels, gt_labels, flags = (torch.from_numpy(rng.integers(0, 2, count)) for count in (n, m, m))
    return MatchBatch(
        torch.tensor([[n], [m]]), [], [torch.from_numpy(rng.random(n).round(1))], [labels], gt_labels=[gt_labels],
        gt_flags=[flags * crowds],
    )  # fmt: skip


def test_similarities_are_those_of_the_public_op() -> None:
    sides = random_set(12, 1), random_set(9, 2)
    batch = batch_of(3, sides)
    pairs = polygon_pairs(batch, sides, MatchRule.make([0.01], [[0, 1e10]], [100]))[0].pairs
    iou = polygon_iou(*sides, crowd=batch.gt_flags[0].bool())
    same = batch.labels[0][:, None] == batch.gt_labels[0]
    assert pairs is not None
    assert int((iou >= 0.01)[same].sum()) == len(pairs.similarities) > 5
    rows = torch.arange(12).repeat_interleave(pairs.counts.long())
    assert torch.equal(iou[rows, pairs.ground_truths.long()], pairs.similarities)


@pytest.mark.parametrize("seed", seeds(3))
def test_rectangles_match_as_boxes_do(seed: int) -> None:
    """The same outcomes and matches; hashes are of other contents."""
    rng = np.random.default_rng(seed)
    boxes, gt_boxes = (rng.random((count, 4)) * 20 for count in (40, 25))
    for side in (boxes, gt_boxes):
        side[:, 2:] += side[:, :2]
    order = [0, 1, 2, 1, 2, 3, 0, 3]
    sides = tuple(PolygonSet.of([[[ring]] for ring in side[:, order].reshape(-1, 4, 2)]) for side in (boxes, gt_boxes))
    batch = batch_of(seed, sides)  # type: ignore[arg-type]
    rule = MatchRule.make([0.1, 0.5], [[0, 1e10], [0, 90]], [1, 100], HASHED | USER_INPUT | WANT_MATCHES)
    plain = replace(batch, boxes=[torch.from_numpy(boxes)], gt_boxes=[torch.from_numpy(gt_boxes)])
    got, expected = assign(polygon_pairs(batch, sides, rule)[0], rule), assign(plain, rule)  # type: ignore[arg-type]
    for name in ("detections", "ground_truths", "matches"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name


def test_numpy_arrays_give_what_tensors_give() -> None:
    sides = random_set(20, 4), random_set(15, 5)
    batch = batch_of(6, sides)
    arrays: dict[str, Any] = {
        name: [t.numpy() for t in getattr(batch, name)] for name in ("scores", "labels", "gt_labels", "gt_flags")
    }
    made = _polygon_areas_cpu.polygon_pairs(replace(batch, lengths=batch.lengths.numpy(), **arrays), *sides, 0.1)
    expected = polygon_pairs(batch, sides, MatchRule.make([0.1], [[0, 1e10]], [100]))[0]
    for name, tensor in vars(expected.pairs).items():
        assert getattr(made.pairs, name).tolist() == tensor.tolist()
    for name in ("areas", "gt_own_areas", "hashes", "gt_hashes"):
        assert getattr(made, name)[0].tolist() == getattr(expected, name)[0].tolist()


def test_sets_that_do_not_fit_are_errors(op: Op) -> None:
    given = list(pair_arguments([(3, 2)]))
    fewer = [*given[:6], [t[1:] for t in given[6]], *given[7:]]
    with pytest.raises(InputError, match=r"^polygons must have 3 rows, the sum of lengths, but has 2"):
        op(*fewer)
    narrow = [*given[:7], [given[7][0][:, :6], *given[7][1:]], *given[8:]]
    with pytest.raises(InputError, match=r"^edges of gt_polygons must have shape \[\d+, 7\] but has \[\d+, 6\]"):
        op(*narrow)
    assert len(given) == len(_BATCH_FIELDS) + 4
