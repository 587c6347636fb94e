"""Pairs of upright boxes: every kernel stores what the reference stores, and assigns as boxes without pairs do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, library

from testing.examples_boxes import CXCYWH, XYWH, XYXY, examples, rows
from testing.examples_rotated import pair_arguments
from tests.fuzz import seeds
from tests.native.sim import simulated
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.assign.match_batch import AGNOSTIC, HASHED, USER_INPUT, WANT_MATCHES, MatchBatch, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.box_pairs import cpu as _box_pairs_cpu
from valor_gpu.ops.box_pairs import op as box_pairs
from valor_gpu.ops.boxes.op import box_iou
from valor_gpu.ops.error_codes import describe_box
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ops.pairs.cpu import Found
from valor_gpu.ops.pairs.rows import to_batch

Op = Callable[..., Any]
SMALLEST = float(np.nextafter(0.0, 1.0))
SIZES = [(9, 7), (0, 3), (5, 0), (1, 1), (40, 33)]


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "box_pairs", box_pairs._on_cuda)


def used(found: Found) -> list[tuple[list[int], list[float]]]:
    """Of each detection the ground truths and similarities in the used part of its room."""
    rooms = zip(found.offsets.tolist(), found.counts.tolist())
    parts = [slice(first, first + count) for first, count in rooms]
    return [(found.ground_truths[part].tolist(), found.similarities[part].tolist()) for part in parts]


def check(op: Op, *given: Any) -> Found:
    got, expected = Found(*op(*given)), Found(*_library.reference("box_pairs")(*given))
    assert used(got) == used(expected)
    for name in ("counts", "areas", "gt_own_areas", "hashes", "gt_hashes", "error"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name
    return got


@pytest.mark.smoke
@pytest.mark.parametrize(("name", "given"), [pytest.param(*pair, id=pair[0]) for pair in examples(True)])
def test_every_kernel_equals_the_reference(op: Op, name: str, given: tuple[Any, ...]) -> None:
    assert int(check(op, *given).counts.sum()) > 0 or name == "no image"


@pytest.mark.parametrize("lowest", [0.0, -1.0, SMALLEST, 0.3, 1.0])
@pytest.mark.parametrize("agnostic", [False, True])
def test_lowest_thresholds(op: Op, lowest: float, agnostic: bool) -> None:
    given = (*pair_arguments(SIZES, XYXY, lowest, make=rows)[:-1], agnostic)
    found = check(op, *given)
    if lowest <= 0 and agnostic:
        assert int(found.counts.sum()) == sum(n * m for n, m in SIZES)


@pytest.mark.parametrize("images", [31, 32, 33, 65, 1025])
def test_rows_find_their_image_among_many(op: Op, images: int) -> None:
    """A warp looks at 32 boundaries of images at a time; images without rows share theirs with the next."""
    sizes = np.random.default_rng(images).integers(0, 3, (images, 2))
    sizes[0], sizes[-1] = (0, 2), (1, 1)
    assert int(check(op, *pair_arguments([(n, m) for n, m in sizes.tolist()], XYXY, 0.0, make=rows)).counts.sum()) > 0


def test_the_smallest_threshold_keeps_the_pairs_that_overlap(op: Op) -> None:
    given = (*pair_arguments([(40, 33)], XYXY, SMALLEST, make=rows)[:-1], True)
    found = check(op, *given)
    iou = box_iou(given[0][0], given[2][0], crowd=given[4][0].bool())
    assert 0 < int(found.counts.sum()) == int((iou > 0).sum())
    for row, (gts, values) in enumerate(used(found)):
        assert values == iou[row, gts].clamp(max=1).tolist() == sorted(values, reverse=True)


def test_equal_boxes_never_have_more_than_one(op: Op) -> None:
    """Where the width plus the first end rounds up, box_iou is above 1."""
    generator = torch.Generator().manual_seed(3)
    box = torch.rand((500, 4), generator=generator, dtype=torch.float64)
    box[:, :2] += 1000
    none, lengths = torch.zeros(500, dtype=torch.int64), torch.ones((2, 500), dtype=torch.int64)
    found = check(op, [box], [none], [box], [none], [none], lengths, None, None, XYWH, XYWH, 0.5, False)
    alone = torch.cat([box_iou(row[None], row[None], box_format="xywh")[0] for row in box])
    assert float(alone.max()) > 1 >= float(found.similarities[found.offsets[:-1]].max())
    assert torch.equal(found.similarities[found.offsets[:-1]], alone.clamp(max=1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_extreme_boxes(op: Op, dtype: torch.dtype) -> None:
    """Areas and unions beyond float64, sizes that vanish, and ends that round: never NaN."""
    most = torch.finfo(dtype).max / 4
    tiny = torch.finfo(dtype).tiny
    box = torch.tensor(
        [[0, 0, most, most], [0, 0, tiny, tiny], [0, 0, 0, 0], [most, 1, most, 2], [-1, -1, 1, 1]], dtype=torch.float64
    ).to(dtype)
    none = torch.zeros(5, dtype=torch.int64)
    given = ([box], [none], [box.clone()], [none], [none], torch.tensor([[5], [5]]), None, None, XYXY, XYXY)
    assert not check(op, *given, 0.0, True).similarities.isnan().any()
    check(op, *given, SMALLEST, True)


def test_the_first_bad_row_is_reported(op: Op) -> None:
    given = pair_arguments(SIZES, XYXY, make=rows)
    given[0][0][12, 2], given[0][0][9, 0] = np.nan, -np.inf
    given[2][0][8, 3] = np.inf
    found = check(op, *given)
    assert describe_box(int(found.error)) == "target[1]['boxes'][1] must be finite"


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kernel("simulated", "box_pairs", box_pairs._on_cuda)
    given = (*pair_arguments(SIZES, XYWH, SMALLEST, make=rows)[:-1], True)
    expected = Found(*run(*given))
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated()
    assert used(Found(*run(*given))) == used(expected)


# ------------------------------------------------------------------------------------------------------------- matching


def rule(options: int = 0) -> MatchRule:
    choices = options | HASHED | USER_INPUT | WANT_MATCHES
    return MatchRule.make((0.5, 0.75), [[0, 1e10], [0, 50], [50, 1e10]], [1, 5, 100], choices)


def batch_of(seed: int, code: int, dtype: torch.dtype = torch.float32) -> MatchBatch:
    rng = np.random.default_rng(seed)
    sizes = [(int(n), int(m)) for n, m in rng.integers(0, 12, (10, 2))]
    batch, _, _ = to_batch(*pair_arguments(sizes, code, dtype=dtype, make=rows))
    jitter = [torch.from_numpy(rng.random((len(side[0]), 1))).to(dtype) for side in (batch.boxes, batch.gt_boxes)]
    scores = torch.from_numpy(np.round(rng.random(len(batch.labels[0])), 1))
    return replace(
        batch, scores=[scores], boxes=[batch.boxes[0] + jitter[0]], gt_boxes=[batch.gt_boxes[0] + jitter[1]],
        gt_flags=[(batch.gt_flags[0] > 0).long()],
    )  # fmt: skip


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("options", [0, AGNOSTIC])
@pytest.mark.parametrize("code", [XYXY, XYWH, CXCYWH], ids=BOX_FORMATS)
def test_stored_pairs_match_as_boxes_do(code: int, options: int, seed: int) -> None:
    """The same outcomes and matches; hashes are of other contents."""
    batch, choices = batch_of(seed, code), rule(options)
    got, expected = assign(box_pairs.box_pairs(batch, choices)[0], choices), assign(batch, choices)
    for name in ("detections", "ground_truths", "matches"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name
    assert (expected.matches >= 0).any()


def test_numpy_arrays_give_what_tensors_give() -> None:
    batch = batch_of(30, XYXY)
    names = ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "gt_flags")
    columns: dict[str, Any] = {name: [x.numpy() for x in getattr(batch, name)] for name in names}
    arrays = replace(batch, lengths=batch.lengths.numpy(), **columns)
    got, expected = _box_pairs_cpu.box_pairs(arrays, 0.5), box_pairs.box_pairs(batch, rule())[0]
    assert got.pairs is not None and expected.pairs is not None
    for name in ("offsets", "counts", "ground_truths", "similarities"):
        assert np.array_equal(getattr(got.pairs, name), getattr(expected.pairs, name).numpy()), name
    for name in ("areas", "gt_own_areas", "hashes", "gt_hashes"):
        assert np.array_equal(getattr(got, name)[0], getattr(expected, name)[0].numpy()), name


def test_threads_change_nothing() -> None:
    given = pair_arguments([(60, 50)] * 300, XYXY, 0.1, make=rows)
    before = torch.get_num_threads()
    found: list[Found] = []
    try:
        for threads in (1, 4):
            torch.set_num_threads(threads)
            found.append(Found(*torch.ops.valor_gpu.box_pairs(*given)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found)) and found[0].counts.sum() > 1000


def change(batch: MatchBatch, **changed: Tensor) -> MatchBatch:
    columns: dict[str, Any] = {name: [value] for name, value in changed.items()}
    return replace(batch, **columns)


def test_bad_input_raises_on_the_cpu() -> None:
    batch = batch_of(31, XYXY)
    bad = batch.gt_boxes[0].clone()
    bad[0, 3] = np.nan
    with pytest.raises(InputError, match=r"target\[0\]\['boxes'\]\[0\] must be finite"):
        box_pairs.box_pairs(change(batch, gt_boxes=bad), rule())
    with pytest.raises(InputError, match=r"labels must have .* rows, the sum of lengths, but has"):
        box_pairs.box_pairs(change(batch, labels=batch.labels[0][:-1]), rule())
    with pytest.raises(InputError, match=r"boxes must have shape \[\d+, 4\] but has \[\d+, 3\]"):
        box_pairs.box_pairs(change(batch, boxes=batch.boxes[0][:, :3].contiguous()), rule())
    with pytest.raises(InputError, match="boxes must be floating but is int64"):
        box_pairs.box_pairs(change(batch, boxes=batch.boxes[0].long()), rule())


def test_opcheck() -> None:
    given = pair_arguments(SIZES[:2], XYXY, make=rows)
    library.opcheck(torch.ops.valor_gpu.box_pairs.default, given, test_utils=("test_schema", "test_faketensor"))
