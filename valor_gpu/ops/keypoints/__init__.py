"""Object keypoint similarity, and its pairs for matching."""

from valor_gpu._lazy import lazy_names

__all__ = ["keypoint_similarity"]

# Pickles name it by this package.
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, f"{__name__}.op"))
