"""Masks of any number as run-length dicts: numbers, pixels and dicts of them, on threads. No torch.

:mod:`valor_gpu.inputs.few_masks` takes few masks first, in one native call, under the same names.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs.rle_dicts import Rle, from_dicts, to_dicts
from valor_gpu.ops.boxes.cpu import box_iou
from valor_gpu.ops.polygons import cpu as polygons
from valor_gpu.ops.runs import cpu as codec
from valor_gpu.ops.runs.op import check_sizes


def from_masks(bimask: Any) -> Any:
    """Encodes dense masks, see :func:`valor_gpu.coco.mask.encode`."""
    masks = np.asarray(bimask)
    if masks.ndim not in (2, 3) or masks.dtype not in (np.bool_, np.uint8):
        raise InputError(f"bimask must be bool or uint8 [H, W] or [H, W, N] but got {masks.dtype} {list(masks.shape)}")
    stack = masks.transpose(2, 0, 1) if masks.ndim == 3 else masks[None]
    dicts = to_dicts(codec.from_masks(stack))
    return dicts if masks.ndim == 3 else dicts[0]


def to_masks(objects: Any) -> NDArray[np.uint8]:
    """Decodes masks, see :func:`valor_gpu.coco.mask.decode`."""
    runs, is_list = from_dicts(objects)
    if not len(runs):
        raise InputError("rleObjs must hold at least one mask but is empty")
    masks = codec.to_masks(runs).transpose(1, 2, 0)
    return masks if is_list else masks[:, :, 0]


def areas(objects: Any) -> Any:
    """Returns the number of set pixels, see :func:`valor_gpu.coco.mask.area`."""
    runs, is_list = from_dicts(objects)
    areas = codec.areas(runs).astype(np.uint32)
    return areas if is_list else areas[0]


def boxes(objects: Any) -> NDArray[np.float64]:
    """Returns bounding boxes, see :func:`valor_gpu.coco.mask.toBbox`."""
    runs, is_list = from_dicts(objects)
    boxes = codec.boxes(runs)
    return boxes if is_list else boxes[0]


def merge(objects: Sequence[Rle], intersect: bool) -> Rle:
    """Returns the union or intersection of masks, see :func:`valor_gpu.coco.mask.merge`."""
    runs, _ = from_dicts(list(objects))
    if not len(runs) or (runs.sizes != runs.sizes[0]).any():
        return {"size": [0, 0], "counts": b""}
    return to_dicts(codec.merge(runs, [0, len(runs)], intersect))[0]


def iou(dt: Any, gt: Any, pyiscrowd: Any) -> Any:
    """Returns the IoU of all pairs of masks or boxes, see :func:`valor_gpu.coco.mask.iou`."""
    try:
        crowd = np.asarray(pyiscrowd, np.uint8).astype(bool)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"iscrowd must be flags but got {pyiscrowd!r:.40}: {error}") from None
    if crowd.shape != (len(gt),):
        raise InputError(f"iscrowd must have the length of gt, {len(gt)}, but got shape {list(crowd.shape)}")
    if not len(dt) or not len(gt):
        return []
    kinds = [_is_boxes(name, objects) for name, objects in (("dt", dt), ("gt", gt))]
    if kinds[0] != kinds[1]:
        raise InputError("dt and gt must both be masks or both be boxes but got one of each")
    if kinds[0]:
        found = box_iou(_boxes("dt", dt), _boxes("gt", gt), box_format="xywh", crowd=crowd)
    else:
        found = codec.iou(from_dicts(dt, "dt")[0], from_dicts(gt, "gt")[0], crowd)
    return np.asfortranarray(found)


def from_objects(pyobj: Any, h: Any, w: Any) -> Any:
    """Encodes polygons, boxes or runs, see :func:`valor_gpu.coco.mask.frPyObjects`."""
    if isinstance(pyobj, dict):
        return to_dicts(from_dicts(pyobj, "pyobj")[0])[0]
    if not isinstance(pyobj, (list, tuple, np.ndarray)) or not getattr(pyobj, "ndim", 1) or not len(pyobj):
        raise InputTypeError(f"pyobj must be polygons, boxes or dicts but got {type(pyobj).__name__} {pyobj!r:.40}")
    if isinstance(pyobj[0], dict):
        return to_dicts(from_dicts(list(pyobj), "pyobj")[0])
    single = np.ndim(pyobj[0]) == 0
    objects = [pyobj] if single else pyobj
    boxes = isinstance(pyobj, np.ndarray) or len(objects[0]) == 4
    size = check_sizes(np.array([[_integer("h", h), _integer("w", w)]]))
    rings = _corners(_boxes("pyobj", objects)) if boxes else objects
    joined = polygons.join_rings([[ring] for ring in rings])
    dicts = to_dicts(polygons.rasterise(*joined, np.broadcast_to(size, (len(rings), 2))))
    return dicts[0] if single else dicts


def _is_boxes(name: str, objects: Any) -> bool:
    """Whether these are boxes, else masks."""
    if isinstance(objects, np.ndarray):
        return True
    if isinstance(objects, (list, tuple)):
        kinds = {isinstance(item, dict) for item in objects}
        if len(kinds) == 1:
            return not kinds.pop()
    raise InputTypeError(f"{name} must be a list of dicts or boxes [N, 4] but got {objects!r:.60}")


def _boxes(name: str, objects: Any) -> NDArray[np.float64]:
    try:
        boxes = np.asarray(objects, np.float64)
    except (OverflowError, TypeError, ValueError):
        boxes = np.empty(0)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InputError(f"{name} must be boxes [x, y, width, height], shape [N, 4], but got {objects!r:.60}")
    return boxes


def _corners(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Boxes as polygons ``[N, 8]``."""
    left, top = boxes[:, 0], boxes[:, 1]
    right, bottom = left + boxes[:, 2], top + boxes[:, 3]
    return np.stack([left, top, left, bottom, right, bottom, right, top], 1)


def _integer(name: str, value: Any) -> int:
    if isinstance(value, (float, np.floating)) and value.is_integer():  # as some files have the sizes of images
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise InputTypeError(f"{name} must be an integer but got {value!r}") from None
