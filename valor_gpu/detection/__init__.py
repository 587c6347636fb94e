"""Metrics of object detection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valor_gpu.detection.mean_ap import MeanAveragePrecision as MeanAveragePrecision

__all__ = ["MeanAveragePrecision"]


def __getattr__(name: str) -> Any:
    if name == "MeanAveragePrecision":
        from valor_gpu.detection.mean_ap import MeanAveragePrecision

        return MeanAveragePrecision
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
