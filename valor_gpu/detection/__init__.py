"""Metrics of object detection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.detection.mean_ap import MeanAveragePrecision
    from valor_gpu.detection.open_images import OpenImagesAveragePrecision

__all__ = ["MeanAveragePrecision", "OpenImagesAveragePrecision"]


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MeanAveragePrecision": "valor_gpu.detection.mean_ap",
        "OpenImagesAveragePrecision": "valor_gpu.detection.open_images",
    },
)
