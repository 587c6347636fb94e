"""Finds the compilers, and the commands by which they make the two native libraries; see setup.py for the variables."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.native_build import BuildFailedError, Command, Plan, output_of

ARCHITECTURES = ("75", "80", "86", "89", "90", "100", "120")
# No contraction: no bit may depend on the processor. No trapping math and no errno: loops with a division or a root
# vectorise, same results.
EXACT = ["-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno"]
CXX_FLAGS = ["-O3", "-std=c++17", "-fPIC", "-fvisibility=hidden", *EXACT, "-pthread", "-Wall", "-Wextra"]
NVCC_FLAGS = ["-O3", "-std=c++17", "-fmad=false", "--threads", "0", "-cudart", "static"]
NO_NVCC = "no nvcc was found in CUDACXX, CUDA_HOME/bin or PATH"
# A function that nobody defines is an error of the link, as it is on macOS: a library without it would not load.
DEFINED = "-Wl,-z,defs" if sys.platform == "linux" else ""
CXX_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH")
NVCC_VARIABLES = (*CXX_VARIABLES, "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS")


def find_cxx() -> list[str]:
    """Returns the command of the C++ compiler: CXX, or the first that is in PATH."""
    default = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), "c++")
    return shlex.split(os.environ.get("CXX") or default)


def find_nvcc() -> str | None:
    """Returns the path of nvcc, None if there is none."""
    cuda_home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    for candidate in (os.environ.get("CUDACXX"), str(cuda_home / "bin" / "nvcc"), shutil.which("nvcc")):
        if candidate and Path(candidate).exists():
            return candidate
    return None


def no_device() -> str:
    """Returns why there is no CUDA device; empty if a driver answers and has one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver is installed"
    if status := driver.cuInit(0):
        return f"the NVIDIA driver answers with error {status}"
    count = ctypes.c_int(0)
    status = driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if status == 0 and count.value > 0 else "the NVIDIA driver has no device"


def cpu_plan(sources: Sequence[str], trees: Path, declarations: int) -> Plan:
    """Returns how the C++ library is made.

    Args:
        sources: paths of all .cpp files.
        trees: folder of the trees.
        declarations: hash of the functions that the library exports.

    Raises:
        BuildFailedError: there is no compiler.
    """
    compiler = find_cxx()
    version = next(iter(_version_of(compiler)), "")
    strict = os.environ.get("VALOR_GPU_WERROR") == "1"
    tree = trees / ("cpu-werror" if strict else "cpu")
    compile_ = [*compiler, *CXX_FLAGS, *(["-Werror"] if strict else [])]
    objects = _compilations(compile_, sources, tree, declarations)
    link = [*compiler, "-shared", "-pthread", *([DEFINED] if DEFINED else [])]
    commands = [*objects, _link(link, objects, tree / "libvalor_cpu.so")]
    facts: dict[str, object] = {"compiler": shlex.join(compiler), "version": version}
    told = [version, shutil.which(compiler[0]) or "", *output_of(*compiler, "-dumpmachine")[:1]]
    identity = "; ".join([*told, *(os.environ.get(name, "") for name in CXX_VARIABLES)])
    return Plan(Path(compiler[0]).name, identity, os.cpu_count() or 1, commands, tree, facts)


def cuda_plan(sources: Sequence[str], trees: Path, declarations: int) -> Plan:
    """Returns how the CUDA library is made; arguments as of :func:`cpu_plan`.

    Raises:
        BuildFailedError: there is no nvcc, or it does not know the architectures.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        raise BuildFailedError(NO_NVCC)
    archs = architectures(nvcc)
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in archs]
    codes.append(f"-gencode=arch=compute_{archs[-1]},code=compute_{archs[-1]}")
    tree = trees / "-".join(["cuda", *archs])
    compile_ = [nvcc, *NVCC_FLAGS, *codes, "-Xcompiler", "-fPIC,-fvisibility=hidden"]
    objects = _compilations(compile_, sources, tree, declarations)
    link = [*compile_, "-shared", *(["-Xlinker", "-z", "-Xlinker", "defs"] if DEFINED else [])]
    archives = [cuda_runtime(nvcc)] if os.environ.get("VALOR_GPU_GLIBC") else []
    commands = [*objects, _link(link, objects, tree / "libvalor_cuda.so", archives)]
    told = _version_of([nvcc])
    host = [os.environ.get("NVCC_CCBIN") or "g++", "--version"]
    version = "; ".join([*told, *output_of(*host)[:1], *(os.environ.get(name, "") for name in NVCC_VARIABLES)])
    release = next((line for line in told if "release" in line), "")
    facts: dict[str, object] = {"compiler": nvcc, "version": release, "architectures": archs}
    jobs = -(-(os.cpu_count() or 1) // len(archs))  # --threads 0: nvcc compiles for all architectures at the same time
    return Plan(Path(nvcc).name, version, jobs, commands, tree, facts)


def _version_of(command: Sequence[str]) -> list[str]:
    """Returns what a compiler says of its version."""
    try:
        done = subprocess.run(
            [*command, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise BuildFailedError(f"{command[0]} cannot be run: {error.strerror}") from None
    return done.stdout.splitlines()


def _compilations(command: Sequence[str], sources: Sequence[str], tree: Path, declarations: int) -> list[Command]:
    """Returns one command per source; one source gets the hash of the declarations."""
    made = []
    for source in sources:
        stem, output = Path(source).stem, str(tree / f"{Path(source).stem}.o")
        define = [f"-DVALOR_DECLARATIONS={declarations}"] if stem == "abi" else []
        words = [*command, *define, "-MMD", "-MF", f"{output}.d", "-c", source, "-o", output]
        made.append(Command(words, [source], output))
    return made


def _link(command: Sequence[str], objects: Sequence[Command], output: Path, archives: Sequence[str] = ()) -> Command:
    """Returns the link, where VALOR_GPU_GLIBC names a release, for that one by tools/old_glibc.py."""
    names = [each.output for each in objects]
    words, inputs = [*command, "-o", str(output), *names], names
    if release := os.environ.get("VALOR_GPU_GLIBC"):
        program = str(Path("tools", "old_glibc.py"))
        words = [sys.executable, program, release, str(output), shlex.join(find_cxx()), *names, *archives]
        inputs = [*names, program]
    return Command(words, inputs, str(output), compiles=False)


def architectures(nvcc: str) -> list[str]:
    """Returns those to compile for: the wanted ones that this nvcc knows.

    Raises:
        BuildFailedError: it does not know one that VALOR_GPU_ARCHS names, or none at all.
    """
    known = {line.strip().removeprefix("compute_") for line in output_of(nvcc, "--list-gpu-arch")}
    asked = [arch for arch in os.environ.get("VALOR_GPU_ARCHS", "").split(";") if arch]
    if known and (unknown := [arch for arch in asked if arch not in known]):
        raise BuildFailedError(f"VALOR_GPU_ARCHS has {';'.join(unknown)}, of which {nvcc} knows nothing")
    if found := asked or [arch for arch in ARCHITECTURES if not known or arch in known]:
        return found
    raise BuildFailedError(f"{nvcc} knows none of the compute capabilities {' '.join(ARCHITECTURES)}")


def cuda_runtime(nvcc: str) -> str:
    """Returns the path of the CUDA runtime's archive, where nvcc would look for it.

    Raises:
        BuildFailedError: it is not there.
    """
    plan = subprocess.run([nvcc, "--dryrun", "-shared", "any.cu"], capture_output=True, text=True, check=False).stderr
    lines = [line for line in plan.splitlines() if "LIBRARIES=" in line]
    archives = [Path(folder, "libcudart_static.a") for line in lines for folder in re.findall('-L([^"]+)', line)]
    if found := next((str(archive) for archive in archives if archive.exists()), None):
        return found
    raise BuildFailedError(f"no libcudart_static.a was found where {nvcc} looks for libraries")
