"""Polygons drawn as masks."""

from valor_gpu._lazy import lazy_names

# Pickles name the function by this package.
__getattr__, __dir__ = lazy_names(__name__, {"rasterise": f"{__name__}.op"})
