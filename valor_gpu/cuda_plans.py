"""Plans for CUDA tensors: an update of any size in one native call that clears, counts and merges. See plans.py.

Launches and allocations cost the host time. On an H100 a torch operation takes it about 10 us: the checked path of
``Accuracy`` has 44 of them and takes 500 us, most of which the device is idle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from valor_gpu.ops._launch import launching
from valor_gpu.plans import Field, Plan, Step, is_plain

Call = Callable[[bytes, bytes], int]

_address = Tensor.data_ptr
_new = torch.empty_like


def cuda_plan(call: Call, words: bytes, fields: Sequence[Field], scratch: int) -> Plan:
    """Returns a plan that makes the new state, in new memory, by one call of a function of csrc/cuda.

    The error code is a field of the state: the new code is the smaller of the old code and that of the batch. The host
    reads neither and does not synchronise with the device.

    Args:
        call: see :func:`valor_gpu.native.update_function`; takes the words, and the addresses of predictions, target,
            old fields, old error, new fields, new error and scratch memory, and the stream.
        words: what the function has to know.
        fields: of the state, read and written anew.
        scratch: words of 8 bytes that the function needs for itself.
    """
    every = (*fields, _ERROR)
    names, pack = tuple(field.name for field in every), struct.Struct(f"{4 + 2 * len(every)}Q").pack
    refused = 0

    def plan(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
        nonlocal refused
        if refused == _PATIENCE:
            return None
        device, old = preds.device, [base[name] for name in names]
        for tensor, field in zip(old, every):
            if not _fits_on_cuda(tensor, field, device):
                return None
        with launching(device) as stream:
            new, room = [*map(_new, old)], torch.empty(scratch, dtype=torch.int64, device=device)
            try:
                addresses = [*map(_address, (preds, target, *old, *new, room))]
            except RuntimeError:  # a tensor of torch.func without memory of its own
                return None
            if not all(addresses):
                return None
            if call(words, pack(*addresses, stream)):
                refused += 1
                return None
        refused = 0
        return Step(dict(zip(names, new)))

    return plan


_PATIENCE = 3  # consecutive refusals that end a plan; a single refusal may come from a misaligned address
_ERROR = Field("error", torch.int64, ())


def _fits_on_cuda(tensor: Tensor, field: Field, device: torch.device) -> bool:
    """Whether native code may read a tensor of a state, which users can replace, on a CUDA device."""
    _, dtype, shape = field
    fits = tensor.dtype is dtype and tensor.shape == shape and tensor.is_cuda
    return fits and tensor.device == device and is_plain(tensor)
