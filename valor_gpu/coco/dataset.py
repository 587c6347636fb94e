"""Path of ``COCO`` in pickles of older releases; see :mod:`valor_gpu.compat.pycocotools.coco`."""

from valor_gpu.compat.pycocotools.coco import COCO, _Results

__all__ = ["COCO", "_Results"]
