"""Every C function runs clean under AddressSanitizer and UndefinedBehaviorSanitizer, CUDA kernels in the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.sim import COMPILER, ROOT


def run_with_sanitizers(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the sanitizer preloaded; Python's own leaks are not ours to find."""
    library = subprocess.check_output([COMPILER, "-print-file-name=libasan.so"], text=True).strip()
    if not Path(library).is_absolute():
        pytest.skip(f"{COMPILER} has no libasan.so")
    environment = {**os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_smoke_tests_are_clean() -> None:
    options = ["-o", "addopts=--strict-markers --import-mode=importlib -p no:cacheprovider", "-q", "-x"]
    selection = ["-m", "smoke", "-p", "tests.native.sanitized", "tests", "--ignore=tests/native"]
    run = run_with_sanitizers("-m", "pytest", *options, *selection)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-8000:]


def test_an_overflow_in_a_kernel_is_found() -> None:
    script = (
        "import ctypes, pathlib; from tests.native.sim import simulate\n"
        "probes = simulate('probes', [pathlib.Path('tests/native/probes.cu').absolute()], sanitize=True)\n"
        "out = ctypes.create_string_buffer(40)\n"
        "for count in (10, 11): print(count, probes.probe_overflow(out, count), flush=True)"
    )
    run = run_with_sanitizers("-c", script)
    assert run.stdout == "10 0\n" and run.returncode != 0
    assert "heap-buffer-overflow" in run.stderr and "overflow_kernel" in run.stderr, run.stderr
