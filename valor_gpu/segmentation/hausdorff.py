"""The Hausdorff distance between the boundaries of predicted and true masks, with the arguments of torchmetrics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.ops.surface.op import LARGEST, SurfaceDistances
from valor_gpu.segmentation.surface_base import (
    DistanceMetric,
    Spacing,
    mean_ascending,
    metric_of,
    spacing_of,
    with_missing,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions


class HausdorffDistance(DistanceMetric):
    """Computes the Hausdorff distance of each image and class, and its mean over images and classes.

    It is the largest distance from a boundary pixel of one side to the nearest boundary pixel of the other. Boundary
    pixels have a neighbour along an axis that is not of the class or lies outside of the image.

    Where the boundary of a class is empty on one side, the distance of that image and class is infinite in
    ``compute``, as in torchmetrics, and left out of :meth:`result`, which counts it. Where it is empty on both sides
    there is no distance: torchmetrics raises an error, here it is left out and counted. Images need not be square,
    and may be volumes; see docs/quirks.md for what torchmetrics does with these.

    Source: Huttenlocher, Klanderman, Rucklidge, IEEE TPAMI 15, 1993.

    Args:
        num_classes: C.
        include_background: also class 0.
        distance_metric: ``euclidean``, ``chessboard`` (the largest of the distances along the axes) or ``taxicab``
            (their sum).
        spacing: distance of neighbouring pixels along each axis of the image, list or tensor; None for 1.
        directed: take distances from the predictions to the target alone.
        input_format: ``one-hot``: masks of 0 and 1 ``[B, C, H, W]`` or ``[B, C, D, H, W]``, of one class in floats
            too, or logits of several, whose largest counts; ``index``: class indices ``[B, H, W]`` or
            ``[B, D, H, W]``, or logits as predictions; ``mixed``: one side each.

    Example:
        >>> import torch
        >>> metric = HausdorffDistance(num_classes=2, input_format="index")
        >>> preds, target = torch.zeros(2, 1, 8, 8, dtype=torch.int64)
        >>> preds[0, 1:4, 1:4], target[0, 1:4, 3:6] = 1, 1
        >>> metric.update(preds, target)
        >>> metric.compute()
        tensor(2.)
    """

    _can_ignore = False

    def __init__(
        self,
        num_classes: int,
        include_background: bool = False,
        distance_metric: str = "euclidean",
        spacing: Spacing = None,
        directed: bool = False,
        input_format: str = "one-hot",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_type("directed", directed, bool)
        self.distance_metric, self.spacing, self.directed = metric_of(distance_metric), spacing_of(spacing), directed
        options = {"metric": self.distance_metric, "spacing": self.spacing}
        config = {"distance_metric": distance_metric, "spacing": self.spacing, "directed": directed}
        super().__init__((num_classes, include_background), input_format, None, config, options, "micro", **kwargs)

    def _is_maximum(self) -> bool:
        return True

    def _scores(self, found: SurfaceDistances) -> Tensor:
        largest = found.statistics[..., LARGEST]
        return with_missing(largest[..., 0] if self.directed else largest.amax(-1), found)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the mean as torchmetrics gives it: float32 ``[]``, infinite where one distance is."""
        state = self.state()
        if (few := self._few_scores(state)) is not None:
            # a third of the time of torch.tensor
            return torch.from_numpy(np.array(math.inf if math.inf in few else mean_ascending(few), np.float32))
        if bool(state.scores.isinf().any()):
            return torch.tensor(torch.inf, dtype=torch.float32, device=self.error.device)
        return super().compute().float()

    def image_values(self) -> Tensor:
        """The distance of each image of this rank and class, float32 ``[N, C]``, infinite where one boundary is empty.

        Raises:
            InputError: an ``update`` on CUDA met a bad label.
        """
        self._check_error()
        return self.state().scores[..., 0].float()
