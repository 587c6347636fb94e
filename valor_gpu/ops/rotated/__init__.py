"""Intersection over union of rotated boxes, and their pairs for matching."""

from valor_gpu._lazy import lazy_names

__all__ = ["rotated_box_iou"]

# Pickles name it by this package.
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, f"{__name__}.op"))
