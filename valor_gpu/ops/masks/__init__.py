"""Dense masks: packed to bits, and their pairs for matching."""

from valor_gpu._lazy import lazy_names

# Pickles name the class and the function by this package.
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("PackedMasks", "pack_masks"), f"{__name__}.op"))
