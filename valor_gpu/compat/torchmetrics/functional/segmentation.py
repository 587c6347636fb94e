"""Metrics of the regions and segments of one batch of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu.argument_docs import arguments_of
from valor_gpu.compat.torchmetrics.functional.names import MODULES
from valor_gpu.compat.torchmetrics.functional.once import once, updated
from valor_gpu.segmentation import (
    DiceScore,
    GeneralizedDiceScore,
    HausdorffDistance,
    MeanIoU,
    ModifiedPanopticQuality,
    PanopticQuality,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import ArrayLike
    from torch import Tensor

__all__ = MODULES["segmentation"]


def _of_images(kind: Any, given: tuple[Any, Any, Any, Any], **arguments: Any) -> Tensor:
    """What a metric has of each image of one batch, float32 on their device; errors as in :func:`once`."""
    value: Tensor = updated(kind, given, arguments).image_values()
    return value


@arguments_of(DiceScore, DiceScore.update)
def dice_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    include_background: bool = True,
    average: str | None = "macro",
    input_format: str = "one-hot",
    aggregation_level: str = "samplewise",
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns ``DiceScore`` of each image, ``[N]``, or ``[N, C]`` without average.

    Args:
        aggregation_level: ``samplewise`` gives the score of each image; ``global`` that of all images as one, N = 1.
        y_true, y_pred: ``target`` and ``preds`` by name, in place of these.
    """
    return _of_images(
        DiceScore,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        include_background=include_background,
        average=average,
        input_format=input_format,
        aggregation_level=aggregation_level,
    )


@arguments_of(GeneralizedDiceScore, GeneralizedDiceScore.update, dice_score)
def generalized_dice_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    include_background: bool = True,
    per_class: bool = False,
    weight_type: str = "square",
    input_format: str = "one-hot",
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns ``GeneralizedDiceScore`` of each image, ``[N]``, or ``[N, C]`` with ``per_class``.

    Args:
        per_class: return the score of each class in each image.
    """
    return _of_images(
        GeneralizedDiceScore,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        include_background=include_background,
        per_class=per_class,
        weight_type=weight_type,
        input_format=input_format,
    )


@arguments_of(HausdorffDistance, HausdorffDistance.update, dice_score)
def hausdorff_distance(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    include_background: bool = False,
    distance_metric: str = "euclidean",
    spacing: Sequence[float] | Tensor | None = None,
    directed: bool = False,
    input_format: str = "one-hot",
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns ``HausdorffDistance`` of each image and class, ``[N, C]``.

    It is infinite where one boundary is empty, and NaN where both are.

    Args:
        target: class indices, or masks.
    """
    return _of_images(
        HausdorffDistance,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        include_background=include_background,
        distance_metric=distance_metric,
        spacing=spacing,
        directed=directed,
        input_format=input_format,
    )


@arguments_of(MeanIoU, MeanIoU.update, dice_score)
def mean_iou(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    include_background: bool = True,
    per_class: bool = False,
    input_format: str = "one-hot",
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns ``MeanIoU`` of each image, ``[N]``, or ``[N, C]`` with ``per_class``.

    Args:
        per_class: return the value of each class in each image, -1 for a class that the image does not have. Means
            leave such classes out.
    """
    return _of_images(
        MeanIoU,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        include_background=include_background,
        per_class=per_class,
        input_format=input_format,
    )


@arguments_of(PanopticQuality, PanopticQuality.update, dice_score)
def panoptic_quality(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    things: Collection[int] = (),
    stuffs: Collection[int] = (),
    allow_unknown_preds_category: bool = False,
    return_sq_and_rq: bool = False,
    return_per_class: bool = False,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``PanopticQuality`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        PanopticQuality,
        (preds, target, y_true, y_pred),
        things=things,
        stuffs=stuffs,
        allow_unknown_preds_category=allow_unknown_preds_category,
        return_sq_and_rq=return_sq_and_rq,
        return_per_class=return_per_class,
    )


@arguments_of(ModifiedPanopticQuality, ModifiedPanopticQuality.update, dice_score)
def modified_panoptic_quality(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    things: Collection[int] = (),
    stuffs: Collection[int] = (),
    allow_unknown_preds_category: bool = False,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``ModifiedPanopticQuality`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        ModifiedPanopticQuality,
        (preds, target, y_true, y_pred),
        things=things,
        stuffs=stuffs,
        allow_unknown_preds_category=allow_unknown_preds_category,
    )
