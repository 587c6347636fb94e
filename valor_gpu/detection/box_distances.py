"""Mean GIoU, DIoU and CIoU of pairs of boxes."""

from __future__ import annotations

from valor_gpu.detection.box_overlaps import IntersectionOverUnion


class GeneralizedIntersectionOverUnion(IntersectionOverUnion):
    """Computes the mean GIoU of the pairs of detections and ground truths of an image that have one label.

    GIoU is the IoU less the fraction of the smallest box around both that neither covers: from -1 to 1. Which pairs
    count, and the zeros of images with boxes on one side alone, are as in :class:`IntersectionOverUnion`. Scores are
    not used.

    Source: Rezatofighi et al., Generalized intersection over union (CVPR 2019); torchmetrics,
    ``GeneralizedIntersectionOverUnion``.

    Args:
        iou_threshold: pairs whose GIoU is smaller do not count; None takes all.

    Example:
        >>> import torch
        >>> preds = [{"boxes": torch.tensor([[0.0, 0.0, 2.0, 2.0]]), "labels": torch.tensor([4])}]
        >>> target = [{"boxes": torch.tensor([[1.0, 0.0, 3.0, 2.0]]), "labels": torch.tensor([4])}]
        >>> metric = GeneralizedIntersectionOverUnion()
        >>> metric.update(preds, target)
        >>> metric.compute()
        {'giou': tensor(0.3333)}
    """

    plot_lower_bound = -1.0
    similarity = "giou"


class DistanceIntersectionOverUnion(IntersectionOverUnion):
    """Computes the mean DIoU of the pairs of detections and ground truths of an image that have one label.

    DIoU is the IoU less the squared distance of the centres over the squared diagonal of the smallest box around both.
    Which pairs count, and the zeros of images with boxes on one side alone, are as in :class:`IntersectionOverUnion`.
    Scores are not used.

    Source: Zheng et al., Distance-IoU loss (AAAI 2020); torchmetrics, ``DistanceIntersectionOverUnion``.

    Args:
        iou_threshold: pairs whose DIoU is smaller do not count; None takes all.

    Example:
        >>> import torch
        >>> preds = [{"boxes": torch.tensor([[0.0, 0.0, 2.0, 2.0]]), "labels": torch.tensor([4])}]
        >>> target = [{"boxes": torch.tensor([[1.0, 0.0, 3.0, 2.0]]), "labels": torch.tensor([4])}]
        >>> metric = DistanceIntersectionOverUnion()
        >>> metric.update(preds, target)
        >>> metric.compute()
        {'diou': tensor(0.2564)}
    """

    plot_lower_bound = -1.0
    similarity = "diou"


class CompleteIntersectionOverUnion(IntersectionOverUnion):
    """Computes the mean CIoU of the pairs of detections and ground truths of an image that have one label.

    CIoU is the DIoU less a term for widths over heights that differ. Which pairs count, and the zeros of images with
    boxes on one side alone, are as in :class:`IntersectionOverUnion`. Scores are not used.

    Source: Zheng et al., Distance-IoU loss (AAAI 2020); torchmetrics, ``CompleteIntersectionOverUnion``.

    Args:
        iou_threshold: pairs whose CIoU is smaller do not count; None takes all.

    Example:
        >>> import torch
        >>> preds = [{"boxes": torch.tensor([[0.0, 0.0, 2.0, 2.0]]), "labels": torch.tensor([4])}]
        >>> target = [{"boxes": torch.tensor([[1.0, 0.0, 3.0, 2.0]]), "labels": torch.tensor([4])}]
        >>> metric = CompleteIntersectionOverUnion()
        >>> metric.update(preds, target)
        >>> metric.compute()
        {'ciou': tensor(0.2564)}
    """

    plot_lower_bound = -2.0
    similarity = "ciou"
