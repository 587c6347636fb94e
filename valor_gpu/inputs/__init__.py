"""User data to tensors and columns: every format ends here.

Public are the names of ``__all__``; the other modules serve the metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.inputs.conversions import polygon_to_box, raster_to_box, raster_to_polygon, to_raster
    from valor_gpu.inputs.masks import Masks

__all__ = ["Masks", "polygon_to_box", "raster_to_box", "raster_to_polygon", "to_raster"]

_CONVERSIONS = "valor_gpu.inputs.conversions"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Masks": "valor_gpu.inputs.masks",
        "polygon_to_box": _CONVERSIONS,
        "raster_to_box": _CONVERSIONS,
        "raster_to_polygon": _CONVERSIONS,
        "to_raster": _CONVERSIONS,
    },
)
