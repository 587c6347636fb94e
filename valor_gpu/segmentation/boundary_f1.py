"""The boundary F1 of semantic segmentation: how much of a boundary lies near the other one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from valor_gpu.checks import check_choice, check_number
from valor_gpu.errors import InputError
from valor_gpu.ops.surface.op import NEAR, SurfaceDistances
from valor_gpu.segmentation.surface_base import Floats, ImageScores, SurfaceMetric, pixels_of
from valor_gpu.state import check_elements

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

UNITS = ("diagonal", "pixels")


class _BoundaryShares(ImageScores):
    """Scores of the boundary F1: shares ``[N, C', 2]`` of predicted and of true boundary pixels that are matched."""

    def check(self, rule: Any) -> None:
        """Raises :class:`InputError` unless every number is a share."""
        check_elements("scores", self.scores, ~((self.scores < 0) | (self.scores > 1)), "be from 0 to 1, or NaN")


class BoundaryF1(SurfaceMetric):
    """Computes the F1 of the boundaries of a class in each image, and averages images.

    Precision is the share of predicted boundary pixels whose distance to the true boundary is at most the tolerance,
    recall the share of true boundary pixels that near to the predicted boundary. Boundary pixels have a neighbour
    along an axis that is not of the class or lies outside of the image. Where only one side has a boundary, nothing of
    it is matched and F1 is 0; where none has one, F1 does not exist: such an image is left out of the mean of that
    class, and :meth:`result` counts both cases.

    Source: Csurka, Larlus, Perronnin, BMVC 2013: F1 by image and class, with a tolerance of 0.75 % of the diagonal of
    the image, which is not rounded.

    Args:
        num_classes: C.
        tolerance: largest distance of a match, Euclidean.
        unit: of ``tolerance``: ``diagonal``, fractions of the diagonal of each image, or ``pixels``.
        include_background: also class 0.

    Example:
        >>> import torch
        >>> metric = BoundaryF1(num_classes=2, tolerance=1, unit="pixels")
        >>> preds, target = torch.zeros(2, 1, 8, 8, dtype=torch.int64)
        >>> preds[0, 1:4, 1:4], target[0, 1:4, 3:6] = 1, 1
        >>> metric.update(preds, target)
        >>> metric.compute()
        tensor(0.6250, dtype=torch.float64)
    """

    higher_is_better = True
    plot_upper_bound = 1.0
    _kind_of_state = _BoundaryShares
    _numbers = 2
    _missing = "no image has a boundary of the class"

    def __init__(
        self,
        num_classes: int,
        *,
        tolerance: float = 0.0075,
        unit: str = "diagonal",
        include_background: bool = False,
        input_format: str = "index",
        average: str | None = "macro",
        ignore_index: int | None = None,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("unit", unit, UNITS)
        if unit == "diagonal" and isinstance(tolerance, int | float) and tolerance > 1:
            raise InputError(f"tolerance must be in [0, 1] but got {tolerance}: unit='pixels' takes pixels")
        check_number("tolerance", tolerance, 0, 1 if unit == "diagonal" else 1e9)
        self.tolerance, self.unit = float(tolerance), unit
        config = {"tolerance": self.tolerance, "unit": unit}
        classes = (num_classes, include_background)
        super().__init__(classes, input_format, ignore_index, config, {}, average, **kwargs)

    def _choices(self, size: Sequence[int]) -> dict[str, Any]:
        scale = math.sqrt(sum(length * length for length in size)) if self.unit == "diagonal" else 1.0
        return {"tolerance": self.tolerance * scale}

    def _scores(self, found: SurfaceDistances) -> Tensor:
        return found.counts[..., NEAR].double() / pixels_of(found)  # NaN: no boundary pixel

    def _values(self, state: ImageScores) -> Floats:
        shares = state.scores.cpu().numpy()
        precision, recall = np.moveaxis(np.nan_to_num(shares), -1, 0)
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
        return np.where(np.isnan(shares).all(-1), np.nan, f1)

    def _empty_boundaries(self, state: ImageScores) -> dict[str, int]:
        empty = state.scores.isnan().sum(-1)
        return {"one_boundary_empty": int((empty == 1).sum()), "no_boundary": int((empty == 2).sum())}
