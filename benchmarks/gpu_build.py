"""Builds the native libraries for the GPU at hand, unless these very sources were built for it before."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from testing.datasets import ROOT

SECONDS = 400
"""A build may take so long; on 16 cores it takes a fraction of a minute."""
_STAMP = Path("build", "gpu_check.json")
_LIBRARIES = ("libvalor_cpu.so", "libvalor_cuda.so")


class BuildError(Exception):
    """What the compiler said."""


def build(capability: tuple[int, int], root: Path = ROOT) -> str:
    """Builds both libraries inside the checkout; returns one line about it.

    Warnings of the compilers are no errors: a compiler that nobody has tried yet must not stop the check.

    Args:
        capability: of the device.
        root: the checkout.

    Raises:
        BuildError: a library cannot be built.
    """
    architecture = "".join(map(str, capability))
    wanted = {"sources": _digest(root), "architecture": architecture}
    stamp = root / _STAMP
    if _read(stamp) == wanted and all((root / "valor_gpu" / name).exists() for name in _LIBRARIES):
        return f"libraries for sm_{architecture} are there"
    environment = {**os.environ, "VALOR_GPU_ARCHS": architecture, "VALOR_GPU_CPU": "1", "VALOR_GPU_CUDA": "1"}
    environment.pop("VALOR_GPU_WERROR", None)
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=root, env=environment, timeout=SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BuildError(f"setup.py build_ext took more than {SECONDS} s") from None
    if done.returncode:
        raise BuildError(done.stdout[-6000:].strip())
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(json.dumps(wanted))
    return f"built the libraries for sm_{architecture} in {time.perf_counter() - start:.0f} s"


def _read(stamp: Path) -> object:
    try:
        return json.loads(stamp.read_text())
    except (OSError, ValueError):
        return None


def _digest(root: Path) -> str:
    """Of all that the libraries are made of."""
    digest = hashlib.sha256()
    for path in [root / "setup.py", *sorted((root / "csrc").rglob("*.*"))]:
        if path.suffix in (".py", ".h", ".cpp", ".cu"):
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
