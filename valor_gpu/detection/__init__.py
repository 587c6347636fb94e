"""Metrics of object detection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.detection.mean_ap import MeanAveragePrecision

__all__ = ["MeanAveragePrecision"]


__getattr__, __dir__ = lazy_names(__name__, {"MeanAveragePrecision": "valor_gpu.detection.mean_ap"})
