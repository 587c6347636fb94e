"""Launches ``match_boxes`` on CUDA: what travels in kernel parameters, what through pinned memory, the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.ops._launch import launching
from valor_gpu.ops.dtypes import to_device

_DEVICE = attrgetter("device")
_IMAGES_BY_VALUE = 16  # likewise in csrc/cuda/matching.cu, which refuses a call that disagrees
_NUMBERS_BY_VALUE = 64
_DETECTION_BYTES, _TRUTH_BYTES = 16, 72


def check_one_device(columns: Mapping[str, Sequence[Tensor]]) -> torch.device:
    """The device of all tensors; raises :class:`InputError` that names one which lies elsewhere.

    Args:
        columns: tensors by the name of the argument that holds them; the first argument holds at least one.
    """
    name, first = next((name, tensors[0]) for name, tensors in columns.items())
    devices = set().union(*(map(_DEVICE, tensors) for tensors in columns.values()))
    if len(devices) > 1:
        for other, tensors in columns.items():
            for i, tensor in enumerate(tensors):
                check_same_device((f"{name}[0]", f"{other}[{i}]"), (first, tensor))
    return first.device


def launch(
    table: bytes | NDArray[np.int64],
    address: bytes | int,
    images: int,
    words: bytes,
    numbers: Sequence[Tensor],
    out: Sequence[Tensor],
) -> None:
    """Runs the kernel on the current stream; nothing here waits for the device.

    Args:
        table: the Segment table of csrc/core/match_batch.h, int64 ``[18, I]``, which lies at ``address``.
        address: as ctypes takes it.
        images: I.
        words: the Rule, whose addresses are those of ``numbers``.
        numbers: thresholds, area ranges and limits on the CPU.
        out: detections, truths, images, matches and the error code, on the device.
    """
    device = out[0].device
    workspace = _DETECTION_BYTES * out[0].shape[0] + _TRUTH_BYTES * out[1].shape[0]
    segments = choices = None
    with launching(device) as stream:
        scratch = torch.empty(workspace, dtype=torch.uint8, device=device)
        if images > _IMAGES_BY_VALUE:
            host = (
                torch.frombuffer(bytearray(table), dtype=torch.int64)
                if isinstance(table, bytes)
                else torch.from_numpy(table)
            )
            segments = to_device(host, device)
        if sum(map(Tensor.numel, numbers)) > _NUMBERS_BY_VALUE:
            flat = [part.reshape(-1).view(torch.int64) for part in numbers]
            choices = to_device(torch.cat(flat), device)
        native.function("valor_cuda", "valor_match_boxes_cuda", "ppqppppppppqp")(
            address, 0 if segments is None else segments.data_ptr(), images, words,
            0 if choices is None else choices.data_ptr(), *map(Tensor.data_ptr, out), scratch.data_ptr(),
            workspace, stream,
        )  # fmt: skip
