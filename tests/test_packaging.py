"""Source archive, wheel, in-place build and unbuilt package, each used by a process that finds nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import FILES, FOLDERS, ROOT, TEXTS, copy_checkout, outcome, run
from tools import wheel_smoke
from tools.native_build import find_ninja

for _module in ("build", "setuptools", "wheel"):
    pytest.importorskip(_module, reason=f"{_module} is not installed")

STUBS = {str(path.relative_to(ROOT)) for path in (ROOT / "valor_gpu").rglob("*.pyi")}
PROMPTS = {str(path.relative_to(ROOT)) for path in (ROOT / "valor_gpu/judge/metrics/prompts").glob("*.md")}

# Compiles without optimising: that the options of setup.py compile is known from the build of the checkout.
HASTY_COMPILER = """#!/bin/sh
exec c++ "$@" -O0
"""

# Copies the object file of the same name, without a look at the source; links as the real one.
COPYING_COMPILER = """#!/bin/sh
case "$*" in
  *" -c "*) while [ "$1" != -o ]; do shift; done; cp "{objects}/$(basename "$2")" "$2" ;;
  *) exec c++ "$@" ;;
esac
"""

# One image with the kernels that are there, and what there is.
PROGRAM = """
import json, sys, torch, valor_gpu
from valor_gpu import native
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.inputs.coco import read_results
from valor_gpu.ops import backends
metric = MeanAveragePrecision(box_format="xywh")
box, label = torch.tensor([[0.0, 0.0, 9.0, 8.0]]), torch.tensor([1])
metric.update([{"boxes": box, "scores": torch.tensor([0.9]), "labels": label}], [{"boxes": box, "labels": label}])
open("results.json", "w").write('[{"image_id": 1, "category_id": 2, "bbox": [0, 0, 3, 4], "score": 0.5}]')
print(json.dumps({
    "file": valor_gpu.__file__,
    "version": valor_gpu.__version__,
    "reason": native.reason("valor_cpu"),
    "kernels": sorted({op.cpu.kind for op in backends() if op.name != "present_means"}),  # numpy on every CPU
    "triton": next(op.cuda.kind for op in backends() if op.name == "count_logits"),
    "map": metric.result().values["map"],
    "area": read_results("results.json").area.tolist(),
}))
"""


def used(place: Path, folder: Path) -> dict[str, Any]:
    """What PROGRAM finds when ``place`` comes first on the path, run in ``folder``."""
    found: dict[str, Any] = json.loads(run(sys.executable, "-c", PROGRAM, cwd=folder, PYTHONPATH=str(place)))
    assert found["file"] == str(place / "valor_gpu" / "__init__.py")
    assert found["map"] == pytest.approx(1.0, abs=1e-12)
    assert found["area"] == [12.0]
    return found


def tool(path: Path, text: str) -> str:
    """An executable script."""
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The source archive, made from a copy of the checkout without anything built."""
    folder = tmp_path_factory.mktemp("packaging")
    copy = copy_checkout(folder / "checkout")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ".", cwd=copy)
    [made] = folder.glob("valor_gpu-*.tar.gz")
    yield made
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def source(archive: Path) -> Path:
    """The unpacked source archive, in which other fixtures build."""
    with tarfile.open(archive) as packed:
        packed.extractall(archive.parent / "source", filter="data")
    return archive.parent / "source" / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def unbuilt(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What serves before anything is compiled."""
    return used(source, tmp_path_factory.mktemp("unbuilt"))


def objects_of_the_checkout() -> Path | None:
    """Where ``setup.py build_ext --inplace`` left object files, unless ninja would make one of them anew."""
    folder, ninja = ROOT / "build/native/cpu", find_ninja()
    if ninja is None or not (folder / "build.ninja").exists():
        return None
    done = outcome(ninja, "-n", "-f", folder / "build.ninja", cwd=ROOT)
    return folder if "no work to do" in done.stdout else None


@pytest.fixture(scope="module")
def in_place(source: Path, unbuilt: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What serves after ``setup.py build_ext --inplace``, the way of a machine without network."""
    built = objects_of_the_checkout()
    text = COPYING_COMPILER.format(objects=built) if built else HASTY_COMPILER
    compiler = tool(source.parent / "first_compiler", text)
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=source, CXX=compiler)
    return used(source, tmp_path_factory.mktemp("in_place"))


@pytest.fixture(scope="module")
def wheel(source: Path, in_place: dict[str, Any]) -> Path:
    """The wheel built from the source archive, of the objects that in_place compiled."""
    compiler = str(source.parent / "first_compiler")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel", "--no-deps")
    settings = {"CXX": compiler, "VALOR_GPU_CPU": "1"}
    run(*pip, "--no-build-isolation", "--wheel-dir", source.parent, ".", cwd=source, **settings)
    [found] = source.parent.glob("*.whl")
    return found


def test_source_archive_holds_what_builds_and_nothing_built(archive: Path, source: Path) -> None:
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert names >= {*TEXTS, *FILES, "valor_gpu/py.typed", *STUBS} | PROMPTS and (len(STUBS), len(PROMPTS)) == (25, 30)
    for folder in FOLDERS:
        wanted = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {name for name in wanted if not re.search(r"__pycache__|\.so$|_build\.json$", name)} <= names, folder
    assert not [name for name in names if name.endswith((".so", "_build.json"))]
    assert (source / "valor_gpu/ops/triton/pixel_counts.py").read_text() == (
        ROOT / "csrc/triton/pixel_counts.py"
    ).read_text()


def test_unbuilt_package_works_by_its_references(unbuilt: dict[str, Any]) -> None:
    assert unbuilt["kernels"] == ["reference"]
    assert unbuilt["reason"] == "libvalor_cpu.so was not built"


def test_in_place_build_serves_by_kernels(in_place: dict[str, Any]) -> None:
    assert in_place["kernels"] == ["C++"]
    assert in_place["reason"] == "libvalor_cpu.so loaded"


WHEEL_BUDGET = 4_500_000
"""Bytes of a wheel with the C++ library, not stripped and without a CUDA library."""


def test_wheel_fits_every_python_and_holds_the_package_only(wheel: Path, unbuilt: dict[str, Any]) -> None:
    assert wheel.stat().st_size <= WHEEL_BUDGET
    assert wheel.name.startswith(f"valor_gpu-{unbuilt['version']}-py3-none-linux_")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        metadata = packed.read(f"valor_gpu-{unbuilt['version']}.dist-info/METADATA").decode()
        entry = packed.read(f"valor_gpu-{unbuilt['version']}.dist-info/entry_points.txt").decode()
    assert (
        names
        >= {
            "valor_gpu/libvalor_cpu.so",
            "valor_gpu/_build.json",
            "valor_gpu/_declarations.txt",
            "valor_gpu/py.typed",
            *STUBS,
            "valor_gpu/ops/triton/pixel_counts.py",
        }
        | PROMPTS
    )
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "valor_gpu").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources | {
        f"valor_gpu/ops/triton/{path.name}" for path in (ROOT / "csrc/triton").glob("*.py")
    }
    assert {name.split("/")[0] for name in names} == {"valor_gpu", f"valor_gpu-{unbuilt['version']}.dist-info"}
    assert "Requires-Dist: torch>=2.6\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    assert "Author: valor_gpu developers\n" in metadata
    assert "Project-URL: Homepage, https://" in metadata and "Classifier: Typing :: Typed\n" in metadata
    assert "valor-gpu = valor_gpu.__main__:run" in entry


def test_installed_wheel_serves_by_kernels(wheel: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    run(*pip, "install", "--no-deps", "--target", tmp_path / "site", wheel, cwd=tmp_path)
    installed = used(tmp_path / "site", tmp_path)
    assert installed["kernels"] == ["C++"]
    shown = run(
        sys.executable,
        "-P",
        tmp_path / "site/bin/valor-gpu",
        "--version",
        cwd=tmp_path,
        PYTHONPATH=str(tmp_path / "site"),
    )
    assert shown == f"valor_gpu {installed['version']}\n"


@pytest.mark.slow
def test_the_wheel_does_what_the_readme_says_in_empty_environments(wheel: Path, tmp_path: Path) -> None:
    said: list[str] = []
    wheel_smoke.check(wheel, tmp_path, show=said.append)
    numbers = [re.sub(r"[\d.]+ (modules|ms)", r"N \1", line) for line in said]
    assert numbers == [
        "with numpy",
        "  import valor_gpu: N modules, N ms of CPU time",
        "  valor-gpu detect of COCO files, without torch",
        "with numpy, torch, torchmetrics",
        "  import valor_gpu: N modules, N ms of CPU time",
        "  valor-gpu doctor: the C++ kernels are there",
        "  the first example of README.md",
    ]


def test_the_libraries_need_neither_torch_nor_python(in_place: dict[str, Any]) -> None:
    if shutil.which("ldd") is None:
        pytest.skip("ldd is not there")
    needed = run("ldd", Path(in_place["file"]).parent / "libvalor_cpu.so", cwd=ROOT)
    assert "torch" not in needed
    assert "python" not in needed


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"VALOR_GPU_CUDA": "yes"}, "VALOR_GPU_CUDA must be auto, 0 or 1 but got 'yes'"),
        ({"VALOR_GPU_CUDA": "1", "PATH": "", "CUDA_HOME": "/nowhere", "CUDACXX": ""}, "VALOR_GPU_CUDA=1 but no nvcc"),
    ],
)
def test_setup_refuses_what_it_cannot_build(variables: dict[str, str], message: str) -> None:
    command = [sys.executable, "setup.py", "--version"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert message in done.stderr
