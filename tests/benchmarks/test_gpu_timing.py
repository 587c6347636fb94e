"""Timings of the GPU check, by a dry run on the CPU: rows, targets, resumed runs, and the table of a record."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.autograd import DeviceType

from benchmarks import (
    checks,
    gpu_budgets,
    gpu_classification,
    gpu_jobs,
    gpu_masks,
    gpu_rows,
    gpu_sections,
    gpu_table,
    gpu_targets,
    gpu_timing,
    gpu_works,
    report,
)
from benchmarks.baselines import with_float32_grids
from benchmarks.checks import Checks, Disagreement, Later, Unavailable
from benchmarks.gpu_jobs import CPU, Job, OfFunction, OfMetric, device_time, measure
from benchmarks.gpu_record import rows_of
from benchmarks.gpu_sections import Setup
from benchmarks.gpu_targets import H200_COPY, TARGETS, judged, seconds_allowed
from benchmarks.gpu_works import Work
from testing import datasets
from testing.registry import ROWS
from valor_gpu import native
from valor_gpu.ops.accumulate import cuda as _accumulate_cuda

SMALL = gpu_classification.REHEARSED
SECTIONS = ("timing", "classification", "masks")
ROWS_OF_NUMBERS = [*(f"{name}, 900" for name in gpu_rows.REGRESSION), "nDCG, 9 queries x 7", "average precision, 20"]
SCORES = 1_000_000 * (1_000 * 4 + 8)


def never(*_: Any) -> Any:
    pytest.fail("something was made")


def works(make: Callable[[], datasets.BoxDataset]) -> list[Work]:
    return [Work("small", Later("scene", make), "val2017", batches=True, repeats=2)]


def setup(make: Callable[[], datasets.BoxDataset] = never, **changes: Any) -> Setup:
    return replace(Setup(CPU, False, lambda: works(make), SMALL, 1 << 16), **changes)


@pytest.fixture(scope="module")
def scene() -> datasets.BoxDataset:
    return datasets.make(datasets.CASES["val2017"], 30)


@pytest.fixture(scope="module")
def dry(scene: datasets.BoxDataset) -> dict[str, Any]:
    """The record of a dry run, as if it were that of an H100."""
    found: dict[str, Any] = {"kind": "gpu", "date": "2031-02-03T04:05:06Z", "commit": "0123456789abcdef"}
    found |= {
        "device": {"name": "NVIDIA H100", "driver": "580.1", "capability": "9.0"},
        "versions": {"torch": "2.11.0"},
    }
    found |= {"machine": {"cpus": 16, "processor": "a processor"}, "runs": [{"asked": list(SECTIONS)}]}
    gpu_sections.run_sections(SECTIONS, setup(lambda: scene), found, lambda _: None)
    return found


@pytest.fixture
def record(dry: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(dry)


def checks_of(record: dict[str, Any], outcome: str) -> list[str]:
    return [c["name"] for section in record["sections"].values() for c in section["checks"] if c["outcome"] == outcome]


def row_of(record: dict[str, Any], start: str) -> dict[str, Any]:
    return next(row for row in rows_of(record) if row.get("work", "").startswith(start))


def check_of(record: dict[str, Any], start: str) -> dict[str, Any]:
    checks = [check for section in record["sections"].values() for check in section["checks"]]
    return next(check for check in checks if check["name"].startswith(start))


# ---------------------------------------------------------------------------------------------------------------- rows


@pytest.mark.slow
def test_what_a_user_would_choose_is_timed_beside_the_cpu(record: dict[str, Any]) -> None:
    assert checks_of(record, "fail") == []
    beside = {check["name"] for check in record["sections"]["timing"]["checks"] if check["name"].endswith("beside")}
    assert set(checks_of(record, "unavailable")) <= {"small: kernels", *beside} and beside
    shown = [row for row in gpu_table.rows(record) if "cpu_route" in row and " beside, " not in row["work"]]
    starts = [
        "box AP, small, one update and compute", "box AP, small, updates of 16 images and compute", "2 replicates of",
        "box IoU, 1,200", *ROWS_OF_NUMBERS, "top-1 counts", "score histogram, 200 thresholds",
        "exact AUROC and AP, 500", "top-5 counts",
        "score histogram, 200, activation auto", "score histogram, 200 uneven", "exact AUROC and AP, multilabel, 300",
        *("top-1 accuracy", "top-5 accuracy", "confusion matrix, 600 x 20", "ROC AUC, 200", "ROC AUC, exact, 500"),
        "Brier score, 600 x 2",
        *("mIoU, label maps", "confusion matrix, label maps", "mIoU, logits", "bool masks to packed bits"),
        "mask AP, one update", "mask boundaries",
    ]  # fmt: skip
    assert len(shown) == len(starts) and all(row["work"].startswith(start) for row, start in zip(shown, starts))
    for row in shown:
        assert row["times_cpu_route"] == row["cpu_route"]["median"] / row["seconds"]["median"]
        assert row["floor_seconds"] == row["bytes"] / row["copy_bytes_per_second"] and row["met"] is not None
        assert row["share_of_copy"] == row["floor_seconds"] / row["device_seconds"]["median"]
    peers = len(gpu_classification.PAIRS) + len(gpu_rows.REGRESSION) + 4
    assert sum("times_torchmetrics" in row for row in shown) == peers
    json.dumps(record)


@pytest.mark.slow
def test_budgets_phases_and_ops_are_timed(record: dict[str, Any]) -> None:
    found = rows_of(record)
    assert [row["phase"] for row in found if "phase" in row] == ["read the input", "match", "accumulate"]
    assert {row["op"] for row in found if "op" in row} == set(ROWS)
    budgets = [row for row in found if row.get("work", "").startswith("small: ")]
    assert [len(row["targets"]) for row in budgets] == [1, 1, 0, 2]
    assert all({"seconds", "host_seconds", "device_seconds"} <= set(row) for row in budgets)
    copies = [check["rows"] for s in record["sections"].values() for check in s["checks"] if "copy" in check["name"]]
    assert len(copies) == 3 and copies[0] == copies[1] == copies[2] and copies[0][0]["device"] == "cpu"


def test_no_name_is_that_of_two_checks(record: dict[str, Any]) -> None:
    for section in record["sections"].values():
        names = [check["name"] for check in section["checks"]]
        assert len(names) == len(set(names))


def test_a_result_that_is_not_that_of_the_cpu_gets_no_time() -> None:
    numbers = iter((1, 2))

    def start(_: torch.device) -> OfFunction:
        number = next(numbers)
        return OfFunction(lambda values: values * number)

    job = Job("wrong", lambda device: (torch.ones(3, device=device),), start)
    with pytest.raises(Disagreement, match=r"on cpu the result is not that of the CPU: .*3 of 3 values"):
        measure(job, CPU, Later("bandwidth", lambda: 1e9))


def test_the_way_through_the_cpu_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(
        "double", lambda device: (torch.ones(3, device=device),), lambda _: OfFunction(lambda x: 2 * x), repeats=1
    )
    monkeypatch.setattr(gpu_jobs, "ROUTE_SECONDS", 1e9)
    assert measure(job, CPU, Later("", lambda: 1e9))["cpu_route"]["runs"] == gpu_jobs.ROUTE_RUNS - 1
    monkeypatch.setattr(gpu_jobs, "ROUTE_SECONDS", 1e-9)
    assert measure(job, CPU, Later("", lambda: 1e9))["cpu_route"]["runs"] == 1


def test_without_the_library_of_the_cpu_a_row_has_no_ratio(
    record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "available", lambda name: name != "valor_cpu")
    monkeypatch.setattr(gpu_jobs, "ROUTE_SECONDS", 1e9)
    numbers, calls = iter((2, 2, 2, 3)), []

    def start(_: torch.device) -> OfFunction:
        number = next(numbers)
        return OfFunction(lambda values: calls.append(number) or values * number)

    job = Job("double", lambda _: (torch.ones(3),), start, ("box IoU",), 1)
    row = measure(job, CPU, Later("bandwidth", lambda: 1e9))
    assert len(calls) == 4  # to load, to compare, wall time, device time
    assert (
        row["no_cpu_route"].startswith("the C++ library is missing (")
        and native.remedy("valor_cpu") in row["no_cpu_route"]
    )
    assert not {"cpu_route", "times_cpu_route"} & set(row) and {"device_seconds", "seconds", "share_of_copy"} < set(row)
    count = sum("cpu_route" in row for row in gpu_table.rows(record))
    check_of(record, "box IoU")["rows"] = [row]
    for other in gpu_table.rows(record):
        other |= {"times_cpu_route": 3.0} if "cpu_route" in other else {}  # the text shortens long lists
    for text in (gpu_table.readme_block(record), gpu_table.page_text(record), gpu_table.text(record)):
        assert f"The CPU was not timed in 1 of {count} rows: the C++ library was missing." in text.replace("\n", " ")
    assert re.search(r"\| double \| .* \| not timed \|", gpu_table.page_text(record))
    with pytest.raises(Disagreement, match="the result is not that of the CPU"):
        measure(job, CPU, Later("bandwidth", lambda: 1e9))


def test_data_take_a_quarter_of_the_memory_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(total_memory=4_000_000)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    gpu_jobs._check_room((torch.zeros(125_000, dtype=torch.int64),), torch.device("cuda"))
    with pytest.raises(Unavailable, match="take 1,000,008 bytes, and a quarter of the device's memory is 1,000,000"):
        gpu_jobs._check_room((torch.zeros(125_001, dtype=torch.int64),), torch.device("cuda"))
    load = gpu_classification.Load(classes=20).fitting(torch.device("cuda"))
    assert (load.rows, load.multilabel) == (10_000, 4_166)


# --------------------------------------------------------------------------------------------------------- device time


class Clock:
    """A GPU whose clock goes on only where a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.device = 0.0, SimpleNamespace(type="cuda")
        clock = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = clock.now

            def synchronize(self) -> None:
                assert self.at <= clock.now

            def elapsed_time(self, end: Event) -> float:
                return 1e3 * (end.at - self.at)

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: self.passes(cycles), raising=False)
        monkeypatch.setattr(checks.torch.cuda, "synchronize", lambda *_: None)
        monkeypatch.setattr(checks, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(gpu_jobs, "_flush", lambda _: lambda: self.passes(20_000))
        monkeypatch.setattr(_accumulate_cuda, "_read", lambda *_: self.passes(100))

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("reads", "seconds"), [(0, 43.0), (1, 3.0), (2, 243.0)])
def test_device_time_ends_where_a_work_reads_back_once(
    reads: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A work of 3 s on the device, reads of 100 s, and 40 s of Python behind them."""
    clock = Clock(monkeypatch)
    read = _accumulate_cuda._read

    def work() -> None:
        clock.passes(3)
        for _ in range(reads):
            _accumulate_cuda._read(None)  # type: ignore[arg-type]
        clock.passes(40)

    found = device_time(work, clock.device, 2, before=lambda: clock.passes(7))  # type: ignore[arg-type]
    assert (found["min"], found["max"], found["runs"]) == (seconds, seconds, 2)
    slept = 2 * 800_000_000  # cycles of 0.4 s, ahead of each repeat
    assert clock.now == slept + 2 * (7 + 20_000 + 43 + 100 * reads) + 2 * (7 + 43 + 100 * reads)
    assert _accumulate_cuda._read is read


@pytest.mark.parametrize(("taken", "cycles"), [(0.0, 4_000_000), (0.01, 30_000_000), (5.0, 800_000_000)])
def test_the_device_is_held_back_as_long_as_the_host_works(
    taken: float, cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, slept = Clock(monkeypatch), []
    monkeypatch.setattr(torch.cuda, "_sleep", slept.append, raising=False)
    hold_back = checks.head_start(lambda: clock.passes(taken), clock.device)  # type: ignore[arg-type]
    hold_back()
    assert slept == [pytest.approx(cycles)]


def test_works_phases_ops_and_budgets_have_one_clock(
    scene: datasets.BoxDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = iter(range(1000))
    for module in (gpu_jobs, gpu_timing, gpu_budgets):
        monkeypatch.setattr(module, "device_time", lambda *_, **__: {"median": 100.0 + next(made)})
    bandwidth, work = Later("bandwidth", lambda: 1e9), works(lambda: scene)[0]
    checks = Checks(show=lambda _: None)
    gpu_timing.time_jobs(checks, gpu_timing.whole_jobs(work)[:1], CPU, bandwidth)
    gpu_timing.time_phases(checks, work, CPU)
    gpu_timing.time_ops(checks, work.scene, CPU, 2, bandwidth, {"box_iou", "assign"})
    gpu_budgets.time_budgets(checks, work, CPU)
    assert checks.failed == []
    found = [row["device_seconds"]["median"] for check in checks.records for row in check["rows"]]
    assert len(found) == 10 and found == sorted(found) and found[:6] == [100, 101, 102, 103, 104, 105]


def test_the_copy_is_timed_ahead_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_timing, "device_seconds", lambda *_, ahead=False: {"median": 2.0 if ahead else 1.0})
    assert gpu_timing.copy_bytes_per_second(CPU, 8) == 8.0


def average(key: str, device: DeviceType, microseconds: float) -> Any:
    return SimpleNamespace(key=key, device_type=device, self_device_time_total=microseconds, count=2)


def test_kernels_are_listed_without_the_ops_that_launched_them() -> None:
    events = [
        average("aten::sum", DeviceType.CPU, 5.04), average("sum_kernel", DeviceType.CUDA, 5.04),
        average("assign_kernel", DeviceType.CUDA, 7.0), average("nothing", DeviceType.CUDA, 0.0),
    ]  # fmt: skip
    assert gpu_timing._kernel_rows(events) == [
        {"kernel": "assign_kernel", "calls": 2, "microseconds": 7.0},
        {"kernel": "sum_kernel", "calls": 2, "microseconds": 5.0},
    ]
    with pytest.raises(Unavailable, match=r"no kernel on the device: .*CUPTI.*NVreg_RestrictProfilingToAdminUsers"):
        gpu_timing._kernel_rows(events[:1])


# -------------------------------------------------------------------------------------------------------- torchmetrics


def test_classification_is_held_against_torchmetrics(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    wrong = gpu_classification.Pair("Accuracy", "MulticlassSpecificity", {"average": "macro"})
    monkeypatch.setattr(gpu_classification, "PAIRS", {"accuracy": wrong})
    checks = Checks(show=lambda _: None)
    scores = Later("scores", lambda: gpu_classification.make(SMALL, CPU))
    jobs = gpu_classification.pair_jobs(SMALL, scores)
    gpu_timing.time_jobs(checks, jobs, CPU, Later("bandwidth", lambda: 1e9))
    assert checks.failed == ["accuracy, 600 x 20 in batches of 256"]
    assert "torchmetrics' numbers differ from ours by" in checks.records[-1]["detail"]


def test_a_row_without_torchmetrics_says_so(record: dict[str, Any]) -> None:
    def missing(_: torch.device) -> OfMetric:
        raise ImportError("No module named 'torchmetrics'")

    job = Job("alone", lambda _: [(torch.tensor([1.0]),)], lambda _: OfFunction(lambda x: x[0]), ("torchmetrics",), 1)
    row = measure(replace(job, peer=missing), CPU, Later("bandwidth", lambda: 1e9))
    assert row["no_torchmetrics"] == "No module named 'torchmetrics'" and row["met"] is None
    check_of(record, "top-1 counts")["rows"] = [row]
    assert "| alone |" in gpu_table.page_text(record) and "| not installed |" in gpu_table.page_text(record)


@pytest.mark.parametrize(("make", "outcome"), [(with_float32_grids, "pass"), (lambda: Halved(), "fail")])
def test_boxes_are_held_against_torchmetrics(
    make: Any, outcome: str, scene: datasets.BoxDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_timing, "load_torchvision", lambda: None)
    monkeypatch.setattr(gpu_timing, "_backends", lambda: ["pycocotools"])
    monkeypatch.setattr(gpu_timing, "_peer", lambda _: make)
    checks = Checks(show=lambda _: None)
    gpu_timing.time_torchmetrics(checks, works(lambda: scene)[0], CPU, 20, Later("bandwidth", lambda: 1e9))
    (check,) = checks.records
    assert check["outcome"] == outcome, check["detail"]
    if outcome == "pass":
        (row,) = check["rows"]
        assert "pycocotools beside, 20 images" in row["work"] and row["targets"][0]["limit"] == 10
    else:
        assert "torchmetrics' numbers differ from ours" in check["detail"]


class Halved:
    """A metric whose numbers are half of what they should be."""

    def __init__(self) -> None:
        self._metric = with_float32_grids()
        self.update, self.reset = self._metric.update, self._metric.reset

    def to(self, _: torch.device) -> Halved:
        return self

    def compute(self) -> dict[str, Any]:
        return {name: value / 2 for name, value in self._metric.compute().items()}


# ------------------------------------------------------------------------------------------------------------- resumed


def test_a_resumed_run_makes_nothing_that_no_check_needs(
    record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((gpu_classification, "make"), (gpu_masks, "masks_of"), (gpu_sections, "make")):
        monkeypatch.setattr(module, name, never)
    monkeypatch.setattr(gpu_sections, "copy_bytes_per_second", never)
    before = json.dumps(rows_of(record))
    gpu_sections.run_sections(SECTIONS, setup(never), record, lambda _: None)
    assert json.dumps(rows_of(record)) == before and checks_of(record, "fail") == []


def test_a_resumed_run_makes_what_one_check_needs(record: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = gpu_classification.make
    monkeypatch.setattr(gpu_classification, "make", lambda *given: made.append("scores") or real(*given))
    monkeypatch.setattr(gpu_sections, "copy_bytes_per_second", lambda *_: made.append("bandwidth") or 1e9)
    check_of(record, "top-1 counts")["outcome"] = "fail"
    check_of(record, "ROC AUC, exact")["outcome"] = "fail"
    record["runs"] *= 2
    gpu_sections.run_sections(SECTIONS, setup(never), record, lambda _: None)
    assert sorted(made) == ["bandwidth", "scores"] and checks_of(record, "fail") == []
    assert row_of(record, "top-1 counts")["copy_bytes_per_second"] == 1e9
    assert row_of(record, "top-5 counts")["copy_bytes_per_second"] != 1e9


# ------------------------------------------------------------------------------------------------------------- targets


def test_targets_of_memory_follow_the_bandwidth_and_the_bytes() -> None:
    (target,) = TARGETS["top classes"]
    for bandwidth, moved, seconds in ((4.3e12, SCORES, 1.4e-3), (3.0e12, SCORES, 2.00667e-3), (4.3e12, 1e9, 3.4930e-4)):
        row = {"bytes": moved, "copy_bytes_per_second": bandwidth}
        assert seconds_allowed(target, row) == pytest.approx(seconds, rel=1e-5)
    (floors,) = TARGETS["mask boundary"]
    assert seconds_allowed(floors, {"bytes": 3e9, "copy_bytes_per_second": 3e12}) == pytest.approx(2e-3)
    (host,) = TARGETS["val2017, updates of 16 images and compute"]
    assert seconds_allowed(host, {"bytes": 1, "copy_bytes_per_second": 3e12}) == 40e-3


def test_every_floor_is_below_its_target() -> None:
    """A factor below 1 would ask for more than the device can do, one above 2 would be no target."""
    factors = {
        key: target.seconds * H200_COPY / target.moved
        for key, targets in TARGETS.items()
        for target in targets
        if target.moved
    }
    sorted_keys = {key for key in factors if "AUROC" in key}  # several passes over keys
    assert all(1.2 < factor <= 2.03 for key, factor in factors.items() if key not in sorted_keys)
    assert len(sorted_keys) == 2 and all(factors[key] > 100 for key in sorted_keys)


def test_a_time_is_judged_by_the_bandwidth_beside_it() -> None:
    row = {"work": "x", "bytes": SCORES, "device_seconds": {"median": 1.7e-3}}
    assert judged(row | {"copy_bytes_per_second": 3.0e12}, ("top classes",))["met"] is True
    missed = judged(row | {"copy_bytes_per_second": 4.3e12}, ("top classes",))
    assert missed["met"] is False and missed["missed"] == ["device 1.70 ms, target 1.40 ms"]
    assert judged(row, ())["met"] is None


def test_ratios_and_memory_are_judged() -> None:
    for key, limit in (("torchmetrics", 10), ("torchmetrics, host-bound", 2), ("torchmetrics, logits", 2)):
        assert judged({"times_torchmetrics": limit}, (key,))["met"] is True
        assert judged({"times_torchmetrics": limit - 0.1}, (key,))["missed"] == [
            f"{limit - 0.1:.1f}x torchmetrics, target {limit}.0x torchmetrics"
        ]
        assert judged({}, (key,))["met"] is None
    row = {"bytes": SCORES, "copy_bytes_per_second": 4.3e12, "device_seconds": {"median": 0.4}}
    assert judged(row | {"extra_memory": 0.2}, ("exact AUROC",))["met"] is True
    assert "26%" in judged(row | {"extra_memory": 0.26}, ("exact AUROC",))["missed"][0]


def test_keys_of_all_works_have_targets(scene: datasets.BoxDataset) -> None:
    works = gpu_works.usual_works(torch.device("cuda"), False)
    jobs = [gpu_timing.replicates_job(works[0], 1000), *(job for work in works for job in gpu_timing.whole_jobs(work))]
    jobs += [*gpu_masks.mask_jobs(gpu_works.WHOLE), gpu_timing.box_pairs_job(gpu_works.WHOLE)]
    scores, load = Later("scores", never), gpu_classification.Load()
    jobs += [*gpu_classification.op_jobs(load, scores), *gpu_classification.pair_jobs(load, scores)]
    jobs += [gpu_classification.brier_job(load), *gpu_rows.row_jobs(gpu_works.WHOLE)]
    used = {key for job in jobs for key in job.keys}
    budgets = {"update of 16 images, lists", "update of 16 images, padded", "val2017, compute"}
    assert used | budgets == set(TARGETS) and len(jobs) == len({job.name for job in jobs}) == 29
    assert max(len(job.name) for job in jobs) <= gpu_table.NAME_WIDTH
    assert [
        job
        for work in gpu_works.usual_works(torch.device("cuda"), True)
        for job in gpu_timing.whole_jobs(work)
        if job.keys
    ] == []


# --------------------------------------------------------------------------------------------------------------- table


def test_the_text_fits_a_screen_and_names_every_row(record: dict[str, Any]) -> None:
    shown = gpu_table.rows(record)
    for i, row in enumerate(shown):
        row |= {"met": i > 1, "missed": [] if i > 1 else ["device 1.90 ms, target 1.40 ms"]}
    lines = gpu_table.text(record).splitlines()
    assert len(lines) <= 48 and max(map(len, lines)) <= 120
    table, rest = lines[1 : len(shown) + 1], lines[len(shown) + 1 :]
    assert [line[:20] for line in table] == [f"{row['work'][:20]:20}" for row in shown]
    assert [line.split()[-1] for line in table] == ["MISSED", "MISSED", *["met"] * (len(shown) - 2)]
    assert rest[:2] == [f"missed: {row['work']}: device 1.90 ms, target 1.40 ms" for row in shown[:2]]
    assert "NVIDIA H100" in " ".join(rest) and rest[-1].endswith("2031-02-03.")


def test_what_the_text_has_no_room_for_is_counted(record: dict[str, Any]) -> None:
    checks = record["sections"]["masks"]["checks"]
    row = row_of(record, "mask boundaries")
    checks += [{"name": f"{i}", "outcome": "pass", "quick": False, "rows": [row]} for i in range(30)]
    lines = gpu_table.text(record).splitlines()
    counted = next(int(match[1]) for line in lines if (match := re.match(r"and (\d+) more lines", line)))
    everything = 1 + len(gpu_table.rows(record)) + sum(bool(row["missed"]) for row in gpu_table.rows(record))
    tail = len(lines) - 1 - next(i for i, line in enumerate(lines) if line.startswith("and "))
    assert len(lines) == 48 and counted == everything - (len(lines) - 1 - tail)


def judge_scores(record: dict[str, Any], bandwidth: float, wall: float = 2e-3) -> None:
    """Makes the row of top-1 counts one of 1,000,000 x 1,000 scores in 1.7 ms at a bandwidth."""
    row = row_of(record, "top-1 counts")
    row |= {"bytes": SCORES, "copy_bytes_per_second": bandwidth, "device_seconds": {"median": 1.7e-3}}
    row |= {"floor_seconds": SCORES / bandwidth, "share_of_copy": SCORES / bandwidth / 1.7e-3}
    row |= {"seconds": {"median": wall}, "times_cpu_route": 1.0 / wall}
    check_of(record, "top-1 counts")["rows"] = [judged(row, ("top classes",))]


@pytest.mark.parametrize(
    ("bandwidth", "cells", "target"),
    [
        (
            4.3e12,
            "4.01 GB | 932 us | 1.70 ms | **2.00 ms** | 55% |  | 500x |",
            "missed: device 1.70 ms, target 1.40 ms",
        ),
        (3.0e12, "4.01 GB | 1.34 ms | 1.70 ms | **2.00 ms** | 79% |  | 500x |", "met"),
    ],
)
def test_the_tables_show_numbers_and_misses(record: dict[str, Any], bandwidth: float, cells: str, target: str) -> None:
    judge_scores(record, bandwidth)
    assert f"| top-1 counts, 600 x 20 | {cells} {target} |\n" in gpu_table.page_text(record)
    readme = gpu_table.readme_block(record)
    assert re.findall(r"^\| (\w[^,|]+),", readme, re.MULTILINE) == ["mask AP", "mIoU", "top-1 accuracy", "ROC AUC"]
    row_of(record, "top-1 accuracy")["seconds"] = {"median": 2e-3}
    assert re.search(r"\n\| top-1 accuracy, .* \| \*\*2.00 ms\*\* \|", gpu_table.readme_block(record))
    assert "Commit 0123456789, 2031-02-03." in readme and "NVIDIA H100" in readme and "driver 580.1" in readme
    assert f"(copies at {bandwidth / 1e12:.2f} TB/s), driver" in readme and "CPU: 16 cores of a processor;" in readme


def test_the_table_says_where_the_cpu_is_faster(record: dict[str, Any]) -> None:
    for row in gpu_table.rows(record):
        if "times_cpu_route" in row:
            row["times_cpu_route"] = 3.0
    count = sum("times_cpu_route" in row for row in gpu_table.rows(record))
    assert f"The GPU is the faster choice in {count} of {count} rows." in gpu_table.readme_block(record)
    row_of(record, "box IoU")["times_cpu_route"] = 0.9
    for text in (gpu_table.readme_block(record), gpu_table.page_text(record), gpu_table.text(record)):
        sentence = f"faster choice in {count - 1} of {count} rows; the CPU is faster in box IoU, 1,200 pairs."
        assert sentence in text.replace("\n", " ")


def test_an_incomplete_record_still_gives_a_table(record: dict[str, Any]) -> None:
    check_of(record, "top-1 counts")["outcome"] = "fail"
    check_of(record, "box IoU")["outcome"] = "skipped"
    record["runs"] = [{"asked": ["timing", "nccl"]}, {"asked": ["classification"]}]
    total = sum(len(section["checks"]) for section in record["sections"].values())
    passed = len(checks_of(record, "pass"))
    for text in (gpu_table.readme_block(record), gpu_table.page_text(record), gpu_table.text(record)):
        text = text.replace("\n", " ")
        assert "| top-1 counts" not in text and "box IoU, 1,200 pairs |" not in text and "top-1 accuracy" in text
        assert f"{passed} of {total} checks passed; failed: top-1 counts, 600 x 20; not run: box IoU, 1,2" in text
    assert "section nccl. Commit" in gpu_table.readme_block(record)
    check_of(record, "box IoU").update(
        {"outcome": "unavailable", "detail": "passed 3,632, failed 0; skipped 1: no pager"}
    )
    assert "box IoU, 1,200 pairs (passed 3,632, failed 0; skipped 1: no pager)" in gpu_table.readme_block(record)


def test_a_record_without_times_is_no_table(tmp_path: Path, record: dict[str, Any]) -> None:
    record["sections"] = {"parity": {"seconds": 1, "ended": True, "checks": [{"name": "op x", "outcome": "fail"}]}}
    text = "no time was measured; 0 of 1 check passed; failed: op x; not run: section timing, section classification"
    assert gpu_table.text(record).startswith(text)
    record["sections"]["parity"]["checks"][0]["outcome"] = "skipped"
    (tmp_path / "gpu_a.json").write_text(json.dumps(record | {"sections": shaped(record)}))
    assert gpu_table.newest(tmp_path) is None
    for text in (gpu_table.readme_block(None), gpu_table.page_text(None)):
        assert text.startswith("**Not yet measured on a GPU.** ") and text.endswith("so no time is known.")


def shaped(record: dict[str, Any], quick: bool = True) -> dict[str, Any]:
    """Sections whose checks all say whether they are quick."""
    return {
        name: {**section, "checks": [{**check, "quick": quick} for check in section["checks"]]}
        for name, section in record["sections"].items()
    }


def compared(record: dict[str, Any]) -> dict[str, Any]:
    """The record of part 1 alone, in which every check passed."""
    made = {"name": "op x", "outcome": "pass", "quick": True}
    names = ("parity", "tests", "unseen", "waiting", "graphs", "nccl")
    sections = {name: {"ended": True, "checks": [made | {"name": f"{name} x"}]} for name in names}
    return record | {"sections": sections, "runs": [{"asked": list(names)}]}


def said(record: dict[str, Any], folder: Path) -> str:
    """What README.md and the page say of the only record in a folder."""
    (folder / "gpu_a.json").write_text(json.dumps(record))
    newest = gpu_table.newest(folder)
    assert gpu_table.readme_block(newest) == gpu_table.page_text(newest)
    return gpu_table.readme_block(newest)


def test_a_record_of_part_1_says_that_every_kernel_agreed(record: dict[str, Any], tmp_path: Path) -> None:
    green = (
        "Every kernel agreed with the CPU on NVIDIA H100 (6 of 6 checks, 2031-02-03, commit 0123456789); not yet timed"
        " on a GPU."
    )
    found = compared(record)
    assert said(found, tmp_path) == green
    found["sections"]["timing"] = {"ended": False, "checks": [{"name": "x", "outcome": "unavailable", "quick": False}]}
    assert said(found, tmp_path) == green
    found["changed_files"] = 3
    assert "6 checks, 2031-02-03, commit 0123456789 with 3 changed files);" in said(found, tmp_path)
    found["sections"]["masks"] = {"ended": True, "checks": shaped(record)["masks"]["checks"]}
    found["runs"][0]["asked"].append("masks")
    assert said(found, tmp_path).endswith("; timed only in a quick run.")


@pytest.mark.parametrize(
    ("section", "change", "text"),
    [
        ("tests", {"outcome": "fail"}, "1 of 6 checks failed on NVIDIA H100 ({made}): tests x; not yet timed"),
        ("nccl", {"outcome": "unavailable"}, "5 of 6 checks passed and none failed on NVIDIA H100 ({made}); not run: "),
        ("nccl", {"ended": False}, "6 of 6 checks passed and none failed on NVIDIA H100 ({made}); not run: the rest o"),
        ("nccl", {"checks": []}, "5 of 5 checks passed and none failed on NVIDIA H100 ({made}); not run: section nccl"),
        ("nccl", None, "5 of 5 checks passed and none failed on NVIDIA H100 ({made}); not run: section nccl; not yet"),
        ("masks", {"outcome": "fail"}, "1 of 7 checks failed on NVIDIA H100 ({made}): op y; not yet timed on a GPU."),
    ],
)  # fmt: skip
def test_less_than_all_of_part_1_is_said_plainly(
    section: str, change: dict[str, Any] | None, text: str, record: dict[str, Any], tmp_path: Path
) -> None:
    found = compared(record)
    found["sections"].setdefault(section, {"ended": True, "checks": [{"name": "op y", "quick": True}]})
    if change is None:
        del found["sections"][section]
    elif "outcome" in change:
        found["sections"][section]["checks"][0] |= change
    else:
        found["sections"][section] |= change
    assert said(found, tmp_path).startswith(text.format(made="2031-02-03, commit 0123456789"))


def test_a_record_with_times_comes_before_a_newer_one_without(record: dict[str, Any], tmp_path: Path) -> None:
    untimed = compared(copy.deepcopy(record)) | {"date": "2032-01-01"}
    (tmp_path / "gpu_old.json").write_text(json.dumps(untimed | {"date": "2029-01-01"}))
    (tmp_path / "gpu_new.json").write_text(json.dumps(untimed))
    assert gpu_table.newest(tmp_path) == untimed
    (tmp_path / "gpu_timed.json").write_text(json.dumps(record))
    newest = gpu_table.newest(tmp_path)
    assert newest is not None and newest["date"] == record["date"]


def test_the_readme_shows_the_newest_full_record(record: dict[str, Any], tmp_path: Path) -> None:
    for name, date, quick in (("b", "2031-02-03", False), ("a", "2030-01-01", False), ("c", "2032-01-01", True)):
        record["date"], record["commit"] = date, name * 10
        for section in record["sections"].values():
            for check in section["checks"]:
                check["quick"] = quick
        (tmp_path / f"gpu_{name}.json").write_text(json.dumps(record))
    newest = gpu_table.newest(tmp_path)
    assert newest is not None and newest["date"] == "2031-02-03"
    rehearsal = newest | {"date": "2033-01-01", "device": {"name": "rehearsal", "driver": "none"}}
    (tmp_path / "gpu_rehearsal.json").write_text(json.dumps(rehearsal))
    assert gpu_table.newest(tmp_path) == newest
    readme = (
        "top\n<!-- gpu:begin -->\nof before\n<!-- gpu:end -->\n<!-- benchmarks:begin -->\n<!-- benchmarks:end -->\n"
    )
    shown = report.filled(readme, report.collected(), newest)
    assert shown.startswith("top\n<!-- gpu:begin -->\n| on a GPU | time |") and "of before" not in shown
    assert "Commit bbbbbbbbbb, 2031-02-03.\n<!-- gpu:end -->" in shown
    assert "## On a GPU\n\n| on a GPU | bytes | floor |" in report.page(report.collected(), newest)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda text: text[:100], r"must hold JSON but does not \(.*\)"),
        (lambda text: "", r"must hold JSON but does not \(Expecting value: line 1 column 1 \(char 0\)\)"),
        (lambda text: f"[{text}]", "must hold a JSON object but holds an array"),
        (lambda text: "3", "must hold a JSON object but holds a number"),
        (lambda text: text.replace('"kind": ', '"gone": '), ".*, but the record has no kind"),
        (lambda text: text.replace('"device": {"name"', '"gone": {"name"'), ".*, but the record has no device"),
        (lambda text: text.replace('"driver": "580.1"', '"driver": null'),
         ".*, but the record.device.driver must be a string and is null"),
        (lambda text: re.sub(r'"sections": .*', '"sections": {"masks": {"checks": [3]}}}', text),
         r".*, but the record.sections.masks.checks\[0\] must be an object and is a number"),
        (lambda text: text.replace('"share_of_copy": ', '"share_of_copy": true, "was": '),
         r".*, but row 'box AP.*'.share_of_copy must be a number and is a boolean"),
        (lambda text: text.replace('"median": ', '"mean": '), r".*, but row 'box AP.*'.cpu_route has no median"),
    ],
)  # fmt: skip
def test_a_broken_record_is_named(
    change: Callable[[str], str], wrong: str, record: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, whole = tmp_path / "gpu_broken.json", json.dumps(record)
    path.write_text(whole)
    assert gpu_table.newest(tmp_path) is not None and change(whole) != whole
    path.write_text(change(whole))
    with pytest.raises(gpu_table.BrokenResult, match=f"gpu_broken.json {wrong}: copy it again from the machine that"):
        gpu_table.newest(tmp_path)
    assert report.main(["--print", "--results", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(str(path))


def test_another_broken_result_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "detection.json").write_text("{")
    assert report.main(["--print", "--results", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'detection.json'} must hold JSON but does not (")


def test_durations_have_three_figures() -> None:
    assert [gpu_targets.duration(value) for value in (2e-6, 123.4e-6, 1e-3, 0.0999, 12.0)] == [
        "2.00 us", "123 us", "1.00 ms", "99.9 ms", "12.0 s",
    ]  # fmt: skip
