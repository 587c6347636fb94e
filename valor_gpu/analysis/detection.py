"""DetectionAnalysis: what results of detection answer, from the rows and pairs of their evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.analysis.base import Analysis
from valor_gpu.analysis.matched import MatchedDetections

if TYPE_CHECKING:
    from valor_gpu.analysis.match_table import MatchTable
    from valor_gpu.analysis.points_result import OperatingPoints
    from valor_gpu.analysis.tide_result import DetectionErrors
    from valor_gpu.exports.column_table import ColumnTable
    from valor_gpu.result_data import ResultData


class DetectionAnalysis(MatchedDetections, Analysis):
    """Answers of a detection result; subclasses say where rows and pairs come from."""

    def errors(
        self, iou: float | Sequence[float] = 0.5, background: float | Sequence[float] = 0.1, protocol: str = "coco"
    ) -> DetectionErrors:
        """Computes the answer of :meth:`valor_gpu.result.Result.errors`."""
        from valor_gpu.analysis.tide import detection_errors

        return detection_errors(self, iou, background, protocol)

    def olrp(self, iou: float = 0.5) -> ResultData:
        """Computes the answer of :meth:`valor_gpu.result.Result.olrp`."""
        from valor_gpu.analysis.olrp import optimal_lrp

        return optimal_lrp(self, iou)

    def operating_points(self, **choices: Any) -> OperatingPoints:
        """Computes the answer of :meth:`valor_gpu.result.Result.operating_points`."""
        from valor_gpu.analysis.operating_points import operating_points

        return operating_points(self, **choices)

    def image_table(self, **choices: Any) -> ColumnTable:
        """Computes the answer of :meth:`valor_gpu.result.Result.images`."""
        from valor_gpu.analysis.image_table import image_table

        return image_table(self, **choices)

    def match_table(self, **choices: Any) -> MatchTable:
        """Computes the answer of :meth:`valor_gpu.result.Result.matches`."""
        from valor_gpu.analysis.match_table import match_table

        return match_table(self, **choices)
