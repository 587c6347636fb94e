"""Dense masks: packed to bits, and their pairs for matching."""

from valor_gpu._lazy import lazy_names

__all__ = ["PackedMasks", "pack_masks"]

# Pickles name them by this package.
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, f"{__name__}.op"))
