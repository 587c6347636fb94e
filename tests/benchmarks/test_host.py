"""The host benchmark counts what a work asks of torch and of the CUDA library, and takes the way of CUDA tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks import host, host_cases, host_costs, report, run
from benchmarks.host_device import counts_of, launching_nothing, pretended
from testing.parity import differences
from testing.simulator import launches
from valor_gpu.classification import Accuracy
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.ops import box_iou
from valor_gpu.ops._device_tables import upload

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def as_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh memory is not filled, which would be counted."""
    for name in ("empty", "empty_like", "empty_strided"):
        monkeypatch.setattr(torch, name, getattr(torch._C._VariableFunctions, name))
    monkeypatch.setattr(Tensor, "new_empty", torch._C.TensorBase.new_empty)


class Given:
    """A work that is a function of a tensor of the device."""

    def __init__(self, call: Callable[[Tensor], object]) -> None:
        self.held = torch.ones(2, 3)
        self._call = call

    def prepare(self) -> None:
        pass

    def __call__(self) -> object:
        return self._call(self.held)


def counts(call: Callable[[Tensor], object]) -> dict[str, int]:
    with pretended():
        return dict(counts_of(lambda: Given(call)))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda there: there + 1, {"operation": 1}),
        (lambda there: there.reshape(6)[1:].detach(), {"view": 2, "detach": 1}),
        (lambda there: torch.cat([there, there, there.view(2, 3)]), {"operation": 1, "tensor of a cat": 3, "view": 1}),
        (lambda there: torch.empty(4, device=CPU), {"allocation": 1}),
        (lambda there: (there.new_empty(4), torch.empty_like(there)), {"allocation": 2}),
        (lambda there: there.new_empty(4).fill_(0).view(2, 2), {"allocation": 1, "operation": 1, "view": 1}),
        (lambda there: torch.empty(4, pin_memory=True).numpy(), {"pinned": 1}),
        (lambda there: torch.tensor([1, 2]).view(1, 2) + torch.from_numpy(np.ones(2)), {}),
        (
            lambda there: upload(np.zeros(1001, np.int64), CPU),
            {"allocation": 1, "C call": 1, "launch": 3, "stream": 1},
        ),
    ],
)
def test_parts_are_counted(call: Callable[[Tensor], object], expected: dict[str, int]) -> None:
    assert counts(call) == expected


def test_an_op_whose_kernel_torch_chooses_is_rejected() -> None:
    boxes = torch.tensor([[0.0, 0, 1, 1]])
    with pytest.raises(NotImplementedError, match=r"box_iou.* must not be part of the work: torch would"):
        counts(lambda there: box_iou(boxes, boxes))


def test_metrics_take_the_way_of_cuda_tensors_and_give_the_numbers_of_the_cpu() -> None:
    batches = host_cases.short(2)
    expected, metric = MeanAveragePrecision(), MeanAveragePrecision()
    scores, target = torch.rand(50, 7, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 7
    ours, theirs = Accuracy(num_classes=7), Accuracy(num_classes=7)
    theirs.update(scores, target)
    for batch in batches:
        expected.update(*batch)
    with pretended() as library:
        launches(library)
        ours.update(scores, target)
        for batch in batches:
            metric.update(*batch)
        assert len(launches(library)) > 4
        found = metric.compute()
        assert "mean_kernel" in launches(library)
    assert differences(found, expected.compute()) == "" and float(found["map"]) > 0
    assert torch.equal(ours.compute(), theirs.compute())
    assert not torch.ones(1).is_cuda and torch.ones(1).is_cpu


def row_of(case: host_cases.HostCase, group: str = "detection") -> dict[str, Any]:
    """The row of a work where parts cost the same on both machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "here", lambda: dict(host_costs.THERE))
        (row,), costs = host.measure([(group, case)], 2, 1)
    assert costs == host_costs.THERE
    return row


@pytest.mark.parametrize(("group", "name"), [
    ("detection", "update of 16 images, padded"), ("detection", "update of 16 images, lists"),
    ("classification", "Accuracy, update of 8,192 x 1,000 scores"),
    ("segmentation", "mIOU, update of one label map 1024 x 2048"),
    ("segmentation", "MeanIoU, update of one label map 1024 x 2048"),
])  # fmt: skip
def test_an_update_is_one_call_of_the_library(group: str, name: str) -> None:
    case = next(case for case in host_cases.CASES[group] if case.name == name)
    row = row_of(case, group)
    assert row["status"] == "ok" and row["counts"]["C call"] == row["counts"]["stream"] == 1
    assert row["counts"]["launch"] >= 1
    assert row["predicted"] == pytest.approx(row["microseconds"]["min"], abs=0.06)
    assert row["microseconds"]["runs"] == 2


def test_compute_reads_the_numbers_that_kernels_gave() -> None:
    case = host_cases.HostCase("compute after 2 updates", lambda: host_cases.Computes(host_cases.short(2), False))
    row = row_of(case)
    assert row["status"] == "ok" and row["counts"]["tensor of a cat"] == 6  # two parts of three tables
    assert row["counts"]["pinned"] <= 1 and row["counts"]["launch"] > 5


def test_other_numbers_get_no_time() -> None:
    def wrong() -> Any:
        work = Given(lambda there: there + 1)
        work.expected, work.value = {"map": torch.ones(1)}, {"map": torch.zeros(1)}  # type: ignore[attr-defined]
        return work

    row = row_of(host_cases.HostCase("wrong", wrong))
    assert row["status"] == "mismatch" and "1 of 1 values" in row["reason"] and "microseconds" not in row
    assert "| wrong | mismatch |" in host.report([_result([row])], {"commit": "0" * 40, "sections": {}})


def test_costs_here_are_those_of_the_counted_parts() -> None:
    with pretended(), launching_nothing():
        costs = host_costs.here()
    assert costs.keys() == host_costs.THERE.keys() and min(costs.values()) >= 0 and max(costs.values()) < 1e3
    assert host_costs.predicted(100.0, {"operation": 2.0, "view": 0.5}, {**costs, "operation": 3.0, "view": 1.3}) == 121


def _result(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "kind": "host", "rows": rows, "repeats": 5, "machine": {"processor": "a CPU", "python": "3.12"},
        "versions": {"torch": "2.11"}, "commit": "0" * 40, "date": "2026-11-27", "costs": dict(host_costs.THERE),
    }  # fmt: skip


def test_the_table_has_prediction_measured_time_and_budget() -> None:
    parts = {
        "C call": 1.0,
        "launch": 2.0,
        "operation": 3.0,
        "allocation": 1.0,
        "pinned": 3.0,
        "view": 1.5,
        "detach": 4.0,
    }
    row = {"case": "detection", "path": "update of 16 images, lists", "status": "ok", "counts": parts,
           "microseconds": {"median": 300.0, "min": 250.0, "max": 400.0, "runs": 12}, "predicted": 281.25}  # fmt: skip
    record = {"commit": "12" * 20, "sections": {"timing": {"checks": [{
        "name": "lists", "outcome": "pass", "quick": False,
        "rows": [{"work": "val2017 scale: one update of 16 images, lists", "host_seconds": {"median": 4.62e-4}}],
    }]}}}  # fmt: skip
    lines = host.report([_result([row, {**row, "path": "gone"}])], record).splitlines()
    assert lines[2] == "| update of 16 images, lists | **250 us** | 1 | 2 | 3 | 4 | 5.5 | 281 us | 462 us | 120 us |"
    assert lines[3] == "| gone | **250 us** | 1 | 2 | 3 | 4 | 5.5 | 281 us |  |  |"
    assert "newest GPU check, commit 1212121212, of" in lines[-1]
    assert "shortest of 12 calls" in lines[-1] and "operation 13 (13.0)" in lines[-1]
    assert "## Host time on CUDA" in report.page({"host": [_result([row])]}, None)


def test_rows_of_a_check_and_budgets_exist() -> None:
    """A row that is renamed there would leave an empty cell here."""
    record = host.gpu_table.newest()
    known = {row["work"]: row for row in host.gpu_table.rows(record or {"sections": {}})}
    cases = [case for group in host_cases.CASES.values() for case in group]
    assert len({case.name for case in cases}) == len(cases)
    assert all(host.measured(case, known) for case in cases if case.row)
    assert [host.budget(case) for case in cases if case.budget] == ["120 us", "60.0 us", "150 us", "40.0 ms"]


def test_the_command_knows_the_groups() -> None:
    assert run.parse(["host", "--case", "segmentation"]).case == "segmentation"


def test_a_machine_without_a_compiler_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.simulator, "COMPILER", "no-such-compiler")
    with pytest.raises(
        SystemExit, match=r"need a C\+\+ compiler for csrc/sim but no-such-compiler is not in PATH: set CXX"
    ):
        run.main(["host", "--quick"])


def test_times_of_plain_python_are_not_those_of_the_c_plus_plus_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library an update of lists takes seven times as long, and nothing in the table would say so."""
    monkeypatch.setattr(host.native, "_load", lambda name: (None, f"lib{name}.so was not built"))
    with pytest.raises(SystemExit, match=r"need the C\+\+ library but libvalor_cpu.so was not built: with .* setup.py"):
        run.main(["host", "--quick"])
