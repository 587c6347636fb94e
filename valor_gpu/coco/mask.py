"""``pycocotools.mask`` by the path that programs import; documented in :mod:`valor_gpu.compat.pycocotools.mask`."""

from valor_gpu.compat.pycocotools import mask
from valor_gpu.compat.pycocotools.mask import area, decode, encode, frPyObjects, iou, merge, toBbox

__doc__ = mask.__doc__  # which help() and the pages of docs show
__all__ = ["area", "decode", "encode", "frPyObjects", "iou", "merge", "toBbox"]
