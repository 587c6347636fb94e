"""Builds the two native libraries of valor_gpu; neither includes or links torch or Python.

VALOR_GPU_CPU     auto (default), 0 or 1: build the C++ library if that works, never, or fail if it cannot be built
VALOR_GPU_CUDA    the same for the CUDA library, which needs nvcc
VALOR_GPU_ARCHS   compute capabilities such as "80;90"; default: those of ARCHITECTURES that nvcc knows. PTX of the
                  last one is embedded
VALOR_GPU_WERROR  1: a warning of the C++ compiler is an error
VALOR_GPU_GLIBC   such as 2.28: link for this release of glibc and newer ones, whatever this machine has; x86_64 and g++

What was built, with which compiler, or why not, is written to valor_gpu/_build.json: pip hides the output of a build
that succeeds, so ``valor-gpu doctor`` and a warning at first use give the reason from there.
"""

import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1, as a machine without a network may have it: it builds in place, no wheel
    bdist_wheel = object

ROOT = Path(__file__).parent
ARCHITECTURES = ("75", "80", "86", "89", "90", "100", "120")
# No contraction: no bit may depend on the processor. No trapping math: loops with a division vectorise, same results.
EXACT = ["-ffp-contract=off", "-fno-trapping-math"]
CXX_FLAGS = ["-O3", "-std=c++17", "-fPIC", "-fvisibility=hidden", *EXACT, "-pthread", "-Wall", "-Wextra"]
NVCC_FLAGS = ["-O3", "-std=c++17", "-fmad=false", "--threads", "0", "-cudart", "static"]
RECORD = "_build.json"


def setting(variable):
    """``auto``, ``0`` or ``1``."""
    mode = os.environ.get(variable, "auto")
    if mode not in ("auto", "0", "1"):
        sys.exit(f"{variable} must be auto, 0 or 1 but got {mode!r}")
    return mode


def run(command):
    """Run a compiler, whose output is shown; raises CompileError with its first error."""
    logging.info(shlex.join(command))
    try:
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    except OSError as error:
        raise CompileError(f"{command[0]} cannot be run: {error.strerror}") from None
    sys.stderr.write(done.stderr)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        first = next((line for line in lines if "error" in line or "fatal" in line), lines[-1] if lines else "")
        raise CompileError(f"{Path(command[0]).name} failed: {first or f'exit status {done.returncode}'}")


def output_of(*command):
    """Lines that a command prints; none if it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.splitlines()


def find_cxx():
    """Command of the C++ compiler, a list: CXX, or the first that is in PATH."""
    default = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), "c++")
    return shlex.split(os.environ.get("CXX") or default)


def compile_cpu(sources, output, scratch):
    """Compile every source on its own core and link one shared library; returns what the record says of it."""
    compiler = find_cxx()
    flags = [*CXX_FLAGS, *(["-Werror"] if os.environ.get("VALOR_GPU_WERROR") == "1" else [])]
    objects = [str(Path(scratch) / (Path(s).stem + ".o")) for s in sources]
    jobs = [[*compiler, *flags, "-c", s, "-o", o] for s, o in zip(sources, objects)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, jobs))
    if release := os.environ.get("VALOR_GPU_GLIBC"):
        link_for(release, compiler, objects, output)
    else:
        run([*compiler, "-shared", "-pthread", "-o", output, *objects])
    return {"compiler": shlex.join(compiler), "version": next(iter(output_of(*compiler, "--version")), "")}


def link_for(release, compiler, objects, output, archives=()):
    """Link for a release of glibc that may be older than this machine's."""
    sys.path.insert(0, str(ROOT))
    try:
        from tools.old_glibc import link

        link(compiler, objects, output, release, archives)
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        raise CompileError(f"VALOR_GPU_GLIBC={release}: {error}") from None
    finally:
        sys.path.remove(str(ROOT))


def find_nvcc():
    """Path of nvcc, or None."""
    cuda_home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    for candidate in (os.environ.get("CUDACXX"), str(cuda_home / "bin" / "nvcc"), shutil.which("nvcc")):
        if candidate and Path(candidate).exists():
            return candidate
    return None


def architectures(nvcc):
    """Those to compile for: the wanted ones that this nvcc knows."""
    known = {line.strip().removeprefix("compute_") for line in output_of(nvcc, "--list-gpu-arch")}
    asked = [arch for arch in os.environ.get("VALOR_GPU_ARCHS", "").split(";") if arch]
    if known and (unknown := [arch for arch in asked if arch not in known]):
        raise CompileError(f"VALOR_GPU_ARCHS has {';'.join(unknown)}, of which {nvcc} knows nothing")
    if found := asked or [arch for arch in ARCHITECTURES if not known or arch in known]:
        return found
    raise CompileError(f"{nvcc} knows none of the compute capabilities {' '.join(ARCHITECTURES)}")


def cuda_runtime(nvcc):
    """Path of the CUDA runtime's archive, where nvcc would look for it."""
    plan = subprocess.run([nvcc, "--dryrun", "-shared", "any.cu"], capture_output=True, text=True, check=False).stderr
    lines = [line for line in plan.splitlines() if "LIBRARIES=" in line]
    archives = [Path(folder, "libcudart_static.a") for line in lines for folder in re.findall('-L([^"]+)', line)]
    if found := next((str(archive) for archive in archives if archive.exists()), None):
        return found
    raise CompileError(f"no libcudart_static.a was found where {nvcc} looks for libraries")


def compile_cuda(sources, output, scratch):
    """Compile every kernel file for all architectures into one shared library; returns what the record says of it."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise CompileError("no nvcc was found in CUDACXX, CUDA_HOME/bin or PATH")
    archs = architectures(nvcc)
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in archs]
    codes.append(f"-gencode=arch=compute_{archs[-1]},code=compute_{archs[-1]}")
    command = [nvcc, *NVCC_FLAGS, *codes, "-Xcompiler", "-fPIC,-fvisibility=hidden"]
    if release := os.environ.get("VALOR_GPU_GLIBC"):
        objects = [str(Path(scratch) / (Path(s).stem + ".cuda.o")) for s in sources]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, ([*command, "-c", s, "-o", o] for s, o in zip(sources, objects))))
        runtime = cuda_runtime(nvcc)
        link_for(release, find_cxx(), objects, output, [runtime])
    else:
        run([*command, "-shared", "-o", output, *sources])
    version = next((line for line in output_of(nvcc, "--version") if "release" in line), "")
    return {"compiler": nvcc, "version": version, "architectures": archs}


LIBRARIES = {"valor_cpu": ("VALOR_GPU_CPU", compile_cpu), "valor_cuda": ("VALOR_GPU_CUDA", compile_cuda)}


class BuildNative(build_ext):
    """Compiles without distutils' Python flags: the libraries serve every Python."""

    def get_ext_filename(self, name):
        return os.path.join(*name.split(".")) + ".so"

    def run(self):
        self.record = {}
        declared = self.extensions
        super().run()
        self.extensions = [ext for ext in declared if self.record[ext.name.split("lib")[-1]]["built"]]
        folders = [Path(self.build_lib, "valor_gpu"), *([ROOT / "valor_gpu"] if self.inplace else [])]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / RECORD).write_text(json.dumps(self.record, indent=1) + "\n")
            for name, entry in self.record.items():
                if not entry["built"]:
                    (folder / f"lib{name}.so").unlink(missing_ok=True)

    def build_extension(self, ext):
        name = ext.name.split("lib")[-1]
        variable, compile_library = LIBRARIES[name]
        output = Path(self.build_lib, self.get_ext_filename(ext.name))
        output.parent.mkdir(parents=True, exist_ok=True)
        Path(self.build_temp).mkdir(parents=True, exist_ok=True)
        try:
            if setting(variable) == "0":
                raise CompileError(f"{variable} was 0")
            details = compile_library(ext.sources, str(output), self.build_temp)
        except CompileError as error:
            output.unlink(missing_ok=True)
            self.record[name] = {"built": False, "reason": str(error)}
            if setting(variable) == "1":
                raise
            if setting(variable) == "auto":
                print(f"valor_gpu: lib{name}.so is not built: {error}", file=sys.stderr)
        else:
            self.record[name] = {"built": True, **details}


class Wheel(bdist_wheel):
    """One wheel for every Python: the native code has no Python ABI. Without native code, one for every machine."""

    def run(self):
        self.run_command("build")
        if not self.get_finalized_command("build_ext").extensions:
            self.root_is_pure, self.distribution.ext_modules = True, None
        self.skip_build = True
        super().run()

    def get_tag(self):
        return "py3", "none", "any" if self.root_is_pure else super().get_tag()[2]


def sources(folder, ending):
    """Native sources of one backend, relative to this file as setuptools wants them."""
    return sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc" / folder).glob(f"*.{ending}"))


def extensions():
    """Both libraries; one that cannot be built is left out of the package unless its variable is 1."""
    optional = [setting(variable) != "1" for variable, _ in LIBRARIES.values()]
    if not optional[1] and find_nvcc() is None:
        sys.exit("VALOR_GPU_CUDA=1 but no nvcc was found in CUDACXX, CUDA_HOME/bin or PATH")
    headers = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*.h"))
    return [
        Extension("valor_gpu.libvalor_cpu", sources("cpu", "cpp"), depends=headers, optional=optional[0]),
        Extension("valor_gpu.libvalor_cuda", sources("cuda", "cu"), depends=headers, optional=optional[1]),
    ]


if __name__ == "__main__":
    os.chdir(ROOT)
    wheel = {} if bdist_wheel is object else {"bdist_wheel": Wheel}
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildNative, **wheel})
