"""Every C function runs clean under AddressSanitizer and UndefinedBehaviorSanitizer, CUDA kernels in the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native import clean
from tests.native.sim import COMPILER, ROOT


def run_with_sanitizers(report: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the sanitizers preloaded; what they find goes to files whose names begin with ``report``."""
    libraries = [
        subprocess.check_output([COMPILER, f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libstdc++.so.6")  # the second because a sanitizer has to see it first
    ]
    if not Path(libraries[0]).is_absolute():
        if clean.rechecking():
            pytest.fail(f"{COMPILER} has no libasan.so: a run without it says nothing")
        pytest.skip(f"{COMPILER} has no libasan.so")
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        # Python's own leaks are not ours to find, and of its many small blocks little is kept.
        "ASAN_OPTIONS": f"detect_leaks=0:malloc_context_size=4:quarantine_size_mb=16:log_path={report}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={report}",
        "PYTHONMALLOC": "malloc",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def reports(report: Path) -> str:
    return "".join(path.read_text()[:8000] for path in sorted(report.parent.glob(f"{report.name}.*")))


@pytest.mark.timeout(3600)
def test_smoke_tests_are_clean(tmp_path: Path) -> None:
    clean.skip_if_known("sanitizers")
    options = ["-o", "addopts=--strict-markers --import-mode=importlib -p no:cacheprovider", "-q", "-x"]
    selection = ["-m", "smoke", "-p", "tests.native.sanitized", "-p", "no:randomly", *map(str, clean.smoke_tests())]
    run = run_with_sanitizers(tmp_path / "report", "-m", "pytest", *options, *selection)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:] + reports(tmp_path / "report")


def test_an_overflow_in_a_kernel_is_found(tmp_path: Path) -> None:
    clean.skip_if_known("sanitizers")
    script = (
        "import ctypes, pathlib; from tests.native.sim import simulate\n"
        "probes = simulate('probes', [pathlib.Path('tests/native/probes.cu').absolute()], sanitize=True)\n"
        "out = ctypes.create_string_buffer(40)\n"
        "for count in (10, 11): print(count, probes.probe_overflow(out, count), flush=True)"
    )
    run = run_with_sanitizers(tmp_path / "report", "-c", script)
    assert run.stdout == "10 0\n" and run.returncode != 0
    found = reports(tmp_path / "report")
    assert "heap-buffer-overflow" in found and "overflow_kernel" in found, found + run.stderr
