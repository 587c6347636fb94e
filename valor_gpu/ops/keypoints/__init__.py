"""Object keypoint similarity, and its pairs for matching."""

from valor_gpu._lazy import lazy_names

# Pickles name the function by this package.
__getattr__, __dir__ = lazy_names(__name__, {"keypoint_similarity": f"{__name__}.op"})
