"""Keypoints as users hold them, to one :class:`MatchBatch` and the arrays of all images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.inputs.box_columns import UPRIGHT, box_column, read_column
from valor_gpu.inputs.boxes import read_batch
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.boxes.op import to_xywh
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import NEGATIVE_SIZE, NO_ERROR, NOT_FINITE, pack_box
from valor_gpu.ops.keypoints.cpu import Keypoints


def keypoint_batch(preds: Any, target: Any, sigmas: Sequence[float], box_format: str) -> tuple[MatchBatch, Keypoints]:
    """Reads a batch given as two lists of dicts, one per image.

    ``preds[i]`` holds ``keypoints [D, K, 3]``, ``scores [D]``, ``labels [D]`` and optionally ``boxes [D, 4]``, whose
    areas become those of the batch; ``target[i]`` holds ``keypoints [G, K, 3]``, ``labels [G]``, ``area [G]`` and
    optionally ``boxes [G, 4]``, ``iscrowd [G]`` and ``image_id``.

    Args:
        preds: the detections.
        target: the ground truths.
        sigmas: K numbers.
        box_format: of the boxes.

    Raises:
        InputError: naming the image and key, what is needed and what came.
    """
    batch = read_batch(preds, target, None)
    read_column(target, "target", "area")  # the sizes of people are part of the similarity: nothing stands for them
    device = batch.labels[0].device if batch.labels else torch.device("cpu")
    sizes = batch.lengths.tolist()
    points = _points(preds, "preds", sizes[0], len(sigmas), device)
    gt_points = _points(target, "target", sizes[1], len(sigmas), device)
    areas = (
        torch.cat([t.reshape(-1).double() for t in batch.gt_areas]) if batch.gt_areas else points.new_zeros(0).double()
    )
    boxes = [_boxes(*side, box_format, device) for side in ((preds, "preds", sizes[0]), (target, "target", sizes[1]))]
    given = Keypoints(points, gt_points, boxes[1], areas, sigmas)
    return batch if boxes[0] is None else replace(batch, areas=[_box_areas(boxes[0])]), given


def _box_areas(boxes: Tensor) -> Tensor:
    """float64 ``[N]`` areas of xywh; -1 where a width or a height is below 0."""
    sizes = boxes[:, 2:]
    return torch.where((sizes < 0).any(1), -1.0, sizes[:, 0] * sizes[:, 1])


def area_error(batch: MatchBatch) -> Tensor:
    """int64 ``[]``, the code of the first detection of :func:`keypoint_batch` whose box has no area."""
    areas, sizes = batch.areas[0], batch.lengths[0]
    images = torch.arange(len(sizes)).repeat_interleave(sizes)
    rows = torch.arange(len(images)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    places = to_device(pack_box(images, rows, 0), areas.device)
    kinds = torch.where(areas < 0, NEGATIVE_SIZE, NOT_FINITE)
    codes = torch.where((areas >= 0) & areas.isfinite(), NO_ERROR, places | kinds)
    return torch.cat([codes, codes.new_full((1,), NO_ERROR)]).min()


def _points(items: Sequence[Any], side: str, sizes: list[int], number: int, device: torch.device) -> Tensor:
    """Floating ``[N, K, 3]`` of all images; an image without rows may have any shape, like ``torch.tensor([])``."""
    column = read_column(items, side, "keypoints")
    for i, (tensor, size) in enumerate(zip(column, sizes)):
        name = f"{side}[{i}]['keypoints']"
        if tensor.numel() != size * number * 3 or (size and tuple(tensor.shape) != (size, number, 3)):
            raise InputError(f"{name} must have shape {[size, number, 3]}, x, y and visibility of {number} keypoints"
                             f" for each of its {size} labels, but got {list(tensor.shape)}")  # fmt: skip
        if size and tensor.dtype not in FLOAT_TYPES:
            raise InputError(f"{name} must be floating point but is {tensor.dtype}")
        _check_place(tensor, name, device)
    filled = [t for t in column if t.numel()]
    if not filled:
        return torch.zeros((0, number, 3), dtype=torch.float64, device=device)
    return torch.cat(filled if len({t.dtype for t in filled}) == 1 else [t.double() for t in filled]).detach()


def _check_place(tensor: Tensor, name: str, device: torch.device) -> None:
    if tensor.layout is not torch.strided or tensor.device != device:
        raise InputError(f"{name} must be dense and on {device} like the labels but is {tensor.layout}"
                         f" on {tensor.device}")  # fmt: skip


def _boxes(items: Sequence[Any], side: str, sizes: list[int], box_format: str, device: torch.device) -> Tensor | None:
    """float64 ``[N, 4]`` xywh, None where no image has boxes."""
    if not any("boxes" in item for item in items):
        return None
    column = read_column(items, side, "boxes")
    for i, (tensor, size) in enumerate(zip(column, sizes)):
        name = f"{side}[{i}]['boxes']"
        if tensor.numel() != 4 * size or (size and tuple(tensor.shape) != (size, 4)):
            raise InputError(f"{name} must have shape {[size, 4]}, one row for each of its {size} labels,"
                             f" but got {list(tensor.shape)}")  # fmt: skip
        _check_place(tensor, name, device)
    boxes, code = box_column(column, side, UPRIGHT[box_format])
    return to_xywh(torch.cat([t.reshape(-1, 4) for t in boxes]), code).detach()
