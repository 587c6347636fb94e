"""What ptxas says about each CUDA kernel, and the committed table of it.

The table has a digest of every source: of one that is as it was then, it says what compiling it again would say, which
takes minutes for all. VALOR_GPU_RECHECK=1 and ``make fuzz`` compile them again.
``python -m tests.native.ptxas`` writes the table anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.native.clean import rechecking
from tests.native.code_only import code_of
from tests.native.sim import CSRC, compiled, find_nvcc, sources_of

TABLE = Path(__file__).with_suffix(".json")
ARCHS = ("sm_80", "sm_90")
SOURCES = sorted((CSRC / "cuda").glob("*.cu"))
FLAGS = ["-O3", "-std=c++17", "-fmad=false", "-Werror", "all-warnings", "-Xptxas", "-v"]
# The first goes as far as the C++ for the host, as in setup.py: nvcc rejects more there than in device code alone.
PRODUCTS = {"sm_80": ["-cuda"], "sm_90": ["-cubin"]}
_SHARED = re.compile(r"(\d+) bytes smem")
_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


def nvcc_release() -> str:
    """Release of nvcc, such as ``13.0``: register counts are comparable inside one."""
    text = subprocess.check_output([str(find_nvcc()), "--version"], text=True)
    found = re.search(r"release (\d+\.\d+)", text)
    assert found is not None, text
    return found.group(1)


def readable(names: list[str]) -> list[str]:
    """Mangled names of kernels as the source has them, without parameters."""
    run = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True)
    return run.stdout.rstrip("\n").split("\n")


@functools.cache
def digest(source: Path) -> str:
    """Of a source, what it includes, and how it is compiled."""
    parts = [
        json.dumps([FLAGS, PRODUCTS]).encode(),
        code_of(Path(__file__)),
        *(code_of(file) for file in sources_of(source, [])),
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def recorded(table: dict[str, Any], name: str, digest: str) -> bool:
    """Whether a table of this nvcc knows something by its digest as it is now; never with VALOR_GPU_RECHECK=1."""
    return not rechecking() and table["nvcc"] == nvcc_release() and table["digests"].get(name) == digest


@functools.cache
def table() -> dict[str, Any]:
    """The committed table."""
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


def kernels(source: Path, arch: str) -> dict[str, dict[str, int]]:
    """What :func:`compile_kernels` finds, or found when the table was written."""
    if recorded(table(), source.stem, digest(source)):
        found: dict[str, dict[str, int]] = table()["kernels"].get(source.stem, {}).get(arch, {})
        return found
    return compile_kernels(source, arch)


def compile_kernels(source: Path, arch: str) -> dict[str, dict[str, int]]:
    """Registers a thread, stack, spill and shared bytes of every kernel that ``source`` compiles to for ``arch``."""
    command = [str(find_nvcc()), *FLAGS, f"-arch={arch}", *PRODUCTS[arch]]
    log = compiled(command, source, f"ptxas-{source.stem}-{arch}", messages=True).read_text()
    entries = list(_ENTRY.finditer(log))
    assert len(entries) == log.count("Compiling entry function"), log
    names = readable([e["name"] for e in entries])
    found = {
        name: {
            "registers": int(e["registers"]),
            "stack": int(e["stack"]),
            "spilled": int(e["stores"]) + int(e["loads"]),
            "shared": sum(map(int, _SHARED.findall(e["rest"]))),
        }
        for name, e in zip(names, entries)
    }
    assert len(found) == len(entries), f"kernels of {source.name} need different names: {names}"
    return found


def measure(of: Callable[[Path, str], dict[str, dict[str, int]]] = kernels) -> dict[str, Any]:
    """The table as it is now, with the kernels that ``of`` gives of a source and an architecture."""
    rows = {s.stem: {arch: of(s, arch) for arch in ARCHS} for s in SOURCES}
    return {
        "nvcc": nvcc_release(), "digests": {s.stem: digest(s) for s in SOURCES},
        "kernels": {stem: row for stem, row in rows.items() if any(row.values())},
    }  # fmt: skip


if __name__ == "__main__":
    TABLE.write_text(json.dumps(measure(compile_kernels), indent=1, sort_keys=True) + "\n")
