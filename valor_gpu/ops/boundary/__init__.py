"""Boundaries of dense masks."""

from valor_gpu._lazy import lazy_names

# Pickles name the function by this package.
__getattr__, __dir__ = lazy_names(__name__, {"mask_boundary": f"{__name__}.op"})
