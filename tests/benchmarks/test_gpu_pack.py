"""What goes to a GPU machine without a network, the command that runs there, and the dry run here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_build, gpu_pack, gpu_record, machine
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
    (root / gpu_pack.WHEELS).mkdir(exist_ok=True)
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
    assert set(stamp) == {"sources", "architecture", "libraries", "commit", "changed_files", "files"}
    assert stamp["architecture"] == "90" and set(stamp["libraries"]) == set(map(str, gpu_build.LIBRARIES))
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


def test_a_repository_at_another_commit_tells_nothing_of_the_one_that_is_named(checkout: Path) -> None:
    """As where a machine that is lent puts later files over the checkout of an earlier commit."""
    earlier = commit(checkout)
    gpu_pack.main(checkout)
    assert machine.checkout(checkout, earlier) == {"commit": earlier, "changed_files": 0}
    (checkout / "csrc" / "a.cu").write_text("2")
    assert machine.checkout(checkout, "f" * 40) == {"commit": "f" * 40, "changed_files": None}
    assert machine.checkout(checkout, earlier) == {"commit": earlier, "changed_files": 1}
    git(checkout, "commit", "-qam", "second")
    later = git(checkout, "rev-parse", "HEAD").strip()
    gpu_pack.main(checkout)
    git(checkout, "update-ref", "HEAD", earlier)
    assert machine.checkout(checkout, later) == {"commit": later, "changed_files": 0}
    assert machine.checkout(checkout)["commit"] == earlier


@pytest.mark.parametrize("changed", [False, True])
def test_a_folder_in_the_place_of_the_link_is_no_change_if_it_is_equal(checkout: Path, changed: bool) -> None:
    """As ``cp -rL`` leaves it."""
    kernels, link = checkout / "csrc" / "triton", checkout / gpu_record.LINK
    kernels.mkdir()
    (kernels / "a.py").write_text("1")
    link.parent.mkdir()
    link.symlink_to("../../csrc/triton")
    head = commit(checkout)
    gpu_pack.main(checkout)
    copy = checkout.with_name("copy")
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    assert not (copy / gpu_record.LINK).is_symlink()
    if changed:
        (copy / gpu_record.LINK / "a.py").write_text("2")
    assert machine.checkout(copy)["commit"] == ("unknown" if changed else head)


def test_the_tar_file_is_all_that_the_machine_needs(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / ".gitignore").write_text("*.so\n.whl/\nbuild/\n_build.json\nignored\n")
    (checkout / "ignored").write_text("")
    (checkout / "tests" / "test_new.py").write_text("")  # it counts in the digest of the sources
    (checkout / "link").symlink_to("csrc")
    head = commit(checkout)
    assert gpu_pack.main(checkout) == 0
    assert f"  2.4 MB  {gpu_pack.TAR}: all of these and the files of git" in capsys.readouterr().out
    subprocess.run(["tar", "xf", checkout / gpu_pack.TAR], cwd=checkout.parent, check=True)
    copy = checkout.parent / "gpu_pack"
    assert machine.checkout(copy) == {"commit": head, "changed_files": 0}
    assert gpu_build.build((9, 0), copy) == "libraries for sm_90 are there"
    assert (copy / "link").readlink() == Path("csrc") and (copy / gpu_pack.WHEELS / WHEEL).exists()
    assert not (copy / "ignored").exists() and not (copy / gpu_pack.TAR).exists()


@pytest.mark.parametrize("wrong", ["SystemExit('nvcc: fatal')", ""])
def test_no_tar_file_of_an_earlier_state_is_left(checkout: Path, wrong: str) -> None:
    commit(checkout)
    gpu_pack.main(checkout)
    assert (checkout / gpu_pack.TAR).exists()
    if wrong:
        (checkout / "setup.py").write_text(f"raise {wrong}")
    else:
        (checkout / gpu_pack.WHEELS / "other.whl").write_bytes(b"x" * 38_000_000)
    assert gpu_pack.main(checkout) == 1 and not (checkout / gpu_pack.TAR).exists()


def test_without_git_no_tar_file_is_written(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(checkout.parent))
    assert gpu_pack.main(checkout) == 0 and not (checkout / gpu_pack.TAR).exists()
    assert "was not written, since git does not know this checkout: copy the whole folder" in capsys.readouterr().out


OLDER = WHEEL.replace("2.0.11", "2.0.9")
LATER_PYTHON = WHEEL.replace("2.0.11-cp312-abi3", "2.0.12-cp313-cp313")


@pytest.mark.parametrize(
    ("there", "kept"),
    [
        ([OLDER, WHEEL], WHEEL),
        ([OLDER, WHEEL.replace("cp312-abi3", "cp39-abi3")], WHEEL.replace("cp312-abi3", "cp39-abi3")),
        ([WHEEL, LATER_PYTHON], WHEEL),
        ([WHEEL, WHEEL.replace("2.0.11-cp312", "2.0.12-cp313")], WHEEL),
        ([WHEEL, WHEEL.replace("2.0.11", "2.0.12").replace("manylinux", "musllinux")], WHEEL),
        ([OLDER, WHEEL.replace("cp312-abi3", "cp312-cp312")], WHEEL.replace("cp312-abi3", "cp312-cp312")),
        ([OLDER, WHEEL.replace("2.0.11", "2.0.11.post1")], WHEEL.replace("2.0.11", "2.0.11.post1")),
    ],
)
def test_the_newest_wheel_that_fits_is_kept(checkout: Path, there: list[str], kept: str) -> None:
    (checkout / gpu_pack.WHEELS / WHEEL).unlink()
    for name in [*there, "other-1.whl"]:
        (checkout / gpu_pack.WHEELS / name).write_text("")
    (removed,) = set(there) - {kept}
    assert gpu_pack.fetch_wheel(checkout) == f".whl/{kept} (removed: {removed}) is there"
    assert {path.name for path in (checkout / gpu_pack.WHEELS).iterdir()} == {kept, "other-1.whl"}


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


def test_a_wheel_that_does_not_fit_is_no_wheel(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / gpu_pack.WHEELS / WHEEL).rename(checkout / gpu_pack.WHEELS / LATER_PYTHON)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert "the wheel of pycocotools is missing" in gpu_pack.fetch_wheel(checkout)
    assert (checkout / gpu_pack.WHEELS / LATER_PYTHON).exists()


@pytest.mark.parametrize("target", ["gpu-pack", "gpu-dry-run"])
def test_without_an_environment_make_names_the_target_that_makes_it(tmp_path: Path, target: str) -> None:
    command = ["make", "-s", "-C", str(ROOT), target, f"VENV={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == f"{tmp_path}/bin/python must be there for {target} but is not: run make setup first\n"


def test_libraries_that_cannot_be_built_are_not_packed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "setup.py").write_text("raise SystemExit('nvcc: fatal')")
    assert gpu_pack.main(checkout) == 1
    assert "nvcc: fatal\nnothing was packed" in capsys.readouterr().out and not (checkout / gpu_build.STAMP).exists()


@pytest.mark.slow
def test_a_build_that_is_given_up_leaves_no_compiler(checkout: Path, tmp_path: Path) -> None:
    """It would go on, and write to a file after a while; as those of ninja it has a process group of its own."""
    child = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(tmp_path / 'late')!r}).touch()"
    (checkout / "setup.py").write_text(
        f"import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}], preexec_fn=os.setpgrp)"
    )
    with pytest.raises(gpu_build.BuildError, match=r"setup.py build_ext took more than 0\.5 s"):
        gpu_build.build((9, 0), checkout, 0.5)
    assert subprocess.run(["sleep", "2"], check=True).returncode == 0 and not (tmp_path / "late").exists()


# ---------------------------------------------------------------------------------------------------- gpu_offline.sh

FAKE = """#!{python}
import json, os, sys
if "-c" in sys.argv:
    sys.exit(0)
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


USAGE = "usage: [PYTHON=python3] bash benchmarks/gpu_offline.sh 1|2|3 FOLDER [OPTION ...]\n"


@pytest.mark.parametrize("given", [(), ("1",), ("4", "out"), ("12", "out"), ("", "out"), ("1", ""), ("1", "--quick")])
def test_bad_arguments_of_the_script(offline: Offline, given: tuple[str, ...]) -> None:
    done = offline.run(*given)
    assert done.returncode == 2 and done.stderr == USAGE
    assert offline.calls() == [] and list(offline.elsewhere.iterdir()) == []


def test_the_script_runs_a_part_from_any_folder_and_gives_its_exit_code(offline: Offline) -> None:
    done = offline.run("2", "re sults", PYTHONPATH="mine")
    assert done.returncode == 7 and "no wheel lies in .whl" in done.stdout
    ((kind, *call),) = offline.calls()
    started = int(call[call.index("--started") + 1])
    assert kind == "check" and call[:5] == ["-u", "-m", "benchmarks.gpu_check", "--part", "2"]
    assert call[call.index("--results") + 1] == str(offline.elsewhere / "re sults")
    assert started >= offline.root.stat().st_mtime - 60 and call[-3:] == [str(offline.root), "mine", "1"]


def test_options_are_passed_on_to_the_check(offline: Offline) -> None:
    offline.run("1", "out", "--device", "cpu", "--commit", "a b")
    ((_, *call),) = offline.calls()
    assert call[call.index("--results") + 2 : -3] == ["--device", "cpu", "--commit", "a b"]


@pytest.mark.parametrize(
    ("text", "came"), [(f'exec {sys.executable} -S "$@"', "has none"), ("exit 1", "has none"), (None, "cannot be run")]
)
def test_an_interpreter_without_torch_is_named(offline: Offline, text: str | None, came: str) -> None:
    other = offline.elsewhere / "other"
    if text:
        other.write_text(f"#!/bin/sh\n{text}\n")
        other.chmod(0o755)
    done = offline.run("1", "the out", PYTHON=str(other))
    assert done.returncode == 2 and done.stdout == "" and not (offline.elsewhere / "the out").exists()
    assert done.stderr.startswith(f"PYTHON must name an interpreter with torch but {other} {came}: PYTHON=/path/to/")
    assert done.stderr.endswith("gpu_offline.sh '1' 'the out'\n") and done.stderr.count("\n") == 1


def test_the_wheel_is_installed_out_of_the_way(offline: Offline) -> None:
    add_wheel(offline.root)
    offline.run("1", "out")
    pip, check = offline.calls()
    target = pip[pip.index("--target") + 1]
    assert pip[-1] == "pycocotools" and {"--no-index", "--no-deps"} <= set(pip)
    assert check[-2] == "" and not Path(target).exists()
    assert {path.name for path in offline.root.iterdir()} == {"benchmarks", ".whl"}


def test_a_wheel_that_cannot_be_installed_is_said(offline: Offline) -> None:
    add_wheel(offline.root)
    done = offline.run("1", "out", PIP_FAILS="1")
    assert done.returncode == 7 and "pip could not install pycocotools from .whl" in done.stdout
    assert offline.calls()[-1][-2] == ""


INSTALLED = """#!/bin/sh
case "$*" in
*benchmarks.gpu_check*) exec {python} -c "{program}";;
"-c "*) exit 0;;
*) exec {python} "$@";;
esac
"""
FOUND = (
    "import importlib.metadata, os; path = [os.environ['PYTHONPATH']]; "
    "print(sorted(f'{found.name} {found.version}' for found in importlib.metadata.distributions(path=path)))"
)


@pytest.mark.slow
def test_of_several_wheels_those_that_fit_are_installed(offline: Offline) -> None:
    offline.python.write_text(INSTALLED.format(python=sys.executable, program=FOUND))
    for name, version in (("pycocotools", "2.0.9"), ("pycocotools", "2.0.11"), ("broken", "1.0"), ("other", "1.0")):
        write_wheel(offline.root / gpu_pack.WHEELS, name, version, "py3-none-any")
    write_wheel(offline.root / gpu_pack.WHEELS, "pycocotools", "2.0.12", "cp27-cp27m-win32")
    (offline.root / gpu_pack.WHEELS / "broken-1.0-py3-none-any.whl").write_text("no archive")
    done = offline.run("1", "out", PIP_CONFIG_FILE=os.devnull)
    assert done.returncode == 0 and "pip could not install broken from .whl" in done.stdout
    assert done.stdout.splitlines()[-1] == "['other 1.0', 'pycocotools 2.0.11']"


def write_wheel(folder: Path, name: str, version: str, tags: str) -> None:
    """Writes a wheel without a module."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-{tags}.whl", "w") as wheel:
        about = f"{name}-{version}.dist-info"
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tags}\n")
        wheel.writestr(f"{about}/RECORD", "")


STOPPED = """#!{python}
import pathlib, signal, sys, time
if "-c" in sys.argv:
    sys.exit(0)
def stop(*_):
    print("summary", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, stop)
print("began", flush=True)
time.sleep(50)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_check_that_is_stopped_ends_by_itself(offline: Offline, number: signal.Signals) -> None:
    offline.python.write_text(STOPPED.format(python=sys.executable))
    command = ["bash", str(offline.root / "benchmarks" / "gpu_offline.sh"), "1", "out"]
    environment = {**os.environ, "PATH": offline.path, "PYTHON": "python3"}
    heard = partial(signal.signal, number, signal.SIG_DFL)  # under nohup the tests ignore SIGHUP, and so would bash
    with subprocess.Popen(
        command, cwd=offline.elsewhere, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=heard
    ) as process:
        assert process.stdout is not None
        assert next(line for line in process.stdout if "began" in line)
        process.send_signal(number)
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


@pytest.mark.slow
def test_modules_and_tests_that_cannot_be_loaded_fail_the_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(gpu_dry_run, "_PRETEND", "import builtins\nbuiltins.pretended = True\n")  # torch takes seconds
    listed = f'MARK = "gpu"\nTESTS = {[f"test_{name}.py" for name in ("good", "bad", "none", "skip", "module")]}\n'
    made = dry_machine(tmp_path, gpu_tests=listed, gpu_bad="import no_such_module")
    (line,) = gpu_dry_run.check_imports(made)
    assert line.detail == "1 of 2 modules" and "cannot import gpu_bad: ModuleNotFoundError" in line.problem
    (made.copy / "benchmarks" / "gpu_bad.py").unlink()
    assert [(line.detail, line.problem) for line in gpu_dry_run.check_imports(made)] == [("1 of 1 modules", "")]
    tests = {
        "good": "import pytest, builtins\nassert builtins.pretended\n@pytest.mark.gpu\ndef test_a(): pass\n",
        "bad": "import no_such_module\n",
        "none": "def test_of_the_cpu(): pass\n",
        "skip": "import pytest\npytestmark = pytest.mark.gpu\n"
        "@pytest.mark.skipif(True, reason='no CUDA')\ndef test_a(): pass\ndef test_b(): pass\n",
        "module": "import pytest\npytest.skip('no Triton', allow_module_level=True)\n",
    }
    for name, text in tests.items():
        (made.copy / f"test_{name}.py").write_text(text)
    (made.copy / "pytest.ini").write_text("[pytest]\nmarkers = gpu\n")
    good, bad, none, skip, module = gpu_dry_run.check_collection(made)
    assert (good.problem, good.detail) == ("", "1 tests") and "no_such_module" in bad.problem and none.problem
    assert (skip.problem, skip.detail) == ("skips itself: test_skip.py::test_a: no CUDA", "2 tests")
    assert "skips itself: test_module.py: Skipped: no Triton" in module.problem
    (made.copy / "pytest.ini").write_text("[pytest]\nmarkers = gpu\naddopts = -q\n")  # which counts no tests
    assert next(gpu_dry_run.check_collection(made)).problem == "no test was collected"


REHEARSAL = """
import json, os, pathlib, sys
SECTIONS = json.loads(os.environ["SECTIONS"])
if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[sys.argv.index("--results") + 1])
    for name, text in json.loads(os.environ["RECORDS"]).items():
        (folder / name).write_text(text)
    print(*sys.argv[1:])
    sys.exit(int(os.environ["CODE"]))
"""


class Rehearsal:
    """A dry run whose check leaves records and ends with a code."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder, self._patch, self._runs = folder, patch, 0

    def machine(self, sections: Sequence[str], code: int, *records: Any) -> gpu_dry_run.Machine:
        known = {"commit": "abc", "changed_files": 2}
        texts = {f"gpu_{n}.json": json.dumps({**known, "sections": each}) for n, each in enumerate(records)}
        for name, value in {"SECTIONS": sections, "RECORDS": texts, "CODE": code}.items():
            self._patch.setenv(name, json.dumps(value))
        self._runs += 1
        folder = self._folder / str(self._runs)
        folder.mkdir()
        made = dry_machine(folder, gpu_check=REHEARSAL)
        shutil.copy(ROOT / "benchmarks" / "gpu_offline.sh", made.copy / "benchmarks")
        made.results.mkdir()
        return made

    def sections(self, *given: Any) -> list[gpu_dry_run.Line]:
        return list(gpu_dry_run.check_sections(self.machine(*given)))


@pytest.fixture
def rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    return Rehearsal(tmp_path, monkeypatch)


def section(*checks: tuple[str, str], ended: bool = True) -> dict[str, Any]:
    rows = [{"name": name, "outcome": outcome, "detail": f"{name} said\nmore"} for name, outcome in checks]
    return {"seconds": 1, "checks": rows, "ended": ended}


def test_sections_of_the_dry_run(rehearsal: Rehearsal) -> None:
    good = section(("a", "pass"), ("b", "unavailable"))
    sections = {
        "x": good, "y": section(("c", "fail")), "z": section(), "u": section(("a", "pass"), ended=False),
        "v": section(("a", "pass"), ("d", "skipped")),
    }  # fmt: skip
    *parts, x, y, z, u, v, w, record = rehearsal.sections([*"xyzuvw"], 1, sections)
    assert x.problem == "" and x.detail == "1 of 2 checks passed\n    unavailable: b: b said"
    assert y.problem == "c: c said\nmore" and v.problem == "d: d said\nmore"
    assert z.problem == u.problem == w.problem == "the section has no check or did not end"
    assert record.detail == "commit abc, changed files: 2" and record.problem == ""
    assert [line.detail for line in parts] == ["exit code 1"] * 3
    for part, line in zip("123", parts, strict=True):
        assert f"--part {part} --started" in line.problem and "--device cpu --seconds 1200" in line.problem
    assert [line.problem for line in rehearsal.sections(["x"], 3, {"x": good})] == [""] * 5
    *_, line = rehearsal.sections(["x"], 0)
    assert "one record must be in" in line.problem and line.problem.endswith("but there are 0")


@pytest.mark.parametrize(("code", "device"), [(3, "no CUDA device"), (0, "no CUDA device"), (3, "a card")])
def test_the_command_of_the_dry_run_must_find_no_device(rehearsal: Rehearsal, code: int, device: str) -> None:
    made = rehearsal.machine([], code)
    (made.copy / "benchmarks" / "gpu_check.py").write_text(f"import sys\nprint('there is {device}')\nsys.exit({code})")
    lines = list(gpu_dry_run.check_command(made))
    good = code == 3 and device != "a card"
    assert [line.problem.endswith(f"exit code {code} came") for line in lines] == [not good] * 3
    assert [not line.problem for line in lines] == [good] * 3 and lines[0].detail.endswith(f" | there is {device}")


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

    def run(command: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        if "--version" not in command:
            commands.append(command)
        (tmp_path / "venv").mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "Python 3.12.1\n")

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
    assert "PYTHON312=/path/to/python3.12 make gpu-dry-run" in capsys.readouterr().out


@pytest.mark.parametrize("came", ["Python 3.11.9", "Python 3.120.1", ""])
def test_a_python_of_another_version_is_rejected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, came: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {came}\n")
    python.chmod(0o755)
    monkeypatch.setenv("PYTHON312", str(python))
    assert gpu_dry_run.main(["--environment", str(tmp_path / "made")]) == 1
    assert f"PYTHON312 must name a Python 3.12 but {python} is {came}" in capsys.readouterr().out
    assert not (tmp_path / "made").exists()
