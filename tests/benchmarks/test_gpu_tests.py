"""Tests of a GPU check over processes: crashes, hangs, time-outs and skips are told apart, and a later run resumes."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu_process, gpu_sanitizer, gpu_tests
from benchmarks.checks import Checks, OutOfTime
from benchmarks.gpu_tests import Outcomes, run_tests
from testing.datasets import ROOT

HEAD = "import os, pathlib, signal, time, warnings\nimport pytest\npytestmark = pytest.mark.gpu\n"
OPTIONS = ("-o", "addopts=", "--rootdir")


@pytest.fixture(autouse=True)
def few_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_tests, "PROCESSES", 2)


def run(folder: Path, tests: str, seconds: float = 300.0, *more: str) -> tuple[Outcomes, Exception | None]:
    """Outcomes under the names of the functions."""
    path = folder / "test_here.py"
    path.write_text(HEAD + tests)
    found, problem = run_tests([str(path)], seconds, folder / "gpu", [*OPTIONS, str(folder), *more])
    for name in ("failed", "crashed", "skipped"):
        setattr(found, name, {short(test): text for test, text in getattr(found, name).items()})
    return Outcomes([*map(short, found.left)], set(map(short, found.passed)), **{
        name: getattr(found, name) for name in ("failed", "crashed", "skipped")
    }), problem  # fmt: skip


def short(test: str) -> str:
    return test.split("::")[-1].removeprefix("test_")


@pytest.mark.slow
def test_each_outcome_is_told_and_a_later_run_makes_only_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALOR_GPU_CHECK_TEST_SECONDS", "2")
    tests = """
def test_good():
    warnings.warn("of a new torch")
def test_wrong():
    assert 1 == 2
def test_crash():
    os.kill(os.getpid(), signal.SIGSEGV)
def test_hang():
    time.sleep(600)
def test_skip():
    pytest.skip("two devices are needed")
@pytest.fixture
def broken():
    raise ValueError("in the fixture")
def test_set_up(broken):
    pass
"""
    found, problem = run(tmp_path, tests)
    assert problem is None and found.passed == {"good"} and sorted(found.left) == [
        "crash", "good", "hang", "set_up", "skip", "wrong",
    ]  # fmt: skip
    assert {name: "crashed while running" in text for name, text in found.crashed.items()} == {
        "crash": True, "hang": False,
    }  # fmt: skip
    assert found.crashed["hang"].startswith("no answer for 2 s") and "in test_hang" in found.crashed["hang"]
    assert set(found.failed) == {"wrong", "set_up"} and "assert 1 == 2" in found.failed["wrong"]
    assert found.skipped == {"skip": "two devices are needed"}
    assert "short test summary info" in (tmp_path / "gpu.pytest.log").read_text()

    again, problem = run(tmp_path, tests.replace("SIGSEGV", "SIGCONT").replace("sleep(600)", "sleep(0)"))
    assert problem is None and sorted(again.left) == ["crash", "hang", "set_up", "skip", "wrong"]
    assert again.passed == {"good", "crash", "hang"} and not again.crashed and set(again.failed) == {"wrong", "set_up"}
    last, problem = run(tmp_path, "def test_good():\n    pass\n")
    assert problem is None and not last.left and last.passed == again.passed


def test_what_was_said_before_the_time_was_over_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "begun"
    monkeypatch.setattr(gpu_process, "run", partial(gpu_process.run, give_up=marker.exists))
    tests = f"""
def test_good():
    pass
def test_slow():
    pathlib.Path({str(marker)!r}).touch()
    time.sleep(600)
"""
    found, problem = run(tmp_path, tests, 300.0, "-n", "0")
    assert found.passed == {"good"} and not found.failed and not found.crashed
    assert isinstance(problem, OutOfTime) and "pytest was stopped" in str(problem)


@pytest.mark.slow
def test_a_device_that_is_lost_ends_the_process_and_its_tests_are_run_in_another(tmp_path: Path) -> None:
    tests = """
import sys, types
lost = []
def synchronize():
    if lost:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
cuda = types.SimpleNamespace(is_available=lambda: True, synchronize=synchronize)
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
@pytest.mark.parametrize("number", range(6))
def test_of(number):
    if number == 2:
        lost.append(1)
    synchronize()
"""
    found, problem = run(tmp_path, tests)
    assert problem is None and not found.crashed, found
    assert found.passed == {f"of[{number}]" for number in (0, 1, 3, 4, 5)}
    assert "illegal memory access" in found.failed["of[2]"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tests", "match"),
    [
        ("def test_of_the_cpu():\n    pass\npytestmark = []", "exit code 5"),
        ("import missing_package", "missing_package"),
    ],
)
def test_a_file_without_tests_and_one_that_does_not_import_fail(tmp_path: Path, tests: str, match: str) -> None:
    found, problem = run(tmp_path, tests)
    assert match in f"{problem}{found.failed}"


class Ran:
    """``run_tests`` of a GPU check with outcomes given."""

    def __init__(self, **outcomes: Any) -> None:
        self._outcomes = Outcomes(**outcomes)

    def __call__(self, paths: Sequence[str], seconds: float, logs: Path) -> tuple[Outcomes, Exception | None]:
        assert list(paths) == list(gpu_tests.TESTS) and seconds == 70.0
        return self._outcomes, None


def test_each_test_that_failed_is_a_check_and_crashes_are_diagnosed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crashed = {f"tests/a.py::test_{number}": "crashed" for number in range(5)}
    ran = Ran(passed={"tests/a.py::test_x"}, failed={"tests/b.py::test_y": "1 != 2"}, crashed=crashed)
    monkeypatch.setattr(gpu_tests, "run_tests", ran)
    monkeypatch.setattr(gpu_sanitizer, "diagnose", lambda command, seconds, logs: f"memcheck of {command[-1]}")
    checks = Checks(show=lambda _: None)
    gpu_tests.check_tests(checks, torch.device("cuda"), lambda: 100.0, tmp_path / "gpu", 30.0)
    records = {record["name"]: record for record in checks.records}
    assert records[gpu_tests.CHECK]["detail"] == "passed 1, failed 1, crashed 5"
    assert records[gpu_tests.CHECK]["outcome"] == "fail"
    assert records["test tests/b.py::test_y"]["detail"] == "1 != 2"
    diagnosed = [name for name, record in records.items() if "memcheck of tests/a.py" in record.get("diagnosis", "")]
    assert diagnosed == [f"test {name}" for name in list(crashed)[: gpu_tests.DIAGNOSED]]
    assert checks.failed == list(records) and len(records) == 7
    late = Checks(show=lambda _: None)
    gpu_tests.check_tests(late, torch.device("cuda"), iter([100.0, *[40.0] * 9]).__next__, None, 30.0)
    assert late.failed == checks.failed and not any("diagnosis" in record for record in late.records)


@pytest.mark.parametrize(
    ("outcomes", "problem", "outcome", "detail"),
    [
        ({"passed": {"a"}}, None, "pass", ""),
        ({"passed": {"a"}, "skipped": {"b": "no nltk", "c": "no nltk"}}, None, "unavailable", "skipped 2: no nltk"),
        ({"skipped": {"b": "no nltk"}}, None, "fail", "no test passed"),
        ({"passed": {"a"}}, OutOfTime("stopped"), "skipped", "passed 1, failed 0, crashed 0; stopped"),
        ({"failed": {"a": "1 != 2"}}, OutOfTime("stopped"), "fail", "failed 1, crashed 0; stopped"),
    ],
)
def test_the_check_passes_only_if_all_tests_did(
    outcomes: dict[str, Any], problem: Exception | None, outcome: str, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_tests, "run_tests", lambda *_: (Outcomes(**outcomes), problem))
    checks = Checks(show=lambda _: None)
    gpu_tests.check_tests(checks, torch.device("cuda"), lambda: 100.0, None)
    assert checks.records[0]["outcome"] == outcome and detail in checks.records[0]["detail"]


def test_a_log_that_a_kill_cut_off_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    entries = [{"left": ["a", "b"]}, {"begun": "a"}, {"test": "a", "outcome": "passed", "detail": ""}, {"begun": "b"}]
    path.write_text("".join("\n" + json.dumps(entry) for entry in entries) + '\n{"test": "b", "outc')
    for _ in range(2):
        found = Outcomes.read(path)
        assert found.passed == {"a"} and found.unfinished == {"b"} and found.left == ["a", "b"]
        with path.open("a") as file:
            file.write("\n" + json.dumps({"begun": "b"}))
    assert Outcomes.read(tmp_path / "missing") == Outcomes()


def of_a_device(path: Path) -> bool:
    """Whether a file has tests that ask for a CUDA device."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    takes_it = any(_takes_the_fixture(function) for function in functions)
    marks = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "gpu"]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "tests.devices"]
    return bool(takes_it or marks or imports) and path.name.startswith("test_")


def _takes_the_fixture(function: ast.FunctionDef) -> bool:
    """Whether it asks for ``device``, and has no parameters of that name."""
    texts = [ast.unparse(decorator) for decorator in function.decorator_list]
    return any(argument.arg == "device" for argument in function.args.args) and not any("device" in t for t in texts)


@pytest.mark.slow
def test_no_file_with_tests_of_a_device_is_left_out() -> None:
    wanted = {path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py") if of_a_device(path)}
    wanted.remove(Path("tests/benchmarks/test_detection.py"))  # whose examples the section parity has
    listed = [Path(path) for path in gpu_tests.TESTS]
    assert {path for path in wanted if not any(path.is_relative_to(each) for each in listed)} == set()
    assert all(any(path.is_relative_to(each) for path in wanted) for each in listed)


# A machine with a CUDA device, without pycocotools.
PRETENDED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pycocotools":
            raise ModuleNotFoundError("No module named 'pycocotools'", name="pycocotools")
sys.meta_path.insert(0, Missing())
import torch
torch.cuda.is_available = lambda: True
"""
IMPORTS = """
import importlib, pathlib, pretended
for path in sorted(pathlib.Path("benchmarks").glob("gpu_*.py")):
    importlib.import_module(f"benchmarks.{path.stem}")
"""


@pytest.fixture
def gpu_machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine as a GPU check finds it: no git and no pycocotools."""
    (tmp_path / "pretended.py").write_text(PRETENDED)
    return {**os.environ, "PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(tmp_path)}


@pytest.mark.slow
def test_every_path_has_tests_and_imports_without_pycocotools_and_git(gpu_machine: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "pretended", "-q", "--collect-only", "-m", gpu_tests.MARK]
    command += ["-o", "filterwarnings=default", *gpu_tests.TESTS]
    done = subprocess.run(command, cwd=ROOT, env=gpu_machine, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    found = {Path(line.split("::")[0]) for line in done.stdout.splitlines() if "::" in line}
    assert [path for path in gpu_tests.TESTS if not any(each.is_relative_to(path) for each in found)] == []


@pytest.mark.slow
def test_every_module_of_the_check_imports_without_pycocotools_and_git(gpu_machine: dict[str, str]) -> None:
    command = [sys.executable, "-W", "ignore", "-c", IMPORTS]
    done = subprocess.run(command, cwd=ROOT, env=gpu_machine, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
