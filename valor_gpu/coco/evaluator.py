"""Path of ``COCOeval`` in pickles of older releases; see :mod:`valor_gpu.compat.pycocotools.cocoeval`."""

from valor_gpu.compat.pycocotools.cocoeval import COCOeval, _Unset

__all__ = ["COCOeval", "_Unset"]
