"""Intersection over union of polygons, and their pairs for matching."""

from valor_gpu._lazy import lazy_names

# Pickles name the function by this package.
__getattr__, __dir__ = lazy_names(__name__, {"polygon_iou": f"{__name__}.op"})
