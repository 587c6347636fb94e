"""``pycocotools.mask`` by the path that programs import; see :mod:`valor_gpu.compat.pycocotools.mask`."""

from valor_gpu.compat.pycocotools.mask import area, decode, encode, frPyObjects, iou, merge, toBbox

__all__ = ["area", "decode", "encode", "frPyObjects", "iou", "merge", "toBbox"]
