"""Every CUDA and Triton kernel compiles for sm_80 and sm_90 where there is no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native import ptxas
from tests.native.sim import CACHE, ROOT, find_nvcc

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc in CUDACXX, CUDA_HOME/bin or PATH")


@needs_nvcc
@pytest.mark.parametrize("arch", ptxas.ARCHS)
@pytest.mark.parametrize("source", ptxas.SOURCES, ids=lambda s: s.stem)
def test_kernels_compile_without_spills(source: Path, arch: str) -> None:
    """For the first of the architectures, the host's part of the source as well."""
    spilled = {name: row["spilled"] for name, row in ptxas.kernels(source, arch).items()}
    assert not any(spilled.values()), spilled


@needs_nvcc
def test_registers_and_shared_memory_are_those_of_the_table() -> None:
    """After a wanted change: python -m tests.native.ptxas."""
    table = json.loads(ptxas.TABLE.read_text())
    if ptxas.nvcc_release() != table["nvcc"]:
        pytest.skip(f"the table is of nvcc {table['nvcc']}, here is {ptxas.nvcc_release()}")
    assert ptxas.measure() == table


def test_triton_kernels_compile() -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(CACHE / "triton")}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-W", "error", str(ROOT / "tests" / "native" / "triton_aot.py"), "80", "90"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    compiled = run.stdout.split("\n")
    assert {line.split()[0] for line in compiled if line} == {
        path.stem for path in (ROOT / "csrc" / "triton").glob("*.py") if path.stem != "__init__"
    }
