"""Builds native code for tests and benchmarks: csrc/cuda under the CPU simulator. Cached by content."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from valor_gpu import native

ROOT = Path(__file__).parents[1]
CSRC = ROOT / "csrc"
CACHE = ROOT / "build" / "native_tests"
COMPILER = os.environ.get("CXX", "c++")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
# -g1 has the lines of a report; all that -g has would take a third longer to compile with sanitizers.
COMMON = ["-g1", "-std=c++17", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-pthread", *WARNINGS]
# -O0: nothing is optimised away before it is checked, and tests marked smoke are too small to win by -O1 what it costs.
SANITIZE = ["-O0", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
# What is left out makes half of the code: an access through a null or far pointer, which AddressSanitizer finds, and
# objects with virtual functions, which nothing here has.
SANITIZE += ["-fsanitize=float-cast-overflow", "-fno-sanitize=null,vptr,object-size,pointer-overflow"]
# csrc/sim reports itself what the check of alignment finds, so that nothing is linked for it.
OPTIMISED = ["-O1", "-fsanitize=alignment"]
# csrc/sim/watch.cpp serves its calls, so that nothing is linked for it.
WATCHED = ["-fsanitize=thread"]
SIMULATOR = f'#include "{CSRC / "sim" / "cuda_sim.h"}"\n'

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def sources_of(path: Path, command: Sequence[str]) -> list[Path]:
    """The file, what the command includes, and every header of csrc that these include."""
    found = [path, *(Path(part) for part in command if part.endswith(".h"))]
    for file in found:
        for name in _INCLUDE.findall(file.read_text(encoding="utf-8")):
            beside, cuda = (file.parent / name).resolve(), CSRC / "cuda" / name
            header = beside if beside.exists() else cuda
            if header not in found:
                found.append(header)
    return found


@functools.cache
def _compiler_version() -> bytes:
    return subprocess.run([COMPILER, "--version"], capture_output=True, check=True).stdout


def _cached(name: str, ending: str, parts: Sequence[bytes], make: Callable[[Path], object]) -> Path:
    """The file that ``make`` writes, made anew only if ``parts`` have changed; older ones are removed."""
    digest = hashlib.sha256(b"\0".join([_compiler_version(), *parts])).hexdigest()[:16]
    path = CACHE / f"{name}-{digest}{ending}"
    if path.exists():
        return path
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}{ending}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the same run may be making it
        if not path.exists():
            for stale in CACHE.glob(f"{name}-{'?' * 16}{ending}"):
                stale.unlink(missing_ok=True)
            scratch = path.with_suffix(f".{os.getpid()}{ending}")
            make(scratch)
            scratch.replace(path)
    return path


def compiled(command: Sequence[str], source: Path, name: str, *, messages: bool = False) -> Path:
    """The object file of one source, or with ``messages`` what the compiler printed.

    Cached by command, source and the headers that it includes.
    """

    def make(output: Path) -> None:
        code = output.with_suffix(".code") if messages else output
        run = subprocess.run([*command, str(source), "-o", str(code)], capture_output=True, text=True)
        if run.returncode != 0:
            raise AssertionError(f"{' '.join(command)} {source} failed:\n{run.stderr}")
        if messages:
            output.write_text(run.stdout + run.stderr)
            _cached(name, ".o", parts, code.replace)  # found by a call without messages
            code.unlink(missing_ok=True)

    parts = [" ".join(command).encode(), *(file.read_bytes() for file in sources_of(source, command))]
    return _cached(name, ".txt" if messages else ".o", parts, make)


def precompiled(name: str, text: str, flags: Sequence[str]) -> list[str]:
    """Options that include ``text`` before a source: a header compiled once, not with every file."""

    def make(output: Path) -> None:
        for stale in CACHE.glob(f"{name}-{'?' * 16}.h"):
            stale.unlink(missing_ok=True)
        source = output.with_suffix("")
        source.write_text(text)
        subprocess.check_call([*command, "-x", "c++-header", str(source), "-o", str(output)])
        source.unlink()

    command = [COMPILER, *COMMON, *flags]
    headers = [file for path in _INCLUDE.findall(text) for file in sources_of(Path(path), [])]
    parts = [" ".join(command).encode(), text.encode(), *(file.read_bytes() for file in headers)]
    header = _cached(name, ".h.gch", parts, make).with_suffix("")
    if not header.exists():  # the compiler looks for it, and reads what was made of it
        header.write_text(text)
    return ["-include", str(header)]


def shared_library(name: str, sources: Sequence[Path], flags: Sequence[str], ready: Sequence[Path] = ()) -> Path:
    """Compile ``sources`` one by one and link them with the object files that are ``ready``."""
    command = [COMPILER, *COMMON, *flags, "-c"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [*pool.map(lambda s: compiled(command, s, f"{name}-{s.stem}"), sources), *ready]
    sanitizers = [flag for flag in flags if flag.startswith("-fsanitize") and flag not in (*OPTIMISED, *WATCHED)]
    link = [COMPILER, "-shared", "-pthread", *sanitizers]
    parts = [" ".join(map(str, [*link, *objects])).encode()]
    return _cached(name, ".so", parts, lambda out: subprocess.check_call([*link, *map(str, objects), "-o", str(out)]))


def simulate(name: str, sources: Sequence[Path], *, sanitize: bool = False, watch: bool = False) -> ctypes.CDLL:
    """Load .cu files that run on the CPU, one fibre a CUDA thread; with ``watch`` conflicts of blocks are errors."""
    flags = [*(SANITIZE if sanitize else OPTIMISED), "-I", str(CSRC / "cuda")]
    ending = "-sanitized" if sanitize else "-watched" if watch else ""
    # Optimised in either case: it switches fibres millions of times, and is not what the sanitizers look at.
    own = [
        compiled([COMPILER, *COMMON, *flags, "-O2", "-c"], CSRC / "sim" / f"{part}.cpp", f"{part}{ending}")
        for part in ("machine", "watch")
    ]
    if watch:
        flags += WATCHED
    prefix = precompiled(f"simulator{ending}", SIMULATOR, flags)
    path = shared_library(f"{name}{ending}", sources, [*flags, *prefix, "-x", "c++"], own)
    library = ctypes.CDLL(str(path))
    library.valor_sim_error.restype = library.valor_sim_launches.restype = ctypes.c_char_p
    library.valor_sim_skip.restype, library.valor_sim_skip.argtypes = None, [ctypes.c_int32]
    return library


@functools.cache
def cuda_library(sanitize: bool, watch: bool) -> ctypes.CDLL:
    """Every csrc/cuda/*.cu under the simulator, with the C functions of the CUDA library."""
    return simulate("cuda", sorted((CSRC / "cuda").glob("*.cu")), sanitize=sanitize, watch=watch)


@contextmanager
def serving(name: str, library: ctypes.CDLL) -> Iterator[None]:
    """Let valor_gpu.native find ``library`` under ``name``."""
    load = native._load

    def found(wanted: str) -> tuple[ctypes.CDLL | None, str]:
        return (library, "built by tests") if wanted == name else load(wanted)

    native._load = found  # type: ignore[assignment]
    for bound in (native.function, native.update_function):
        bound.cache_clear()
    try:
        yield
    finally:
        native._load = load
        for bound in (native.function, native.update_function):
            bound.cache_clear()


def launches(library: ctypes.CDLL) -> list[str]:
    """Names of the kernels that ``library`` has launched since the last call."""
    names: bytes = library.valor_sim_launches()
    return names.decode().splitlines()


@contextmanager
def launching_nothing(library: ctypes.CDLL) -> Iterator[None]:
    """Within it kernels are named among the launches, and none of them runs, so that the time of the host is seen.

    Memory stays as it was. A copy to the host brings what the last one of as many bytes brought before.

    Args:
        library: made by :func:`simulate`.
    """
    library.valor_sim_skip(1)
    try:
        yield
    finally:
        library.valor_sim_skip(0)


def find_nvcc() -> str | None:
    """Path of nvcc, by the rule of setup.py."""
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc"
    return os.environ.get("CUDACXX") or (str(home) if home.exists() else shutil.which("nvcc"))
