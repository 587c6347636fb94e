"""The GPU check: everything but its CUDA calls runs here, failures are kept, and without a GPU nothing runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import (
    gpu_build,
    gpu_check,
    gpu_classification,
    gpu_parity,
    gpu_record,
    gpu_sanitizer,
    gpu_sections,
)
from benchmarks.checks import Checks, Disagreement, OutOfTime, Unavailable
from benchmarks.gpu_sections import Setup
from testing import datasets
from testing.registry import ROWS, Row
from valor_gpu.ops import backends

CPU = torch.device("cpu")
SMALL = gpu_classification.Load(rows=600, classes=20, batch=256, repeats=2, most_exact=500)


def setup(**changes: Any) -> Setup:
    return replace(Setup(CPU, True, lambda: pytest.fail("a dataset was made"), SMALL, 1 << 16), **changes)


def sections(*names: str, **changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = {}
    gpu_sections.run_sections(names, setup(**changes), record, lambda _: None)
    found: dict[str, Any] = record["sections"]
    return found


def outcomes(section: dict[str, Any], outcome: str) -> list[str]:
    return [check["name"] for check in section["checks"] if check["outcome"] == outcome]


def test_without_a_gpu_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu_build, "build", lambda *_: pytest.fail("something was built"))
    assert gpu_check.main(["--results", str(tmp_path)]) == 0
    assert "no CUDA device" in capsys.readouterr().out and not list(tmp_path.iterdir())


def few(row: Row) -> Row:
    """The row with its first examples: all of them run in test_detection.py."""
    return replace(row, examples=lambda quick: islice(row.examples(quick), 3))


def test_parity_waiting_and_graphs_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_parity, "ROWS", {name: few(row) for name, row in ROWS.items()})
    found = sections("graphs", "waiting", "parity")
    assert list(found) == ["parity", "waiting", "graphs"]
    assert [name for section in found.values() for name in outcomes(section, "fail")] == []
    assert outcomes(found["parity"], "unavailable") == ["tests/test_contract.py on the device"]
    assert outcomes(found["graphs"], "pass") == ["a process that was forked"]


def test_the_tests_of_the_device_are_run_apart(tmp_path: Path) -> None:
    tests, options = tmp_path / "test_here.py", ("-o", "addopts=")
    tests.write_text("import pytest, warnings\n@pytest.mark.gpu\ndef test_warns():\n    warnings.warn('new torch')\n")
    gpu_parity.run_tests(str(tests), "gpu", options)
    tests.write_text("import pytest\n@pytest.mark.gpu\ndef test_wrong():\n    assert 1 == 2\n")
    with pytest.raises(Disagreement, match="test_wrong"):
        gpu_parity.run_tests(str(tests), "gpu", options)
    tests.write_text("def test_of_the_cpu():\n    pass\n")
    with pytest.raises(Disagreement, match="1 deselected"):
        gpu_parity.run_tests(str(tests), "gpu", options)


def test_processes_synchronise() -> None:
    found = sections("nccl")["nccl"]
    assert outcomes(found, "pass") == ["metrics of 2 processes, synchronised"], found


def test_the_record_is_kept_ahead_of_every_check_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[dict[str, Any]] = []
    record: dict[str, Any] = {}
    monkeypatch.setitem(gpu_sections.SECTIONS, "graphs", lambda checks, setup, rows: checks.run("a", lambda: 1))
    gpu_sections.run_sections(["graphs"], setup(), record, lambda now: saved.append(json.loads(json.dumps(now))))
    assert [now["running"] for now in saved] == [
        {"section": "graphs", "check": None}, {"section": "graphs", "check": "a"}, {"section": "graphs", "check": "a"},
        None,
    ]  # fmt: skip
    assert [len(now["sections"]["graphs"]["checks"]) for now in saved] == [0, 0, 1, 1]


def test_late_checks_are_skipped_and_those_that_ended_a_process_fail() -> None:
    late = sections("graphs", deadline=time.time() - 1)["graphs"]
    assert outcomes(late, "skipped") == [check["name"] for check in late["checks"]] and late["checks"]
    name = late["checks"][0]["name"]
    assert outcomes(sections("graphs", ended={name: "ended the process: SIGSEGV"})["graphs"], "fail") == [name]


PROCESS = """
import json, os, signal, sys
from benchmarks import gpu_sections as s
import torch
path, ended, names = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
def parity(checks, setup, rows):
    checks.run("good", lambda: 1)
    checks.run("bad", lambda: os.kill(os.getpid(), signal.SIGSEGV))
    checks.run("after", lambda: 1)
def graphs(checks, setup, rows):
    os._exit(3)
s.SECTIONS |= {"parity": parity, "waiting": lambda c, _, r: c.run("waits", lambda: 1), "graphs": graphs}
record = json.load(open(path))
def save(now):
    json.dump(now, open(path, "w"))
s.run_sections(names, s.Setup(torch.device("cpu"), True, lambda: [], s.Load(), ended=ended), record, save)
"""


def test_a_check_that_ends_its_process_fails_and_the_rest_goes_on(tmp_path: Path) -> None:
    path, runs = tmp_path / "record.json", []
    path.write_text(json.dumps({"asked": ["parity", "waiting", "graphs", "nccl"], "running": None}))

    def start(ended: dict[str, str], names: Sequence[str]) -> int:
        runs.append(list(names))
        names = [name for name in names if name != "nccl"]
        command = [sys.executable, "-c", PROCESS, str(path), json.dumps(ended), *names]
        return subprocess.run(command, cwd=datasets.ROOT, env=dict(os.environ), check=False).returncode

    record = gpu_check.supervise(path, ["parity", "waiting", "graphs", "nccl"], start)
    assert [(c["name"], c["outcome"]) for c in record["sections"]["parity"]["checks"]] == [
        ("good", "pass"), ("bad", "fail"), ("after", "pass"),
    ]  # fmt: skip
    assert "SIGSEGV" in record["sections"]["parity"]["checks"][1]["detail"]
    assert outcomes(record["sections"]["waiting"], "pass") == ["waits"]
    assert outcomes(record["sections"]["graphs"], "fail") == ["process of section graphs"]
    assert [names[0] for names in runs] == ["parity", "parity", "nccl"]
    assert gpu_record.summarise(record) == 1


def test_sections_have_one_list() -> None:
    assert tuple(gpu_sections.SECTIONS) == gpu_check.SECTIONS


def test_failures_are_kept_and_the_rest_goes_on() -> None:
    checks = Checks(show=lambda _: None)

    def fail(error: Exception) -> None:
        raise error

    errors = {"a": Disagreement("1 != 2"), "b": Unavailable("no tool"), "c": RuntimeError("boom"), "e": OutOfTime("")}
    for name, error in errors.items():
        assert checks.run(name, partial(fail, error)) is None
    assert checks.run("d", lambda: 5) == 5
    assert [record["outcome"] for record in checks.records] == ["fail", "unavailable", "fail", "skipped", "pass"]
    assert checks.failed == ["a", "c"] and "RuntimeError: boom" in checks.records[2]["detail"]


def test_an_op_without_a_row_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ROWS, "pack_masks")
    checks = Checks(show=lambda _: None)
    monkeypatch.setattr(gpu_parity, "_check_op", lambda *_: None)
    gpu_parity.check_ops(checks, CPU, True)
    assert checks.failed == ["op pack_masks"]


def test_an_op_that_its_definition_serves_for_want_of_a_library_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here no CUDA library is built; ops that have no kernel by choice are not named."""
    ops = [op if op.cuda.warning else replace(op, cuda=replace(op.cuda, kind="CUDA")) for op in backends()]
    assert any(op.cuda.warning for op in ops) and any(not op.cuda.warning for op in ops)
    checks = Checks(show=lambda _: None)
    gpu_parity.check_served(checks)
    assert "box_iou" in checks.records[0]["detail"] and "order_records" not in checks.records[0]["detail"]
    monkeypatch.setattr(gpu_parity, "backends", lambda: [op for op in ops if not op.cuda.warning])
    gpu_parity.check_served(checks)
    assert [record["outcome"] for record in checks.records] == ["fail", "pass"]


def test_what_compute_sanitizer_says() -> None:
    gpu_sanitizer.judge(0, "ERROR SUMMARY: 0 errors")
    with pytest.raises(Disagreement, match="Invalid __global__ read"):
        gpu_sanitizer.judge(gpu_sanitizer.FOUND, "Invalid __global__ read of size 4")
    with pytest.raises(Unavailable, match="Device not supported"):
        gpu_sanitizer.judge(1, "Error: Device not supported")
    with pytest.raises(Disagreement, match="exit code 1"):
        gpu_sanitizer.judge(1, "fail  op box_iou")


SANITIZER = """#!{python}
import sys
print(" ".join(sys.argv[1:]))
sys.exit(86)
"""


def test_compute_sanitizer_looks_at_our_kernels_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(SANITIZER.format(python=sys.executable))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    options = "--kernel-regex kns=valor .*--report-api-errors no .*--small-case"
    with pytest.raises(Disagreement, match=options):
        gpu_sanitizer.sanitize("memcheck")
    tool.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    with pytest.raises(Unavailable, match=r"more than 0 s"):
        gpu_sanitizer.sanitize("racecheck", 0.1)


def test_the_small_case_passes_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_sanitizer.small_case(CPU) == 0
    assert "fail" not in capsys.readouterr().out


def record_of(outcome: str) -> dict[str, Any]:
    compute = {"work": "compute", "seconds": {"median": 0.004}, "host_seconds": {"median": 0.001},
               "device_seconds": {"median": 0.002}, "met": False}  # fmt: skip
    sweep = {"work": "sweep", "seconds": {"median": 0.003}, "share_of_copy": 0.625, "met": False}
    peer = {"work": "AUC", "seconds": {"median": 1.0}, "torchmetrics": {"median": 4.0}, "times_torchmetrics": 4.0}
    whole = {"work": "val2017", "seconds": {"median": 0.002}, "target_seconds": 0.001, "met": False}
    return {
        "parity": {"checks": [{"name": "op x", "outcome": outcome, "detail": "", "seconds": 0.0}], "seconds": 1},
        "timing": {"checks": [], "timings": [whole], "budgets": [compute]},
        "classification": {"checks": [], "classification": [sweep, peer]},
    }


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """What a machine with a GPU says of it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(gpu_check, "device_facts", lambda: {"name": "NVIDIA H200", "driver": "580"})
    return monkeypatch


@pytest.mark.parametrize(("outcome", "code"), [("pass", 0), ("fail", 1), ("skipped", 0)])
def test_a_record_is_stored(
    outcome: str, code: int, tmp_path: Path, gpu: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(arguments: Any, path: Path, deadline: float, ended: dict[str, str], names: Sequence[str]) -> int:
        assert list(names) == ["parity", "timing", "classification"] and deadline - time.time() < 171
        path.write_text(json.dumps({**json.loads(path.read_text()), "sections": record_of(outcome)}))
        return 0

    gpu.setattr(gpu_build, "build", lambda capability: f"built for {capability}")
    gpu.setattr(gpu_check, "_start", start)
    only = ["--only", "classification", "parity", "timing"]
    assert gpu_check.main(["--quick", "--results", str(tmp_path), "--commit", "abc", *only]) == code
    (path,) = tmp_path.iterdir()
    record = json.loads(path.read_text())
    assert path.name.startswith("gpu_nvidia-h200_") and record["commit"] == "abc" and "(9, 0)" in record["build"]
    printed = capsys.readouterr().out
    for work in ("val2017", "sweep", "compute"):
        assert f"over its target: {work}" in printed
    assert ("failed: op x" in printed) == bool(code)
    assert ("no time was left: op x" in printed) == (outcome == "skipped")


def test_a_build_that_fails_is_recorded_with_what_the_compiler_said(
    tmp_path: Path, gpu: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(capability: tuple[int, int]) -> str:
        raise gpu_build.BuildError("nvcc failed: no such option")

    gpu.setattr(gpu_build, "build", fail)
    gpu.setattr(gpu_check, "supervise", lambda *_: pytest.fail("something ran"))
    assert gpu_check.main(["--results", str(tmp_path)]) == 1
    (path,) = tmp_path.iterdir()
    assert "no such option" in json.loads(path.read_text())["build"] and "failed: build" in capsys.readouterr().out


SETUP = """
import os, pathlib
for name in ("cpu", "cuda"):
    wanted = ["VALOR_GPU_ARCHS", "VALOR_GPU_" + name.upper(), "VALOR_GPU_WERROR"]
    text = " ".join(os.environ.get(variable, "-") for variable in wanted)
    pathlib.Path("valor_gpu", f"libvalor_{name}.so").write_text(text)
with open("builds", "a") as file:
    file.write("x")
"""


def test_the_libraries_are_built_for_the_device_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_GPU_WERROR", "1")
    for folder in ("valor_gpu", "csrc"):
        (tmp_path / folder).mkdir()
    (tmp_path / "setup.py").write_text(SETUP)
    source = tmp_path / "csrc" / "a.cu"
    source.write_text("1")
    assert "built the libraries for sm_90" in gpu_build.build((9, 0), tmp_path)
    assert (tmp_path / "valor_gpu" / "libvalor_cuda.so").read_text() == "90 1 -"
    assert gpu_build.build((9, 0), tmp_path) == "libraries for sm_90 are there"
    for change in (lambda: source.write_text("2"), (tmp_path / "valor_gpu" / "libvalor_cpu.so").unlink):
        change()
        assert "built" in gpu_build.build((9, 0), tmp_path)
    assert "sm_120" in gpu_build.build((12, 0), tmp_path) and (tmp_path / "builds").read_text() == "xxxx"
    (tmp_path / "setup.py").write_text("raise SystemExit('nvcc: fatal')")
    with pytest.raises(gpu_build.BuildError, match="nvcc: fatal"):
        gpu_build.build((9, 0), tmp_path)
