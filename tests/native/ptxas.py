"""What ptxas says about each CUDA kernel, and the committed table of it.

``python -m tests.native.ptxas`` writes the table anew.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.native.sim import CSRC, compiled, find_nvcc

TABLE = Path(__file__).with_suffix(".json")
ARCHS = ("sm_80", "sm_90")
SOURCES = sorted((CSRC / "cuda").glob("*.cu"))
FLAGS = ["-O3", "-std=c++17", "-fmad=false", "-Werror", "all-warnings", "-Xptxas", "-v"]
# The first is compiled for the host as well, as setup.py does: nvcc rejects more there than in device code alone.
PRODUCTS = {"sm_80": ["-c", "-Xcompiler", "-fPIC,-O0"], "sm_90": ["-cubin"]}
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


def kernels(source: Path, arch: str) -> dict[str, dict[str, int]]:
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


def measure() -> dict[str, Any]:
    """The table as it is now."""
    rows = {s.stem: {arch: kernels(s, arch) for arch in ARCHS} for s in SOURCES}
    return {"nvcc": nvcc_release(), "kernels": {stem: row for stem, row in rows.items() if any(row.values())}}


if __name__ == "__main__":
    TABLE.write_text(json.dumps(measure(), indent=1, sort_keys=True) + "\n")
