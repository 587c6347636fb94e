"""Kernels: each op has one reference in plain torch, and faster kernels that the torch dispatcher picks by device.

Each op has a folder: ``op.py`` checks arguments and calls it, ``reference.py`` defines it, ``cpu.py`` and ``cuda.py``
call its kernels. Public are the names of ``__all__``. Other functions are internal: their arguments and results
change with the kernels. :func:`backends` lists every op.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.ops._library import Op
    from valor_gpu.ops.boundary.op import mask_boundary
    from valor_gpu.ops.boxes.op import box_iou
    from valor_gpu.ops.keypoints.op import keypoint_similarity
    from valor_gpu.ops.masks.op import PackedMasks, pack_masks
    from valor_gpu.ops.polygon_areas.op import polygon_iou
    from valor_gpu.ops.polygon_sets.op import PolygonSet
    from valor_gpu.ops.polygons.op import rasterise
    from valor_gpu.ops.rotated.op import rotated_box_iou
    from valor_gpu.ops.runs.op import Runs

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
    "PackedMasks": "valor_gpu.ops.masks.op",
    "PolygonSet": "valor_gpu.ops.polygon_sets.op",
    "Runs": "valor_gpu.ops.runs.op",
    "box_iou": "valor_gpu.ops.boxes.op",
    "keypoint_similarity": "valor_gpu.ops.keypoints.op",
    "mask_boundary": "valor_gpu.ops.boundary.op",
    "pack_masks": "valor_gpu.ops.masks.op",
    "polygon_iou": "valor_gpu.ops.polygon_areas.op",
    "rasterise": "valor_gpu.ops.polygons.op",
    "rotated_box_iou": "valor_gpu.ops.rotated.op",
}

# Pickles of 0.2.0 name these classes by modules that are gone: those of evaluations and of metrics of detections.
_PICKLED = {"MatchRule": "valor_gpu.ops.assign.match_batch", "RecordShape": "valor_gpu.ops.accumulate.types"}
for _old in ("accumulate_types", "match_batch"):
    sys.modules.setdefault(f"{__name__}.{_old}", sys.modules[__name__])

__getattr__, __dir__ = lazy_names(__name__, _HOMES | _PICKLED)


def backends() -> list[Op]:
    """Every op of the package by name, with what serves it on CPU and on CUDA tensors, and why.

    Example:
        >>> "box_iou" in [op.name for op in backends()]
        True
    """
    import importlib
    import pkgutil

    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        if module.name.endswith(".op"):
            importlib.import_module(module.name)
    from valor_gpu.ops import _library

    return _library.backends()
