"""Builds the two native libraries of valor_gpu; neither includes or links torch or Python.

VALOR_GPU_CUDA   auto (default: build the CUDA library when nvcc is found) | 0 | 1 (nvcc is required)
VALOR_GPU_ARCHS  compute capabilities, default "75;80;86;89;90;100;120"; PTX of the last one is embedded
"""

import logging
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
DEFAULT_ARCHS = "75;80;86;89;90;100;120"
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
# No contraction: no bit may depend on the processor. No trapping math: loops with a division vectorise, same results.
EXACT = ["-ffp-contract=off", "-fno-trapping-math"]
CXX_FLAGS = ["-O3", "-std=c++17", "-fPIC", "-fvisibility=hidden", *EXACT, "-pthread", *WARNINGS]


def find_nvcc():
    """Path of nvcc, or None."""
    cuda_home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    for candidate in (os.environ.get("CUDACXX"), str(cuda_home / "bin" / "nvcc"), shutil.which("nvcc")):
        if candidate and Path(candidate).exists():
            return candidate
    return None


def cuda_wanted():
    """Whether the CUDA library is to be built here, by VALOR_GPU_CUDA and the presence of nvcc."""
    mode = os.environ.get("VALOR_GPU_CUDA", "auto")
    if mode not in ("auto", "0", "1"):
        sys.exit(f"VALOR_GPU_CUDA must be auto, 0 or 1 but got {mode!r}")
    if mode == "1" and find_nvcc() is None:
        sys.exit("VALOR_GPU_CUDA=1 but no nvcc was found in CUDACXX, CUDA_HOME/bin or PATH")
    return mode != "0" and find_nvcc() is not None


def run(command):
    """Run one compiler command; it is shown unless setup.py is told to be quiet."""
    logging.info(" ".join(command))
    subprocess.check_call(command)


def compile_cpu(sources, output, scratch):
    """Compile every source on its own core and link one shared library."""
    compiler = os.environ.get("CXX", "c++")
    objects = [str(Path(scratch) / (Path(s).stem + ".o")) for s in sources]
    jobs = [[compiler, *CXX_FLAGS, "-c", s, "-o", o] for s, o in zip(sources, objects)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, jobs))
    run([compiler, "-shared", "-pthread", "-o", output, *objects])


def compile_cuda(sources, output):
    """Compile every kernel file for all wanted architectures into one shared library."""
    archs = os.environ.get("VALOR_GPU_ARCHS", DEFAULT_ARCHS).split(";")
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in archs]
    codes.append(f"-gencode=arch=compute_{archs[-1]},code=compute_{archs[-1]}")
    flags = ["-O3", "-std=c++17", "-fmad=false", "--threads", "0", "-cudart", "static"]
    run([find_nvcc(), *flags, *codes, "-Xcompiler", "-fPIC,-fvisibility=hidden", "-shared", "-o", output, *sources])


class BuildNative(build_ext):
    """Compiles without distutils' Python flags: the libraries serve every Python."""

    def get_ext_filename(self, name):
        return os.path.join(*name.split(".")) + ".so"

    def build_extension(self, ext):
        output = self.get_ext_fullpath(ext.name)
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        Path(self.build_temp).mkdir(parents=True, exist_ok=True)
        if ext.name.endswith("_cuda"):
            compile_cuda(ext.sources, output)
        else:
            compile_cpu(ext.sources, output, self.build_temp)


class PlatformWheel(bdist_wheel):
    """One wheel for every Python: the native code has no Python ABI."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


def sources(folder, ending):
    """Native sources of one backend, relative to this file as setuptools wants them."""
    return sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc" / folder).glob(f"*.{ending}"))


def extensions():
    """The libraries this machine can build."""
    headers = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*.h"))
    found = [Extension("valor_gpu.libvalor_cpu", sources("cpu", "cpp"), depends=headers)]
    if sources("cuda", "cu") and cuda_wanted():
        found.append(Extension("valor_gpu.libvalor_cuda", sources("cuda", "cu"), depends=headers))
    elif os.environ.get("VALOR_GPU_CUDA", "auto") == "auto":
        print("valor_gpu: no nvcc was found, the CUDA library is not built", file=sys.stderr)
    return found


os.chdir(ROOT)
setup(ext_modules=extensions(), cmdclass={"build_ext": BuildNative, "bdist_wheel": PlatformWheel})
