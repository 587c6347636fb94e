"""``python -m tools.gpu_dry_run``: the GPU check without its GPU, in an environment like that of the GPU machine.

Makes an environment with the packages of that machine once, in build/dry_run, and copies the files that git knows or
would take, and what ``make gpu-pack`` left. In the copy, without git, pycocotools and a network: modules of the check
are imported, its tests are collected as if there was a CUDA device, the command of the GPU machine runs as it is, which
finds no device, and then with all sections on the CPU. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import gpu_pack

ROOT = Path(__file__).parent.parent
ENVIRONMENT = Path("build", "dry_run", "venv")
PACKAGES = (
    "torch==2.11.*", "triton==3.6.*", "numpy>=2.5", "torchmetrics==1.9.*", "torchvision==0.26.*", "setuptools<82",
    "pytest", "pytest-xdist", "hypothesis", "scikit-learn", "regex", "jinja2", "pyyaml",
)  # fmt: skip
"""Those of the GPU machine. torch needs its CUDA packages to be imported: 4.5 GB."""
VERSION = "3.12"
"""Of its Python."""
INCOMPLETE = "exit code 3"
"""Of the check: none failed and some could not be made, as without a CUDA device."""
PARTS = ("1", "2", "3")
OUTCOMES = ("pass", "fail", "unavailable", "skipped")
SECONDS = 1200.0
"""After which a command is given up; the sections take minutes on two idle cores."""
LINES = 25
"""So many lines of a step that failed are shown."""

# Files for the PYTHONPATH of every step. Only the collection uses the last two.
_NO_NETWORK = """
import socket
def _local(method):
    def call(self, address, *rest):
        internet = self.family in (socket.AF_INET, socket.AF_INET6)
        if internet and str(address[0]) not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"the dry run has no network, but {address} was called")
        return method(self, address, *rest)
    return call
socket.socket.connect = _local(socket.socket.connect)
socket.socket.connect_ex = _local(socket.socket.connect_ex)
"""
_IMPORTS = """
import importlib, sys
failed = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(f"benchmarks.{name}")
    except Exception as error:
        failed.append(f"cannot import {name}: {error!r}")
sys.exit("\\n".join(failed) or 0)
"""
_PRETEND = "import torch\ntorch.cuda.is_available = lambda: True\n"
_SKIPS = """
from _pytest.skipping import evaluate_skip_marks
def pytest_collectreport(report):
    if report.skipped:
        print(f"\\nskips itself: {report.nodeid}: {report.longrepr[-1]}")
def pytest_collection_finish(session):
    for item in session.items:
        if skipped := evaluate_skip_marks(item):
            print(f"\\nskips itself: {item.nodeid}: {skipped.reason}")
"""


@dataclass
class Line:
    """A line of the table: a step and its outcome.

    Attributes:
        name: of the step.
        seconds: that it took.
        detail: in a few words.
        problem: text of the failure, empty if it passed.
    """

    name: str
    seconds: float
    detail: str
    problem: str = ""


class Machine:
    """A copy of the checkout and the environment in which its programs run.

    Args:
        folder: gets the copy and all else.
        python: of the environment.
    """

    def __init__(self, folder: Path, python: Path) -> None:
        self.python, self.copy, self.results = python, folder / "copy", folder / "results"
        self._variables = _variables(folder)

    def run(self, name: str, *command: str, seconds: float = SECONDS) -> tuple[Line, str]:
        """Runs a command in the copy; returns its line, which has no detail yet, and its output."""
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=self.copy, env=self._variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
            how = f"exit code {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, how = process.communicate()[0], f"took more than {seconds:g} s"
        tail = "\n".join(output.strip().splitlines()[-LINES:])
        return Line(name, time.perf_counter() - start, how, (tail or how) if how else ""), output


def _variables(folder: Path) -> dict[str, str]:
    """The environment of a machine without git, a network and other packages; writes what it needs to ``folder``."""
    programs, modules = folder / "bin", folder / "modules"
    programs.mkdir()
    modules.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in directory.iterdir() if directory.is_dir() else ():
            if not program.name.startswith("git") and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program.resolve())
    (modules / "sitecustomize.py").write_text(_NO_NETWORK)
    (modules / "pretend_cuda.py").write_text(_PRETEND)
    (modules / "show_skips.py").write_text(_SKIPS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PATH": str(programs), "PYTHONPATH": str(modules), "PYTHONUNBUFFERED": "1"}


def make_environment(python: str, folder: Path) -> Path:
    """Installs the packages unless that has been done; returns the path of the environment's Python.

    Args:
        python: a Python 3.12.
        folder: of the environment.

    Raises:
        ValueError: it is another one.
        OSError, subprocess.CalledProcessError: the environment cannot be made.
    """
    done, wanted = folder / "packages.txt", "\n".join(PACKAGES)
    made = folder / "bin" / "python"
    if done.exists() and done.read_text() == wanted:
        return made
    came = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if not came.startswith(f"Python {VERSION}."):
        raise ValueError(f"PYTHON312 must name a Python {VERSION} but {python} is {came}")
    print(f"installing {len(PACKAGES)} packages into {folder}, 4.5 GB with those that torch needs ...", flush=True)
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    pip: list[Path | str] = [made, "-m", "pip", "--disable-pip-version-check", "-qq", "install", "--no-compile"]
    subprocess.run([*pip, *PACKAGES], check=True)
    done.write_text(wanted)
    return made


def copy_checkout(root: Path, folder: Path) -> int:
    """Copies the files that ``make gpu-pack`` would put into its tar file; returns how many."""
    paths = gpu_pack.files(root)
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, folder / path, follow_symlinks=False)
    return len(paths)


# --------------------------------------------------------------------------------------------------------------- steps


def check_imports(machine: Machine) -> Iterator[Line]:
    """Imports every module of the check."""
    names = sorted(path.stem for path in (machine.copy / "benchmarks").glob("gpu_*.py"))
    line, output = machine.run("imports", str(machine.python), "-c", _IMPORTS, *names)
    failed = re.findall(r"^cannot import (\w+)", output, re.MULTILINE)
    line.detail = f"{len(names) - len(failed)} of {len(names)} modules"
    yield line


def _names(machine: Machine, name: str, module: str, *names: str) -> tuple[Line, list[Any]]:
    """Reads constants of a module of the copy; returns the line of that step and their values."""
    listed = ", ".join(names)
    program = f"import json; from {module} import {listed}; print(json.dumps([{listed}]))"
    line, output = machine.run(name, str(machine.python), "-c", program)
    return line, [] if line.problem else json.loads(output.splitlines()[-1])


def check_collection(machine: Machine) -> Iterator[Line]:
    """Collects the tests of each path of the check, as if there was a CUDA device; none may be marked to be skipped."""
    line, listed = _names(machine, "list of tests", "benchmarks.gpu_tests", "MARK", "TESTS")
    if line.problem:
        yield line
        return
    mark, paths = listed
    pytest = [str(machine.python), "-m", "pytest", "-p", "pretend_cuda", "-p", "show_skips"]
    pytest += ["-q", "--collect-only", "-m", mark]
    for path in paths:
        line, output = machine.run(f"collect {path}", *pytest, "-o", "filterwarnings=default", path)
        found = re.search(r"^(\d+)(?:/\d+)? tests? collected", output, re.MULTILINE)
        if not line.problem:
            line.detail = f"{found[1] if found else 0} tests"
            skipped = re.findall(r"^skips itself: .*", output, re.MULTILINE)
            line.problem = "\n".join(skipped) if found and int(found[1]) else "no test was collected"
        yield line


def _script(machine: Machine, part: str, *options: str) -> tuple[Line, str]:
    """Runs the command of the GPU machine; returns its line, whose problem names the exit code, and its output."""
    command = ("bash", "benchmarks/gpu_offline.sh", part, str(machine.results), *options)
    return machine.run(" ".join(("gpu_offline.sh", part, *options)), "env", f"PYTHON={machine.python}", *command)


def check_command(machine: Machine) -> Iterator[Line]:
    """Runs the command of the GPU machine, whose check finds no CUDA device and says so."""
    for part in PARTS:
        line, output = _script(machine, part)
        good = line.detail == INCOMPLETE and "no CUDA device" in output
        line.problem = (
            "" if good else f"{INCOMPLETE} and 'no CUDA device' are expected, {line.detail or 'exit code 0'} came"
        )
        line.detail = " | ".join(output.strip().splitlines())
        yield line


def check_sections(machine: Machine) -> Iterator[Line]:
    """Rehearses all parts on the CPU by the command of the GPU machine: lines of parts, sections and the record."""
    line, listed = _names(machine, "list of sections", "benchmarks.gpu_check", "SECTIONS")
    if line.problem:
        yield line
        return
    (names,) = listed
    for part in PARTS:
        line, _ = _script(machine, part, "--device", "cpu", "--seconds", f"{SECONDS:.0f}")
        line.problem = "" if line.detail in ("", INCOMPLETE) else line.problem
        yield line
    records = list(machine.results.glob("gpu_*.json"))
    if len(records) != 1:
        yield Line("record", 0.0, "", f"one record must be in {machine.results} but there are {len(records)}")
        return
    record = json.loads(records[0].read_text())
    for name in names:
        yield _section_line(name, record["sections"].get(name, {"seconds": 0.0, "ended": False, "checks": []}))
    yield Line("record", 0.0, f"commit {record['commit']}, changed files: {record['changed_files']}")


def _section_line(name: str, section: dict[str, Any]) -> Line:
    checks = section["checks"]
    of = {outcome: [c for c in checks if c["outcome"] == outcome] for outcome in OUTCOMES}
    detail = f"{len(of['pass'])} of {len(checks)} checks passed"
    detail += "".join(f"\n    unavailable: {c['name']}: {_first_line(c['detail'])}" for c in of["unavailable"])
    problems = [f"{check['name']}: {check['detail']}" for check in [*of["fail"], *of["skipped"]]]
    problems += [] if section["ended"] and checks else ["the section has no check or did not end"]
    return Line(f"section {name}", section["seconds"], detail, "\n".join(problems))


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")


STEPS: dict[str, Callable[[Machine], Iterator[Line]]] = {
    "imports": check_imports,
    "collection": check_collection,
    "command": check_command,
    "sections": check_sections,
}


def show(line: Line) -> None:
    """Prints a line of the table, and the text of a failure."""
    print(f"{'FAIL' if line.problem else 'pass'}  {line.seconds:6.1f} s  {line.name}: {line.detail}")
    if line.problem:
        print("\n".join(f"    {text}" for text in line.problem.splitlines()))
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the steps; see the module."""
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_dry_run", description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--environment", type=Path, default=ROOT / ENVIRONMENT, help="folder of its packages")
    arguments = parser.parse_args(argv)
    try:
        python = make_environment(os.environ.get("PYTHON312", "python3.12"), arguments.environment.absolute())
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"the environment cannot be made: {error}. Run PYTHON312=/path/to/python3.12 make gpu-dry-run")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        machine = Machine(Path(scratch), python)
        machine.results.mkdir()
        print(f"{copy_checkout(ROOT, machine.copy)} files copied", flush=True)
        failed = 0
        for step in arguments.only:
            for line in STEPS[step](machine):
                show(line)
                failed += bool(line.problem)
    print(f"{failed} failed" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
