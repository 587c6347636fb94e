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

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco import many_masks as many
from valor_gpu.inputs import few_masks as few
from valor_gpu.inputs.rle_dicts import Rle


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
    return many.from_masks(bimask) if found is None else found


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
    return many.to_masks(rleObjs) if found is None else found


def area(rleObjs: Any) -> Any:
    """Returns the number of set pixels: uint32 for a dict, uint32 ``[N]`` for a list of any length."""
    found = few.areas(rleObjs)
    return many.areas(rleObjs) if found is None else found


def toBbox(rleObjs: Any) -> NDArray[np.float64]:
    """Returns bounding boxes as left, top, width and height: float64 ``[4]`` for a dict, ``[N, 4]`` for a list.

    A run of set pixels that goes on in the next column spans all rows. A mask without pixels has a box of zeros.
    """
    found = few.boxes(rleObjs)
    return many.boxes(rleObjs) if found is None else found


def merge(rleObjs: Sequence[Rle], intersect: bool = False) -> Rle:
    """Returns the union of masks, or with ``intersect`` their intersection.

    Masks of different sizes, and an empty list, give ``{"size": [0, 0], "counts": b""}`` as in pycocotools.
    """
    found = few.merge(rleObjs, bool(intersect))
    return many.merge(rleObjs, bool(intersect)) if found is None else found


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
    return many.iou(dt, gt, pyiscrowd) if found is None else found


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
    return many.from_objects(pyobj, h, w) if found is None else found
