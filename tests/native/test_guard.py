"""No C++ exception leaves the library: a failed allocation is a MemoryError, on the calling thread and on helpers."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.sim import CSRC, ROOT, shared_library
from valor_gpu import native

PROBE = Path(__file__).parent / "guard_probe.cpp"
_BODY = re.compile(r"^VALOR_API (?:int32_t |Object\* )(\w+)\([^)]*\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def bodies() -> dict[str, str]:
    """The code of every exported function of csrc/cpu, by name."""
    return {
        name: body
        for source in sorted((CSRC / "cpu").glob("*.cpp"))
        for name, body in _BODY.findall(source.read_text())
    }


def test_every_exported_function_is_guarded_as_a_whole() -> None:
    found = bodies()
    assert {"valor_assign_cpu", "valor_text_lcs_cpu", "valor_sweep_cpu", "valor_mask_areas_cpu"} <= found.keys()
    open_ends = [
        name
        for name, body in found.items()
        if not (re.match(r"  return (valor::)?(guarded|answer)\(", body) and body.rstrip().endswith("});"))
    ]
    assert open_ends == []


@pytest.fixture(scope="module")
def probe() -> ctypes.CDLL:
    library = ctypes.CDLL(str(shared_library("guard-probe", [PROBE], ["-O1"])))
    library.probe_throw.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]
    library.probe_ran.restype = ctypes.c_int64
    return library


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(("kind", "status"), [(0, 0), (1, -1), (2, -1), (3, -2), (4, -2)])
def test_what_a_body_throws_is_a_status(probe: ctypes.CDLL, kind: int, status: int, threads: int) -> None:
    for at in (0, 37, 99):
        assert probe.probe_throw(100, at, kind, threads) == status
    assert probe.probe_throw(100, 0, 0, threads) == 0 and probe.probe_ran() == 100  # the pool works on


def test_a_throw_on_a_helper_reaches_the_caller(probe: ctypes.CDLL) -> None:
    assert probe.probe_throw_on_helper(1) == -1
    assert probe.probe_throw_on_helper(0) == 0


def test_a_failed_allocation_is_a_memory_error_that_names_the_op() -> None:
    rows = (ctypes.c_int64 * 2)(0, 2**60)
    order = native.function("valor_cpu", "valor_order_records_cpu")
    with pytest.raises(MemoryError, match="order_records needs more memory than there is"):
        order(None, 23, 1, rows, ctypes.addressof(rows) + 8, 1, None, 0, 0, None, (ctypes.c_int64 * 1)(), 1)


SCRIPT = """
import os, resource, sys, torch
from valor_gpu.detection import MeanAveragePrecision
made = torch.Generator().manual_seed(0)
def boxes(n):
    corners = torch.rand(n, 4, generator=made) * 100
    corners[:, 2:] += corners[:, :2]
    return corners
metric, n = MeanAveragePrecision(max_detection_thresholds=[1, 10, 10**6]), 40_000
for i in range(12):
    labels = torch.zeros(n, dtype=torch.long)
    metric.update([dict(boxes=boxes(n), scores=torch.rand(n, generator=made), labels=labels)],
                  [dict(boxes=boxes(3), labels=labels[:3], image_id=i)])
used = int(open("/proc/self/statm").read().split()[0]) * 4096
for headroom in map(int, sys.argv[1:]):
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (used + headroom * 2**20,) * 2)
        try:
            metric.compute()
            os._exit(0)
        except MemoryError:
            os._exit(3)
        except RuntimeError as error:
            os._exit(3 if "allocate memory" in str(error) else 4)
    print(headroom, os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="no RLIMIT_AS")
def test_compute_without_memory_raises_or_gives_a_result() -> None:
    headrooms = ["4", "8", "12", "16", "20", "24", "32", "48", "64", "512"]
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, *headrooms]
    # Large blocks are mapped afresh and unmapped: what was freed before does not hide the lack of memory.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    found = dict(line.split() for line in run.stdout.splitlines())
    assert found.keys() == set(headrooms), run.stderr
    assert set(found.values()) <= {"0", str(3 << 8)}, (found, run.stderr)
    assert found["512"] == "0" and str(3 << 8) in found.values(), found
