"""Crashes, hangs, lost devices and time-outs of real processes, and what the record says of them."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu_process, gpu_record, gpu_sanitizer, gpu_sections, gpu_summary, gpu_supervisor
from benchmarks.checks import Checks, Later, Unavailable
from benchmarks.gpu_process import Ended
from benchmarks.gpu_supervisor import Programs, supervise
from tests.benchmarks.test_gpu_check import outcomes, setup


def fail() -> None:
    raise RuntimeError("an illegal memory access was encountered")


def checks_of_kernels(path: Path) -> dict[str, Callable[[Checks, object], object]]:
    """Sections whose checks do what kernels may do; checks.txt beside ``path`` names those that begin."""
    lost: list[str] = []

    def begun(name: str, work: Callable[[], object] = lambda: None) -> Callable[[], object]:
        def run() -> object:
            with path.with_name("checks.txt").open("a") as file:
                file.write(f"{name} ")
            return work()

        return run

    def lose(how: str) -> None:
        lost.append(how)
        fail()

    def synchronize(*_: object) -> None:
        if "silent" in lost:
            time.sleep(600)
        if lost:
            fail()

    def parity(checks: Checks, _: object) -> None:
        checks.run("good", begun("good", lambda: {"work": "good", "seconds": 1}))
        checks.run("crash", begun("crash", lambda: os.kill(os.getpid(), signal.SIGSEGV)))
        checks.run("hang", begun("hang", lambda: time.sleep(600)), 0.5)
        checks.run("lost", begun("lost", lambda: lose("loud")))
        checks.run("silent", begun("silent", lambda: lose("silent")))
        checks.run("wrong", begun("wrong", fail))
        checks.run("after", begun("after"))

    def waiting(checks: Checks, _: object) -> None:
        checks.run("slow", begun("slow", lambda: time.sleep(600)))
        checks.run("late", begun("late"))

    torch.cuda.synchronize = synchronize
    return {"parity": parity, "waiting": waiting, "graphs": lambda *_: os._exit(3)}


def forked(work: Callable[[], object], errors: Path) -> Ended:
    """How a process ends that does ``work``: a fork, since importing torch would take seconds."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()  # pytest's, which would print
        with errors.open("w") as file:
            os.dup2(file.fileno(), 2)
            try:
                work()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(code, errors.read_text())


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"runs": [], "sections": {}, "running": None}))
    return path


def run(path: Path, *names: str, seconds: float = 60.0) -> tuple[dict[str, Any], list[str]]:
    """The record after one more run, and the checks that have begun in it."""
    begun = path.with_name("checks.txt")
    begun.write_text("")
    record = json.loads(path.read_text())
    record["runs"].append({"asked": list(names), "quick": True, "chosen": []})
    path.write_text(json.dumps(record))
    deadline = time.time() + seconds

    def work(names: Sequence[str]) -> None:
        gpu_sections.LOST_SECONDS = 0.5
        gpu_sections.SECTIONS.update(checks_of_kernels(path))  # type: ignore[arg-type]
        changes = {"deadline": deadline, "watched": path.with_suffix(".stacks"), "device": torch.device("cuda")}
        now = json.loads(path.read_text())
        gpu_sections.run_sections(names, setup(**changes), now, lambda now: gpu_record.store(now, path))

    def sections(names: Sequence[str], seconds: float, give_up: Callable[[], bool]) -> Ended:
        return forked(lambda: work(names), path.with_suffix(".log"))

    def diagnose(section: str, name: str, seconds: float) -> str:
        return f"Invalid write of {section}, {name}"

    found = supervise(path, names, Programs(sections, diagnose, path.with_suffix(".stacks")), deadline)
    assert found == json.loads(path.read_text())
    return found, begun.read_text().split()


def by_name(section: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in section["checks"]}


def test_checks_that_end_their_process_are_told_apart_and_the_rest_goes_on(record: Path) -> None:
    found, begun = run(record, "parity")
    assert begun == ["good", "crash", "hang", "lost", "silent", "wrong", "after"]
    checks = by_name(found["sections"]["parity"])
    assert {name: check["outcome"] for name, check in checks.items()} == {
        "good": "pass", "crash": "fail", "hang": "fail", "lost": "fail", "silent": "fail", "wrong": "fail",
        "after": "pass",
    }  # fmt: skip
    assert "SIGSEGV" in checks["crash"]["detail"]
    assert checks["hang"]["detail"].startswith("no answer for 0.5 s") and "in run" in checks["hang"]["detail"]
    assert "illegal memory access" in checks["lost"]["detail"] and "exit code 70" in checks["lost"]["detail"]
    assert checks["wrong"]["detail"].startswith("Traceback") and "in fail" in checks["wrong"]["detail"]
    diagnosed = {name: check["diagnosis"] for name, check in checks.items() if "diagnosis" in check}
    assert "the device no longer answered" in checks["silent"]["detail"]
    assert diagnosed == {name: f"Invalid write of parity, {name}" for name in ("crash", "hang", "lost")}
    assert found["sections"]["parity"]["ended"] == 1 and found["running"] is None
    text, code = gpu_summary.summary(found)
    assert code == gpu_summary.RED and "RED: 5 of 7 checks failed" in text
    assert "failed: no answer for 0.5 s" in text and "python3 -m benchmarks.gpu_check --quick --only parity" in text


@pytest.mark.slow
def test_a_later_run_makes_only_what_has_not_passed(record: Path) -> None:
    run(record, "parity")
    found, begun = run(record, "parity")
    assert begun == ["crash", "hang", "lost", "silent", "wrong"]
    assert [check["run"] for check in found["sections"]["parity"]["checks"]] == [1, 2, 2, 2, 2, 2, 1]
    assert gpu_record.rows_of(found) == [{"work": "good", "seconds": 1}]


@pytest.mark.slow
def test_a_check_that_the_deadline_stops_is_not_green(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_sections, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(gpu_supervisor, "LEAST_SECONDS", 1.0)
    found, begun = run(record, "waiting", seconds=3.0)
    checks = by_name(found["sections"]["waiting"])
    assert begun == ["slow"] and checks["slow"]["outcome"] == "skipped"
    assert "when no time was left" in checks["slow"]["detail"]
    text, code = gpu_summary.summary(found)
    assert code == gpu_summary.INCOMPLETE and "INCOMPLETE" in text and "unfinished: waiting" in text


def test_a_section_whose_process_ends_ahead_of_every_check_fails(record: Path) -> None:
    found, _ = run(record, "graphs", "nccl")
    assert [name for name in outcomes(found["sections"]["graphs"], "fail")] == ["process of section graphs"]
    assert "exit code 3" in found["sections"]["graphs"]["checks"][0]["detail"]


def test_a_process_that_its_check_keeps_alive_is_killed(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_process, "PATIENCE", 1.0)
    record.write_text(json.dumps({"runs": [{"quick": True}], "sections": {}, "running": None}))

    def sections(names: Sequence[str], seconds: float, give_up: Callable[[], bool]) -> Ended:
        now = json.loads(record.read_text())
        if "parity" in now["sections"]:
            now["running"] = None
            record.write_text(json.dumps(now))
            return Ended(0, "")
        now["running"] = {"section": "parity", "check": "x", "since": time.time(), "seconds": 0.1, "hangs_after": 0.1}
        now["sections"]["parity"] = {"seconds": 0.0, "ended": False, "checks": []}
        record.write_text(json.dumps(now))
        return gpu_process.run([sys.executable, "-c", "import time; time.sleep(600)"], 300, give_up=give_up)

    programs = Programs(sections, lambda *_: "", record.with_suffix(".stacks"))
    found = supervise(record, ["parity"], programs, time.time() + 300)
    assert outcomes(found["sections"]["parity"], "fail") == ["x"]
    assert "no answer" in found["sections"]["parity"]["checks"][0]["detail"]


def test_the_record_is_kept_ahead_of_every_check_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[dict[str, Any]] = []
    record: dict[str, Any] = {"runs": [{}]}
    monkeypatch.setitem(gpu_sections.SECTIONS, "graphs", lambda checks, setup: checks.run("a", lambda: 1))
    gpu_sections.run_sections(["graphs"], setup(), record, lambda now: saved.append(json.loads(json.dumps(now))))
    assert [now["running"] and now["running"]["check"] for now in saved] == [None, "a", "a", None]
    assert [len(now["sections"]["graphs"]["checks"]) for now in saved] == [0, 0, 1, 1]
    assert [now["sections"]["graphs"]["ended"] for now in saved] == [0, 0, 0, 1]


def test_only_chosen_checks_are_made_and_those_that_stand_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def section(checks: Checks, _: object) -> None:
        for name in ("a", "b", "c"):
            checks.run(name, lambda name=name: made.append(name))  # type: ignore[misc]

    monkeypatch.setitem(gpu_sections.SECTIONS, "graphs", section)
    record: dict[str, Any] = {"runs": [{}]}
    for runs, chosen in ((1, None), (2, frozenset("b")), (3, None)):
        record["runs"] = [{}] * runs
        gpu_sections.run_sections(["graphs"], setup(chosen=chosen), record, lambda _: None)
        assert record["sections"]["graphs"]["ended"] == (1 if runs == 2 else runs)
    assert made == ["a", "b", "c", "b"]
    assert [(check["name"], check["run"]) for check in record["sections"]["graphs"]["checks"]] == [
        ("a", 1), ("b", 2), ("c", 1),
    ]  # fmt: skip
    record["runs"].append({})
    gpu_sections.run_sections(["graphs"], setup(quick=False), record, lambda _: None)
    assert made[4:] == ["a", "b", "c"]


def test_a_check_that_passes_only_when_it_is_run_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [True, False]
    monkeypatch.setitem(
        gpu_sections.SECTIONS, "graphs", lambda checks, _: checks.run("race", lambda: fail() if wrong.pop(0) else 1)
    )
    record: dict[str, Any] = {"runs": []}
    for _ in range(3):
        record["runs"].append({"asked": ["graphs"], "quick": True, "chosen": []})
        gpu_sections.run_sections(["graphs"], setup(), record, lambda _: None)
        text, code = gpu_summary.summary(record)
        assert ("failed in an earlier run (a race?): race" in text) == (code == gpu_summary.GREEN)
    assert code == gpu_summary.GREEN and not wrong


def test_stacks_are_added_to_what_a_program_has_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A check that runs alone has them on its stderr, which is the log of all diagnoses."""
    monkeypatch.setitem(
        gpu_sections.SECTIONS, "graphs", lambda checks, _: checks.run("a", lambda: time.sleep(600), 0.2)
    )

    def work() -> None:
        print("the first diagnosis", file=sys.__stderr__, flush=True)
        changed = setup(watched=Path("/dev/stderr"))
        gpu_sections.run_sections(["graphs"], changed, {"runs": [{}]}, lambda _: None)

    ended = forked(work, tmp_path / "log")
    assert ended.code == 1 and ended.output.startswith("the first diagnosis\n") and "Timeout" in ended.output


def test_a_value_of_several_checks_is_made_once_and_only_if_one_needs_it() -> None:
    made: list[int] = []
    value = Later("value", lambda: made.append(1) or 5)
    assert not made and value() == value() == 5 and made == [1]

    def boom() -> int:
        raise ValueError("boom")

    broken = Later("scores", boom)
    with pytest.raises(ValueError, match="boom"):
        broken()
    with pytest.raises(Unavailable, match="scores could not be made"):
        broken()


def alive(mark: Path) -> bool:
    found = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True).stdout
    return str(mark) in found


@pytest.mark.parametrize("ends", [True, False])
def test_nothing_is_left_of_a_program(tmp_path: Path, ends: bool) -> None:
    """Not even what it started in a session of its own, which no signal to its group would reach."""
    child = "import sys, time; sys.argv[1]; time.sleep(600)"
    code = (
        f"import subprocess, sys, time; print('begun', flush=True);"
        f"subprocess.Popen([sys.executable, '-c', {child!r}, {str(tmp_path)!r}], start_new_session=True);"
        f"time.sleep({0 if ends else 600})"
    )
    log = tmp_path / "log"
    log.write_text("before\n")
    ended = gpu_process.run([sys.executable, "-c", code], 600 if ends else 2.0, log)
    assert ended == Ended(0 if ends else None, "begun\n") and log.read_text() == "before\nbegun\n"
    deadline = time.monotonic() + 30
    while alive(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(tmp_path)
    assert gpu_process.MARK not in os.environ


MEMCHECK = """========= COMPUTE-SANITIZER
some output
========= Invalid __global__ read of size 4 bytes
=========     at valor::assign_kernel(valor::Task)+0x1a0
=========     by thread (3,0,0) in block (7,0,0)
=========     Access at 0x7f01 is out of bounds
=========
========= Invalid __global__ read of size 8 bytes
"""


def test_a_diagnosis_names_kernel_address_and_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f"#!{sys.executable}\nimport os\nprint({MEMCHECK!r})\nprint(os.environ['CUDA_LAUNCH_BLOCKING'])\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    text = gpu_sanitizer.diagnose(["program"], 30.0, tmp_path / "gpu")
    assert "valor::assign_kernel(valor::Task)+0x1a0\nby thread (3,0,0) in block (7,0,0)\nAccess at 0x7f01" in text
    assert "size 8" not in text
    assert (tmp_path / "gpu.diagnosis.log").read_text().endswith("1\n")
    monkeypatch.setattr(gpu_sanitizer, "find", lambda: None)
    command = [sys.executable, "-c", "import os; print(os.environ['CUDA_LAUNCH_BLOCKING'], 'blocks')"]
    assert gpu_sanitizer.diagnose(command, 30.0) == (
        "rerun alone without memcheck: compute-sanitizer is not installed, exit code 0: 1 blocks"
    )
