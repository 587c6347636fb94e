"""precision_recall on CUDA: under the simulator and on a device, equal to the C++ kernel by bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.native.sim import simulated_kernel
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from tests.ops.test_accumulate_steps import SETTINGS, case
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate import curves_cuda as _curves_cuda
from valor_gpu.ops.accumulate.op import order_records
from valor_gpu.ops.accumulate.types import TIE_ORDERS, Curves, Ordered, RecordShape

Op = Callable[..., Curves]
GRID = torch.from_numpy(np.linspace(0, 1, 101))
SIZES = [0, 1, 31, 32, 33, 255, 256, 257, 0, 513, 4500]
needs_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def on_device(*arguments: Any) -> Curves:
    moved = (*(tensor.cuda() for tensor in arguments[:4]), *arguments[4:])
    return Curves(*(tensor.cpu() for tensor in torch.ops.valor_gpu.precision_recall.default(*moved)))


@pytest.fixture(params=[backend for backend in BACKENDS if backend != "cpu"])
def op(request: pytest.FixtureRequest) -> Op:
    if request.param != "simulated":
        return on_device
    run = simulated_kernel(_curves_cuda.precision_recall)
    return lambda *arguments: Curves(*run(*arguments))


def check(op: Op, *arguments: Any) -> Curves:
    """Arguments of the op: records, order, offsets, positives, recall thresholds, sizes, full, ties."""
    expected = kernel("cpu", "precision_recall", _curves_cuda.precision_recall)(*arguments)
    got = op(*arguments)
    for name, mine, other in zip(Curves._fields, got, expected):
        assert mine.shape == other.shape and mine.numpy().tobytes() == other.numpy().tobytes(), name
    return got


def random_records(
    shape: RecordShape, sizes: list[int], decimals: int, seed: int = 0, matched: float = 0.4
) -> tuple[Tensor, Ordered, Tensor]:
    """Records of classes of the given sizes whose bits are random, their order, and positives ``[K, A]``."""
    rng = np.random.default_rng(seed)
    settings, total = shape.settings, sum(sizes)
    rows = np.zeros((total, 13 + 2 * ((settings + 7) // 8)), np.uint8)
    scores = np.round(rng.random(total), decimals)
    scores[rng.random(total) < 0.02] = -0.0
    rows[:, :8] = scores.view(np.uint8).reshape(-1, 8)
    rows[:, 8:12] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes).view(np.uint8).reshape(-1, 4)
    rows[:, 12] = rng.integers(0, shape.limits, total)
    for at, share in ((13, matched), (13 + (settings + 7) // 8, 0.3)):
        bits = np.packbits(rng.random((total, settings)) < share, axis=1, bitorder="little")
        rows[:, at : at + bits.shape[1]] = bits
    records = torch.from_numpy(rows[rng.permutation(total)])
    whole = torch.tensor([total])
    ordered = order_records(records, whole - total, whole, torch.arange(len(sizes)), shape.limits)
    most = [max(1, int(size * matched)) for size in sizes]
    positives = rng.integers(0, 2 * np.array(most, np.int64)[:, None], (len(sizes), shape.areas))
    positives *= rng.random(positives.shape) < 0.9
    return records, ordered, torch.from_numpy(positives)


def run(op: Op, shape: RecordShape, sizes: list[int], full: bool, ties: str, **options: Any) -> Curves:
    records, ordered, positives = random_records(shape, sizes, **{"decimals": 2, **options})
    numbers = [shape.thresholds, shape.areas, shape.limits]
    return check(op, records, *ordered, positives, GRID, numbers, full, TIE_ORDERS.index(ties))


@pytest.mark.parametrize("ties", TIE_ORDERS)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_cpu_kernel(op: Op, name: str, full: bool, ties: str) -> None:
    c = case(name, 7)
    numbers = [c.shape.thresholds, c.shape.areas, c.shape.limits]
    order = TIE_ORDERS.index(ties)
    check(op, c.matched.detections, *c.ordered(), c.positives(), c.recalls, numbers, full, order)


@pytest.mark.parametrize("ties", [pytest.param(TIE_ORDERS[0], marks=pytest.mark.smoke), *TIE_ORDERS[1:]])
@pytest.mark.parametrize("full", [True, False])
def test_classes_of_every_size(op: Op, full: bool, ties: str) -> None:
    found = run(op, RecordShape(5, 2, 3), SIZES, full, ties)
    assert 0.1 < float(found.precision.max()) <= 1


@pytest.mark.parametrize("ties", TIE_ORDERS)
@pytest.mark.parametrize("decimals", [0, 1, 3])
def test_runs_of_tied_scores_of_every_length(op: Op, decimals: int, ties: str) -> None:
    run(op, RecordShape(3, 1, 2), SIZES, True, ties, decimals=decimals)


@pytest.mark.parametrize(
    ("thresholds", "areas"),
    [
        *[pytest.param(*numbers, marks=pytest.mark.smoke) for numbers in ((1, 1), (33, 1), (13, 5))],
        *[(7, 1), (8, 4), (16, 4), (33, 4)],
    ],
)
def test_settings_of_every_number(op: Op, thresholds: int, areas: int) -> None:
    run(op, RecordShape(thresholds, areas, 2), [70, 0, 300], True, "highest")


@pytest.mark.parametrize("limits", [1, 2, 40, 254])
def test_limits_of_every_number(op: Op, limits: int) -> None:
    for full in (True, False):
        run(op, RecordShape(3, 2, limits), [300, 20], full, "given")


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_threads_changes_nothing(op: Op, monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    run(op, RecordShape(5, 2, 2), [40, 600, 0, 3], True, "lowest")


@pytest.mark.parametrize("matched", [0.0, 0.02, 1.0])
def test_few_and_many_true_positives(op: Op, matched: float) -> None:
    run(op, RecordShape(4, 2, 2), SIZES, True, "given", matched=matched)


def test_scores_that_are_not_finite(op: Op) -> None:
    shape = RecordShape(3, 1, 2)
    records, _, positives = random_records(shape, [400, 90], 1)
    odd = torch.tensor([float("nan"), -float("nan"), float("inf"), -float("inf"), 0.5, 0.5]).double()
    records[:, :8] = odd[torch.arange(len(records)) % 6].view(torch.uint8).reshape(-1, 8)
    whole = torch.tensor([len(records)])
    ordered = order_records(records, whole - whole, whole, torch.arange(2), shape.limits)
    for ties in range(3):
        check(op, records, *ordered, positives, GRID, [3, 1, 2], True, ties)


@pytest.mark.parametrize(
    "grid", [[], [0.0], [0.0, 0.0], [0.3, -1.0, 0.0, 0.9, 0.1], [np.nan, 0.0, 0.1, np.nan], [2.0], [1.0]]
)
def test_recall_grids(op: Op, grid: list[float]) -> None:
    shape = RecordShape(4, 2, 2)
    records, ordered, positives = random_records(shape, [300, 0, 7], 2)
    recalls = torch.tensor(grid, dtype=torch.float64)
    for full in (True, False):
        check(op, records, *ordered, positives, recalls, [4, 2, 2], full, 0)


def test_a_limit_that_keeps_no_record(op: Op) -> None:
    shape = RecordShape(2, 1, 3)
    records, ordered, positives = random_records(shape, [300, 40], 2)
    records[:, 12] = 1
    found = check(op, records, *ordered, positives + 1, GRID, [2, 1, 3], True, 0)
    assert (found.precision[..., 0] == 0).all() and (found.precision[..., 1] > 0).any()


@pytest.mark.smoke
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("classes", [0, 1, 5])
def test_no_record(op: Op, classes: int, full: bool) -> None:
    shape = RecordShape(10, 4, 3)
    positives = torch.arange(classes * 4).reshape(classes, 4)
    records, ordered, _ = random_records(shape, [0] * classes, 2)
    check(op, records, *ordered, positives, GRID, [10, 4, 3], full, 0)


@pytest.mark.parametrize("at", range(1, 4))
def test_tensors_on_another_device_are_named(at: int) -> None:
    records, ordered, positives = random_records(RecordShape(1, 1, 1), [3], 2)
    tensors = [records, *ordered, positives]
    tensors[at] = tensors[at].to("meta")
    name = ("detections", "order", "offsets", "positives")[at]
    with pytest.raises(InputError, match=f"{name} must be on cpu like detections but is on meta"):
        _curves_cuda.precision_recall(*tensors, GRID, [1, 1, 1], True, 0)


def test_too_many_records_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    records, ordered, positives = random_records(RecordShape(1, 1, 1), [4], 2)
    monkeypatch.setattr(_curves_cuda, "_MOST_RECORDS", 3)
    with pytest.raises(InputError, match="order must hold at most 3 records but holds 4"):
        _curves_cuda.precision_recall(records, *ordered, positives, GRID, [1, 1, 1], True, 0)


@pytest.mark.gpu
@needs_device
@pytest.mark.parametrize("full", [True, False])
def test_nothing_waits_for_the_device(full: bool) -> None:
    records, ordered, positives = random_records(RecordShape(10, 4, 3), SIZES, 2)
    tensors = [tensor.cuda() for tensor in (records, *ordered, positives)]
    for mode in ("default", "error"):  # the first call may load the library
        torch.cuda.set_sync_debug_mode(mode)
        try:
            torch.ops.valor_gpu.precision_recall.default(*tensors, GRID, [10, 4, 3], full, 0)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@needs_device
def test_order_on_the_device_equals_the_cpu_kernel() -> None:
    scores = torch.tensor([float("nan"), -float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 0.5]).double()
    for count in (0, 10, 5000, 300_000):
        generator = torch.Generator().manual_seed(count)
        rows = torch.zeros((count, 23), dtype=torch.uint8)
        rows[:, :8] = scores[torch.randint(7, (count,), generator=generator)].view(torch.uint8).reshape(-1, 8)
        rows[:, 8] = torch.randint(5, (count,), generator=generator).byte()
        rows[:, 12] = torch.randint(4, (count,), generator=generator).byte()
        whole, labels = torch.tensor([count]), torch.tensor([0, 1, 3])
        expected = order_records(rows, whole - whole, whole, labels, 3)
        found = order_records(rows.cuda(), whole - whole, whole, labels.cuda(), 3)
        assert found.order.tolist() == expected.order.tolist()
        assert found.offsets.tolist() == expected.offsets.tolist()
