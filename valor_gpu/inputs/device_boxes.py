"""Short way for plain CUDA tensors of boxes: makes the words that a kernel reads.

Like :mod:`valor_gpu.inputs.usual_boxes` on the CPU it accepts less than :mod:`valor_gpu.inputs.boxes`, gives the same
rows for what it accepts, and raises nothing itself. It copies and joins no tensor and reads no value. Most of its time
goes into checks, seven for each tensor: 16 images hold a hundred tensors.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import attrgetter, itemgetter
from typing import Any

import torch
from torch import Tensor

from valor_gpu.inputs.box_columns import AREA, FLAG, REQUIRED
from valor_gpu.ops.assign.cuda import PlainWords
from valor_gpu.ops.assign.match_batch import BATCH_FIELDS, COLUMNS, SEGMENT_FIELDS
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

_PREDS, _TARGET = itemgetter(*REQUIRED["preds"]), itemgetter(*REQUIRED["target"])
_NAMES = ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "gt_flags", "gt_areas")
_KINDS = (FLOAT_TYPES, FLOAT_TYPES, INT_TYPES, FLOAT_TYPES, INT_TYPES, INT_TYPES, FLOAT_TYPES)
_PLAIN = {Tensor}
_DTYPE, _SHAPE = attrgetter("dtype"), attrgetter("shape")
_ABSENT = object()
_INT64 = torch.int64
_PLACE = {name: i for i, name in enumerate(SEGMENT_FIELDS)}
_BATCH_PLACE = {name: i for i, name in enumerate(BATCH_FIELDS)}


def device_boxes(preds: Any, target: Any, device: int) -> PlainWords | None:
    """Returns the words of a batch in lists or padded tensors; None where boxes.py has to read it.

    Args:
        preds: as :func:`valor_gpu.inputs.boxes.detection_batch` takes it.
        target: likewise.
        device: index of the CUDA device on which all tensors must lie.
    """
    try:
        if type(preds) is list and type(target) is list and len(preds) == len(target) > 0:
            return _lists(preds, target, device)
        if type(preds) is dict and type(target) is dict:
            return _padded(preds, target, device)
    except (AttributeError, KeyError, TypeError, IndexError, ValueError, RuntimeError):
        pass  # the general way names the mistake
    return None


def _types(columns: Sequence[Sequence[Tensor]]) -> dict[str, int] | None:
    """Returns codes of the dtypes; None unless each column has a single dtype that kernels read."""
    types = dict.fromkeys((name for name, column in COLUMNS.items() if column.typed), 0)
    for name, kinds, column in zip(_NAMES, _KINDS, columns):
        if column:
            dtypes = set(map(_DTYPE, column))
            if len(dtypes) > 1 or (code := kinds.get(dtypes.pop())) is None:
                return None
            types[name] = code
    return types


def _lie_there(tensors: Sequence[Tensor], device: int) -> bool:
    """Whether kernels on the device can read every tensor where it lies."""
    return (
        set(map(type, tensors)) == _PLAIN and set(map(Tensor.get_device, tensors)) == {device}
        and all(map(Tensor.is_contiguous, tensors)) and not any(map(Tensor.is_neg, tensors))
    )  # fmt: skip


def _lists(preds: list[Any], target: list[Any], device: int) -> PlainWords | None:
    images = len(preds)
    columns: list[Sequence[Tensor]] = [*zip(*map(_PREDS, preds)), *zip(*map(_TARGET, target))]
    columns += [[item[key] for item in target if key in item] for key in (FLAG, AREA)]
    ids = [item.get("image_id") for item in target]
    of_device = [] if ids[0] is None or type(ids[0]) is int else ids
    if not _lie_there([*chain.from_iterable(columns), *of_device], device) or (types := _types(columns)) is None:
        return None
    sizes, gt_sizes = list(map(Tensor.numel, columns[2])), list(map(Tensor.numel, columns[4]))
    if not (_have_rows(columns[0], sizes) and _have_rows(columns[3], gt_sizes)):
        return None
    for column, each in zip((*columns[1:3], *columns[4:]), (sizes, sizes, gt_sizes, gt_sizes, gt_sizes)):
        if column and list(map(Tensor.numel, column)) != each:
            return None
    zeros = [0] * images
    fields: list[Any] = [zeros] * len(SEGMENT_FIELDS)
    for name, column in zip(_NAMES, columns):
        if column:
            fields[_PLACE[name]] = map(Tensor.data_ptr, column)
    if not _place_ids(fields, ids):
        return None
    fields[_PLACE["detections"]], fields[_PLACE["ground_truths"]] = sizes, gt_sizes
    fields[_PLACE["first_detection"]] = [0, *accumulate(sizes)][:images]
    fields[_PLACE["first_ground_truth"]] = [0, *accumulate(gt_sizes)][:images]
    rows = sum(sizes), sum(gt_sizes), images
    return PlainWords(array("q", chain.from_iterable(fields)), None, rows, types)


def _have_rows(boxes: Sequence[Tensor], sizes: list[int]) -> bool:
    """Whether every tensor is ``[N, 4]``; an empty one may have any shape, like ``torch.tensor([])``."""
    shapes = list(map(_SHAPE, boxes))
    return shapes == [(size, 4) for size in sizes] or all(
        shape == (size, 4) or shape.numel() == size == 0 for shape, size in zip(shapes, sizes)
    )


def _place_ids(fields: list[Any], ids: list[Any]) -> bool:
    """Fills in the ids: none, numbers of the host, or one-element tensors of the device; False for any other."""
    kinds = set(map(type, ids))
    if kinds == {type(None)}:
        return True
    fields[_PLACE["has_id"]] = [1] * len(ids)
    if kinds == {int}:
        fields[_PLACE["id"]] = ids  # array() rejects one that int64 does not hold
        return True
    fields[_PLACE["id_address"]] = map(Tensor.data_ptr, ids)
    whole = kinds == _PLAIN and set(map(_DTYPE, ids)) == {_INT64}
    return whole and list(map(Tensor.numel, ids)) == [1] * len(ids)


def _padded(preds: dict[Any, Any], target: dict[Any, Any], device: int) -> PlainWords | None:
    columns = [*_PREDS(preds), *_TARGET(target), target.get(FLAG, _ABSENT), target.get(AREA, _ABSENT)]
    sized = (preds.get("counts", _ABSENT), target.get("counts", _ABSENT), target.get("image_id"))
    by_image = [value for value in sized if value is not _ABSENT and value is not None]
    present = [column for column in columns if column is not _ABSENT]
    rows, gt_rows = columns[2].shape, columns[4].shape  # [B, N]
    shapes = ((*rows, 4), rows, rows, (*gt_rows, 4), gt_rows, gt_rows, gt_rows)
    if (
        len(rows) != 2 or len(gt_rows) != 2 or rows[0] != gt_rows[0] or rows[0] == 0
        or not _lie_there([*present, *by_image], device)
        or (types := _types([[] if column is _ABSENT else [column] for column in columns])) is None
        or any(column is not _ABSENT and column.shape != shape for column, shape in zip(columns, shapes))
        or any(value.dtype != _INT64 or value.shape != rows[:1] for value in by_image)
    ):  # fmt: skip
        return None
    words = [0] * len(BATCH_FIELDS)
    for name, column in zip(_NAMES, columns):
        if column is not _ABSENT:
            words[_BATCH_PLACE[name]] = column.data_ptr()
            words[_BATCH_PLACE[f"{name}_stride"]] = column.element_size() * COLUMNS[name].width
    for name, value in zip(("counts", "gt_counts", "image_ids"), sized):
        if isinstance(value, Tensor):
            words[_BATCH_PLACE[name]] = value.data_ptr()
    images, room, gt_room = rows[0], rows[1], gt_rows[1]
    words[_BATCH_PLACE["images"]] = images
    return PlainWords(array("q", words), array("q", (room, gt_room)), (images * room, images * gt_room, images), types)
