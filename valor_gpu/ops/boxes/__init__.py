"""Intersection over union of axis-parallel boxes."""

from valor_gpu._lazy import lazy_names

__all__ = ["box_iou"]

# Pickles name it by this package.
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, f"{__name__}.op"))
