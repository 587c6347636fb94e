"""The simulator for tests, which are skipped where their outcome is known; csrc/cpu under sanitizers."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from testing import simulator
from testing.simulator import CACHE as CACHE
from testing.simulator import COMPILER as COMPILER
from testing.simulator import CSRC as CSRC
from testing.simulator import ROOT as ROOT
from testing.simulator import SANITIZE, precompiled
from testing.simulator import compiled as compiled
from testing.simulator import find_nvcc as find_nvcc
from testing.simulator import serving as serving
from testing.simulator import shared_library as shared_library
from testing.simulator import simulate as simulate
from testing.simulator import sources_of as sources_of
from tests.native import clean
from valor_gpu.errors import NativeError

# A GPU reads aligned words alone; a CPU, any, and its code says where it does.
SANITIZE_CPU = [*SANITIZE, "-fno-sanitize=alignment"]
# Headers that csrc/cpu includes. That each file names its own is seen where the library itself is built.
STANDARD = "".join(
    f"#include <{name}>\n"
    for name in (
        *("algorithm", "atomic", "cmath", "condition_variable", "limits", "memory", "mutex", "numeric"),
        *("stdexcept", "string", "thread", "vector"),
    )
)

skips_known = False
"""Whether tests that ask for :func:`simulated` are skipped where ``clean.json`` knows their outcome."""

watching = os.environ.get("VALOR_SIM_WATCH") == "1"
"""Whether :func:`simulated` builds with csrc/sim/watch.cpp."""

sanitizing = False
"""Whether :func:`simulated` builds with sanitizers; tests/native/sanitized.py sets it where they are preloaded."""


def simulated() -> ctypes.CDLL:
    """Every csrc/cuda/*.cu under the simulator, with the C functions of the CUDA library.

    Skips the calling test where ``clean.json`` knows what it would find.
    """
    if skips_known and not sanitizing and not watching:
        clean.skip_if_known("simulator")
    return simulator.cuda_library(sanitizing, watching and not sanitizing)


@functools.cache
def sanitized_cpu() -> ctypes.CDLL:
    """Every csrc/cpu/*.cpp with sanitizers; only in a process that preloads them."""
    flags = [*SANITIZE_CPU, *precompiled("standard-sanitized", STANDARD, SANITIZE_CPU)]
    path = shared_library("cpu-sanitized", sorted((CSRC / "cpu").glob("*.cpp")), flags)
    return ctypes.CDLL(str(path))


def simulated_kernel(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The CUDA kernel function of an op, such as ``boxes._box_iou_cuda``, for CPU tensors."""

    @functools.wraps(kernel)
    def run(*args: Any) -> Any:
        library = simulated()
        with serving("valor_cuda", library):
            try:
                return kernel(*args)
            except NativeError as error:
                raise AssertionError(f"{error}: {library.valor_sim_error().decode()}") from error

    return run


def launches() -> list[str]:
    """Names of the kernels that the simulator has launched since the last call."""
    return simulator.launches(simulated())


def launching_nothing(library: ctypes.CDLL | None = None) -> AbstractContextManager[None]:
    """Leaves launches out, see :func:`testing.simulator.launching_nothing`; None: of :func:`simulated`."""
    return simulator.launching_nothing(simulated() if library is None else library)
