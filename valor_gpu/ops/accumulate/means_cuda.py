"""Launches ``present_means`` on CUDA."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import launching


def present_means(precision: Tensor, recall: Tensor, picks: Tensor, thresholds: Tensor) -> Tensor:
    """Does not synchronise with the device; see :func:`valor_gpu.ops.accumulate.op.present_means`."""
    check_same_device(("precision", "recall"), (precision, recall))
    precision, recall = precision.contiguous(), recall.contiguous()
    most = max((count for *_, count in picks.tolist()), default=0)
    sizes = torch.tensor([*precision.shape[1:], recall.shape[-1], picks.shape[0], most])
    found = ctypes.c_int64()
    native.function("valor_cuda", "valor_present_means_workspace_cuda", "pp")(sizes.data_ptr(), ctypes.byref(found))
    with launching(precision.device) as stream:
        words = to_device(torch.cat((picks.reshape(-1), thresholds)), precision.device)
        workspace = precision.new_empty(found.value, dtype=torch.uint8)
        out = precision.new_empty(picks.shape[0])
        native.function("valor_cuda", "valor_present_means_cuda", "pppppppp")(
            precision.data_ptr(), recall.data_ptr(), sizes.data_ptr(), words.data_ptr(),
            words[picks.numel() :].data_ptr(), out.data_ptr(), workspace.data_ptr(), stream,
        )  # fmt: skip
    return out
