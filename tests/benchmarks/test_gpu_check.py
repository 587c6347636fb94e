"""The GPU check: everything but its CUDA calls runs here, failures are kept, and without a GPU nothing runs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
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
    gpu_summary,
    gpu_tests,
)
from benchmarks.checks import Checks, Disagreement, OutOfTime, Unavailable
from benchmarks.gpu_sections import Setup
from testing import datasets
from testing.registry import ROWS, Row
from valor_gpu.ops import backends
from valor_gpu.ops._library import by_reference

CPU = torch.device("cpu")
SMALL = gpu_classification.REHEARSED


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
    for arguments in (["--results", str(tmp_path)], ["--small-case", "1/2"], ["--only", "nccl", "--alone"]):
        assert gpu_check.main(arguments) == gpu_summary.INCOMPLETE
        assert "nothing was run: torch" in capsys.readouterr().out and not list(tmp_path.iterdir())


def few(row: Row) -> Row:
    """The row with its first examples: all of them run in test_detection.py."""
    return replace(row, examples=lambda quick: islice(row.examples(quick), 3))


@pytest.mark.slow
def test_parity_waiting_and_graphs_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_parity, "ROWS", {name: few(row) for name, row in ROWS.items()})
    found = sections("graphs", "waiting", "tests", "parity")
    assert list(found) == ["parity", "tests", "waiting", "graphs"]
    assert [name for section in found.values() for name in outcomes(section, "fail")] == []
    assert outcomes(found["tests"], "unavailable") == [gpu_tests.CHECK] and not outcomes(found["parity"], "unavailable")
    assert outcomes(found["graphs"], "pass") == ["a process that was forked"]


@pytest.mark.slow
def test_processes_synchronise() -> None:
    found = sections("nccl")["nccl"]
    assert outcomes(found, "pass") == ["metrics of 2 processes, synchronised"], found


def test_late_checks_are_skipped() -> None:
    late = sections("graphs", deadline=time.time() - 1)["graphs"]
    assert outcomes(late, "skipped") == [check["name"] for check in late["checks"]] and late["checks"]


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
    """Whether or not a CUDA library is built here; ops that have no kernel by choice are not named."""
    missing = by_reference("libvalor_cuda.so was not built", "slow")
    has_kernel = {op.name for op in backends() if op.cuda.kernel or op.cuda.warning}
    ops = [replace(op, cuda=missing) if op.name in has_kernel else op for op in backends()]
    checks = Checks(show=lambda _: None)
    for listed in (ops, [op for op in ops if op.name not in has_kernel]):
        monkeypatch.setattr(gpu_parity, "backends", lambda listed=listed: listed)
        gpu_parity.check_served(checks)
    assert "box_iou: libvalor_cuda.so was not" in checks.records[0]["detail"]
    assert "order_records" not in checks.records[0]["detail"]
    assert [record["outcome"] for record in checks.records] == ["fail", "pass"]


def test_what_compute_sanitizer_says() -> None:
    gpu_sanitizer.judge(0, f"{gpu_sanitizer._ENDED}: 3 calls\nERROR SUMMARY: 0 errors")
    for output in ("pass  op box_iou\nERROR SUMMARY: 0 errors", f"{gpu_sanitizer._ENDED}: 3 calls"):
        with pytest.raises(Disagreement, match=f"exit code 0: {output}"):
            gpu_sanitizer.judge(0, output)
    with pytest.raises(Disagreement, match=r"^Invalid __global__ write of size 4$"):
        gpu_sanitizer.judge(1, "float8 is not supported\n========= Invalid __global__ write of size 4\n=========\n")
    for text in ("Error: Race reported between Write access", "Barrier error detected", "Program hit cudaErrorAssert"):
        with pytest.raises(Disagreement, match=f"^{text}$"):
            gpu_sanitizer.judge(gpu_sanitizer.FOUND, f"========= COMPUTE-SANITIZER\n========= {text}\n=========\n")
    early = "========= Target application terminated before first instrumented API call\n"
    with pytest.raises(Unavailable, match="does not work here"):
        gpu_sanitizer.judge(0, f"{early}========= Error: couldn't find exit code.\n")
    with pytest.raises(Disagreement, match=r"^Invalid __global__ read of size 4$"):
        gpu_sanitizer.judge(gpu_sanitizer.FOUND, "hello\n========= Invalid __global__ read of size 4\n=========\n")
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
    options = "--kernel-name kns=valor .*--report-api-errors no .*--small-case 1/2"
    with pytest.raises(Disagreement, match=options):
        gpu_sanitizer.sanitize("memcheck", "1/2", 60.0)
    tool.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    checks = Checks(show=lambda _: None)
    gpu_sanitizer.check_sanitizers(checks, lambda: 0.1, tmp_path / "gpu")
    assert [check["name"] for check in checks.records][:2] == [
        "compute-sanitizer memcheck, ops 1/2", "compute-sanitizer racecheck, ops 1/2",
    ]  # fmt: skip
    assert {check["outcome"] for check in checks.records} == {"skipped"} and len(checks.records) == 4


def test_the_kernels_of_triton_have_our_name_too() -> None:
    """Otherwise compute-sanitizer would look at none of them."""
    sources = [path.read_text() for path in (datasets.ROOT / "csrc" / "triton").glob("*.py")]
    launched = [name for text in sources for name in re.findall(r"(\w+)\[\(", text)]
    assert launched and all("valor" in name for name in launched)


@pytest.mark.parametrize("half", gpu_sanitizer.HALVES)
@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning:triton")  # of Triton 3.6
def test_the_small_case_passes_on_the_cpu(half: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_sanitizer.small_case(CPU, half) == 0
    printed = capsys.readouterr().out
    assert "fail" not in printed and printed.count("pass  ") >= len(ROWS) // 2
    others = [f"op {row.op} by {kind} " for row in islice(ROWS.values(), int(half[0]) - 1, None, 2)
              for kind, _ in row.others]  # fmt: skip
    assert [text for text in others if f"pass        {text}" not in printed] == []
    assert printed.splitlines()[-1].startswith(gpu_sanitizer._ENDED)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Pretends a machine with a GPU on which everything is built."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(gpu_check, "device_facts", lambda _: {"name": "NVIDIA H200", "driver": "580"})
    monkeypatch.setattr(gpu_check, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(gpu_build, "build", lambda capability, seconds: f"built for {capability}")
    return monkeypatch


def entry(name: str, outcome: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "outcome": outcome, "detail": "", "seconds": 0.0, "run": 1, "quick": True, **more}


@pytest.mark.parametrize(("outcome", "code"), [("pass", 0), ("fail", 1), ("skipped", 3), ("unavailable", 3)])
def test_a_record_is_stored_and_its_end_says_what_it_came_to(
    outcome: str, code: int, tmp_path: Path, gpu: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"work": "val2017", "seconds": {"median": 0.002}, "met": False}

    def supervise(path: Path, names: Sequence[str], programs: Any, deadline: float) -> dict[str, Any]:
        assert list(names) == list(gpu_check.PARTS[1].sections) and deadline == 1000 + 240 - gpu_check.FINISH
        record: dict[str, Any] = json.loads(path.read_text())
        checks = [entry("op x", outcome, detail="3 values differ"), entry("op y", "pass", rows=[row])]
        record["sections"] = {name: {"seconds": 1.0, "ended": 1, "checks": []} for name in names}
        record["sections"]["parity"]["checks"] = checks
        return record

    gpu.setattr(gpu_check, "supervise", supervise)
    folder = tmp_path / "results"
    arguments = ["--part", "1", "--results", str(folder), "--commit", "abc", "--started", "1000"]
    assert gpu_check.main(arguments) == code
    (path,) = folder.glob("*.json")
    record = json.loads(path.read_text())
    assert path.name.startswith("gpu_nvidia-h200_") and "(9, 0)" in record["build"]
    assert record["runs"][0]["part"] == 1 and record["runs"][0]["quick"]
    assert json.loads((tmp_path / "kept" / path.name).read_text()) == record
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("not installed: ") or "are installed" in printed[0]
    assert printed[-1] == f"record: {path}"
    words = {"pass": "GREEN: all 2", "fail": "RED: 1 of 2", "skipped": "INCOMPLETE: none of 2 checks failed; 1 not run"}
    assert printed[-2].startswith(words.get(outcome, words["skipped"]))
    alone = "python3 -m benchmarks.gpu_check --quick --only parity --check 'op x'"
    assert (f"failed: 3 values differ | {alone}" in printed) == (outcome == "fail")


def test_a_part_goes_on_where_the_record_of_another_folder_ends(
    tmp_path: Path, gpu: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the same sources: a record of others is left alone."""
    seen: list[Any] = []

    def supervise(path: Path, names: Sequence[str], programs: Any, deadline: float) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(path.read_text())
        there = path.with_suffix(".tests.jsonl").exists()
        seen.append([list(record["sections"]), len(record["runs"]), path.parent, there])
        section = {"seconds": 1.0, "ended": len(record["runs"]), "checks": [entry("a", "pass")]}
        record["sections"]["tests"] = section
        path.with_suffix(".tests.jsonl").write_text("said")
        return record

    gpu.setattr(gpu_check, "supervise", supervise)
    for number, folder in enumerate("aab"):
        assert gpu_check.main(["--quick", "--only", "tests", "--results", str(tmp_path / folder)]) == 0
        assert ("goes on with the record" in capsys.readouterr().out) == bool(number)
    gpu.setattr(gpu_check, "sources", lambda: "f" * 64)
    assert gpu_check.main(["--quick", "--only", "tests", "--results", str(tmp_path / "b")]) == 0
    assert seen == [
        [[], 1, tmp_path / "a", False], [["tests"], 2, tmp_path / "a", True], [["tests"], 3, tmp_path / "b", True],
        [[], 1, tmp_path / "b", False],
    ]  # fmt: skip


def test_an_interrupt_leaves_a_summary(
    tmp_path: Path, gpu: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def supervise(*_: Any) -> None:
        raise KeyboardInterrupt

    gpu.setattr(gpu_check, "supervise", supervise)
    assert gpu_check.main(["--part", "3", "--results", str(tmp_path)]) == gpu_summary.INCOMPLETE
    printed = capsys.readouterr().out
    assert "stopped by a signal" in printed and "unfinished: sanitizer" in printed


def test_the_sources_of_a_record_are_all_that_it_runs(tmp_path: Path) -> None:
    for folder in gpu_record.SOURCES:
        (tmp_path / folder / "__pycache__").mkdir(parents=True)
    (tmp_path / "setup.py").touch()
    found = {gpu_record.sources(tmp_path)}
    for path in ("csrc/a.cu", "valor_gpu/b.py", "tests/c.py", "benchmarks/d.py", "setup.py"):
        (tmp_path / path).write_text("1")
        found.add(gpu_record.sources(tmp_path))
    assert len(found) == 6
    for path in ("tests/data.json", "valor_gpu/__pycache__/b.py", "README.md"):
        (tmp_path / path).write_text("1")
    assert gpu_record.sources(tmp_path) in found


def many(count: int) -> dict[str, Any]:
    checks = [entry(f"op {i} {'x' * 60}", ("fail", "skipped", "unavailable")[i % 3]) for i in range(count)]
    for check in checks:
        check |= {"detail": "Traceback (most recent call last):\n  File\nValueError: bad " + "y" * 300}
        check |= {"diagnosis": "Invalid __global__ read\nat valor::kernel\n" + "z" * 300}
    sections = {"parity": checks, "nccl": [entry("nccl", "pass")]}
    return {
        "runs": [{"asked": ["parity", "nccl"], "quick": True, "chosen": []}],
        "sections": {name: {"seconds": 1.0, "ended": 1, "checks": found} for name, found in sections.items()},
    }


@pytest.mark.parametrize("count", [1, 30, 900])
def test_a_summary_has_at_most_100_lines_and_ends_in_the_verdict(count: int) -> None:
    text, code = gpu_summary.summary(many(count))
    lines = text.splitlines()
    assert len(lines) < gpu_summary.LINES and len(text) <= gpu_summary.CHARACTERS and code == 1
    assert lines[-1] == f"RED: {-(-count // 3)} of {count + 1} checks failed"
    assert lines[2].startswith("failed: ValueError: bad y") and lines[2].endswith(f"--check 'op 0 {'x' * 60}'")
    assert lines[3].startswith("  Invalid __global__ read at valor::kernel")
    assert ("(more in the record)" in lines) == (count == 900)


def of(*checks: dict[str, Any], runs: int = 1, ended: int = 1, **run: Any) -> tuple[str, int]:
    """The summary of the section nccl."""
    last = {"asked": ["nccl"], "quick": True, "chosen": [], **run}
    section = {"seconds": 0.0, "ended": ended, "checks": list(checks)}
    return gpu_summary.summary({"runs": [last] * runs, "sections": {"nccl": section}})


def test_nothing_is_green_that_was_not_run() -> None:
    empty: dict[str, Any] = {"runs": [{"asked": ["nccl"], "quick": True, "chosen": []}], "sections": {}}
    assert gpu_summary.summary(empty)[1] == gpu_summary.INCOMPLETE
    good = entry("a", "pass")
    assert of(good) == ("nccl: 1 of 1 check passed, 0 s\nGREEN: 1 check of nccl passed", gpu_summary.GREEN)
    assert of(good, runs=2, ended=2)[1] == gpu_summary.GREEN
    for text, code in (
        of(good, ended=0),
        of(good, runs=2),  # this run did not come to the end of the section
        of(good, runs=2, ended=2, quick=False),  # it passed with fewer examples
        of(good, runs=2, ended=2, chosen=["a"]),  # it was to be run again
        of(good, entry("b", "unavailable"), runs=2, ended=2),
        of(good, chosen=["a", "aa"]),
        of(),
    ):
        assert code == gpu_summary.INCOMPLETE and text.splitlines()[-1].startswith("INCOMPLETE"), text
    assert "not run: aa: these sections have no check of this name, but 'a'" in of(good, chosen=["a", "aa"])[0]
    record = {"runs": [{"asked": ["nccl"], "quick": True, "chosen": []}], "stopped": "by a signal"}
    record["sections"] = {"nccl": {"seconds": 0.0, "ended": 1, "checks": [good]}}  # type: ignore[assignment]
    assert gpu_summary.summary(record)[1] == gpu_summary.INCOMPLETE


def test_the_end_tells_of_other_sections_and_of_earlier_failures() -> None:
    text, code = of(entry("a", "pass", failed_before=True))
    assert code == gpu_summary.GREEN and "passed now, but failed in an earlier run (a race?): a" in text
    record: dict[str, Any] = {"runs": [{"asked": ["nccl"], "quick": True, "chosen": []}]}
    record["sections"] = {
        "nccl": {"seconds": 0.0, "ended": 1, "checks": [entry("a", "pass")]},
        "parity": {"seconds": 0.0, "ended": 1, "checks": [entry("b", "fail")]},
    }
    text, code = gpu_summary.summary(record)
    assert code == gpu_summary.GREEN and "in the other sections of this record 1 check failed" in text
    assert text.endswith("GREEN: 1 check of nccl passed")


def test_only_one_check_runs_at_a_time_and_with_all_kernels(
    tmp_path: Path, gpu: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu.setattr(gpu_check, "supervise", lambda *_: pytest.fail("something ran"))
    gpu_check.KEPT.mkdir()
    with (gpu_check.KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert gpu_check.main(["--results", str(tmp_path / "results")]) == 2
    assert "another one runs in this checkout" in capsys.readouterr().out
    gpu.setenv("VALOR_GPU_DISABLE", "assign")
    assert gpu_check.main(["--results", str(tmp_path / "results")]) == 2
    assert "VALOR_GPU_DISABLE must not be set" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{", "[]", '{"sources": "f", "device": {}}', "changed", "driver"])
def test_a_record_that_is_damaged_or_of_another_machine_is_not_gone_on_with(
    text: str, tmp_path: Path, gpu: pytest.MonkeyPatch
) -> None:
    gpu.setattr(gpu_check, "sources", lambda: "f" * 64)
    seen: list[int] = []

    def supervise(path: Path, *_: Any) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(path.read_text())
        seen.append(len(record["runs"]))
        record["sections"]["nccl"] = {"seconds": 1.0, "ended": 1, "checks": [entry("a", "pass")]}
        return record

    gpu.setattr(gpu_check, "supervise", supervise)
    arguments = ["--only", "nccl", "--results", str(tmp_path / "results")]
    gpu_check.main(arguments)
    (path,) = (tmp_path / "results").glob("*.json")
    (gpu_check.KEPT / path.name).unlink()
    record = json.loads(path.read_text())
    if text == "driver":
        gpu.setattr(gpu_check, "device_facts", lambda _: {"name": "NVIDIA H200", "driver": "590"})
    elif text == "changed":
        del record["sections"]["nccl"]["checks"][0]["run"]
        path.write_text(json.dumps(record))
    else:
        path.write_text(text)
    before = path.read_text()
    gpu_check.main(arguments)
    assert seen == [1, 1] and path.with_suffix(".old").read_text() == before


def test_a_disk_that_is_full_leaves_a_summary(
    tmp_path: Path, gpu: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def supervise(*_: Any) -> None:
        gpu.setattr(gpu_check, "store", full)
        full()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    gpu.setattr(gpu_check, "supervise", supervise)
    assert gpu_check.main(["--only", "nccl", "--results", str(tmp_path)]) == gpu_summary.INCOMPLETE
    assert "stopped by an error: [Errno 28] No space left" in capsys.readouterr().out


def test_logs_have_a_limit_and_empty_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "MOST_BYTES", 5)
    for name, text in (("a.log", "0123456789"), ("b.log", "01234"), ("c.log", ""), ("d.json", "0123456789")):
        (tmp_path / name).write_text(text)
        gpu_check._trim(tmp_path / name)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a.log": "56789", "b.log": "01234", "d.json": "0123456789",
    }  # fmt: skip


def test_a_build_that_fails_is_recorded_with_what_the_compiler_said(
    tmp_path: Path, gpu: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(capability: tuple[int, int], seconds: float) -> str:
        raise gpu_build.BuildError("nvcc failed: no such option")

    gpu.setattr(gpu_build, "build", fail)
    gpu.setattr(gpu_check, "supervise", lambda *_: pytest.fail("something ran"))
    assert gpu_check.main(["--results", str(tmp_path / "results")]) == gpu_summary.RED
    (path,) = (tmp_path / "results").iterdir()
    assert "no such option" in json.loads(path.read_text())["build"]
    assert "RED: the libraries cannot be built" in capsys.readouterr().out


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
    cpu, cuda = (tmp_path / library for library in gpu_build.LIBRARIES)
    assert "built the libraries for sm_90" in gpu_build.build((9, 0), tmp_path)
    assert cuda.read_text() == "90 1 -"
    assert gpu_build.build((9, 0), tmp_path) == "libraries for sm_90 are there"
    changes: list[Callable[[], object]] = [lambda: source.write_text("2"), cpu.unlink]
    changes += [partial(library.write_text, text) for library in (cpu, cuda) for text in ("", "90 1 !")]
    for change in changes:
        change()
        assert "built" in gpu_build.build((9, 0), tmp_path) and cuda.read_text() == "90 1 -"
    assert "sm_120" in gpu_build.build((12, 0), tmp_path) and (tmp_path / "builds").read_text() == "xxxxxxxx"
    (tmp_path / "setup.py").write_text("raise SystemExit('nvcc: fatal')")
    with pytest.raises(gpu_build.BuildError, match="nvcc: fatal"):
        gpu_build.build((9, 0), tmp_path)


def test_a_build_that_leaves_no_library_fails(tmp_path: Path) -> None:
    (tmp_path / "valor_gpu").mkdir()
    (tmp_path / "setup.py").write_text("open('valor_gpu/libvalor_cpu.so', 'w').close()")
    with pytest.raises(gpu_build.BuildError, match=r"ended well but left no valor_gpu/libvalor_cuda\.so"):
        gpu_build.build((9, 0), tmp_path)
    assert gpu_build.read(tmp_path) == {}
