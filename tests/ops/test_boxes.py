"""Box IoU: every kernel equals the reference, the reference equals pycocotools, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.oracles import pycocotools
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.boxes import op as boxes
from valor_gpu.ops.boxes.op import box_iou
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ragged import Ragged

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIZES = [(0, 5), (5, 0), (0, 0), (1, 1), (1, 33), (31, 33), (33, 31), (2, 1000)]
HUGE = [(300, 40)]
Op = Callable[..., Tensor]


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "box_iou", boxes._box_iou_cuda)


def random_boxes(n: int, seed: int, box_format: str = "xyxy") -> Tensor:
    """float64 ``[n, 4]`` on a coarse grid, so that edges coincide; some of zero and some of negative size."""
    rng = np.random.default_rng(seed)
    box = np.round(rng.random((n, 4)) * [60, 60, 20, 20] - [0, 0, 1, 1], 1)
    if box_format == "xyxy":
        box[:, 2:] += box[:, :2]
    if box_format == "cxcywh":
        box[:, :2] += box[:, 2:] / 2
    return torch.from_numpy(box)


def arguments(
    sizes: list[tuple[int, int]], dtypes: tuple[torch.dtype, torch.dtype], box_format: str, crowds: bool
) -> tuple[Any, ...]:
    lengths = torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2).T
    n, m = lengths.sum(1).tolist()
    crowd = torch.from_numpy(np.random.default_rng(2).random(m) < 0.3) if crowds else None
    return (
        random_boxes(n, 0, box_format).to(dtypes[0]),
        random_boxes(m, 1, box_format).to(dtypes[1]),
        boxes._offsets([*lengths, lengths.prod(0)]),
        crowd,
        BOX_FORMATS.index(box_format),
    )


def assert_same_bits(got: Tensor, expected: Tensor) -> None:
    """Equal shape, dtype and bits; NaN equals NaN, whose sign bit differs from processor to processor."""
    assert got.dtype == expected.dtype == torch.float64 and got.shape == expected.shape
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got.nan_to_num().view(torch.int64), expected.nan_to_num().view(torch.int64))


def check(op: Op, args: tuple[Any, ...]) -> Tensor:
    got = op(*args)
    assert_same_bits(got, _library.reference("box_iou")(*args))
    return got


@pytest.mark.smoke
@pytest.mark.parametrize("box_format", BOX_FORMATS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kernel_equals_the_reference(op: Op, dtype: torch.dtype, box_format: str) -> None:
    got = check(op, arguments(SIZES, (dtype, dtype), box_format, crowds=True))
    assert 0.05 < (got > 0).double().mean() < 0.95


@pytest.mark.smoke
@pytest.mark.parametrize("sizes", [[], [(0, 0)], [(0, 7)], [(7, 0)], [(1, 1)], HUGE, [(0, 3)] * 40 + HUGE])
def test_sizes(op: Op, sizes: list[tuple[int, int]]) -> None:
    check(op, arguments(sizes, (torch.float32, torch.float64), "xyxy", crowds=False))


@pytest.mark.parametrize("shape", [(1, 70_000), (70_000, 1), (1500, 1100)])
def test_large_segments_are_split_over_threads(shape: tuple[int, int]) -> None:
    check(kernel("cpu", "box_iou", boxes._box_iou_cuda), arguments([shape], (torch.float32,) * 2, "xywh", crowds=True))


@pytest.mark.parametrize("sizes", [[(1, 5000)], [(3, 2100)], [(2, 700), (0, 9), (1, 1)]])
def test_blocks_share_the_columns_of_few_rows(sizes: list[tuple[int, int]]) -> None:
    simulated = kernel("simulated", "box_iou", boxes._box_iou_cuda)
    check(simulated, arguments(sizes, (torch.float32,) * 2, "xyxy", crowds=True))


def test_a_row_of_more_pairs_than_a_lane_counts_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "_MAX_COLUMNS", 6)
    simulated, dtypes = kernel("simulated", "box_iou", boxes._box_iou_cuda), (torch.float32,) * 2
    check(simulated, arguments([(1, 6), (2, 5)], dtypes, "xyxy", crowds=False))
    with pytest.raises(InputError, match=r"boxes2 must have fewer than 2\^31 rows in an image on a GPU but one has 7"):
        simulated(*arguments([(1, 7)], dtypes, "xyxy", crowds=False))


def test_many_segments_are_split_over_threads() -> None:
    sizes = [(int(n), int(m)) for n, m in np.random.default_rng(3).integers(0, 30, (900, 2))]
    args = arguments(sizes, (torch.float64,) * 2, "xyxy", crowds=True)
    check(kernel("cpu", "box_iou", boxes._box_iou_cuda), args)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    args = arguments([(0, 3), (40, 33), (1, 1)], (torch.float16, torch.float64), "xyxy", crowds=True)
    check(kernel("simulated", "box_iou", boxes._box_iou_cuda), args)


def test_inputs_may_be_strided(op: Op) -> None:
    boxes1, boxes2, offsets, crowd, code = arguments(SIZES, (torch.float32, torch.float16), "xyxy", crowds=True)
    expected = op(boxes1, boxes2, offsets, crowd, code)
    strided = (boxes1.T.contiguous().T, boxes2.repeat_interleave(2, 0)[::2], offsets.T.contiguous().T)
    assert not any(t.is_contiguous() for t in strided)
    assert_same_bits(op(*strided, crowd.repeat_interleave(2)[::2], code), expected)


def test_values_that_are_not_finite(op: Op) -> None:
    odd = torch.tensor([[0, 0, 1, 1], [-np.inf, 0, 2, 2], [0, 0, np.inf, 1], [np.nan, 0, 1, 1], [0, 0, 5e-324, 5e-324]])
    for dtype in DTYPES:
        args = (odd.to(dtype), odd.to(dtype), torch.tensor([[0, 5], [0, 5], [0, 25]]), None, 0)
        got = op(*args)
        expected = coco_mask_iou(boxes.to_xywh(odd.to(dtype), 0), boxes.to_xywh(odd.to(dtype), 0))
        assert_same_bits(got, expected.flatten())


def coco_mask_iou(boxes1: Tensor, boxes2: Tensor, crowd: Tensor | None = None) -> Tensor:
    flags = np.zeros(len(boxes2)) if crowd is None else crowd.numpy()
    return torch.from_numpy(pycocotools("mask").iou(boxes1.numpy(), boxes2.numpy(), flags.astype(np.uint8)))


@pytest.mark.parametrize("crowds", [False, True])
def test_equals_pycocotools(crowds: bool) -> None:
    boxes1, boxes2 = random_boxes(400, 4, "xywh"), random_boxes(300, 5, "xywh") + torch.rand(300, 4).double() / 7
    crowd = torch.arange(300) % 3 == 0 if crowds else None
    got = box_iou(boxes1, boxes2, box_format="xywh", crowd=crowd)
    assert_same_bits(got, coco_mask_iou(boxes1, boxes2, crowd))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("box_format", BOX_FORMATS)
def test_conversion_equals_torchvision(box_format: str, dtype: torch.dtype) -> None:
    convert = pytest.importorskip("torchvision.ops", reason="torchvision is not installed").box_convert
    rows = torch.rand(500, 4, dtype=dtype) * 100
    expected = convert(rows, box_format, "xywh").double()
    assert_same_bits(boxes.to_xywh(rows, BOX_FORMATS.index(box_format)), expected)


def test_every_half_precision_value_is_loaded_exactly() -> None:
    """Widths that run over all 65,536 bit patterns come back as pycocotools sees them in float64."""
    for dtype in (torch.float16, torch.bfloat16):
        patterns = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
        rows = torch.zeros(len(patterns), 4, dtype=dtype)
        rows[:, 2], rows[:, 3] = patterns, 1
        unit = torch.tensor([[0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)
        got = box_iou(rows, unit, box_format="xywh")
        assert_same_bits(got, coco_mask_iou(rows.double(), unit))


def test_ragged_batches_give_ragged_pairs() -> None:
    first = [random_boxes(n, n) for n in (3, 0, 2)]
    second = [random_boxes(m, 10 + m) for m in (4, 5, 0)]
    crowd = torch.arange(9) % 2 == 0
    got = box_iou(Ragged.from_list(first), Ragged.from_list(second), crowd=crowd)
    assert got.lengths.tolist() == [12, 0, 0]
    assert_same_bits(got.values.view(3, 4), box_iou(first[0], second[0], crowd=crowd[:4]))


def test_inputs_stay_as_they_were() -> None:
    args = arguments(SIZES, (torch.float32, torch.float64), "cxcywh", crowds=True)
    before = [a.clone() for a in args[:4]]
    torch.ops.valor_gpu.box_iou(*args)
    assert all(torch.equal(a, b) for a, b in zip(args[:4], before))


@pytest.mark.parametrize("sizes", [[(3, 4)], [(3, 4), (0, 2), (5, 5)]])
def test_opcheck(sizes: list[tuple[int, int]]) -> None:
    args = arguments(sizes, (torch.float32, torch.float64), "xyxy", crowds=True)
    torch.library.opcheck(torch.ops.valor_gpu.box_iou.default, args)


A = torch.zeros(2, 4)


def test_iou_has_no_gradient() -> None:
    assert not box_iou(A.clone().requires_grad_(), A).requires_grad
    sides = [Ragged.from_list([A.clone().requires_grad_()]) for _ in range(2)]
    assert not box_iou(*sides).values.requires_grad


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((A[:, :3], A), {}, r"boxes1 must have shape \[N, 4\] but got \[2, 3\]"),
        ((A, A.long()), {}, "boxes2 must have dtype .*float64 but got torch.int64"),
        ((A, A), {"box_format": "yxyx"}, "box_format must be one of 'xyxy', 'xywh', 'cxcywh' but got 'yxyx'"),
        ((A, A), {"crowd": torch.zeros(3, dtype=torch.bool)}, r"crowd must have shape \[2\] but got \[3\]"),
        ((A, A.to_sparse()), {}, "boxes2 must be a dense tensor but is torch.sparse_coo"),
        ((A, A), {"crowd": [True, False]}, "crowd must be Tensor but got list"),
        ((A, A), {"crowd": torch.zeros(2)}, "crowd must have dtype torch.bool but got torch.float32"),
        ((A, A.to("meta")), {}, "boxes2 must be on cpu like boxes1 but is on meta"),
        ((A, [A]), {}, "boxes2 must be Tensor but got list"),
        (([A], A), {}, "boxes1 must be Tensor or Ragged but got list"),
        ((Ragged.from_list([A]), A), {}, "boxes2 must be Ragged but got Tensor"),
        ((A, Ragged.from_list([A])), {}, "boxes2 must be Tensor but got Ragged"),
        ((Ragged.from_list([A]), Ragged.from_list([A, A])), {}, "boxes2 must have 1 segments like boxes1 but has 2"),
    ],
)
def test_errors_name_the_argument(args: tuple[Any, ...], kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        box_iou(*args, **kwargs)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_cuda_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    """Segments of none, few and many rows, for each number of lanes a row."""
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    rng = torch.Generator().manual_seed(int(seed))
    simulated = kernel("simulated", "box_iou", boxes._box_iou_cuda)
    for columns in ([0, 1, 2], [3, 0, 5, 0], [40, 7, 100]):
        rows = [30, 0, 90, 1][: len(columns)]
        first = torch.rand(sum(rows), 4, generator=rng).cumsum(1)
        second = torch.rand(sum(columns), 4, generator=rng).cumsum(1)
        lengths = torch.tensor(rows), torch.tensor(columns)
        offsets = boxes._offsets((*lengths, lengths[0] * lengths[1]))
        crowd = torch.rand(len(second), generator=rng) > 0.5
        for flags in (None, crowd):
            for dtype in (torch.float32, torch.float16):
                arguments = (first.to(dtype), second.to(dtype), offsets, flags, 0)
                assert torch.equal(simulated(*arguments), _library.reference("box_iou")(*arguments))
