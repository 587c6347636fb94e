"""Boxes as most users hold them, plain tensors on the CPU, to columns that kernels read: the short way.

It accepts less than :mod:`valor_gpu.inputs.boxes`, gives the same rows for what it accepts, and raises nothing itself:
whatever is unusual or wrong is left to the general way, which reads it or names the mistake. A batch of 16 images in
lists holds 128 tensors, and most of the time goes into the first look at each of them. So one pass is made over each
column: joining it finds out about devices, layouts and shapes, so that only types, sizes and dtypes are asked.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import torch
from torch import Tensor

from valor_gpu.inputs.box_columns import AREA, FLAG, REQUIRED
from valor_gpu.ops.assign.op import PlainBoxes
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

_PREDS, _TARGET = itemgetter(*REQUIRED["preds"]), itemgetter(*REQUIRED["target"])
_KINDS = (FLOAT_TYPES, FLOAT_TYPES, INT_TYPES, FLOAT_TYPES, INT_TYPES, INT_TYPES, FLOAT_TYPES)
"""What kernels read, of the columns in the order of :class:`PlainBoxes`."""
_PLAIN = {Tensor}
_ABSENT = object()
_DTYPE = attrgetter("dtype")


def plain_boxes(preds: Any, target: Any) -> PlainBoxes | None:
    """The columns of a batch of upright boxes in lists or padded tensors; None where boxes.py has to read it.

    Args:
        preds: as :func:`valor_gpu.inputs.boxes.detection_batch` takes it.
        target: likewise.
    """
    try:
        if type(preds) is list and type(target) is list and len(preds) == len(target) > 0:
            if len(preds) == 1:
                return _image(preds[0], target[0])
            return _lists(preds, target) if preds[0]["labels"].is_cpu else None
        if type(preds) is dict and type(target) is dict:
            return _padded(preds, target) if preds["labels"].is_cpu else None
    except (AttributeError, KeyError, TypeError, IndexError, ValueError):
        pass
    return None


def _image(pred: Any, true: Any) -> PlainBoxes | None:
    """One image, whose tensors need not be joined."""
    columns = _columns(pred, true)
    (size,), (gt_size,) = columns[2].shape, columns[4].shape
    one, gt_one = (size,), (gt_size,)
    found = _dense(columns, ((size, 4), one, one, (gt_size, 4), gt_one, gt_one, gt_one))
    ids = _ids([true.get("image_id")])
    if ids is None or found is None:
        return None
    return PlainBoxes(found, array("q", (size, gt_size)), ids[0], (size, gt_size), (0, 0))


def _columns(preds: Any, target: Any) -> list[Any]:
    """What two dicts hold, in the order of :class:`PlainBoxes`."""
    return [*_PREDS(preds), *_TARGET(target), target.get(FLAG, _ABSENT), target.get(AREA, _ABSENT)]


def _dense(columns: Sequence[Any], shapes: Sequence[Sequence[int]]) -> list[Tensor | None] | None:
    """The columns, None for absent ones, if they are plain CPU tensors of these shapes that can be read in place."""
    for column, kinds, shape in zip(columns, _KINDS, shapes):
        if column is not _ABSENT and not (
            type(column) is Tensor and column.is_cpu and column.shape == shape and column.dtype in kinds
            and column.layout is torch.strided and column.is_contiguous() and not column.is_neg()
        ):  # fmt: skip
            return None
    return [None if column is _ABSENT else column for column in columns]


def _lists(preds: list[Any], target: list[Any]) -> PlainBoxes | None:
    columns: list[Sequence[Tensor]] = [*zip(*map(_PREDS, preds)), *zip(*map(_TARGET, target))]
    columns += [[item[key] for item in target if key in item] for key in (FLAG, AREA)]
    if set(map(type, chain.from_iterable(columns))) != _PLAIN:
        return None
    sizes, gt_sizes = list(map(Tensor.numel, columns[2])), list(map(Tensor.numel, columns[4]))
    of_boxes, of_gt_boxes = [4 * size for size in sizes], [4 * size for size in gt_sizes]
    wanted = (of_boxes, sizes, None, of_gt_boxes, None, gt_sizes, gt_sizes)
    joined: list[Tensor | None] = []
    for column, kinds, each in zip(columns, _KINDS, wanted):
        if not column:
            joined.append(None)
            continue
        if each is not None and list(map(Tensor.numel, column)) != each:
            return None
        if (whole := _joined(column, kinds, each is of_boxes or each is of_gt_boxes)) is None:
            return None
        joined.append(whole)
    ids = _ids([item.get("image_id") for item in target])
    if ids is None:
        return None
    return PlainBoxes(joined, array("q", sizes + gt_sizes), ids[0], (sum(sizes), sum(gt_sizes)), (0, 0))


def _joined(column: Sequence[Tensor], kinds: Any, boxes: bool) -> Tensor | None:
    """One tensor of a column, None unless its tensors are dense, on the CPU, and of one dtype and shape of rows."""
    first = column[0]
    if (kinds is FLOAT_TYPES or not first.numel()) and len(set(map(_DTYPE, column))) > 1:
        return None  # joined they are of a dtype that holds all
    try:
        whole = torch.cat(column)  # type: ignore[arg-type]
    except RuntimeError:
        return None
    shape = whole.shape
    fits = len(shape) == 2 and shape[1] == 4 if boxes else len(shape) == 1
    usual = fits and whole.is_cpu and whole.dtype is first.dtype and whole.dtype in kinds
    return whole if usual and whole.layout is torch.strided else None


def _ids(ids: list[Any]) -> tuple[Tensor | None] | None:
    """int64 ``[I]`` of one-element tensors or numbers, or no ids, in a tuple; None for what else there may be."""
    kinds = set(map(type, ids))
    if kinds == {type(None)}:
        return (None,)
    if kinds == {int}:
        return (torch.frombuffer(array("q", ids), dtype=torch.int64),) if _fit(ids) else None
    if kinds != _PLAIN or list(map(Tensor.numel, ids)) != [1] * len(ids):
        return None
    try:
        joined = torch.cat(ids)
    except RuntimeError:
        return None
    return (joined,) if joined.dtype is torch.int64 and joined.ndim == 1 and joined.is_cpu else None


def _fit(numbers: list[int]) -> bool:
    return min(numbers) >= -(2**63) and max(numbers) < 2**63


def _padded(preds: dict[Any, Any], target: dict[Any, Any]) -> PlainBoxes | None:
    columns = _columns(preds, target)
    rows, gt_rows = columns[2].shape, columns[4].shape  # [B, N]
    if len(rows) != 2 or len(gt_rows) != 2 or rows[0] != gt_rows[0] or not (rows.numel() and gt_rows.numel()):
        return None
    images, room, gt_room = rows[0], rows[1], gt_rows[1]
    shapes = ((*rows, 4), rows, rows, (*gt_rows, 4), gt_rows, gt_rows, gt_rows)
    if (found := _dense(columns, shapes)) is None:
        return None
    lengths = [_counts(side, of_side) for side, of_side in ((preds, rows), (target, gt_rows))]
    ids = target.get("image_id")
    if None in lengths or not (ids is None or _is_int64(ids, images)):
        return None
    used, gt_used = lengths
    return PlainBoxes(found, array("q", used + gt_used), ids, (sum(used), sum(gt_used)), (room, gt_room))


def _counts(side: dict[Any, Any], rows: Sequence[int]) -> Any:
    """Rows of each image that count; None for a column of another kind, or a count that cannot be."""
    images, room = rows
    if "counts" not in side:
        return [room] * images
    counts = side["counts"]
    if not _is_int64(counts, images):
        return None
    numbers = counts.tolist()
    return numbers if min(numbers) >= 0 and max(numbers) <= room else None


def _is_int64(values: Any, size: int) -> bool:
    return (
        type(values) is Tensor and values.dtype is torch.int64 and values.is_cpu and values.shape == (size,)
        and values.layout is torch.strided and values.is_contiguous()
    )  # fmt: skip
