"""Runs one op on each of its kernels with CPU tensors in and out, so that one parity test serves all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from testing.registry import ROWS, Example, place
from tests.devices import CUDA
from tests.native.sim import simulated_kernel
from valor_gpu.ops import _library

BACKENDS = ["cpu", "simulated", *CUDA]
"""Parameters for a fixture: the C++ kernel, the CUDA kernel under csrc/sim, the CUDA or Triton kernel on a device."""

SIM_SEEDS = ["1", "2", "3"]
"""Values of VALOR_SIM_SEED: orders of blocks and lanes in which each kernel must give the same bits."""


def kernel(backend: str, name: str, cuda_kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The op ``name`` as ``backend`` computes it.

    Args:
        backend: one of :data:`BACKENDS`.
        name: the registered op.
        cuda_kernel: the function behind its CUDA key, for the simulator.
    """
    served = next(op for op in _library.backends() if op.name == name)
    op = getattr(getattr(torch.ops, _library.NAMESPACE), name).default
    if backend == "simulated":
        return simulated_kernel(cuda_kernel)
    if backend == "cpu":
        assert served.cpu.kind == "C++", served.cpu.reason
        return op  # type: ignore[no-any-return]
    assert served.cuda.kernel is not None, served.cuda.reason

    def on_device(*args: Any) -> Any:
        row = ROWS[name]
        placed = place(row, Example("", args), torch.device("cuda"))
        return tree_map_only(torch.Tensor, torch.Tensor.cpu, op(*placed))

    return on_device
