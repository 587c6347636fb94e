"""``pycocotools.mask`` by its names: run-length masks as dicts, byte for byte those of pycocotools. No torch.

A mask is ``{"size": [height, width], "counts": bytes}``; counts may be str where masks are read. What pycocotools
leaves to chance is an :class:`~valor_gpu.errors.InputError`, see docs/quirks.md.

Example:
    >>> import numpy as np
    >>> rle = encode(np.array([[0, 1], [1, 1]], np.uint8))
    >>> rle, int(area(rle)), toBbox(rle).tolist()
    ({'size': [2, 2], 'counts': b'13'}, 3, [0.0, 0.0, 2.0, 2.0])
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs import few_masks as few
from valor_gpu.inputs.rle_dicts import Rle, from_dicts, to_dicts
from valor_gpu.ops.boxes.cpu import box_iou
from valor_gpu.ops.polygons import cpu as polygons
from valor_gpu.ops.runs import cpu as codec
from valor_gpu.ops.runs.op import check_sizes


def encode(bimask: Any) -> Any:
    """Encodes dense masks.

    Args:
        bimask: bool or uint8 ``[H, W]`` or ``[H, W, N]`` with any strides; every value but 0 is set.

    Returns:
        A dict for ``[H, W]``, a list of N dicts for ``[H, W, N]``.

    Raises:
        InputError: on another shape or dtype.
    """
    found = few.from_masks(bimask)
    if found is not None:
        return found
    masks = np.asarray(bimask)
    if masks.ndim not in (2, 3) or masks.dtype not in (np.bool_, np.uint8):
        raise InputError(f"bimask must be bool or uint8 [H, W] or [H, W, N] but got {masks.dtype} {list(masks.shape)}")
    stack = masks.transpose(2, 0, 1) if masks.ndim == 3 else masks[None]
    dicts = to_dicts(codec.from_masks(stack))
    return dicts if masks.ndim == 3 else dicts[0]


def decode(rleObjs: Any) -> NDArray[np.uint8]:
    """Decodes masks to pixels.

    Args:
        rleObjs: a dict, or a list of dicts of one size.

    Returns:
        uint8, 0 and 1, in Fortran's order: ``[H, W]`` for a dict, ``[H, W, N]`` for a list.

    Raises:
        InputError: for a list without masks, masks of different sizes, or naming the first that is no mask.
    """
    found = few.to_masks(rleObjs)
    if found is not None:
        return found
    runs, is_list = from_dicts(rleObjs)
    if not len(runs):
        raise InputError("rleObjs must hold at least one mask but is empty")
    masks = codec.to_masks(runs).transpose(1, 2, 0)
    return masks if is_list else masks[:, :, 0]


def area(rleObjs: Any) -> Any:
    """Returns the number of set pixels: uint32 for a dict, uint32 ``[N]`` for a list of any length."""
    found = few.areas(rleObjs)
    if found is not None:
        return found
    runs, is_list = from_dicts(rleObjs)
    areas = codec.areas(runs).astype(np.uint32)
    return areas if is_list else areas[0]


def toBbox(rleObjs: Any) -> NDArray[np.float64]:
    """Returns bounding boxes as left, top, width and height: float64 ``[4]`` for a dict, ``[N, 4]`` for a list.

    A run of set pixels that goes on in the next column spans all rows. A mask without pixels has a box of zeros.
    """
    found = few.boxes(rleObjs)
    if found is not None:
        return found
    runs, is_list = from_dicts(rleObjs)
    boxes = codec.boxes(runs)
    return boxes if is_list else boxes[0]


def merge(rleObjs: Sequence[Rle], intersect: bool = False) -> Rle:
    """Returns the union of masks, or with ``intersect`` their intersection.

    Masks of different sizes, and an empty list, give ``{"size": [0, 0], "counts": b""}`` as in pycocotools.
    """
    merged = few.merge(rleObjs, bool(intersect))
    if merged is not None:
        return merged
    runs, _ = from_dicts(list(rleObjs))
    if not len(runs) or (runs.sizes != runs.sizes[0]).any():
        return {"size": [0, 0], "counts": b""}
    return to_dicts(codec.merge(runs, [0, len(runs)], bool(intersect)))[0]


def iou(dt: Any, gt: Any, pyiscrowd: Any) -> Any:
    """IoU of all pairs of masks, or of all pairs of boxes.

    Args:
        dt: D masks as a list of dicts, or D boxes ``[x, y, width, height]``: an array ``[D, 4]`` or a list.
        gt: likewise G ground truths.
        pyiscrowd: G flags: intersection over the area of the detection.

    Returns:
        float64 ``[D, G]`` in Fortran's order, -1 where masks have different sizes and their boxes meet; an empty list
        where D or G is 0.

    Raises:
        InputError: for flags of another length, masks beside boxes, or naming the first that is no mask.
    """
    found = few.iou(dt, gt, pyiscrowd)
    if found is not None:
        return found
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


def frPyObjects(pyobj: Any, h: int, w: int) -> Any:
    """Encodes polygons, boxes or uncompressed run lengths.

    Args:
        pyobj: a list of polygons ``[x0, y0, x1, y1, ...]``, boxes ``[N, 4]`` (an array or a list of ``[x, y, width,
            height]``), or a list of dicts whose counts are lists of runs; or one polygon, box or dict.
        h: height of the image, an integer or a float without a fraction; dicts have sizes of their own.
        w: width, likewise.

    Returns:
        A list of dicts, or one dict where one object is given. Polygons are not merged.

    Raises:
        InputError: for anything else, coordinates that are not finite or farther than 2e8 from 0, an odd number of
            them, edges that cross more than 2**24 columns, and runs that are negative or do not add up to height x
            width.
    """
    found = few.from_objects(pyobj, h, w)
    if found is not None:
        return found
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


# -------------------------------------------------------------------------------------------------------- boxes


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
