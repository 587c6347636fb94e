"""Polygons of many items in flat tensors."""

from valor_gpu._lazy import lazy_names

# Pickles name the class by this package.
__getattr__, __dir__ = lazy_names(__name__, {"PolygonSet": f"{__name__}.op"})
