"""Metrics of semantic and panoptic segmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.segmentation.panoptic import ModifiedPanopticQuality, PanopticQuality

__all__ = [
    "ModifiedPanopticQuality",
    "PanopticQuality",
]

_HOMES = {
    **dict.fromkeys(("ModifiedPanopticQuality", "PanopticQuality"), "valor_gpu.segmentation.panoptic"),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
