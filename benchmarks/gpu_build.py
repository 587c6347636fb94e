"""Builds the native libraries for the GPU at hand, unless these very sources were built for it before."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testing.datasets import ROOT

SECONDS = 400
"""A build for a check may take so long; on 16 cores it takes a fraction of a minute."""
STAMP = Path("build", "gpu_check.json")
"""Digests of the sources and of both libraries, architecture and, by ``make gpu-pack``, state of the checkout."""
LIBRARIES = (Path("valor_gpu", "libvalor_cpu.so"), Path("valor_gpu", "libvalor_cuda.so"))

PROGRAMS = (
    *("setup.py", "tools/native_build.py", "tools/native_toolchain.py", "tools/old_glibc.py"),
    "valor_gpu/_declarations.py",
)
"""What builds them."""


class BuildError(Exception):
    """What the compiler said."""


def build(capability: tuple[int, int], root: Path = ROOT, seconds: float = SECONDS) -> str:
    """Builds both libraries inside the checkout; returns one line about it.

    Libraries that are there are kept only if the stamp has their digests: others may be damaged, or built for another
    architecture. Warnings of the compilers are no errors: a compiler that nobody has tried yet must not stop the check.

    Args:
        capability: of the device.
        root: the checkout.
        seconds: after which a build is given up.

    Raises:
        BuildError: a library cannot be built.
    """
    architecture = "".join(map(str, capability))
    wanted = {"sources": _digest(root), "architecture": architecture}
    if {**wanted, "libraries": libraries(root)}.items() <= read(root).items():
        return f"libraries for sm_{architecture} are there"
    environment = {**os.environ, "VALOR_GPU_ARCHS": architecture, "VALOR_GPU_CPU": "1", "VALOR_GPU_CUDA": "1"}
    environment.pop("VALOR_GPU_WERROR", None)
    start = time.perf_counter()
    code, output = _setup(root, environment, seconds)
    if code:
        raise BuildError(output[-6000:].strip() or f"setup.py build_ext ended with exit code {code}")
    built = libraries(root)
    if absent := [name for name, digest in built.items() if digest is None]:
        raise BuildError(f"setup.py build_ext ended well but left no {' and no '.join(absent)}")
    _write(root, {**wanted, "libraries": built})
    return f"built the libraries for sm_{architecture} in {time.perf_counter() - start:.0f} s"


def _setup(root: Path, environment: Mapping[str, str], seconds: float) -> tuple[int, str]:
    """Runs setup.py; returns its exit code and output. Compilers that it has started end with it."""
    process = subprocess.Popen(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=root, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=seconds)
    except BaseException as error:
        _end(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise BuildError(f"setup.py build_ext took more than {seconds:g} s") from None
        raise
    return process.returncode, output


def _end(process: subprocess.Popen[str]) -> None:
    """Ends setup.py and its compilers, for which ninja makes process groups of their own, all in one session."""
    os.killpg(process.pid, signal.SIGKILL)
    while alive := _session(process.pid):
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.communicate()


def _session(leader: int) -> list[int]:
    """Returns the processes of a session that run, as Linux lists them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if session == str(leader) and state not in "ZX":
                found.append(int(path.parent.name))
    return found


def libraries(root: Path = ROOT) -> dict[str, str | None]:
    """Returns path to SHA-256 of both libraries, None for a library that is not there."""
    paths = {str(library): root / library for library in LIBRARIES}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None for name, path in paths.items()
    }


def note(facts: Mapping[str, Any], root: Path = ROOT) -> None:
    """Adds facts to the stamp of the libraries that are there."""
    _write(root, {**read(root), **facts})


def read(root: Path = ROOT) -> dict[str, Any]:
    """Returns the stamp, an empty dict where it cannot be read."""
    try:
        stamp = json.loads((root / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _write(root: Path, stamp: Mapping[str, Any]) -> None:
    (root / STAMP).parent.mkdir(exist_ok=True)
    (root / STAMP).write_text(json.dumps(stamp))


def _digest(root: Path) -> str:
    """Of all that the libraries are made of."""
    digest = hashlib.sha256()
    programs = [root / name for name in PROGRAMS]
    for path in [*programs, *sorted((root / "csrc").rglob("*.*"))]:
        if path.suffix in (".py", ".h", ".cpp", ".cu") and path.is_file():
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
