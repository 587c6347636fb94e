"""Intersection over union of boxes over numpy arrays, by the C++ library. No torch import.

Callers ask ``native.usable("valor_cpu")`` first: without the library the torch op of
:mod:`valor_gpu.ops.boxes.op` serves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.ops.native_types import BOX_FORMATS, NUMPY_FLOAT_TYPES


def box_iou(
    boxes1: NDArray[Any],
    boxes2: NDArray[Any],
    *,
    lengths: NDArray[np.int64] | None = None,
    box_format: str = "xyxy",
    crowd: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Computes what :func:`valor_gpu.ops.boxes.op.box_iou` computes of tensors.

    Args:
        boxes1: float16, float32 or float64 ``[N, 4]``.
        boxes2: ``[M, 4]`` of any of these dtypes.
        lengths: int64 ``[2, S]``: the rows of ``boxes1`` and of ``boxes2`` that each segment takes, one segment after
            another; None: one segment of all rows.
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``, of both.
        crowd: bool ``[M]``: IoU with a crowd region is intersection over the area of the box of ``boxes1``.

    Returns:
        float64 ``[N, M]``; with ``lengths`` the pairs ``[n_s * m_s]`` of each segment, row by row, one after another.

    Raises:
        InputError: another dtype or shape, or lengths that do not sum to the rows.

    Example:
        >>> unit = np.array([[0.0, 0.0, 2.0, 2.0]])
        >>> box_iou(unit, np.array([[1.0, 0.0, 3.0, 2.0], [0.0, 0.0, 2.0, 2.0]])).round(4).tolist()
        [[0.3333, 1.0]]
    """
    check_choice("box_format", box_format, BOX_FORMATS)
    boxes1, boxes2 = _whole_boxes("boxes1", boxes1), _whole_boxes("boxes2", boxes2)
    rows = len(boxes1), len(boxes2)
    if crowd is not None:
        crowd = np.ascontiguousarray(crowd, np.bool_)
        if crowd.shape != rows[1:]:
            raise InputError(f"crowd must have shape [{rows[1]}] but got {list(crowd.shape)}")
    sizes = np.array(rows, np.int64)[:, None] if lengths is None else np.asarray(lengths, np.int64)
    if sizes.shape[:1] != (2,) or sizes.ndim != 2 or (sizes < 0).any() or tuple(sizes.sum(1)) != rows:
        raise InputError(f"lengths must be [2, S], at least 0, and sum to {list(rows)} but got {sizes.tolist()}")
    offsets = np.zeros((3, sizes.shape[1] + 1), np.int64)
    np.cumsum(np.vstack((sizes, sizes.prod(0))), axis=1, out=offsets[:, 1:])
    out = np.empty(offsets[2, -1])
    native.function("valor_cpu", "valor_box_iou_cpu", "ppiiippqpq")(
        boxes1.ctypes.data, boxes2.ctypes.data, NUMPY_FLOAT_TYPES[boxes1.dtype], NUMPY_FLOAT_TYPES[boxes2.dtype],
        BOX_FORMATS.index(box_format), 0 if crowd is None else crowd.ctypes.data, offsets.ctypes.data,
        sizes.shape[1], out.ctypes.data, native.threads(),
    )  # fmt: skip
    return out.reshape(rows) if lengths is None else out


def _whole_boxes(name: str, boxes: NDArray[Any]) -> NDArray[Any]:
    """Boxes without gaps, of a shape and dtype that C++ reads."""
    if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.dtype not in NUMPY_FLOAT_TYPES:
        types = " or ".join(map(str, NUMPY_FLOAT_TYPES))
        raise InputError(f"{name} must be {types} [N, 4] but got {boxes.dtype} {list(boxes.shape)}")
    return np.ascontiguousarray(boxes)
