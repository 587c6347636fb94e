"""What goes to a GPU machine without a network, the command that runs there, and the dry run here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_build, gpu_pack, machine
from tests.checkout import ROOT
from tools import gpu_dry_run

SETUP = """
import pathlib
for name in ("cpu", "cuda"):
    pathlib.Path("valor_gpu", f"libvalor_{name}.so").write_bytes(b"x" * 1_000_000)
pathlib.Path("valor_gpu", "_build.json").write_text("{}")
"""
WHEEL = "pycocotools-2.0.11-cp312-abi3-manylinux_2_28_x86_64.whl"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose libraries are built in no time."""
    root = tmp_path / "checkout"
    for folder in ("valor_gpu", "csrc", "tests"):
        (root / folder).mkdir(parents=True)
    (root / "setup.py").write_text(SETUP)
    (root / "csrc" / "a.cu").write_text("1")
    add_wheel(root)
    return root


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", "-C", root, *who, *arguments], check=True, capture_output=True, text=True).stdout


def commit(root: Path) -> str:
    git(root, "init", "-q")
    git(root, "add", "setup.py", "csrc")
    git(root, "commit", "-qm", "first")
    return git(root, "rev-parse", "HEAD").strip()


def add_wheel(root: Path) -> None:
    (root / gpu_pack.WHEELS).mkdir()
    (root / gpu_pack.WHEELS / WHEEL).write_bytes(b"x" * 400_000)


def test_the_stamp_names_sources_architecture_and_commit(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    head = commit(checkout)
    (checkout / "csrc" / "a.cu").write_text("2")
    assert gpu_pack.main(checkout) == 0
    printed = capsys.readouterr().out
    assert "built the libraries for sm_90" in printed and f"commit {head}, changed files: 1" in printed
    assert f"{WHEEL} is there" in printed and "  2.4 MB  in all" in printed
    for path in gpu_pack.PATHS:
        assert f" MB  {path}\n" in printed
    stamp = json.loads((checkout / gpu_build.STAMP).read_text())
    assert (
        set(stamp) == {"sources", "architecture", "commit", "changed_files", "files"} and stamp["architecture"] == "90"
    )
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("something was started"))
    assert gpu_build.build((9, 0), checkout) == "libraries for sm_90 are there"


@pytest.mark.parametrize("changed", ["csrc/a.cu", "tests/test_a.py"])
def test_the_commit_is_known_without_git_as_long_as_no_file_has_changed(checkout: Path, changed: str) -> None:
    head = commit(checkout)
    gpu_pack.main(checkout)
    shutil.rmtree(checkout / ".git")
    assert machine.checkout(checkout) == {"commit": head, "changed_files": 0}
    (checkout / changed).write_text("2")
    assert machine.checkout(checkout) == {"commit": "unknown", "changed_files": None}
    gpu_pack.main(checkout)  # which knows no better
    assert machine.checkout(checkout)["commit"] == "unknown"


def test_a_repository_around_the_checkout_is_not_asked(checkout: Path) -> None:
    outer = checkout.parent
    (outer / "setup.py").write_text("")
    (outer / "csrc").mkdir()
    (outer / "csrc" / "b.cu").write_text("")
    commit(outer)
    assert machine.checkout(checkout)["commit"] == "unknown"


def test_results_have_the_commit_that_was_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "run", lambda *_: None)
    monkeypatch.setattr(machine, "sources", lambda _: "digest")
    monkeypatch.setattr(gpu_build, "read", lambda _: {"commit": "abc", "changed_files": 3, "files": "digest"})
    about = machine.describe(())
    assert (about["commit"], about["changed_files"]) == ("abc", 3)
    assert machine.describe((), "def")["commit"] == "def"


def test_more_than_the_machine_takes_is_an_error(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / gpu_pack.WHEELS / "other.whl").write_bytes(b"x" * 38_000_000)
    assert gpu_pack.main(checkout) == 1
    assert "must take at most 40 MB but takes 40.4 MB: remove" in capsys.readouterr().out


def test_a_missing_wheel_is_said_and_the_rest_is_packed(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / gpu_pack.WHEELS / WHEEL).unlink()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(checkout))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert gpu_pack.main(checkout) == 0
    printed = capsys.readouterr().out
    assert "the wheel of pycocotools is missing" in printed and "No matching distribution found" in printed
    assert ".whl\n" not in printed and "valor_gpu/libvalor_cuda.so\n" in printed


def test_libraries_that_cannot_be_built_are_not_packed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "setup.py").write_text("raise SystemExit('nvcc: fatal')")
    assert gpu_pack.main(checkout) == 1
    assert "nvcc: fatal\nnothing was packed" in capsys.readouterr().out and not (checkout / gpu_build.STAMP).exists()


def test_a_build_that_is_given_up_leaves_no_compiler(checkout: Path, tmp_path: Path) -> None:
    """A child of setup.py would go on, and write to a file after a while."""
    child = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(tmp_path / 'late')!r}).touch()"
    (checkout / "setup.py").write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])")
    with pytest.raises(gpu_build.BuildError, match=r"setup.py build_ext took more than 0\.5 s"):
        gpu_build.build((9, 0), checkout, 0.5)
    assert subprocess.run(["sleep", "2"], check=True).returncode == 0 and not (tmp_path / "late").exists()


# ---------------------------------------------------------------------------------------------------- gpu_offline.sh

FAKE = """#!{python}
import json, os, sys
if "pip" in sys.argv:
    open(os.environ["SAID"], "a").write(json.dumps(["pip", *sys.argv[1:]]) + "\\n")
    sys.exit(int(os.environ.get("PIP_FAILS", "0")))
said = ["check", *sys.argv[1:], os.getcwd(), os.environ.get("PYTHONPATH", ""), os.environ["PYTHONUNBUFFERED"]]
open(os.environ["SAID"], "a").write(json.dumps(said) + "\\n")
sys.exit(7)
"""


class Offline:
    """The script in a checkout of its own, with a python3 that writes down how it was called."""

    def __init__(self, folder: Path) -> None:
        self.root, self.said, self.elsewhere = folder / "checkout", folder / "said", folder / "else where"
        for path in (self.root / "benchmarks", folder / "bin", self.elsewhere):
            path.mkdir(parents=True)
        shutil.copy(ROOT / "benchmarks" / "gpu_offline.sh", self.root / "benchmarks")
        self.python = folder / "bin" / "python3"
        self.python.write_text(FAKE.format(python=sys.executable))
        self.python.chmod(0o755)
        self.path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "PYTHONPATH")}
        environment |= {"PATH": self.path, "SAID": str(self.said), **variables}
        command = ["bash", str(self.root / "benchmarks" / "gpu_offline.sh"), *arguments]
        return subprocess.run(
            command, cwd=self.elsewhere, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.said.read_text().splitlines()] if self.said.exists() else []


@pytest.fixture
def offline(tmp_path: Path) -> Offline:
    return Offline(tmp_path)


@pytest.mark.parametrize("given", [(), ("1",), ("4", "out"), ("12", "out"), ("", "out"), ("1", ""), ("1", "a", "b")])
def test_bad_arguments_of_the_script(offline: Offline, given: tuple[str, ...]) -> None:
    done = offline.run(*given)
    assert done.returncode == 2 and done.stderr == "usage: bash benchmarks/gpu_offline.sh 1|2|3 FOLDER\n"
    assert offline.calls() == [] and list(offline.elsewhere.iterdir()) == []


def test_the_script_runs_a_part_from_any_folder_and_gives_its_exit_code(offline: Offline) -> None:
    done = offline.run("2", "re sults", PYTHONPATH="mine")
    assert done.returncode == 7 and "no wheel lies in .whl" in done.stdout
    ((kind, *call),) = offline.calls()
    started = int(call[call.index("--started") + 1])
    assert kind == "check" and call[:5] == ["-u", "-m", "benchmarks.gpu_check", "--part", "2"]
    assert call[call.index("--results") + 1] == str(offline.elsewhere / "re sults")
    assert started >= offline.root.stat().st_mtime - 60 and call[-3:] == [str(offline.root), "mine", "1"]


def test_the_wheel_is_installed_out_of_the_way(offline: Offline) -> None:
    add_wheel(offline.root)
    offline.run("1", "out")
    pip, check = offline.calls()
    target = pip[pip.index("--target") + 1]
    assert pip[-1] == f".whl/{WHEEL}" and {"--no-index", "--no-deps"} <= set(pip)
    assert check[-2] == target and not Path(target).exists()
    assert {path.name for path in offline.root.iterdir()} == {"benchmarks", ".whl"}


def test_a_wheel_that_cannot_be_installed_is_said(offline: Offline) -> None:
    add_wheel(offline.root)
    done = offline.run("1", "out", PIP_FAILS="1")
    assert done.returncode == 7 and f"pip could not install .whl/{WHEEL}" in done.stdout
    assert offline.calls()[-1][-2] == ""


STOPPED = """#!{python}
import pathlib, signal, sys, time
def stop(*_):
    print("summary", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, stop)
print("began", flush=True)
time.sleep(50)
"""


def test_a_check_that_is_stopped_ends_by_itself(offline: Offline) -> None:
    offline.python.write_text(STOPPED.format(python=sys.executable))
    command = ["bash", str(offline.root / "benchmarks" / "gpu_offline.sh"), "1", "out"]
    environment = {**os.environ, "PATH": offline.path, "PYTHON": "python3"}
    with subprocess.Popen(
        command, cwd=offline.elsewhere, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert next(line for line in process.stdout if "began" in line)
        process.terminate()
        assert process.stdout.read() == "summary\n" and process.wait(20) == 5


def test_another_interpreter(offline: Offline) -> None:
    other = offline.elsewhere / "other"
    shutil.copy(offline.python, other)
    offline.python.unlink()
    assert offline.run("3", "out", PYTHON="./other").returncode == 7
    assert offline.run("3", "out", PYTHON=str(other)).returncode == 7


# ------------------------------------------------------------------------------------------------------------ dry run


def test_no_test_needs_pycocotools_to_be_collected() -> None:
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "testing").rglob("*.py")]
    wrong = [str(path) for path in files if any(map(imports_pycocotools, path.read_text().splitlines()))]
    assert len(files) > 300 and wrong == []


def imports_pycocotools(line: str) -> bool:
    return line.startswith(("import pycocotools", "from pycocotools"))


def dry_machine(folder: Path, **files: str) -> gpu_dry_run.Machine:
    """With files in its copy, and the Python of the tests."""
    made = gpu_dry_run.Machine(folder, Path(sys.executable))
    for name, text in files.items():
        path = made.copy / "benchmarks" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made


def test_programs_of_the_dry_run_find_neither_git_nor_a_network(tmp_path: Path) -> None:
    calls = "import shutil, socket; print(shutil.which('git'), shutil.which('bash') is not None)\n"
    made = dry_machine(tmp_path, gpu_a="", away=calls + "socket.create_connection(('192.0.2.1', 80), timeout=5)")
    line, output = made.run("away", sys.executable, "-m", "benchmarks.away")
    assert output.startswith("None True\n") and "the dry run has no network" in line.problem
    line, output = made.run("sleep", "sleep", "30", seconds=0.2)
    assert line.problem == "took more than 0.2 s"


def test_modules_and_tests_that_cannot_be_loaded_fail_the_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(gpu_dry_run, "_PRETEND", "import builtins\nbuiltins.pretended = True\n")  # torch takes seconds
    listed = 'MARK = "gpu"\nTESTS = ["test_good.py", "test_bad.py", "test_none.py"]\n'
    made = dry_machine(tmp_path, gpu_tests=listed, gpu_bad="import no_such_module")
    (line,) = gpu_dry_run.check_imports(made)
    assert line.detail == "1 of 2 modules" and "cannot import gpu_bad: ModuleNotFoundError" in line.problem
    (made.copy / "benchmarks" / "gpu_bad.py").unlink()
    assert [(line.detail, line.problem) for line in gpu_dry_run.check_imports(made)] == [("1 of 1 modules", "")]
    tests = {
        "good": "import pytest, builtins\nassert builtins.pretended\n@pytest.mark.gpu\ndef test_a(): pass\n",
        "bad": "import no_such_module\n",
        "none": "def test_of_the_cpu(): pass\n",
    }
    for name, text in tests.items():
        (made.copy / f"test_{name}.py").write_text(text)
    (made.copy / "pytest.ini").write_text("[pytest]\nmarkers = gpu\n")
    good, bad, none = gpu_dry_run.check_collection(made)
    assert (good.problem, good.detail) == ("", "1 tests") and "no_such_module" in bad.problem and none.problem
    (made.copy / "pytest.ini").write_text("[pytest]\nmarkers = gpu\naddopts = -q\n")  # which counts no tests
    assert next(gpu_dry_run.check_collection(made)).problem == "no test was collected"


REHEARSAL = """
import json, os, pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--results") + 1])
folder.mkdir()
for name, text in json.loads(os.environ["RECORDS"]).items():
    (folder / name).write_text(text)
print("the end of the output")
sys.exit(int(os.environ["CODE"]))
"""


def rehearsed(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int, *records: Any) -> list[gpu_dry_run.Line]:
    """The lines about a rehearsal that leaves records, each a dict of sections."""
    known = {"commit": "abc", "changed_files": 2}
    texts = {f"gpu_{n}.json": json.dumps({**known, "sections": each}) for n, each in enumerate(records)}
    monkeypatch.setenv("RECORDS", json.dumps(texts))
    monkeypatch.setenv("CODE", str(code))
    folder.mkdir()
    made = dry_machine(folder, gpu_check=REHEARSAL)
    made.results.mkdir()
    return list(gpu_dry_run.check_sections(made))


def test_sections_of_the_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[dict[str, Any]] = [
        {"name": "a", "outcome": "pass", "detail": ""}, {"name": "b", "outcome": "unavailable", "detail": "no GPU\nat"},
    ]  # fmt: skip
    failed = {"name": "c", "outcome": "fail", "detail": "1 != 2"}
    rows = {"x": (checks, True), "y": ([failed], True), "z": ([], True), "u": (checks, False)}
    sections = {name: {"seconds": 1, "checks": made, "ended": ended} for name, (made, ended) in rows.items()}
    x, y, z, u, record = rehearsed(tmp_path / "red", monkeypatch, 1, sections)
    assert x.problem == "" and x.detail == "1 of 2 checks passed\n    unavailable: b: no GPU"
    assert y.problem == "c: 1 != 2" and z.problem == u.problem == "the section has no check or did not end"
    assert record.detail == "commit abc, changed files: 2" and record.problem == "the end of the output"
    assert [line.problem for line in rehearsed(tmp_path / "good", monkeypatch, 3, {"x": sections["x"]})] == ["", ""]
    (line,) = rehearsed(tmp_path / "none", monkeypatch, 0)
    assert "one record must be in" in line.problem and line.problem.endswith("but there are 0")


def test_the_dry_run_copies_what_git_would_take_and_what_was_packed(checkout: Path, tmp_path: Path) -> None:
    gpu_build.build((9, 0), checkout)
    commit(checkout)
    (checkout / ".gitignore").write_text("*.so\n.whl/\nbuild/\n_build.json\nignored\n")
    (checkout / "csrc" / "a.cu").write_text("2")
    (checkout / "ignored").write_text("")
    (checkout / "link").symlink_to("csrc")
    assert gpu_dry_run.copy_checkout(checkout, tmp_path / "copy") == 9
    copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if not path.is_dir()}
    assert copied == {
        "setup.py", "csrc/a.cu", ".gitignore", "valor_gpu/libvalor_cpu.so", "valor_gpu/libvalor_cuda.so",
        "valor_gpu/_build.json", "build/gpu_check.json", f".whl/{WHEEL}",
    }  # fmt: skip
    assert (tmp_path / "copy" / "link").readlink() == Path("csrc")
    assert (tmp_path / "copy" / "csrc" / "a.cu").read_text() == "2"


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Any] = []

    def run(command: Any, check: bool) -> None:
        commands.append(command)
        (tmp_path / "venv").mkdir(exist_ok=True)

    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(2):
        made = gpu_dry_run.make_environment("python3.12", tmp_path / "venv")
        assert made == tmp_path / "venv" / "bin" / "python" and len(commands) == 2
    assert commands[0][:3] == ["python3.12", "-m", "venv"] and "pycocotools" not in commands[1]
    monkeypatch.setattr(gpu_dry_run, "PACKAGES", ("other",))
    gpu_dry_run.make_environment("python3.12", tmp_path / "venv")
    assert len(commands) == 4


def test_a_python_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHON312", "/no/python3.12")
    assert gpu_dry_run.main(["--environment", str(tmp_path)]) == 1
    assert "PYTHON312=/path/to/python3.12 names a Python 3.12" in capsys.readouterr().out
