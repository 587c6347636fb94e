"""The GPU check: everything but its CUDA calls runs here, failures are kept, and without a GPU nothing runs."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_check, gpu_classification, gpu_parity, report
from benchmarks.checks import Checks, Disagreement, Unavailable
from benchmarks.gpu_timing import Work
from testing import datasets
from testing.registry import ROWS, Row
from valor_gpu import native

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def scene() -> datasets.BoxDataset:
    return datasets.make(datasets.CASES["val2017"], 30)


def test_without_a_gpu_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu_check, "collect", lambda *_, **__: pytest.fail("something ran"))
    assert gpu_check.main(["--results", str(tmp_path)]) == 0
    assert "no CUDA device" in capsys.readouterr().out and not list(tmp_path.iterdir())


def few(row: Row) -> Row:
    """The row with its first examples: all of them run in test_detection.py."""
    return replace(row, examples=lambda quick: islice(row.examples(quick), 3))


def test_all_checks_pass_on_the_cpu(scene: datasets.BoxDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_parity, "ROWS", {name: few(row) for name, row in ROWS.items()})
    work = Work("small", scene, 60, 60, compute_device_target=60, compute_host_target=1e-12, repeats=2)
    saved: list[str] = []
    result = gpu_check.collect(
        CPU, quick=True, works=lambda: [work], copy_size=1 << 16, save=lambda found: saved.append(json.dumps(found))
    )
    assert [c["name"] + c["detail"] for c in result["checks"] if c["outcome"] == "fail"] == []
    assert {c["name"] for c in result["checks"] if c["outcome"] == "unavailable"} <= {
        "small: kernels", "torchmetrics on the same device", "accumulation captured in a CUDA graph",
        "update and compute on a side stream",
    }  # fmt: skip
    assert len(saved) == len(result["checks"]) + 1 and json.loads(saved[0])["checks"] == result["checks"][:1]
    assert [row["met"] for row in result["budgets"]][2:] == [None, False]
    assert all({"seconds", "host_seconds", "device_seconds"} <= set(row) for row in result["budgets"])
    assert [row["met"] for row in result["timings"][:2]] == [True, True]
    assert sorted(row["op"] for row in result["ops"]) == sorted(ROWS)
    assert [row["phase"] for row in result["phases"]][1:3] == ["match", "accumulate"]
    json.dumps(result)


def test_only_the_groups_that_are_asked_for_run() -> None:
    result = gpu_check.collect(CPU, True, lambda: pytest.fail("a dataset was made"), only=["streams"])
    assert [check["name"] for check in result["checks"]] == [
        "accumulation captured in a CUDA graph", "update and compute on a side stream",
    ]  # fmt: skip


def test_without_the_cuda_library_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(native, "available", lambda name: False)
    assert gpu_check.main(["--results", str(tmp_path)]) == 1
    assert gpu_check.BUILD in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_failures_are_kept_and_the_rest_goes_on() -> None:
    checks = Checks(show=lambda _: None)

    def fail(error: Exception) -> None:
        raise error

    for name, error in {"a": Disagreement("1 != 2"), "b": Unavailable("no tool"), "c": RuntimeError("boom")}.items():
        assert checks.run(name, partial(fail, error)) is None
    assert checks.run("d", lambda: 5) == 5
    assert [record["outcome"] for record in checks.records] == ["fail", "unavailable", "fail", "pass"]
    assert checks.failed == ["a", "c"] and "RuntimeError: boom" in checks.records[2]["detail"]


def test_an_op_without_a_row_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ROWS, "pack_masks")
    checks = Checks(show=lambda _: None)
    monkeypatch.setattr(gpu_parity, "_check_op", lambda *_: None)
    gpu_parity.check_ops(checks, CPU, True)
    assert checks.failed == ["op pack_masks"]


def test_what_compute_sanitizer_says() -> None:
    gpu_check.judge_sanitizer(0, "ERROR SUMMARY: 0 errors")
    with pytest.raises(Disagreement, match="Invalid __global__ read"):
        gpu_check.judge_sanitizer(gpu_check.FOUND, "Invalid __global__ read of size 4")
    with pytest.raises(Unavailable, match="Device not supported"):
        gpu_check.judge_sanitizer(1, "Error: Device not supported")
    with pytest.raises(Disagreement, match="exit code 1"):
        gpu_check.judge_sanitizer(1, "fail  op box_iou")


@pytest.mark.parametrize(("outcome", "code"), [("pass", 0), ("fail", 1)])
def test_a_record_is_stored(
    outcome: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    collected = {
        "checks": [{"name": "op x", "outcome": outcome, "detail": "", "seconds": 0.0}],
        "timings": [{"work": "val2017", "seconds": {"median": 0.002}, "target_seconds": 0.001, "met": False}],
        "budgets": [
            {
                "work": "compute",
                "seconds": {"median": 0.004},
                "host_seconds": {"median": 0.001},
                "device_seconds": {"median": 0.002},
                "met": False,
            },
        ],
        "classification": [
            {"work": "sweep", "seconds": {"median": 0.003}, "share_of_copy": 0.625, "met": False},
            {"work": "AUC", "seconds": {"median": 1.0}, "torchmetrics": {"median": 4.0}, "times_torchmetrics": 4.0},
        ],
    }
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(gpu_check, "usual_works", lambda quick: [])
    monkeypatch.setattr(gpu_check, "device_facts", lambda device: {"name": "NVIDIA H200", "driver": "580"})
    monkeypatch.setattr(native, "available", lambda name: True)
    monkeypatch.setattr(gpu_check, "collect", lambda *_, save, **__: save(collected) or collected)
    assert gpu_check.main(["--results", str(tmp_path), "--commit", "abc"]) == code
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("gpu_nvidia-h200_") and json.loads(path.read_text())["commit"] == "abc"
    printed = capsys.readouterr().out
    assert "over its target: val2017" in printed and "over its target: sweep" in printed
    assert "over its target: compute" in printed
    assert ("failed: op x" in printed) == bool(code)
    table = report.gpu_text(json.loads(path.read_text()))
    assert "| compute | 4 ms, host 1 ms, device 2 ms |" in table
    assert "| val2017 | 2 ms |" in table and "| sweep | 3 ms, 62% of the speed of a copy |" in table
    assert "| AUC | 1e+03 ms, torchmetrics 4e+03 ms (4.0x) |" in table


def test_classification_on_the_cpu() -> None:
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    checks = Checks(show=lambda _: None)
    load = gpu_classification.Load(rows=600, classes=20, batch=256, repeats=2, most_exact=500)
    rows = gpu_classification.time_classification(checks, load, CPU, 1 << 16)
    gpu_classification.check_waiting(checks, CPU)
    assert [record["name"] + record["detail"] for record in checks.records if record["outcome"] != "pass"] == []
    names = [row["work"] for row in rows]
    assert names[0] == "count_top, k 1, 600 x 20 float32" and names[3] == "auroc_and_ap, 500 x 20 float32"
    assert len(rows) == 4 + len(gpu_classification.PAIRS)
    assert all(row["times_torchmetrics"] > 0 for row in rows[4:]) and all(row["share_of_copy"] > 0 for row in rows[:4])
    waits = {record["name"] for record in checks.records} & {
        "update of ROCAUC, thresholds 200 does not wait", "update of ConfusionMatrix does not wait",
    }  # fmt: skip
    assert len(waits) == 2
    json.dumps(rows)


def test_classification_is_held_against_torchmetrics(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    wrong = gpu_classification.Pair("Accuracy", "MulticlassSpecificity", {"average": "macro"})
    monkeypatch.setattr(gpu_classification, "PAIRS", {"accuracy": wrong})
    checks = Checks(show=lambda _: None)
    load = gpu_classification.Load(rows=300, classes=5, batch=128, repeats=1)
    assert gpu_classification.time_torchmetrics(checks, load, CPU) == []
    assert checks.failed == ["accuracy, torchmetrics beside"] and "differ from ours" in checks.records[-1]["detail"]
