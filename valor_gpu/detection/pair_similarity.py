"""Similarities of two sets of boxes of one image, pair by pair."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from valor_gpu.checks import check_dtype, check_number, check_same_device, check_shape, check_type
from valor_gpu.inputs.values import as_values
from valor_gpu.ops import box_iou
from valor_gpu.ops.boxes.similarity import similarity_of_pairs
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES


def similarity(
    kind: str, preds: Any, target: Any, iou_threshold: float | None, replacement_val: float, aggregate: bool
) -> Tensor:
    """Returns the similarity of every pair of boxes, or its mean over the pairs of equal index.

    Args:
        kind: ``iou``, ``giou``, ``diou`` or ``ciou``.
        preds: boxes ``[N, 4]`` x1, y1, x2, y2 of any float or integer dtype.
        target: boxes ``[M, 4]``.
        iou_threshold: values below it are replaced; None: none is.
        replacement_val: the number that replaces them.
        aggregate: return the mean over the pairs (i, i), 0 without pairs, in place of the matrix.

    Returns:
        float32, of float64 boxes float64: ``[]``, or ``[N, M]`` without ``aggregate``.

    Raises:
        InputError: boxes are not ``[N, 4]``, or not on one device.
        InputTypeError: ``aggregate`` is no bool, or a number is none.
    """
    check_type("aggregate", aggregate, bool)
    check_number("replacement_val", replacement_val)
    if iou_threshold is not None:
        check_number("iou_threshold", iou_threshold)
    preds, target = as_values("preds", preds), as_values("target", target)
    for name, boxes in (("preds", preds), ("target", target)):
        check_shape(name, boxes, (None, 4))
        check_dtype(name, boxes, (*FLOAT_TYPES, *INT_TYPES))
    check_same_device(("preds", "target"), (preds, target))
    shown = torch.float64 if torch.float64 in (preds.dtype, target.dtype) else torch.float32
    first, second = preds.double(), target.double()
    iou = box_iou(*(boxes if boxes.is_floating_point() else boxes.double() for boxes in (preds, target)))
    size = iou.shape
    pairs = first[:, None].expand(*size, 4).reshape(-1, 4), second.expand(*size, 4).reshape(-1, 4)
    values = similarity_of_pairs(kind, *pairs, iou.reshape(-1)).reshape(size)
    if iou_threshold is not None:
        values = torch.where(values < iou_threshold, replacement_val, values)
    if aggregate:
        values = values.diagonal().mean() if values.numel() else values.new_zeros(())
    return values.to(shown)
