"""Builds with compilers that are missing or too old: the package works all the same, and says why it is slow."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT, copy_checkout, outcome, run
from tools import native_build
from valor_gpu import native
from valor_gpu.report import doctor

pytest.importorskip("setuptools", reason="setuptools is not installed")

NO_COMPILER = {"CXX": "/nonexistent/c++", "VALOR_GPU_CUDA": "auto", "CUDACXX": "", "CUDA_HOME": "/nowhere", "PATH": ""}

# A compiler that writes its arguments to LOG, the headers that a source includes where -MF says, and where -o says what
# it was given. A source may hold an error, and objects that are linked a function that two of them define.
FAKE = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
  *--version*) echo "Cuda compilation tools, release {version}"; exit ;;
  *--list-gpu-arch*) {known}; exit ;;
  *{refused}*) echo "nvcc fatal   : Unsupported gpu architecture '{refused}'" >&2; exit 1 ;;
esac
source= objects=
while [ $# -gt 0 ]; do
  case "$1" in
    -o) output=$2 ;;
    -MF) depfile=$2 ;;
    -c) source=$2 ;;
    *.o) objects="$objects $1" ;;
  esac
  shift
done
if [ -z "$source" ]; then
  if [ "$(cat $objects | grep -c "^int twice")" -gt 1 ]; then
    echo "ld: b.o: in function a: multiple definition of valor_twice; a.o: first defined here" >&2
    echo "collect2: error: ld returned 1 exit status" >&2
    exit 1
  fi
  cat $objects > "$output"
elif grep -q "^#error" "$source"; then
  echo "note: the first line" >&2
  echo "$source:1:2: error: wrong" >&2
  exit 1
else
  echo "$output: $source $(sed -n 's/^#include "..\\(.*\\)"/csrc\\1/p' "$source" | tr '\n' ' ')" > "$depfile"
  cat "$source" > "$output"
fi
"""

# A driver of CUDA that has COUNT devices.
DRIVER = "extern int cuInit(unsigned f) { return 0; } extern int cuDeviceGetCount(int* n) { *n = COUNT; return 0; }"

# Reads COCO results, compares texts and boxes, twice; prints the warnings and the report of doctor.
PROGRAM = """
import json, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
    from valor_gpu import text
    from valor_gpu.ops import box_iou
    quiet = len(caught)
    for _ in range(2):
        box = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
        assert box_iou(box, box).item() == 1.0
        assert text.token_f1(["a cat"], ["a cat"]) is not None
        assert text.rouge_scores(["a cat"], [["a cat"]])["rouge1"].fmeasure[0] == 1.0
from valor_gpu.report import doctor
facts = doctor.survey()
print(json.dumps({"quiet": quiet, "warnings": [str(w.message) for w in caught], "text": doctor.doctor_text(facts),
                  "advice": facts["advice"], "libraries": facts["libraries"]}))
"""


SETUP = (sys.executable, "setup.py", "-q", "build_ext", "--inplace")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("build") / "checkout")


def clear(checkout: Path) -> None:
    """Remove what an earlier test has built."""
    for path in [*(checkout / "valor_gpu").glob("lib*.so"), checkout / "valor_gpu/_build.json"]:
        path.unlink(missing_ok=True)


def build(checkout: Path, **variables: str) -> dict[str, Any]:
    """The record of a build in place that must succeed."""
    run(*SETUP, cwd=checkout, **variables)
    record: dict[str, Any] = json.loads((checkout / "valor_gpu/_build.json").read_text())
    return record


def fake(
    folder: Path, refused: str = "nothing", known: str = "exit 1", version: str = "12.4, V12.4.131"
) -> tuple[Path, Path]:
    """A script that plays a compiler, and the file of its arguments."""
    script, log = folder / "compiler", folder / "log"
    script.write_text(FAKE.format(log=log, refused=refused, known=known, version=version))
    script.chmod(0o755)
    return script, log


def test_without_compilers_the_package_works_and_says_why_once(checkout: Path, tmp_path: Path) -> None:
    clear(checkout)
    record = build(checkout, **NO_COMPILER)
    why = "/nonexistent/c++ cannot be run: No such file or directory"
    assert record == {
        "valor_cpu": {"built": False, "reason": why},
        "valor_cuda": {"built": False, "reason": "no nvcc was found in CUDACXX, CUDA_HOME/bin or PATH"},
    }
    assert not list((checkout / "valor_gpu").glob("*.so"))
    found = json.loads(run(sys.executable, "-c", PROGRAM, cwd=tmp_path, PYTHONPATH=str(checkout)))
    [warning] = [text for text in found["warnings"] if "libvalor" in text]
    assert found["quiet"] == 0 and warning.startswith(f"libvalor_cpu.so was not built: {why}; its plain Python")
    assert (
        f"run in {checkout}: VALOR_GPU_CPU=1 VALOR_GPU_CUDA=0 {sys.executable} setup.py -q build_ext --inplace"
        in warning
    )
    assert f"libvalor_cpu.so was not built: {why}\n" in found["text"]
    assert "libvalor_cuda.so was not built: no nvcc was found" in found["text"]
    assert f"{sys.executable} setup.py -q build_ext --inplace" in found["advice"][0]
    assert found["libraries"]["valor_cpu"]["build"] == record["valor_cpu"]


def test_a_setuptools_that_makes_no_wheels_builds_in_place(checkout: Path) -> None:
    """Before 70.1 it had no ``bdist_wheel``."""
    program = (
        "import runpy, sys; sys.modules['setuptools.command.bdist_wheel'] = None;"
        "sys.argv = ['setup.py', '-q', 'build_ext', '--inplace']; runpy.run_path('setup.py', run_name='__main__')"
    )
    clear(checkout)
    run(sys.executable, "-c", program, cwd=checkout, VALOR_GPU_CPU="0")
    assert "VALOR_GPU_CPU was 0" in (checkout / "valor_gpu/_build.json").read_text()


@pytest.mark.slow
def test_without_libraries_the_wheel_fits_every_machine(checkout: Path, tmp_path: Path) -> None:
    run(sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", tmp_path, cwd=checkout, **NO_COMPILER)
    [wheel] = tmp_path.glob("*.whl")
    assert re.fullmatch(r"valor_gpu-[\d.]+-py3-none-any\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        about = packed.read(next(name for name in names if name.endswith("dist-info/WHEEL"))).decode()
    assert {"valor_gpu/_build.json", "valor_gpu/__init__.py", "valor_gpu/ops/triton/pixel_counts.py"} <= set(names)
    assert "Root-Is-Purelib: true\n" in about and "Tag: py3-none-any\n" in about


def test_architectures_are_those_that_nvcc_knows(checkout: Path, tmp_path: Path) -> None:
    script, log = fake(tmp_path, "compute_100", "printf 'compute_%s\\n' 50 75 80 86 87 89 90")
    clear(checkout)
    record = build(checkout, VALOR_GPU_CPU="0", VALOR_GPU_CUDA="1", CUDACXX=str(script))
    archs = ["75", "80", "86", "89", "90"]
    assert record["valor_cuda"] == {
        "built": True, "compiler": str(script), "version": "Cuda compilation tools, release 12.4, V12.4.131",
        "architectures": archs,
    }  # fmt: skip
    commands = [line for line in log.read_text().splitlines() if " -o " in line]
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in archs] + ["-gencode=arch=compute_90,code=compute_90"]
    assert all(re.findall(r"-gencode=\S+", command) == codes for command in commands)
    assert all(" --threads 0 -cudart static " in command for command in commands)
    assert len(commands) == len(list((checkout / "csrc/cuda").glob("*.cu"))) + 1 and " -shared " in commands[-1]
    assert record["valor_cpu"] == {"built": False, "reason": "VALOR_GPU_CPU was 0"}


def test_an_nvcc_that_fails_makes_no_library(checkout: Path, tmp_path: Path) -> None:
    script, _ = fake(tmp_path, "compute_120")
    clear(checkout)
    done = outcome(*SETUP, cwd=checkout, VALOR_GPU_CPU="0", VALOR_GPU_CUDA="1", CUDACXX=str(script))
    record = json.loads((checkout / "valor_gpu/_build.json").read_text())
    reason = "compiler failed: nvcc fatal   : Unsupported gpu architecture 'compute_120'"
    log = record["valor_cuda"].pop("log")
    assert done.returncode == 1 and record["valor_cuda"] == {"built": False, "reason": reason}
    assert f"{reason}; all output: {log}" in done.stderr and reason.split(": ", 1)[1] in Path(log).read_text()
    assert not list(checkout.glob("valor_gpu/libvalor_cuda.so"))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"VALOR_GPU_CUDA": "1"}, "Unsupported gpu architecture 'compute_120'"),
        ({"VALOR_GPU_CPU": "1", "CXX": "/nonexistent/c++"}, "/nonexistent/c++ cannot be run"),
    ],
)
def test_a_library_that_is_required_is_an_error(
    checkout: Path, tmp_path: Path, variables: dict[str, str], message: str
) -> None:
    script, _ = fake(tmp_path, "compute_120")
    settings = {"VALOR_GPU_CPU": "0", "CUDACXX": str(script), **variables}
    done = outcome(*SETUP, cwd=checkout, **settings)
    assert done.returncode != 0 and message in done.stderr


def test_an_architecture_that_was_asked_for_must_be_known(checkout: Path, tmp_path: Path) -> None:
    script, _ = fake(tmp_path, "compute_120", "echo compute_90")
    settings = {"VALOR_GPU_CPU": "0", "VALOR_GPU_CUDA": "1", "CUDACXX": str(script), "VALOR_GPU_ARCHS": "90;130"}
    done = outcome(*SETUP, cwd=checkout, **settings)
    assert done.returncode == 1 and "VALOR_GPU_ARCHS has 130, of which" in done.stderr


@pytest.mark.parametrize("strict", ["0", "1"])
def test_warnings_are_errors_only_where_that_is_asked_for(checkout: Path, tmp_path: Path, strict: str) -> None:
    script, log = fake(tmp_path, "nothing")
    record = build(checkout, VALOR_GPU_CPU="1", CXX=str(script), VALOR_GPU_WERROR=strict)
    assert record["valor_cpu"]["built"] and record["valor_cpu"]["compiler"] == str(script)
    compiled = [line for line in log.read_text().splitlines() if " -c " in line]
    assert len(compiled) == len(list((checkout / "csrc/cpu").glob("*.cpp")))
    assert all((" -Werror " in line) == (strict == "1") for line in compiled)


# ------------------------------------------------------------------------------------------------- incremental builds

SOURCES = {
    "core/shared.h": "", "core/leaf.h": "",
    "cpu/a.cpp": '#include "../core/shared.h"\n', "cpu/abi.cpp": "\n",
    "cpu/b.cpp": '#include "../core/shared.h"\n#include "../core/leaf.h"\n',
    "cuda/a.cu": "\n", "cuda/abi.cu": "\n",
}  # fmt: skip
PARTS = (
    "setup.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "tools",
    "valor_gpu/_version.py",
    "valor_gpu/__init__.py",
)


class Small:
    """A checkout of few sources, whose compilers are scripts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in (*PARTS, "valor_gpu/_declarations.py"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, root / name)
        for name, text in SOURCES.items():
            self.write(name, text)
        self.script, self.log = fake(root)
        self.settings = {"CXX": str(self.script), "CUDACXX": str(self.script), "VALOR_GPU_CPU": "1"}
        self.library = root / "valor_gpu/libvalor_cpu.so"

    def write(self, name: str, text: str) -> None:
        path = self.root / "csrc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def outcome(self, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """What became of a build; the log of the compilers begins anew."""
        self.log.unlink(missing_ok=True)
        return outcome(*SETUP, *options, cwd=self.root, **{**self.settings, **variables})

    def made(self, *options: str, **variables: str) -> list[str]:
        """Names of the files that a build that succeeds makes, in order of their names."""
        done = self.outcome(*options, **variables)
        assert done.returncode == 0, done.stderr
        return sorted(Path(name).name for name in re.findall(r" -o (\S+)", self.log.read_text()))

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "valor_gpu/_build.json").read_text())
        return found


@pytest.fixture
def small(tmp_path: Path) -> Small:
    if native_build.find_ninja() is None:
        pytest.skip("ninja is not installed")
    return Small(tmp_path / "small")


def test_what_has_changed_is_compiled_and_linked_once(small: Small) -> None:
    assert small.made() == ["a.o", "abi.o", "b.o", "libvalor_cpu.so"]
    assert small.made() == []
    small.write("cpu/b.cpp", SOURCES["cpu/b.cpp"] + "int b;\n")
    assert small.made() == ["b.o", "libvalor_cpu.so"] and "int b;" in small.library.read_text()
    small.write("cpu/c.cpp", "int c;\n")
    assert small.made() == ["c.o", "libvalor_cpu.so"] and "int c;" in small.library.read_text()
    (small.root / "csrc/cpu/c.cpp").unlink()
    assert small.made() == ["libvalor_cpu.so"] and "int c;" not in small.library.read_text()


def test_a_header_compiles_its_users(small: Small) -> None:
    small.made()
    small.write("core/leaf.h", "int leaf;\n")
    assert small.made() == ["b.o", "libvalor_cpu.so"]
    small.write("core/shared.h", "int shared;\n")
    assert small.made() == ["a.o", "b.o", "libvalor_cpu.so"]


def test_cuda_sources_are_compiled_one_by_one(small: Small) -> None:
    cuda = {"VALOR_GPU_CPU": "0", "VALOR_GPU_CUDA": "1", "VALOR_GPU_ARCHS": "90"}
    assert small.made(**cuda) == ["a.o", "abi.o", "libvalor_cuda.so"]
    small.write("cuda/a.cu", "int a;\n")
    assert small.made(**cuda) == ["a.o", "libvalor_cuda.so"]
    assert small.made(**cuda) == []


@pytest.mark.slow
def test_other_flags_compile_all_and_are_kept_apart(small: Small) -> None:
    cuda = {"VALOR_GPU_CPU": "0", "VALOR_GPU_CUDA": "1"}
    made = ["a.o", "abi.o", "libvalor_cuda.so"]
    assert small.made(**cuda, VALOR_GPU_ARCHS="90") == made
    assert small.made(**cuda, VALOR_GPU_ARCHS="80;90") == made
    assert small.made(**cuda, VALOR_GPU_ARCHS="90") == []
    assert small.record()["valor_cuda"]["architectures"] == ["90"]
    flags = small.root / "tools/native_toolchain.py"
    flags.write_text(flags.read_text().replace('"-O3"', '"-O2"'))
    assert small.made(**cuda, VALOR_GPU_ARCHS="90") == made


def test_another_compiler_or_version_compiles_all(small: Small) -> None:
    made = small.made()
    fake(small.root, version="12.5")
    assert small.made() == made and "release 12.5" in small.record()["valor_cpu"]["version"]
    assert small.made() == []
    other = shutil.copy(small.script, small.root / "other")
    assert small.made(CXX=str(other)) == made


def test_changed_declarations_compile_one_file_more(small: Small) -> None:
    text = '#include "../core/shared.h"\nVALOR_API int32_t valor_a_cpu(int32_t {}) {{ return 0; }}\n'
    small.write("cpu/a.cpp", text.format("first"))
    assert small.made() == ["a.o", "abi.o", "b.o", "libvalor_cpu.so"]
    small.write("cpu/a.cpp", text.format("first") + "// comment\n")
    assert small.made() == ["a.o", "libvalor_cpu.so"]
    small.write("cpu/a.cpp", text.format("second"))
    assert small.made() == ["a.o", "abi.o", "libvalor_cpu.so"]


def test_in_a_copy_all_is_compiled(small: Small) -> None:
    made = small.made()
    small.root = Path(shutil.copytree(small.root, small.root.with_name("copied"), copy_function=shutil.copy2))
    assert small.made() == made
    assert small.made() == []


@pytest.mark.parametrize(
    ("name", "made"), [("cpu/a.cpp", ["a.o", "libvalor_cpu.so"]), ("core/leaf.h", ["b.o", "libvalor_cpu.so"])]
)
def test_a_source_of_an_earlier_time_compiles_its_users(small: Small, name: str, made: list[str]) -> None:
    """So ``rsync -a`` brings it from another machine, and so it is when it is saved during a build."""
    small.made()
    source = small.root / "csrc" / name
    source.write_text("int earlier;\n")
    os.utime(source, ns=(1, source.stat().st_mtime_ns - 10**12))
    assert small.made() == made
    assert small.made() == []


def test_all_is_compiled_where_ninja_cannot_tell_the_users_of_a_header(small: Small) -> None:
    made = small.made()
    source = small.root / "csrc/core/leaf.h"
    source.write_text("int earlier;\n")
    os.utime(source, ns=(1, source.stat().st_mtime_ns - 10**12))
    ninja = small.root / "ninja"
    ninja.write_text(f'#!/bin/sh\ncase "$*" in *"-t deps"*) exit 1;; esac\nexec {native_build.find_ninja()} "$@"\n')
    ninja.chmod(0o755)
    assert small.made(NINJA=str(ninja)) == made


@pytest.mark.slow
def test_a_source_that_comes_back_with_an_earlier_time_is_compiled(small: Small) -> None:
    small.write("cpu/c.cpp", "int first;\n")
    small.made()
    source = small.root / "csrc/cpu/c.cpp"
    time = source.stat().st_mtime_ns
    source.unlink()
    small.made()
    small.write("cpu/c.cpp", "int other;\n")
    os.utime(source, ns=(time, time))
    assert "c.o" in small.made() and "int other;" in small.library.read_text()
    source.write_text("int third;\n")
    os.utime(source, ns=(time, time))
    assert "c.o" in small.made() and "int third;" in small.library.read_text()


@pytest.mark.slow
def test_another_compiler_of_the_same_version_compiles_all(small: Small) -> None:
    made = small.made()
    (small.root / "other").mkdir()
    other = shutil.copy(small.script, small.root / "other" / "compiler")
    assert small.made(CXX=str(other)) == made
    assert small.made(CXX=str(other)) == []
    assert small.made(CXX=str(other), CPATH="/elsewhere") == made


@pytest.mark.slow
def test_editable_installs_use_the_objects_of_builds_in_place(small: Small) -> None:
    small.made()
    small.write("cpu/b.cpp", "int b;\n")
    small.log.unlink()
    command = (sys.executable, "setup.py", "-q", "editable_wheel", "--dist-dir", "site")
    run(*command, cwd=small.root, **small.settings)
    made = re.findall(r" -o (\S+)", small.log.read_text())
    assert [Path(name).name for name in made] == ["b.o", "libvalor_cpu.so"] and list(small.root.glob("site/*.whl"))
    assert "int b;" in small.library.read_text() and small.made() == []


@pytest.mark.parametrize("mode", ["auto", "1"])
def test_a_failed_build_keeps_the_library_and_says_why(small: Small, mode: str) -> None:
    small.made()
    before = small.library.read_bytes()
    small.write("cpu/b.cpp", "#error\n")
    done = small.outcome(VALOR_GPU_CPU=mode)
    assert done.returncode == (mode == "1") and small.library.read_bytes() == before
    entry = small.record()["valor_cpu"]
    reason = "compiler failed: csrc/cpu/b.cpp:1:2: error: wrong"
    assert entry["built"] and entry["failed"] == reason and entry["compiler"] == str(small.script)
    assert f"{reason}; all output: {entry['log']}" in done.stderr and "the first line" in Path(entry["log"]).read_text()
    small.write("cpu/b.cpp", "")
    assert small.made() == ["b.o", "libvalor_cpu.so"] and "failed" not in small.record()["valor_cpu"]


def test_the_reason_of_a_failed_link_is_the_line_of_the_linker(small: Small) -> None:
    small.write("cpu/a.cpp", "int twice;\n")
    small.made()
    small.write("cpu/b.cpp", "int twice;\n")
    assert small.outcome(VALOR_GPU_CPU="auto").returncode == 0
    reason = "compiler failed: ld: b.o: in function a: multiple definition of valor_twice; a.o: first defined here"
    assert small.record()["valor_cpu"]["failed"] == reason and small.library.read_text().count("twice") == 1


def test_a_function_that_nobody_defines_is_an_error_of_the_link(small: Small) -> None:
    small.write("cpu/a.cpp", 'extern "C" int missing(); extern "C" int a() { return missing(); }\n')
    assert small.outcome(VALOR_GPU_CPU="auto", CXX="c++").returncode == 0
    assert "undefined reference to `missing'" in small.record()["valor_cpu"]["reason"]


@pytest.mark.parametrize(
    ("useful", "around"),
    [
        ('a.cu(12): error: identifier "x" is undefined', ["nvcc warning : old", "1 error detected"]),
        ("nvcc fatal   : Unknown option '-x'", []),
        ("nvlink error   : Undefined reference to 'f' in 'a.o'", ["a.cu(3): warning: unused"]),
        (
            "b.cpp:(.text+0x0): undefined reference to `f'",
            ["ld: a.o: in function `g':", "collect2: error: ld returned 1"],
        ),
        ("collect2: error: ld returned 1 exit status", []),
        ("cannot write", ["FAILED: [code=1] error: \nc++ -c error: "]),
        ("", ["ninja: build stopped: subcommand failed."]),
    ],
)
def test_the_reason_is_the_first_useful_line(useful: str, around: list[str]) -> None:
    before, after = around[:1], around[1:]
    output = "\n".join([*before, f"  {useful}", *after, "ninja: build stopped: subcommand failed."])
    assert native_build.first_useful_line(output) == useful


def test_a_library_that_is_not_wanted_is_left_as_it_was(small: Small) -> None:
    small.made()
    record = small.record()
    done = small.outcome(VALOR_GPU_CPU="0")
    assert small.library.exists() and small.record() == record
    assert "libvalor_cpu.so is left as it was: VALOR_GPU_CPU was 0" in done.stderr


def test_a_library_without_a_record_is_kept_as_well(small: Small) -> None:
    small.library.write_text("copied")
    small.write("cpu/b.cpp", "#error\n")
    small.outcome(VALOR_GPU_CPU="auto")
    entry = small.record()["valor_cpu"]
    assert entry["built"] and entry["compiler"] == "an unknown compiler" and "b.cpp:1:2: error" in entry["failed"]
    assert small.library.read_text() == "copied"


def test_a_wheel_holds_no_library_that_it_does_not_build(small: Small) -> None:
    """In a checkout, where build/lib is still there from before."""
    command = (sys.executable, "setup.py", "-q", "build_ext", "-b", "lib")
    run(*command, cwd=small.root, **small.settings)
    assert (small.root / "lib/valor_gpu/libvalor_cpu.so").exists()
    small.write("cpu/b.cpp", "#error\n")
    run(*command, cwd=small.root, **{**small.settings, "VALOR_GPU_CPU": "auto"})
    assert not (small.root / "lib/valor_gpu/libvalor_cpu.so").exists()


@pytest.mark.parametrize("ninja", ["/nonexistent/ninja", pytest.param("1.10.2", marks=pytest.mark.slow)])
def test_without_ninja_all_is_compiled(small: Small, ninja: str) -> None:
    if ninja == "1.10.2":
        script = small.root / "ninja"
        script.write_text("#!/bin/sh\necho 1.10.2\n")
        script.chmod(0o755)
        ninja = str(script)
    made = ["a.o", "abi.o", "b.o", "libvalor_cpu.so"]
    for _ in range(2):
        assert small.made(NINJA=ninja) == made
    done = small.outcome(NINJA=ninja)
    assert "no ninja: pip install ninja makes the next builds incremental" in done.stderr.splitlines()[-1]
    library = small.library.read_bytes()
    assert small.made() == made and small.library.read_bytes() == library
    small.write("cpu/b.cpp", "#error\n")
    assert "b.cpp:1:2: error: wrong" in small.outcome(NINJA=ninja).stderr.splitlines()[-1]
    assert small.library.read_bytes() == library


def test_a_build_says_why_it_compiles_a_file(small: Small) -> None:
    small.made()
    small.write("core/leaf.h", "int leaf;\n")
    said = small.outcome(VALOR_GPU_EXPLAIN="1").stderr
    assert re.search(r"explain: .*b\.o older than most recent input csrc/core/leaf\.h", said)
    assert "a.o older" not in said


@pytest.mark.parametrize(("devices", "why"), [(None, "no NVIDIA driver is installed"), (0, "has no device"), (1, "")])
def test_auto_builds_cuda_only_where_a_driver_has_a_device(small: Small, devices: int | None, why: str) -> None:
    folder = small.root / "driver"
    folder.mkdir()
    if devices is not None:
        (folder / "driver.c").write_text(DRIVER.replace("COUNT", str(devices)))
        command = ["cc", "-shared", "-fPIC", "-w", "-o", str(folder / "libcuda.so.1"), str(folder / "driver.c")]
        subprocess.run(command, check=True)
    variables = {"VALOR_GPU_CPU": "0", "VALOR_GPU_CUDA": "auto", "LD_LIBRARY_PATH": str(folder)}
    done = small.outcome(**variables)
    built = (small.root / "valor_gpu/libvalor_cuda.so").exists()
    assert done.returncode == 0 and built == (not why) == small.record()["valor_cuda"]["built"]
    if why:
        reason = small.record()["valor_cuda"]["reason"]
        assert reason.endswith(f"{why}: VALOR_GPU_CUDA=1 builds it all the same")
        assert f"libvalor_cuda.so is not built: {reason}" in done.stderr.splitlines()[-1]
    assert "libvalor_cuda.so" in small.made(**{**variables, "VALOR_GPU_CUDA": "1"}) or built


def test_libraries_replace_others_whatever_their_time(small: Small) -> None:
    """As those of a GPU check, whose machine may have another clock."""
    settings = {"VALOR_GPU_CUDA": "1", "VALOR_GPU_ARCHS": "90"}
    small.made(**settings)
    libraries = [small.root / f"valor_gpu/libvalor_{name}.so" for name in ("cpu", "cuda")]
    texts = [library.read_text() for library in libraries]
    for library in libraries:
        library.write_text("damaged")
        os.utime(library, (2**32, 2**32))
    assert small.made(**settings) == [] and [library.read_text() for library in libraries] == texts


STALE = """
import json, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
    from valor_gpu import native
    from valor_gpu.errors import NativeError
    from valor_gpu.ops import box_iou
    box = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
    assert box_iou(box, box).item() == 1.0
    try:
        native.function("valor_cpu", "valor_declarations")
    except NativeError as caught_error:
        error = str(caught_error)
print(json.dumps({"warnings": [str(w.message) for w in caught], "error": error}))
"""


def test_a_library_of_other_declarations_is_refused(checkout: Path, tmp_path: Path) -> None:
    """After a pull, for instance, that brings a function with other arguments."""
    csrc = checkout / "csrc/cpu"
    kept = csrc.rename(csrc.with_name("others"))
    try:
        csrc.mkdir()
        shutil.copy(kept / "abi.cpp", csrc)
        text = '#include "../core/platform.h"\nVALOR_API int32_t valor_box_iou_cpu({}) {{ return 0; }}\n'
        (csrc / "boxes.cpp").write_text(text.format("const void* boxes"))
        build(checkout, VALOR_GPU_CPU="1")
        (csrc / "boxes.cpp").write_text(text.format("int32_t added, const void* boxes"))
        found = json.loads(run(sys.executable, "-c", STALE, cwd=tmp_path, PYTHONPATH=str(checkout)))
    finally:
        shutil.rmtree(csrc)
        kept.rename(csrc)
        clear(checkout)
    line = f"VALOR_GPU_CPU=1 VALOR_GPU_CUDA=0 {sys.executable} setup.py -q build_ext --inplace"
    why = f"libvalor_cpu.so was built from other sources: run in {checkout}: {line}"
    assert found["error"] == why
    assert [text for text in found["warnings"] if "libvalor" in text] == [
        f"{why}; its plain Python definitions serve, slowly"
    ]


def test_doctor_says_that_the_last_build_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = {"built": True, "compiler": "c++", "version": "12", "failed": "c++ failed: a.cpp:1: error: b"}
    log = tmp_path / "log.txt"
    monkeypatch.setattr(native, "build_record", lambda: {"valor_cpu": {**entry, "log": str(log)}})
    wanted = "built by c++ (12); older than its sources, since the last build failed: c++ failed: a.cpp:1: error: b"
    text = doctor.doctor_text(doctor.survey())
    assert f"{wanted}\n" in text
    log.write_text("")
    assert f"{wanted}; all output: {log}\n" in doctor.doctor_text(doctor.survey())
