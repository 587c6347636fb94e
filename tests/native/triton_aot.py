"""Compiles every Triton kernel ahead of time, no GPU needed: ``PYTHONPATH=. python tests/native/triton_aot.py 80 90``.

A process of its own that does not import the package ``tests``, whose TRITON_INTERPRET would decide what a kernel is.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import sys
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import valor_gpu.ops.triton


@dataclass(frozen=True)
class Launch:
    """Types of a kernel's arguments, values of its constants, and the arguments that may be multiples of 16."""

    types: dict[str, str]
    constants: dict[str, Any]
    aligned: tuple[str, ...]


_COUNTED = {
    **{"logits": "*i32", "target": "*i64", "tables": "*i64", "error": "*i64"},
    **dict.fromkeys(("classes", "channel_stride", "rows", "columns", "image_stride", "row_stride"), "i32"),
    **dict.fromkeys(("pixel_stride", "target_image_stride", "target_row_stride", "target_pixel_stride"), "i32"),
    **dict.fromkeys(("table_stride", "ignore", "code_pixels", "last_row", "programs", "rounds"), "i32"),
}
_FLOAT32 = {"MAGNITUDE": 0x7FFFFFFF, "INFINITY": 0x7F800000, "SIGN": 31, "KEY": tl.int32, "BLOCK": 1024}
_FLOAT64 = {
    **{"MAGNITUDE": 0x7FFFFFFFFFFFFFFF, "INFINITY": 0x7FF0000000000000},
    **{"SIGN": 63, "KEY": tl.int64, "BLOCK": 1024},
}
_ALIGNED = ("logits", "target", "tables", "channel_stride", "columns", "image_stride")

LAUNCHES = {
    "pixel_counts.valor_count_logits_kernel": [
        Launch(_COUNTED, {**_FLOAT32, "IGNORES": True, "PAIRS": False, "BINS": 64}, _ALIGNED),
        Launch(
            {**_COUNTED, "logits": "*i16", "target": "*u8"},
            {**_FLOAT32, "MAGNITUDE": 0x7FFF, "INFINITY": 0x7C00, "SIGN": 15}
            | {"IGNORES": False, "PAIRS": True, "BINS": 512},
            _ALIGNED,
        ),
        Launch({**_COUNTED, "logits": "*i64"}, {**_FLOAT64, "IGNORES": True, "PAIRS": True, "BINS": 4096}, _ALIGNED),
    ]
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
            for launch, aligned in itertools.product(LAUNCHES[name], (False, True)):
                ptx = compile_kernel(kernel, launch, capability, aligned)
                if "fma.rn" in ptx:
                    sys.exit(f"{name} fuses multiplication and addition: its bits differ from the reference")
                print(*name.split("."), f"sm_{capability}", "aligned" if aligned else "any", len(ptx))


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
