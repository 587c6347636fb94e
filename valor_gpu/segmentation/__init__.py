"""Metrics of semantic and panoptic segmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.segmentation.boundary_f1 import BoundaryF1
    from valor_gpu.segmentation.dice import DiceScore, GeneralizedDiceScore
    from valor_gpu.segmentation.hausdorff import HausdorffDistance
    from valor_gpu.segmentation.mean_iou import MeanIoU
    from valor_gpu.segmentation.panoptic import ModifiedPanopticQuality, PanopticQuality
    from valor_gpu.segmentation.pixel_confusion import PixelConfusionMatrix
    from valor_gpu.segmentation.region_metrics import IOU, PixelAccuracy, PixelF1, PixelPrecision, PixelRecall, mIOU
    from valor_gpu.segmentation.surface_distance import SurfaceDistance

__all__ = [
    "IOU",
    "BoundaryF1",
    "DiceScore",
    "GeneralizedDiceScore",
    "HausdorffDistance",
    "MeanIoU",
    "ModifiedPanopticQuality",
    "PanopticQuality",
    "PixelAccuracy",
    "PixelConfusionMatrix",
    "PixelF1",
    "PixelPrecision",
    "PixelRecall",
    "SurfaceDistance",
    "mIOU",
]

_REGIONS = ("IOU", "PixelAccuracy", "PixelF1", "PixelPrecision", "PixelRecall", "mIOU")
_HOMES = {
    **dict.fromkeys(_REGIONS, "valor_gpu.segmentation.region_metrics"),
    **dict.fromkeys(("DiceScore", "GeneralizedDiceScore"), "valor_gpu.segmentation.dice"),
    **dict.fromkeys(("ModifiedPanopticQuality", "PanopticQuality"), "valor_gpu.segmentation.panoptic"),
    "BoundaryF1": "valor_gpu.segmentation.boundary_f1",
    "HausdorffDistance": "valor_gpu.segmentation.hausdorff",
    "MeanIoU": "valor_gpu.segmentation.mean_iou",
    "PixelConfusionMatrix": "valor_gpu.segmentation.pixel_confusion",
    "SurfaceDistance": "valor_gpu.segmentation.surface_distance",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
