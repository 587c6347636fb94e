"""Detections against ground truths by overlap, without matching one to one."""

from valor_gpu._lazy import lazy_names

__all__ = ["Overlaps"]

# Pickles name it by this package.
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, f"{__name__}.op"))
