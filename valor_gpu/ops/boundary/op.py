"""Boundaries of dense masks, for Boundary IoU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import disabled, register
from valor_gpu.ops.boundary.cpu import boundary_at, distances
from valor_gpu.ops.runs.cpu import from_masks, to_masks

MAX_CUDA_WIDTH = 8 * 48 * 1024 - 15
"""Most columns on a CUDA device: shared memory holds a row of bits, which may begin behind up to 15 other bits."""


def mask_boundary(masks: Tensor, ratio: float = 0.02) -> Tensor:
    """Returns the boundary of each mask: its pixels without the erosion by a square of 2 d + 1 pixels.

    d is ``ratio`` x the diagonal, rounded, at least 1; outside of the image nothing is set. Definition: Cheng et al.
    2021, Boundary IoU; the pixels are those of boundary-iou-api.

    Args:
        masks: bool or uint8 ``[N, H, W]``; every value but 0 is set.
        ratio: from 0 to 1.

    Returns:
        0 and 1, of the shape, dtype and device of ``masks``. On CUDA three eighths of their bytes serve as scratch.

    Raises:
        InputError: on a shape or dtype other than the above, a ratio outside its range, or more than
            ``MAX_CUDA_WIDTH`` columns on CUDA.

    Example:
        >>> mask_boundary(torch.ones(1, 4, 4, dtype=torch.uint8))[0].tolist()
        [[1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]]
    """
    check_shape("masks", masks, (None, None, None))
    check_dtype("masks", masks, (torch.bool, torch.uint8))
    if masks.is_cuda and masks.shape[2] > MAX_CUDA_WIDTH and not disabled("mask_boundary"):
        raise InputError(f"masks must have at most {MAX_CUDA_WIDTH} columns on CUDA but have {masks.shape[2]}")
    size = np.array([[masks.shape[1], masks.shape[2]]])
    return _OP(masks, int(distances(size, ratio)[0]))  # type: ignore[no-any-return]


def _by_reference(masks: Tensor, distance: int) -> Tensor:
    """The definition: the erosion is the smallest of 2 d + 1 pixels of a row, then of a column."""
    if masks.numel() == 0:
        return torch.zeros_like(masks)
    outside = torch.nn.functional.pad((masks == 0).float(), (distance,) * 4, value=1.0)
    rows = torch.nn.functional.max_pool2d(outside, (1, 2 * distance + 1), stride=1)
    eroded = torch.nn.functional.max_pool2d(rows, (2 * distance + 1, 1), stride=1) == 0
    return ((masks != 0) & ~eroded).to(masks.dtype)


def _fake(masks: Tensor, distance: int) -> Tensor:
    return torch.empty_like(masks, memory_format=torch.contiguous_format)


def _on_cpu(masks: Tensor, distance: int) -> Tensor:
    out = _fake(masks, distance)
    if masks.numel():
        runs = from_masks(masks.numpy())
        out.copy_(torch.from_numpy(to_masks(boundary_at(runs, np.full(len(masks), distance, np.int32)))))
    return out


def _on_cuda(masks: Tensor, distance: int) -> Tensor:
    masks, out = masks.contiguous(), _fake(masks, distance)
    number, height, width = masks.shape
    with launching(masks.device) as stream:
        bits, eroded, squares = (
            torch.empty((number, height, (width + 31) // 32), dtype=torch.int32, device=masks.device) for _ in range(3)
        )
        native.function("valor_cuda", "valor_mask_boundary_cuda", "pqqqqppppp")(
            masks.data_ptr(), number, height, width, distance, bits.data_ptr(), eroded.data_ptr(), squares.data_ptr(),
            out.data_ptr(), stream,
        )  # fmt: skip
    return out


_OP = register(
    "mask_boundary(Tensor masks, int distance) -> Tensor",
    reference=_by_reference,
    fake=_fake,
    cpu=cpp(_on_cpu),
    cuda=cuda(_on_cuda),
)
