"""Pairs of masks as run lengths: every kernel stores what the reference stores, the IoU is that of pycocotools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from testing.examples_runs import SIZES, ellipses, pair_arguments, tensors
from testing.oracles import pycocotools
from tests.fuzz import seeds, seeds_with_smoke
from tests.native.sim import simulated
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from tests.ops.test_rotated_pairs import lists
from tests.ops.test_runs_codec import texts_of
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.assign.match_batch import HASHED, USER_INPUT, WANT_MATCHES, MatchBatch, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.pairs.cpu import Found
from valor_gpu.ops.run_pairs import cpu as _run_pairs_cpu
from valor_gpu.ops.run_pairs import op as run_pairs_op
from valor_gpu.ops.run_pairs.cpu import Boundaries
from valor_gpu.ops.run_pairs.op import _given, deferred_run_pairs, run_pairs
from valor_gpu.ops.runs.cpu import from_masks
from valor_gpu.ops.runs.op import Runs

Op = Callable[..., Any]


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "run_pairs", run_pairs_op._pairs_on_cuda)


def check(op: Op, *given: Any) -> Found:
    got, expected = Found(*op(*given)), Found(*_library.reference("run_pairs")(*given))
    assert list(lists(got)) == list(lists(expected))
    for name in ("areas", "gt_own_areas", "hashes", "gt_hashes", "error"):
        a, b = getattr(got, name), getattr(expected, name)
        assert a.dtype == b.dtype and torch.equal(a.view(torch.int64), b.view(torch.int64)), name
    assert int(got.offsets[-1]) == len(got.similarities) == len(got.ground_truths)
    return got


def arrays(given: Any) -> tuple[MatchBatch, Boundaries, float, bool, Boundaries | None]:
    """The arguments of the op as numpy arrays."""
    batch, masks, lowest, agnostic, boundaries = _given([
        [array.numpy() for array in value] if isinstance(value, list) else value for value in given
    ])  # fmt: skip
    return replace(batch, lengths=batch.lengths.numpy()), masks, lowest, agnostic, boundaries


@pytest.mark.parametrize("seed", seeds_with_smoke(4))
@pytest.mark.parametrize("boundaries", [False, True])
def test_every_kernel_equals_the_reference(op: Op, boundaries: bool, seed: int) -> None:
    lengths = np.random.default_rng(seed).integers(0, 13, (6, 2)).tolist()
    given = pair_arguments(
        lengths, (0.5, 0.1, 0.75, 0.3)[seed % 4], boundaries, seed, SIZES if seed % 4 == 3 else SIZES[:1], seed == 2
    )
    assert check(op, *given).counts.sum() > 0


@pytest.mark.parametrize("lowest", [0.0, -1.0, -2.0, 1e-300, 0.999999, 1 - 1e-10, 1.0])
@pytest.mark.parametrize("boundaries", [False, True])
def test_lowest_thresholds(op: Op, lowest: float, boundaries: bool) -> None:
    """At -1 masks of another size are pairs too, as everything else of the class."""
    given = pair_arguments([(12, 9), (7, 11)], lowest, boundaries, 4, SIZES, agnostic=True)
    found = check(op, *given)
    if lowest <= -1:
        assert int(found.counts.sum()) == 12 * 9 + 7 * 11 and found.similarities.min() == -1


@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0), (1, 1), (1, 100), (70, 33)])
def test_sizes(op: Op, sizes: tuple[int, int]) -> None:
    check(op, *pair_arguments([sizes], 0.05, agnostic=True))


@pytest.mark.parametrize("seed", seeds(5))
def test_similarities_are_those_of_pycocotools(op: Op, seed: int) -> None:
    oracle = pycocotools("mask")
    given = pair_arguments([(25, 20)], -1.0, seed=seed + 50, sizes=SIZES, agnostic=True)
    (flags,), masks, gt_masks = given[2], Runs(*given[6]), Runs(*given[7])
    sides = []
    for runs in (masks, gt_masks):
        whole = Runs(*(array.numpy() for array in (runs.counts, runs.offsets, runs.sizes)))
        sides.append([{"size": s, "counts": t} for s, t in zip(whole.sizes.tolist(), texts_of(whole))])
    expected = oracle.iou(*sides, flags.numpy() & 1)
    found = Found(*op(*given))
    got = np.full((25, 20), np.nan)
    for d, (gts, values) in enumerate(lists(found)):
        got[d, gts] = values
        assert values == sorted(values, reverse=True)
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes()
    assert found.areas.tolist() == [oracle.area(rle) for rle in sides[0]]


def test_padding_has_no_pairs(op: Op) -> None:
    """Rows beyond the counts may hold anything."""
    given = list(pair_arguments([(6, 5)] * 3, 0.0, agnostic=True))
    given[4:6] = torch.tensor([4, 0, -3]), torch.tensor([5, 2, 5])
    counts, offsets, _ = given[6]
    counts[offsets[4]] = -5
    found = check(op, *given)
    assert not found.counts[4:].any() and not found.hashes[4:].any() and found.counts[:4].sum() == 20


def test_the_first_bad_mask_is_reported(op: Op) -> None:
    given = pair_arguments([(6, 5)] * 3)
    for side, row in ((7, 3), (7, 11), (6, 14)):
        given[side][0][given[side][1][row]] += 1
    found = check(op, *given)
    batch, masks, *_ = _given(given)
    with pytest.raises(InputError, match=r"target\[0\]\['masks'\]\[3\] must be runs"):
        run_pairs(batch, *masks, 0.5)
    said = "target[0]['masks'][3] must be runs of at least 0 that add up to height x width"
    assert _run_pairs_cpu.describe_box(int(found.error)) == said


@pytest.mark.parametrize("kind", ["negative", "offsets", "size", "boundary", "overflow"])
def test_hostile_runs_are_empty_masks_with_an_error(op: Op, kind: str) -> None:
    given = pair_arguments([(4, 4)], 0.0, boundaries=True, agnostic=True)
    counts, offsets, sizes = given[8][:3] if kind == "boundary" else given[6]
    if kind == "negative":
        counts[offsets[2]] = -1
    elif kind == "offsets":
        offsets[2] = 2**40
    elif kind == "size":
        sizes[2] = torch.tensor([-3, 7])
    elif kind == "boundary":
        counts[offsets[2]] += 3
    else:
        sizes[2] = 2**31 - 1
        counts[offsets[2] : offsets[3]] = 2**31 - 1
    found = check(op, *given)
    assert int(found.error) == (1 if kind == "offsets" else 2) << 5 | 20
    assert (found.areas[2] == 0) == (kind != "boundary")


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kernel("simulated", "run_pairs", run_pairs_op._pairs_on_cuda)
    given = pair_arguments([(9, 40), (12, 3)], 0.1, boundaries=True, agnostic=True)
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated()
    check(run, *given)


def test_a_warp_takes_many_rounds_of_runs() -> None:
    """Masks with more runs than a warp has lanes, and runs over many columns."""
    rng = np.random.default_rng(0)
    dense = [(rng.random((rows, 40, 50)) < part).astype(np.uint8) for rows, part in ((5, 0.5), (4, 0.02))]
    dense[0][0, :, 5:45], dense[1][0, :, 10:40] = 1, 1
    masks, gt_masks = (tensors(from_masks(side)) for side in dense)
    labels = [torch.zeros(n, dtype=torch.int64) for n in (5, 4)]
    given = ([labels[0]], [labels[1]], [], torch.tensor([[5], [4]]), None, None, masks, gt_masks, [], 0.0, False)
    for backend in ("cpu", "simulated"):
        found = check(kernel(backend, "run_pairs", run_pairs_op._pairs_on_cuda), *given)
        assert int(found.counts.sum()) == 20 and len(masks[0]) > 5 * 800


# ------------------------------------------------------------------------------------------------------------- matching


def rule(options: int = 0, thresholds: tuple[float, ...] = (0.5, 0.75)) -> MatchRule:
    areas = [[0, 1e10], [0, 50], [50, 1e10]]
    return MatchRule.make(thresholds, areas, [1, 5, 100], options | HASHED | USER_INPUT | WANT_MATCHES)


def test_masks_that_are_boxes_match_as_boxes_do() -> None:
    rng = np.random.default_rng(3)
    given = pair_arguments([(20, 10)] * 4, seed=9)
    (batch, *_), sides = _given(given), []
    for rows in (80, 40):
        low = rng.integers(0, 12, (rows, 2))
        high = low + rng.integers(1, 12, (rows, 2))
        dense = np.zeros((rows, 24, 24), np.uint8)
        for mask, (x0, y0), (x1, y1) in zip(dense, low, high):
            mask[y0:y1, x0:x1] = 1
        boxes = torch.from_numpy(np.concatenate([low, high], 1).astype(np.float64))
        sides.append((boxes, Runs(*tensors(from_masks(dense)))))
    scores = [torch.from_numpy(np.round(rng.random(80), 1))]
    crowd = [batch.gt_flags[0] > 0]
    batch = replace(batch, scores=scores, gt_flags=crowd)
    stored, error = deferred_run_pairs(batch, sides[0][1], sides[1][1], 0.5)
    expected = assign(replace(batch, boxes=[sides[0][0]], gt_boxes=[sides[1][0]]), rule())
    got = assign(stored, rule())
    for name in ("detections", "ground_truths", "matches"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name
    assert (expected.matches >= 0).any() and int(error) == 2**63 - 1


def test_numpy_arrays_give_what_tensors_give() -> None:
    given = pair_arguments([(20, 10)] * 4, 0.1, boundaries=True)
    batch, (masks, gt_masks), lowest, agnostic, boundaries = arrays(given)
    got = _run_pairs_cpu.run_pairs(batch, masks, gt_masks, lowest, agnostic, boundaries)
    expected = Found(*torch.ops.valor_gpu.run_pairs(*given))
    assert list(lists(got.pairs)) == list(lists(expected))  # type: ignore[arg-type]
    for name in ("areas", "gt_own_areas", "hashes", "gt_hashes"):
        assert np.array_equal(getattr(got, name)[0], getattr(expected, name).numpy())
    masks.counts[0] = -1
    with pytest.raises(
        InputError, match=r"preds\[0\]\['masks'\]\[0\] must be runs of at least 0 that add up to height"
    ):
        _run_pairs_cpu.run_pairs(batch, masks, gt_masks, lowest)


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(5)
    n, m = 2000, 500
    sides = []
    for rows in (n, m):
        low = rng.random((rows, 2)) * 300
        sides.append(ellipses(np.concatenate([low, low + 40 + 200 * rng.random((rows, 2))], 1), (500, 500)))
    labels = [[torch.from_numpy(rng.integers(0, 3, rows))] for rows in (n, m)]
    given = (
        labels[0],
        labels[1],
        [],
        torch.tensor([[20] * 100, [5] * 100]),
        None,
        None,
        *map(tensors, sides),
        [],
        0.1,
        False,
    )
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 4):
            torch.set_num_threads(threads)
            found.append(Found(*torch.ops.valor_gpu.run_pairs(*given)))
    finally:
        torch.set_num_threads(before)
    assert list(lists(found[0])) == list(lists(found[1])) and found[0].counts.sum() > 500
    for a, b in zip(found[0][4:], found[1][4:]):
        assert torch.equal(a, b)


def test_opcheck() -> None:
    torch.library.opcheck(
        torch.ops.valor_gpu.run_pairs.default, pair_arguments([(4, 3), (0, 2)], boundaries=True),
        test_utils=("test_schema", "test_faketensor"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("side", "field", "change", "message"),
    [
        (0, "counts", lambda a: a.astype(np.int64), "counts of {}masks must be int32 but is int64"),
        (1, "offsets", lambda a: a[:-1], r"offsets of {}gt_masks must have shape \[4\] but has \[3\]"),
        (0, "sizes", lambda a: a[:-1], "{}masks must have 4 rows, the sum of lengths, but has 3"),
        (1, "sizes", lambda a: a[:, :1], r"sizes of {}gt_masks must have shape \[3, 2\] but has \[3, 1\]"),
    ],
)
def test_what_is_read_by_address_is_checked(side: int, field: str, change: Callable[[Any], Any], message: str) -> None:
    batch, masks, *_ = arrays(pair_arguments([(4, 3)]))
    changed = [*masks]
    changed[side] = replace(masks[side], **{field: change(getattr(masks[side], field))})
    with pytest.raises(InputError, match=message.format("")):
        _run_pairs_cpu.run_pairs(batch, *changed, 0.5)
    with pytest.raises(InputError, match=message.format("boundaries of ")):
        _run_pairs_cpu.run_pairs(batch, *masks, 0.5, boundaries=(changed[0], changed[1]))
