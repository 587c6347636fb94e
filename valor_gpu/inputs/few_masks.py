"""A few masks in one native call: dicts, polygons, boxes and pixels to numbers and to dicts. No torch.

Every function gives None where masks are not plain, not good or not few: :mod:`valor_gpu.inputs.rle_dicts` and
:mod:`valor_gpu.ops.runs.cpu` take them then, on threads, and say what is wrong with which. Numbers come in a
``bytearray`` of which an array is made, since to find the address of an array takes longer than to read a mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native_objects

Rle = dict[str, Any]


def areas(objects: Any) -> Any:
    """Number of set pixels, as :func:`valor_gpu.coco.mask.area` gives it; or None."""
    found = native_objects.function("valor_cpu", "valor_mask_areas_cpu", "o")(objects)
    if type(found) is int:
        return np.uint32(found)
    return None if found is None else np.frombuffer(found, np.uint32)


def boxes(objects: Any) -> NDArray[np.float64] | None:
    """Boxes as :func:`valor_gpu.coco.mask.toBbox` gives them; or None."""
    found = native_objects.function("valor_cpu", "valor_mask_boxes_cpu", "o")(objects)
    if found is None:
        return None
    return np.ndarray(4 if type(objects) is dict else (len(objects), 4), np.float64, found)


def iou(dt: Any, gt: Any, crowd: Any) -> NDArray[np.float64] | None:
    """IoU of masks, or of boxes, as :func:`valor_gpu.coco.mask.iou` gives it; or None."""
    flags = crowd.tolist() if isinstance(crowd, np.ndarray) else crowd
    found = native_objects.function("valor_cpu", "valor_few_ious_cpu", "ooo")(dt, gt, flags)
    return None if found is None else np.ndarray((len(dt), len(gt)), np.float64, found, order="F")


def merge(objects: Any, intersect: bool) -> Rle | None:
    """The union or intersection of masks of one size; or None."""
    made: Rle | None = native_objects.function("valor_cpu", "valor_merged_mask_cpu", "oo")(objects, intersect)
    return made


def from_objects(objects: Any, height: Any, width: Any) -> Any:
    """Dicts as :func:`valor_gpu.coco.mask.frPyObjects` gives them; or None."""
    return native_objects.function("valor_cpu", "valor_mask_dicts_cpu", "ooo")(objects, height, width)


def from_masks(masks: Any) -> Any:
    """Dicts as :func:`valor_gpu.coco.mask.encode` gives them; or None."""
    return native_objects.function("valor_cpu", "valor_encoded_masks_cpu", "o")(masks)


def to_masks(objects: Any) -> NDArray[np.uint8] | None:
    """Pixels as :func:`valor_gpu.coco.mask.decode` gives them; or None."""
    found = native_objects.function("valor_cpu", "valor_decoded_masks_cpu", "o")(objects)
    if found is None:
        return None
    if type(objects) is dict:
        return np.ndarray(objects["size"], np.uint8, found, order="F")
    return np.ndarray((*objects[0]["size"], len(objects)), np.uint8, found, order="F")
