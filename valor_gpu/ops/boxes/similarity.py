"""Generalised, distance and complete IoU of pairs of boxes: torch on any device, beside the kernel of the IoU."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from valor_gpu.checks import check_choice

SIMILARITIES = ("iou", "giou", "diou", "ciou")
_EPSILON = 1e-7  # of torchvision, in square pixels and in the denominator of alpha


def similarity_of_pairs(kind: str, boxes1: Tensor, boxes2: Tensor, iou: Tensor) -> Tensor:
    """Computes how similar the boxes of each pair are.

    With the smallest box that holds both: GIoU is the IoU less the fraction of that box that neither covers; DIoU is
    the IoU less the squared distance of the centres over the squared diagonal of that box; CIoU is the DIoU less a
    term for widths over heights that differ. Computed by the steps of torchvision, in float64; of two boxes without
    area, GIoU is the IoU.

    Sources: Rezatofighi et al., Generalized intersection over union (CVPR 2019); Zheng et al., Distance-IoU loss (AAAI
    2020); torchvision, ``generalized_box_iou``, ``distance_box_iou`` and ``complete_box_iou``.

    Args:
        kind: ``iou``, ``giou``, ``diou`` or ``ciou``.
        boxes1: float64 ``[P, 4]`` x1, y1, x2, y2.
        boxes2: float64 ``[P, 4]``.
        iou: float64 ``[P]`` of the pairs, see :func:`valor_gpu.ops.box_iou`.

    Returns:
        float64 ``[P]``: IoU from 0 to 1, GIoU and DIoU from -1, CIoU from -2.

    Raises:
        InputError: ``kind`` is another word.

    Example:
        >>> pair = torch.tensor([[0.0, 0.0, 2.0, 2.0]]).double(), torch.tensor([[1.0, 0.0, 3.0, 2.0]]).double()
        >>> iou = torch.tensor([1 / 3]).double()
        >>> [round(float(similarity_of_pairs(kind, *pair, iou)), 4) for kind in SIMILARITIES]
        [0.3333, 0.3333, 0.2564, 0.2564]
    """
    check_choice("kind", kind, SIMILARITIES)
    if kind == "iou":
        return iou
    low, high = torch.minimum(boxes1[:, :2], boxes2[:, :2]), torch.maximum(boxes1[:, 2:], boxes2[:, 2:])
    span = (high - low).clamp(min=0)
    if kind == "giou":
        shared = torch.minimum(boxes1[:, 2:], boxes2[:, 2:]) - torch.maximum(boxes1[:, :2], boxes2[:, :2])
        areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (boxes1, boxes2)]
        union = areas[0] + areas[1] - shared.clamp(min=0).prod(1)
        hull = span.prod(1)
        return iou - torch.where(hull > 0, (hull - union) / hull, 0.0)
    centres = [(boxes[:, :2] + boxes[:, 2:]) / 2 for boxes in (boxes1, boxes2)]
    diou = iou - (centres[0] - centres[1]).square().sum(1) / (span.square().sum(1) + _EPSILON)
    if kind == "diou":
        return diou
    angles = [torch.atan2(boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]) for boxes in (boxes1, boxes2)]
    shape = 4 / math.pi**2 * (angles[0] - angles[1]).square()
    return diou - shape * shape / (1 - iou + shape + _EPSILON)
