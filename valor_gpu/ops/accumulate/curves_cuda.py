"""Launches ``precision_recall`` on CUDA."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import launching

_MOST_RECORDS = 2**31 - 1


def precision_recall(
    detections: Tensor, order: Tensor, offsets: Tensor, positives: Tensor, recall_thresholds: Tensor,
    sizes: list[int], full: bool, ties: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Does not synchronise with the device; see :func:`valor_gpu.ops.accumulate.op.precision_recall`.

    Raises:
        InputError: the tensors lie on several devices, or there are 2**31 records or more.
    """
    names = ("detections", "order", "offsets", "positives")
    tensors = detections, order, offsets, positives = tuple(
        tensor.contiguous() for tensor in (detections, order, offsets, positives)
    )
    check_same_device(names, tensors)
    if order.shape[0] > _MOST_RECORDS:
        raise InputError(f"order must hold at most {_MOST_RECORDS} records but holds {order.shape[0]}")
    thresholds, areas, limits = sizes
    recalls, classes = recall_thresholds.shape[0], positives.shape[0]
    samples = (thresholds, recalls, classes, areas, limits if full else 1)
    words = torch.tensor([thresholds, areas, limits, recalls, classes, order.shape[0]])
    with launching(detections.device) as stream:
        precision = detections.new_empty(samples, dtype=torch.float64)
        scores = detections.new_empty(samples if full else (0,), dtype=torch.float64)
        recall = detections.new_empty((thresholds, classes, areas, limits), dtype=torch.float64)
        grid = to_device(_grid_table(recall_thresholds), detections.device)
        workspace = detections.new_empty(_workspace_bytes(words, full, ties))
        native.function("valor_cuda", "valor_precision_recall_cuda", "ppppppqqqppppp")(
            detections.data_ptr(), order.data_ptr(), offsets.data_ptr(), positives.data_ptr(), words.data_ptr(),
            grid.data_ptr(), int((recall_thresholds <= 0).sum()), full, ties, precision.data_ptr(), recall.data_ptr(),
            scores.data_ptr(), workspace.data_ptr(), stream,
        )  # fmt: skip
    return precision, recall, scores


def _grid_table(recall_thresholds: Tensor) -> Tensor:
    """int64 ``[3 R + 1]``: ascending thresholds (float64 bits), their places, the least place from each one on."""
    ascending, places = torch.sort(recall_thresholds, stable=True)
    last = torch.tensor([recall_thresholds.shape[0]])
    least = torch.cat((places, last)).flip(0).cummin(0).values.flip(0)
    return torch.cat((ascending.view(torch.int64), places, least))


def _workspace_bytes(sizes: Tensor, full: bool, ties: int) -> int:
    found = ctypes.c_int64()
    native.function("valor_cuda", "valor_precision_recall_workspace_cuda", "pqqp")(
        sizes.data_ptr(), full, ties, ctypes.byref(found)
    )
    return found.value
