"""Builds the two native libraries of valor_gpu; neither includes or links torch or Python.

VALOR_GPU_CPU     auto (default), 0 or 1: build the C++ library if that works, never, or fail if it cannot be built
VALOR_GPU_CUDA    the same for the CUDA library, which needs nvcc; auto builds it only where a driver has a CUDA device
VALOR_GPU_ARCHS   compute capabilities such as "80;90"; default: those of ARCHITECTURES (tools/native_toolchain.py) that
                  nvcc knows. PTX of the last one is embedded
VALOR_GPU_WERROR  1: a warning of the C++ compiler is an error
VALOR_GPU_GLIBC   such as 2.28: link for this release of glibc and newer ones, whatever this machine has; x86_64 and g++
VALOR_GPU_EXPLAIN 1: say why each file is compiled again
NINJA             path of ninja; without ninja everything is compiled each time

Object files are kept in build/native, so that ninja compiles what has changed (docs/design/040-incremental-build.md). A
library is replaced when the new one is complete: a build that fails leaves the one before as it is.

What was built, with which compiler, or why not, is written to valor_gpu/_build.json: pip hides the output of a build
that succeeds, so ``valor-gpu doctor`` and a warning at first use give the reason from there. A wheel also gets the
table of functions and structs by which valor_gpu/native.py calls the libraries; in a checkout it reads the sources.
"""

import json
import os
import runpy
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1, as a machine without a network may have it: it builds in place, no wheel
    bdist_wheel = object

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))
try:
    from tools import native_build, native_toolchain
finally:
    sys.path.remove(str(ROOT))
declared = runpy.run_path(str(ROOT / "valor_gpu" / "_declarations.py"))

RECORD = "_build.json"
TREES = Path("build", "native")
NO_NINJA = " from all its sources, since there is no ninja: pip install ninja makes the next builds incremental"
LIBRARIES = {
    "valor_cpu": ("VALOR_GPU_CPU", native_toolchain.cpu_plan),
    "valor_cuda": ("VALOR_GPU_CUDA", native_toolchain.cuda_plan),
}


def setting(variable):
    """``auto``, ``0`` or ``1``."""
    mode = os.environ.get(variable, "auto")
    if mode not in ("auto", "0", "1"):
        sys.exit(f"{variable} must be auto, 0 or 1 but got {mode!r}")
    return mode


def name_of(ext):
    """``valor_cpu`` of the extension ``valor_gpu.libvalor_cpu``."""
    return ext.name.split("lib")[-1]


def not_wanted(variable):
    """Why a library is not to be built; empty if it is."""
    mode = setting(variable)
    if mode == "0":
        return f"{variable} was 0"
    if variable == "VALOR_GPU_CUDA" and mode == "auto" and native_toolchain.find_nvcc():
        reason = native_toolchain.no_device()
        return f"{reason}: VALOR_GPU_CUDA=1 builds it all the same" if reason else ""
    return ""


def declarations(name):
    """The functions and structs that a library's sources declare."""
    return declared["Declarations"].read(name, str(ROOT))


def read_record(folder):
    """The record of an earlier build, empty if there is none."""
    try:
        return json.loads((folder / RECORD).read_text())
    except (OSError, ValueError):
        return {}


class BuildNative(build_ext):
    """Compiles without distutils' Python flags: the libraries serve every Python."""

    def finalize_options(self):
        self.trees = Path(self.build_temp) if self.build_temp else TREES
        super().finalize_options()

    def get_ext_filename(self, name):
        return os.path.join(*name.split(".")) + ".so"

    def run(self):
        self.folder = ROOT / "valor_gpu" if self.inplace else Path(self.build_lib, "valor_gpu")
        self.before = read_record(self.folder) if self.inplace else {}
        self.ninja, self.said, self.failed = native_build.find_ninja(), [], []
        record = {name_of(ext): self.built(name_of(ext), ext.sources) for ext in self.extensions}
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.inplace:
            lines = [line for name in LIBRARIES for line in declarations(name).lines(name)]
            (self.folder / declared["TABLE"]).write_text("\n".join(lines) + "\n")
        scratch = self.folder / f".{os.getpid()}{RECORD}"
        scratch.write_text(json.dumps(record, indent=1) + "\n")
        os.replace(scratch, self.folder / RECORD)
        self.extensions = [ext for ext in self.extensions if record[name_of(ext)]["built"]]
        if self.failed:
            raise CompileError(". ".join(self.failed))
        print(f"valor_gpu: {'. '.join(self.said)}", file=sys.stderr)  # pip hides it

    def built(self, name, sources):
        """Build one library; returns what the record says of it."""
        variable, plan_of = LIBRARIES[name]
        if reason := not_wanted(variable):
            return self.kept(name, reason) or {"built": False, "reason": reason}
        try:
            plan = plan_of(sources, self.trees, declarations(name).hash)
            target = self.folder / f"lib{name}.so"
            native_build.build(plan, ROOT, self.ninja, target, anew=bool(self.force))
        except native_build.BuildFailedError as error:
            return self.not_built(name, error)
        except OSError as error:  # a full disk, or a tree that is not ours
            return self.not_built(name, native_build.BuildFailedError(str(error)))
        self.said.append(f"lib{name}.so is built" + ("" if self.ninja else NO_NINJA))
        return {"built": True, **plan.facts}

    def not_built(self, name, error):
        """The record after a failure; one of a library that is required ends the build, when all is recorded."""
        log = {"log": str(error.log)} if error.log else {}
        reason = f"{error}; all output: {error.log}" if error.log else str(error)
        if setting(LIBRARIES[name][0]) == "1":
            self.failed.append(reason)
        return self.kept(name, reason, failed=str(error), **log) or {"built": False, "reason": str(error), **log}

    def kept(self, name, reason, **news):
        """The record of the library that an earlier build has left in the checkout; None if it has left none."""
        library, entry = self.folder / f"lib{name}.so", self.before.get(name, {})
        if not entry.get("built"):  # it was copied without its record
            entry = {"built": True, "compiler": "an unknown compiler", "version": "not recorded"}
        if not self.inplace:  # no library of a wheel is older than its sources
            library.unlink(missing_ok=True)
        stays = library.exists()
        self.said.append(f"lib{name}.so {'is left as it was' if stays else 'is not built'}: {reason}")
        return {**entry, **news} if stays else None


class Wheel(bdist_wheel):
    """One wheel for every Python: the native code has no Python ABI. Without native code, one for every machine."""

    def run(self):
        # No file of an earlier wheel gets into this one.
        shutil.rmtree(self.get_finalized_command("build").build_lib, ignore_errors=True)
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
    if not optional[1] and native_toolchain.find_nvcc() is None:
        sys.exit(f"VALOR_GPU_CUDA=1 but {native_toolchain.NO_NVCC}")
    headers = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*.h"))
    return [
        Extension("valor_gpu.libvalor_cpu", sources("cpu", "cpp"), depends=headers, optional=optional[0]),
        Extension("valor_gpu.libvalor_cuda", sources("cuda", "cu"), depends=headers, optional=optional[1]),
    ]


if __name__ == "__main__":
    os.chdir(ROOT)
    wheel = {} if bdist_wheel is object else {"bdist_wheel": Wheel}
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildNative, **wheel})
