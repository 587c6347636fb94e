"""Builds with compilers that are missing or too old: the package works all the same, and says why it is slow."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import copy_checkout, outcome, run

pytest.importorskip("setuptools", reason="setuptools is not installed")

NO_COMPILER = {"CXX": "/nonexistent/c++", "VALOR_GPU_CUDA": "auto", "CUDACXX": "", "CUDA_HOME": "/nowhere", "PATH": ""}

# A compiler that writes its arguments to LOG and a file where -o says.
FAKE = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
  *--version*) echo "Cuda compilation tools, release 12.4, V12.4.131" ;;
  *--list-gpu-arch*) {known} ;;
  *{refused}*) echo "nvcc fatal   : Unsupported gpu architecture '{refused}'" >&2; exit 1 ;;
  *) while [ "$1" != -o ]; do shift; done; echo "no library" > "$2" ;;
esac
"""

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


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("build") / "checkout")


def build(checkout: Path, **variables: str) -> dict[str, Any]:
    """The record of a build in place that must succeed."""
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=checkout, **variables)
    record: dict[str, Any] = json.loads((checkout / "valor_gpu/_build.json").read_text())
    return record


def fake(folder: Path, refused: str, known: str = "exit 1") -> tuple[Path, Path]:
    """A script that plays a compiler, and the file of its arguments."""
    script, log = folder / "compiler", folder / "log"
    script.write_text(FAKE.format(log=log, refused=refused, known=known))
    script.chmod(0o755)
    return script, log


def test_without_compilers_the_package_works_and_says_why_once(checkout: Path, tmp_path: Path) -> None:
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
    assert "pip install --no-cache-dir --force-reinstall --no-deps ." in warning
    assert f"libvalor_cpu.so was not built: {why}\n" in found["text"]
    assert "libvalor_cuda.so was not built: no nvcc was found" in found["text"]
    assert "--no-cache-dir --force-reinstall" in found["advice"][0]
    assert found["libraries"]["valor_cpu"]["build"] == record["valor_cpu"]


def test_a_setuptools_that_makes_no_wheels_builds_in_place(checkout: Path) -> None:
    """Before 70.1 it had no ``bdist_wheel``."""
    program = (
        "import runpy, sys; sys.modules['setuptools.command.bdist_wheel'] = None;"
        "sys.argv = ['setup.py', '-q', 'build_ext', '--inplace']; runpy.run_path('setup.py', run_name='__main__')"
    )
    (checkout / "valor_gpu/_build.json").unlink(missing_ok=True)
    run(sys.executable, "-c", program, cwd=checkout, VALOR_GPU_CPU="0")
    assert "VALOR_GPU_CPU was 0" in (checkout / "valor_gpu/_build.json").read_text()


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
    record = build(checkout, VALOR_GPU_CPU="0", VALOR_GPU_CUDA="auto", CUDACXX=str(script))
    archs = ["75", "80", "86", "89", "90"]
    assert record["valor_cuda"] == {
        "built": True, "compiler": str(script), "version": "Cuda compilation tools, release 12.4, V12.4.131",
        "architectures": archs,
    }  # fmt: skip
    [command] = [line for line in log.read_text().splitlines() if "-shared" in line]
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in archs] + ["-gencode=arch=compute_90,code=compute_90"]
    assert re.findall(r"-gencode=\S+", command) == codes
    assert record["valor_cpu"] == {"built": False, "reason": "VALOR_GPU_CPU was 0"}


def test_an_nvcc_that_fails_leaves_no_library(checkout: Path, tmp_path: Path) -> None:
    script, _ = fake(tmp_path, "compute_120")
    stale = checkout / "valor_gpu/libvalor_cuda.so"
    stale.write_text("from an earlier build")
    record = build(checkout, VALOR_GPU_CPU="0", VALOR_GPU_CUDA="auto", CUDACXX=str(script))
    reason = "compiler failed: nvcc fatal   : Unsupported gpu architecture 'compute_120'"
    assert record["valor_cuda"] == {"built": False, "reason": reason}
    assert not stale.exists() and not list(checkout.glob("build/**/libvalor_cuda.so"))


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
    done = outcome(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=checkout, **settings)
    assert done.returncode != 0 and message in done.stderr


def test_an_architecture_that_was_asked_for_must_be_known(checkout: Path, tmp_path: Path) -> None:
    script, _ = fake(tmp_path, "compute_120", "echo compute_90")
    settings = {"VALOR_GPU_CPU": "0", "VALOR_GPU_CUDA": "auto", "CUDACXX": str(script)}
    record = build(checkout, **settings, VALOR_GPU_ARCHS="90;130")
    assert "VALOR_GPU_ARCHS has 130" in record["valor_cuda"]["reason"]


@pytest.mark.parametrize("strict", ["0", "1"])
def test_warnings_are_errors_only_where_that_is_asked_for(checkout: Path, tmp_path: Path, strict: str) -> None:
    script, log = fake(tmp_path, "nothing")
    record = build(checkout, VALOR_GPU_CPU="1", CXX=str(script), VALOR_GPU_WERROR=strict)
    assert record["valor_cpu"]["built"] and record["valor_cpu"]["compiler"] == str(script)
    compiled = [line for line in log.read_text().splitlines() if " -c " in line]
    assert len(compiled) == len(list((checkout / "csrc/cpu").glob("*.cpp")))
    assert all((" -Werror " in line) == (strict == "1") for line in compiled)
