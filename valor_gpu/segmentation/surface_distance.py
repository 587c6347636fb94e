"""Mean, percentile or largest distance between the surfaces of predicted and true masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_choice, check_number, check_type
from valor_gpu.ops.surface.op import LARGEST, PERCENTILE, SUM, SurfaceDistances
from valor_gpu.segmentation.hausdorff import HausdorffDistance
from valor_gpu.segmentation.surface_base import (
    DistanceMetric,
    Spacing,
    metric_of,
    pixels_of,
    spacing_of,
    with_missing,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

STATISTICS = ("mean", "percentile", "max")


@arguments_of(HausdorffDistance)
class SurfaceDistance(DistanceMetric):
    """Computes how far the boundaries of a predicted and a true class are apart in each image, and averages images.

    From each boundary pixel the distance to the nearest boundary pixel of the other side is taken. ``mean`` is the
    average symmetric surface distance, the mean over the pixels of both boundaries as one list (Heimann et al., IEEE
    TMI 28, 2009); ``percentile`` the larger one of the percentiles of both directions, with 95 known as HD95 (the
    robust Hausdorff distance of Huttenlocher et al., IEEE TPAMI 15, 1993, and of BraTS; medpy's ``hd95`` is the
    percentile of both lists as one); ``max`` the Hausdorff distance. Percentiles are those of ``numpy.percentile``
    (linear).

    Boundary pixels have a neighbour along an axis that is not of the class or lies outside of the image, as in medpy
    and torchmetrics. Where the boundary of a class is empty on one side or both there is no distance: such an image is
    left out of the mean of that class, and :meth:`result` counts it.

    Args:
        statistic: ``mean``, ``percentile`` or ``max``, over the boundary pixels of an image and class.
        percentile: from 0 to 100.

    Example:
        >>> import torch
        >>> metric = SurfaceDistance(num_classes=2, statistic="percentile", spacing=[1.0, 0.5])
        >>> preds, target = torch.zeros(2, 1, 8, 8, dtype=torch.int64)
        >>> preds[0, 1:4, 1:4], target[0, 1:4, 3:6] = 1, 1
        >>> metric.update(preds, target)
        >>> metric.compute()
        tensor(1., dtype=torch.float64)
        >>> print(metric.result().counts["scored"])
        1
    """

    def __init__(
        self,
        num_classes: int,
        *,
        statistic: str = "mean",
        percentile: float = 95.0,
        directed: bool = False,
        spacing: Spacing = None,
        distance_metric: str = "euclidean",
        include_background: bool = False,
        input_format: str = "index",
        average: str | None = "macro",
        ignore_index: int | None = None,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("statistic", statistic, STATISTICS)
        check_number("percentile", percentile, 0, 100)
        check_type("directed", directed, bool)
        self.statistic, self.percentile, self.directed = statistic, float(percentile), directed
        self.spacing, self.distance_metric = spacing_of(spacing), metric_of(distance_metric)
        options = {"metric": self.distance_metric, "spacing": self.spacing, "percentile": self.percentile}
        config = {"statistic": statistic, **({"percentile": self.percentile} if statistic == "percentile" else {})}
        config |= {"directed": directed, "spacing": self.spacing, "distance_metric": distance_metric}
        classes = (num_classes, include_background)
        super().__init__(classes, input_format, ignore_index, config, options, average, **kwargs)

    def _is_maximum(self) -> bool:
        return self.statistic == "max"

    def _scores(self, found: SurfaceDistances) -> Tensor:
        if self.statistic == "mean":
            sides = 1 if self.directed else 2
            sums, pixels = found.statistics[..., :sides, SUM].sum(-1), pixels_of(found)[..., :sides].sum(-1)
            return with_missing(sums / pixels, found)
        column = found.statistics[..., PERCENTILE if self.statistic == "percentile" else LARGEST]
        return with_missing(column[..., 0] if self.directed else column.amax(-1), found)
