"""Launches ``resampled_means`` on CUDA."""

from __future__ import annotations

import ctypes
from array import array

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import launching
from valor_gpu.ops.accumulate.run import grid_table

ROOM = 768 << 20
"""Bytes of the samples of the replicates that are worked on at once, unless 32 of them take more."""


def portion(replicates: int, bytes_: int) -> int:
    """Returns how many replicates, of so many bytes each, are worked on at once: a multiple of 32.

    Example:
        >>> portion(1000, 2_600_000), portion(40, 2_600_000), portion(1000, 100_000_000)
        (256, 64, 32)
    """
    fitting = ROOM // max(bytes_, 1)
    step = 128 if fitting >= 128 else 32  # of 128 replicates, a weight of a unit fills a line of the cache
    return max(32, min(fitting // step * step, -(-replicates // 32) * 32))


def resampled_means(
    detections: Tensor, order: Tensor, offsets: Tensor, record_units: Tensor, truths: Tensor, truth_offsets: Tensor,
    truth_units: Tensor, weights: Tensor, recall_thresholds: Tensor, sizes: list[int], picks: Tensor,
    pick_thresholds: Tensor, flags: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Does not synchronise with the device; see :func:`valor_gpu.ops.resampled_means.op.resampled_means`."""
    tensors = [
        tensor.contiguous()
        for tensor in (detections, order, offsets, record_units, truths, truth_offsets, truth_units, weights)
    ]
    (thresholds, areas, limits), (full,) = sizes, flags
    recalls, classes, replicates = recall_thresholds.shape[0], offsets.shape[0] - 1, weights.shape[1]
    samples = thresholds * areas * (limits if full else 1) * recalls * classes
    with launching(detections.device) as stream:
        found = [weights.new_empty((replicates, n), dtype=torch.float64) for n in (picks.shape[0], classes, classes)]
        grid = torch.from_numpy(grid_table(recall_thresholds.numpy()))
        constants = to_device(torch.cat((grid, picks.reshape(-1), pick_thresholds)), detections.device)
        # ResampledTask in csrc/cuda/resampled_task.h
        task = array("q", (
            *(tensor.data_ptr() for tensor in (*tensors, constants, *found)), thresholds, areas, limits, recalls,
            classes, order.shape[0], replicates, picks.shape[0], max((row[4] for row in picks.tolist()), default=0),
            full, portion(replicates, 8 * samples),
        ))  # fmt: skip
        address, bytes_ = task.buffer_info()[0], ctypes.c_int64()
        native.function("valor_cuda", "valor_resampled_means_workspace_cuda", "pp")(address, ctypes.addressof(bytes_))
        workspace = detections.new_empty(bytes_.value)
        native.function("valor_cuda", "valor_resampled_means_cuda", "ppp")(address, workspace.data_ptr(), stream)
    return found[0], found[1], found[2]
