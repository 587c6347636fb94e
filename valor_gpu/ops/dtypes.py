"""Dtypes of tensors that kernels read, with the codes by which C++ knows them, and copies to a device."""

from __future__ import annotations

import torch
from torch import Tensor

FLOAT_TYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}
"""FloatType in csrc/core/load.h."""

INT_TYPES = {torch.int8: 0, torch.uint8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.bool: 5}
"""IntType in csrc/core/load.h."""


def to_device(table: Tensor, device: torch.device) -> Tensor:
    """Copies a CPU tensor to a CUDA device through pinned memory, so that the host does not wait.

    During the capture of a CUDA graph the values become part of the graph: pinned memory would be used again by others.
    A tensor that lies on a CUDA device already stays there if it is this one, and else is copied by the devices.
    """
    if device.type == "cpu":  # a kernel under csrc/sim
        return table
    if not table.is_cpu:
        return table.to(device, non_blocking=True)
    from valor_gpu.ops import _device_tables, _launch  # these import the dtypes

    if _launch.capturing():
        return _device_tables.in_graph(table, device)
    return table.pin_memory().to(device, non_blocking=True)
