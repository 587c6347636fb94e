"""Every CUDA and Triton kernel compiles for sm_80 and sm_90 where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native import ptxas
from tests.native.sim import CACHE, ROOT, find_nvcc
from valor_gpu.ops._launch import has_triton

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc in CUDACXX, CUDA_HOME/bin or PATH")


@needs_nvcc
@pytest.mark.parametrize("arch", ptxas.ARCHS)
@pytest.mark.parametrize("source", ptxas.SOURCES, ids=lambda s: s.stem)
def test_kernels_compile_without_local_memory(source: Path, arch: str) -> None:
    """For the first of the architectures, the host's part of the source as well."""
    local = {name: (row["spilled"], row["stack"]) for name, row in ptxas.kernels(source, arch).items()}
    assert all(each == (0, 0) for each in local.values()), local


@needs_nvcc
def test_registers_and_shared_memory_are_those_of_the_table() -> None:
    """After a wanted change: python -m tests.native.ptxas."""
    table = ptxas.table()
    if ptxas.nvcc_release() != table["nvcc"]:
        pytest.skip(f"the table is of nvcc {table['nvcc']}, here is {ptxas.nvcc_release()}")
    assert ptxas.measure() == table


@needs_nvcc
def test_a_source_is_compiled_unless_the_table_knows_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "upload.cu"
    source.write_text(
        "template <class T> __global__ void fill(T* to) { *to = 1; }\ntemplate __global__ void fill(int*);\n"
    )
    expected = ptxas.compile_kernels(source, "sm_90")
    assert [name for name in expected if "fill" in name] and ptxas.kernels(source, "sm_90") == expected
    known = next(each for each in ptxas.SOURCES if each.stem == "upload")
    monkeypatch.setattr(ptxas, "compiled", lambda *_, **__: pytest.fail("it compiles what the table knows"))
    if ptxas.nvcc_release() == ptxas.table()["nvcc"]:
        monkeypatch.setenv("VALOR_GPU_FUZZ", "1")
        assert ptxas.kernels(known, "sm_90") == ptxas.table()["kernels"]["upload"]["sm_90"]
    monkeypatch.setenv("VALOR_GPU_FUZZ", "2")
    with pytest.raises(pytest.fail.Exception, match="compiles what the table knows"):
        ptxas.kernels(known, "sm_90")


def test_triton_kernels_compile() -> None:
    if not has_triton():
        pytest.skip("no Triton 3.6 or newer is installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(CACHE / "triton")}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-W", "error", str(ROOT / "tests" / "native" / "triton_aot.py"), "80", "90"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    compiled = run.stdout.split("\n")
    assert {line.split()[0] for line in compiled if line} == {
        path.stem for path in (ROOT / "csrc" / "triton").glob("*.py") if path.stem != "__init__"
    }
