"""Kernels: each op has one reference in plain torch, and faster kernels that the torch dispatcher picks by device.

Public are the names of ``__all__``. The other functions of the modules below are internal: their arguments and results
change with the kernels. :func:`backends` lists every op.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.ops._library import Op
    from valor_gpu.ops.boundary import mask_boundary
    from valor_gpu.ops.boxes import box_iou
    from valor_gpu.ops.keypoints import keypoint_similarity
    from valor_gpu.ops.masks import PackedMasks, pack_masks
    from valor_gpu.ops.polygon_areas import polygon_iou
    from valor_gpu.ops.polygon_sets import PolygonSet
    from valor_gpu.ops.polygons import rasterise
    from valor_gpu.ops.rotated import rotated_box_iou
    from valor_gpu.ops.runs import Runs

__all__ = [
    "PackedMasks",
    "PolygonSet",
    "Runs",
    "backends",
    "box_iou",
    "keypoint_similarity",
    "mask_boundary",
    "pack_masks",
    "polygon_iou",
    "rasterise",
    "rotated_box_iou",
]

_HOMES = {
    "PackedMasks": "valor_gpu.ops.masks",
    "PolygonSet": "valor_gpu.ops.polygon_sets",
    "Runs": "valor_gpu.ops.runs",
    "box_iou": "valor_gpu.ops.boxes",
    "keypoint_similarity": "valor_gpu.ops.keypoints",
    "mask_boundary": "valor_gpu.ops.boundary",
    "pack_masks": "valor_gpu.ops.masks",
    "polygon_iou": "valor_gpu.ops.polygon_areas",
    "rasterise": "valor_gpu.ops.polygons",
    "rotated_box_iou": "valor_gpu.ops.rotated",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)


def backends() -> list[Op]:
    """Every op of the package by name, with what serves it on CPU and on CUDA tensors, and why.

    Example:
        >>> "box_iou" in [op.name for op in backends()]
        True
    """
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(__path__):
        if not module.ispkg and not module.name.startswith("_"):
            importlib.import_module(f"{__name__}.{module.name}")
    from valor_gpu.ops import _library

    return _library.backends()
