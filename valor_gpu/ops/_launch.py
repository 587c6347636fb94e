"""What native kernel calls share: dtype codes, who serves a dispatch key, copies and streams that never wait."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._library import Implementation, Kernel, by_reference

BOX_FORMATS = ("xyxy", "xywh", "cxcywh")
"""A format's place here is its code, BoxFormat in csrc/core/boxes.h."""

FLOAT_TYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}
"""FloatType in csrc/core/load.h."""

INT_TYPES = {torch.int8: 0, torch.uint8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.bool: 5}
"""IntType in csrc/core/load.h."""


def cpp(kernel: Kernel) -> Implementation:
    """``kernel`` serves CPU tensors if the C++ library is there, else the reference."""
    return _native("valor_cpu", "C++", kernel)


def cuda(kernel: Kernel) -> Implementation:
    """``kernel`` serves CUDA tensors if the CUDA library is there, else the reference."""
    return _native("valor_cuda", "CUDA", kernel)


def _native(library: str, kind: str, kernel: Kernel) -> Implementation:
    reason = native.reason(library)
    return Implementation(kind, kernel, reason) if native.available(library) else by_reference(reason)


def triton(kernel: Kernel) -> Implementation:
    """``kernel`` serves CUDA tensors if Triton is installed, else the reference. Does not import Triton."""
    if importlib.util.find_spec("triton") is None:
        return by_reference("triton is not installed: pip install 'valor_gpu[triton]'")
    return Implementation("Triton", kernel, "triton is installed")


def to_device(table: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to a CUDA device through pinned memory, so that the host does not wait."""
    if device.type == "cpu":  # a kernel under csrc/sim
        return table
    return table.pin_memory().to(device, non_blocking=True)


@contextmanager
def launching(device: torch.device) -> Iterator[int]:
    """Make ``device`` current and give the handle of its current stream; 0 for the CPU, where csrc/sim runs kernels."""
    if device.type == "cpu":
        yield 0
        return
    with torch.cuda.device(device):
        yield torch.cuda.current_stream(device).cuda_stream
