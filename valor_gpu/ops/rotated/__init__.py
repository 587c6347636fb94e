"""Intersection over union of rotated boxes, and their pairs for matching."""

from valor_gpu._lazy import lazy_names

# Pickles name the function by this package.
__getattr__, __dir__ = lazy_names(__name__, {"rotated_box_iou": f"{__name__}.op"})
