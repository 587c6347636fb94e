"""Similarities of the boxes of one image, pair by pair, and mean average precision of one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from valor_gpu._lazy import names_of_package
from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_dtype, check_number, check_same_device, check_shape, check_type
from valor_gpu.default_device import device_free
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.functional.names import MODULES
from valor_gpu.functional.once import alone
from valor_gpu.functional.segmentation import modified_panoptic_quality as modified_panoptic_quality
from valor_gpu.functional.segmentation import panoptic_quality as panoptic_quality
from valor_gpu.inputs.values import as_values
from valor_gpu.ops import box_iou
from valor_gpu.ops.boxes.similarity import similarity_of_pairs
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike
    from torch import Tensor

__all__ = MODULES["detection"]
__path__: list[str] = []  # modules below have no file: they are torchmetrics' paths, see valor_gpu._paths
__getattr__ = names_of_package(__name__)


def intersection_over_union(
    preds: ArrayLike | Tensor,
    target: ArrayLike | Tensor,
    iou_threshold: float | None = None,
    replacement_val: float = 0,
    aggregate: bool = True,
) -> Tensor:
    """Returns the IoU of every pair of boxes, or its mean over the pairs of equal index.

    Source: torchmetrics, ``functional.detection.intersection_over_union``; here torchvision is not needed.

    Args:
        preds: boxes ``[N, 4]`` x1, y1, x2, y2 of any float or integer dtype.
        target: boxes ``[M, 4]``.
        iou_threshold: values below it are replaced; None: none is.
        replacement_val: by what.
        aggregate: return the mean over the pairs (i, i), 0 without pairs, in place of the matrix.

    Returns:
        float32, of float64 boxes float64: ``[]``, or ``[N, M]`` without ``aggregate``.

    Raises:
        InputError: boxes are not ``[N, 4]``, or not on one device.
        InputTypeError: ``aggregate`` is no bool, or a number is none.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [4.0, 4.0, 6.0, 8.0]])
        >>> intersection_over_union(boxes, boxes + 1, aggregate=False)
        tensor([[0.1429, 0.0000],
                [0.0000, 0.2308]])
        >>> intersection_over_union(boxes, boxes + 1)
        tensor(0.1868)
    """
    return _similarity("iou", preds, target, iou_threshold, replacement_val, aggregate)


@arguments_of(intersection_over_union)
def generalized_intersection_over_union(
    preds: ArrayLike | Tensor,
    target: ArrayLike | Tensor,
    iou_threshold: float | None = None,
    replacement_val: float = 0,
    aggregate: bool = True,
) -> Tensor:
    """As :func:`intersection_over_union`, of the generalised IoU, from -1 to 1."""
    return _similarity("giou", preds, target, iou_threshold, replacement_val, aggregate)


@arguments_of(intersection_over_union)
def distance_intersection_over_union(
    preds: ArrayLike | Tensor,
    target: ArrayLike | Tensor,
    iou_threshold: float | None = None,
    replacement_val: float = 0,
    aggregate: bool = True,
) -> Tensor:
    """As :func:`intersection_over_union`, of the distance IoU, from -1 to 1."""
    return _similarity("diou", preds, target, iou_threshold, replacement_val, aggregate)


@arguments_of(intersection_over_union)
def complete_intersection_over_union(
    preds: ArrayLike | Tensor,
    target: ArrayLike | Tensor,
    iou_threshold: float | None = None,
    replacement_val: float = 0,
    aggregate: bool = True,
) -> Tensor:
    """As :func:`intersection_over_union`, of the complete IoU, from -2 to 1."""
    return _similarity("ciou", preds, target, iou_threshold, replacement_val, aggregate)


@arguments_of(MeanAveragePrecision)
@device_free
def mean_average_precision(
    preds: Sequence[Mapping[str, Any]] | Mapping[str, Tensor],
    target: Sequence[Mapping[str, Any]] | Mapping[str, Tensor],
    box_format: str = "xyxy",
    iou_type: str | Sequence[str] = "bbox",
    iou_thresholds: Sequence[float] | None = None,
    rec_thresholds: Sequence[float] | None = None,
    max_detection_thresholds: Sequence[int] | None = None,
    class_metrics: bool = False,
    extended_summary: bool = False,
    average: str = "macro",
    backend: str = "pycocotools",
    warn_on_many_detections: bool = True,
) -> dict[str, Tensor]:
    """Returns what ``MeanAveragePrecision`` computes of one batch of images.

    Source: torchmetrics, ``functional.detection.map.mean_average_precision``; neither pycocotools nor torchvision is
    needed. Numbers and their dtypes are those of :class:`valor_gpu.detection.MeanAveragePrecision` with
    ``tie_order="arrival"``: equal scores rank in the order of the images. A tensor of one element has no dimension, as
    there.

    Args:
        preds: detections, as ``update`` of the class takes them.
        target: ground truths, likewise.
        warn_on_many_detections: warn of images with more detections than the largest of ``max_detection_thresholds``.

    Raises:
        InputError: an argument is out of range, or an image is malformed; the message names it.

    Example:
        >>> box, label = torch.tensor([[258.0, 41.0, 606.0, 285.0]]), torch.tensor([0])
        >>> preds = [{"boxes": box, "scores": torch.tensor([0.536]), "labels": label}]
        >>> target = [{"boxes": torch.tensor([[214.0, 41.0, 562.0, 285.0]]), "labels": label}]
        >>> mean_average_precision(preds, target)["map"]
        tensor(0.6000)
    """
    check_type("warn_on_many_detections", warn_on_many_detections, bool)
    metric = alone(MeanAveragePrecision(
        box_format, iou_type, iou_thresholds, rec_thresholds, max_detection_thresholds, class_metrics, extended_summary,
        average, backend, tie_order="arrival", keep_inputs=False,
    ))  # fmt: skip
    metric.warn_on_many_detections = warn_on_many_detections
    first = preds[0] if isinstance(preds, (list, tuple)) and preds else preds
    if isinstance(first, dict) and isinstance(labels := first.get("labels"), torch.Tensor):
        metric.to(labels.device)
    metric.update(preds, target)
    return {name: _as_function(value) for name, value in metric.compute().items()}


def _as_function(value: Any) -> Any:
    """A value of ``compute`` in the shape that torchmetrics' function gives: similarities of one pair stay a table."""
    if isinstance(value, dict):
        return {cell: part.reshape(1, 1) if _is_single(part) else part for cell, part in value.items()}
    return value.squeeze() if _is_single(value) else value


def _is_single(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1


def _similarity(
    kind: str, preds: Any, target: Any, threshold: float | None, replacement: float, aggregate: bool
) -> Tensor:
    check_type("aggregate", aggregate, bool)
    check_number("replacement_val", replacement)
    if threshold is not None:
        check_number("iou_threshold", threshold)
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
    if threshold is not None:
        values = torch.where(values < threshold, replacement, values)
    if aggregate:
        values = values.diagonal().mean() if values.numel() else values.new_zeros(())
    return values.to(shown)
