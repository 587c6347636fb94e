"""Compiles every Triton kernel ahead of time, no GPU needed: ``PYTHONPATH=. python tests/native/triton_aot.py 80 90``.

A process of its own that does not import the package ``tests``, whose TRITON_INTERPRET would decide what a kernel is.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from dataclasses import dataclass
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import valor_gpu.ops.triton


@dataclass(frozen=True)
class Launch:
    """Types of a kernel's arguments, values of its constants, and the arguments that may be multiples of 16."""

    types: dict[str, str]
    constants: dict[str, int]
    aligned: tuple[str, ...]


LAUNCHES = {
    "masks.pack_masks_kernel": Launch(
        {"masks": "*u8", "words": "*i64", "area": "*i64", "pixels": "i32", "num_words": "i32", "blocks": "i32"},
        {"BLOCK": 64},
        ("masks", "words", "area", "pixels"),
    )
}


def compile_kernel(kernel: Any, launch: Launch, capability: int, aligned: bool) -> str:
    """PTX of one variant of a kernel; raises when it does not compile."""
    place = {name: (index,) for index, name in enumerate(kernel.arg_names)}
    source = ASTSource(
        fn=kernel,
        signature={name: launch.types.get(name, "constexpr") for name in kernel.arg_names},
        constexprs={place[name]: value for name, value in launch.constants.items()},
        attrs={place[name]: [["tt.divisibility", 16]] for name in launch.aligned} if aligned else {},
    )
    options = {"enable_fp_fusion": False}
    return str(triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["ptx"])


def main(capabilities: list[int]) -> None:
    """Print one line per kernel: module, name, size of its PTX in every variant."""
    kernels = {
        f"{module.name}.{name}": kernel
        for module in pkgutil.iter_modules(valor_gpu.ops.triton.__path__)
        for name, kernel in vars(importlib.import_module(f"valor_gpu.ops.triton.{module.name}")).items()
        if name.endswith("_kernel")
    }
    if kernels.keys() != LAUNCHES.keys():
        sys.exit(f"LAUNCHES must name the kernels {sorted(kernels)} but names {sorted(LAUNCHES)}")
    for name, kernel in kernels.items():
        for capability in capabilities:
            for aligned in (False, True):
                ptx = compile_kernel(kernel, LAUNCHES[name], capability, aligned)
                if "fma.rn" in ptx:
                    sys.exit(f"{name} fuses multiplication and addition: its bits differ from the reference")
                print(*name.split("."), f"sm_{capability}", "aligned" if aligned else "any", len(ptx))


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
