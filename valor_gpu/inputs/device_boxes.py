"""Short way for plain CUDA tensors of boxes: makes the words that a kernel reads.

Like :mod:`valor_gpu.inputs.usual_boxes` on the CPU it accepts less than :mod:`valor_gpu.inputs.boxes`, gives the same
rows for what it accepts, and raises nothing itself. It copies and joins no tensor and reads no value. Its time goes
into checks, seven for each tensor: 16 images hold a hundred tensors. C++ makes them by one look at each tensor where
torch exports a function for it, as from 2.10 on; elsewhere Python makes them, with the same outcome.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import attrgetter, itemgetter
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native, native_objects
from valor_gpu.inputs.box_columns import AREA, FLAG, REQUIRED
from valor_gpu.inputs.tensor_api import tensor_function
from valor_gpu.ops.assign.cuda import PlainWords
from valor_gpu.ops.assign.match_batch import COLUMNS
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

_PREDS, _TARGET = itemgetter(*REQUIRED["preds"]), itemgetter(*REQUIRED["target"])
_NAMES = ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "gt_flags", "gt_areas")
_KINDS = (FLOAT_TYPES, FLOAT_TYPES, INT_TYPES, FLOAT_TYPES, INT_TYPES, INT_TYPES, FLOAT_TYPES)
_PLAIN: type = Tensor
_DLPACK_CPU, _DLPACK_CUDA = 1, 2
_DTYPE, _SHAPE = attrgetter("dtype"), attrgetter("shape")
_ABSENT = object()
_INT64 = torch.int64


def device_boxes(preds: Any, target: Any, device: int) -> PlainWords | None:
    """Returns the words of a batch in lists or padded tensors; None where boxes.py has to read it.

    Args:
        preds: as :func:`valor_gpu.inputs.boxes.detection_batch` takes it.
        target: likewise.
        device: index of the CUDA device on which all tensors must lie.
    """
    listed = type(preds) is list and type(target) is list
    try:
        if read := _reader(_PLAIN, device):
            if (words := read(preds, target)) is not None:
                return PlainWords.of(words)
            if listed and set(map(type, chain(preds, target))) == {dict}:
                return None
        if listed:
            return _lists(preds, target, device) if len(preds) == len(target) > 0 else None
        return _padded(preds, target, device) if type(preds) is dict and type(target) is dict else None
    except (AttributeError, KeyError, TypeError, IndexError, ValueError, RuntimeError, OverflowError):
        return None  # the general way names the mistake


@functools.cache
def _reader(kind: type, device: int) -> Callable[[Any, Any], bytes | None] | None:
    """Returns what reads plain boxes in tensors of ``kind`` on a device; None where C++ cannot."""
    read, address = native_objects.function("valor_cpu", "valor_read_boxes_cpu"), tensor_function()
    if read is native_objects.nothing or address is None:
        return None
    place = _DLPACK_CPU if device < 0 else _DLPACK_CUDA
    keys = ("boxes", "scores", "labels", FLAG, AREA, "counts", "image_id")
    return functools.partial(read, (kind, Tensor.is_neg, False, address, place, max(device, 0), *keys))


def _types(columns: Sequence[Sequence[Tensor]]) -> list[int] | None:
    """Returns codes of the dtypes; None where a column has more than one; KeyError for others."""
    types = []
    for kinds, column in zip(_KINDS, columns):
        dtypes = set(map(_DTYPE, column))
        if len(dtypes) > 1:
            return None
        types.append(kinds[dtypes.pop()] if column else 0)
    return types


def _plain_words(
    rows: Sequence[int], each: Sequence[int], most: int, columns: Sequence[Sequence[Tensor]], words: array[int]
) -> PlainWords | None:
    """Returns the words of images behind a head; None where a column has more than one dtype."""
    if (types := _types(columns)) is None:
        return None
    places, end = [], 0
    for column, count, width in zip(map(columns.__getitem__, (0, 3, 5, 6)), (rows[1], *[rows[2]] * 3), (4, 4, 1, 1)):
        places.append(end if column else -1)
        end += -(-count * width * column[0].element_size() // 16) * 16 if column else 0
    return PlainWords.of((array("q", (*rows, *each, most, *types, *places, end)) + words).tobytes())


def _lie_there(tensors: Sequence[Tensor], device: int) -> bool:
    """Whether kernels on the device can read every tensor where it lies."""
    return (
        set(map(type, tensors)) == {_PLAIN} and set(map(Tensor.get_device, tensors)) == {device}
        and all(map(Tensor.is_contiguous, tensors)) and not any(t.is_neg() for t in tensors if t.is_floating_point())
        and all(t.numel() == 0 for t in tensors if t.data_ptr() == 0)
    )  # fmt: skip


def _lists(preds: list[Any], target: list[Any], device: int) -> PlainWords | None:
    images = len(preds)
    columns: list[Sequence[Tensor]] = [*zip(*map(_PREDS, preds)), *zip(*map(_TARGET, target))]
    columns += [[item[key] for item in target if key in item] for key in (FLAG, AREA)]
    ids = [item.get("image_id") for item in target]
    of_device = [] if ids[0] is None or type(ids[0]) is int else ids
    if not _lie_there([*chain.from_iterable(columns), *of_device], device):
        return None
    sizes, gt_sizes = list(map(Tensor.numel, columns[2])), list(map(Tensor.numel, columns[4]))
    if not (_have_rows(columns[0], sizes) and _have_rows(columns[3], gt_sizes)):
        return None
    for column, each in zip((*columns[1:3], *columns[4:]), (sizes, sizes, gt_sizes, gt_sizes, gt_sizes)):
        if column and list(map(Tensor.numel, column)) != each:
            return None
    fields: dict[str, Any] = dict.fromkeys(native.fields("valor_cuda", "Segment"), [0] * images)
    for name, column in zip(_NAMES, columns):
        if column:
            fields[name] = map(Tensor.data_ptr, column)
    if not _place_ids(fields, ids):
        return None
    fields["detections"], fields["ground_truths"] = sizes, gt_sizes
    fields["first_detection"] = [0, *accumulate(sizes)][:images]
    fields["first_ground_truth"] = [0, *accumulate(gt_sizes)][:images]
    rows, words = (images, sum(sizes), sum(gt_sizes)), array("q", chain.from_iterable(fields.values()))
    return _plain_words(rows, (-1, -1), max(sizes), columns, words)


def _have_rows(boxes: Sequence[Tensor], sizes: list[int]) -> bool:
    """Whether every tensor is ``[N, 4]``; an empty one may have any shape, like ``torch.tensor([])``."""
    shapes = list(map(_SHAPE, boxes))
    return shapes == [(size, 4) for size in sizes] or all(
        shape == (size, 4) or shape.numel() == size == 0 for shape, size in zip(shapes, sizes)
    )


def _place_ids(fields: dict[str, Any], ids: list[Any]) -> bool:
    """Fills in the ids: none, numbers of the host, or one-element tensors of the device; False for any other."""
    kinds = set(map(type, ids))
    if kinds == {type(None)}:
        return True
    fields["has_id"] = [1] * len(ids)
    if kinds == {int}:
        fields["id"] = ids  # array() rejects one that int64 does not hold
        return True
    fields["id_address"] = map(Tensor.data_ptr, ids)
    whole = kinds == {_PLAIN} and set(map(_DTYPE, ids)) == {_INT64}
    return whole and list(map(Tensor.numel, ids)) == [1] * len(ids)


def _padded(preds: dict[Any, Any], target: dict[Any, Any], device: int) -> PlainWords | None:
    columns = [*_PREDS(preds), *_TARGET(target), target.get(FLAG, _ABSENT), target.get(AREA, _ABSENT)]
    ids = target.get("image_id")
    sized: list[Any] = [preds.get("counts", _ABSENT), target.get("counts", _ABSENT), _ABSENT if ids is None else ids]
    by_image = [value for value in sized if value is not _ABSENT]
    present = [column for column in columns if column is not _ABSENT]
    rows, gt_rows = columns[2].shape, columns[4].shape  # [B, N]
    shapes = ((*rows, 4), rows, rows, (*gt_rows, 4), gt_rows, gt_rows, gt_rows)
    if (
        len(rows) != 2 or len(gt_rows) != 2 or rows[0] != gt_rows[0] or rows[0] == 0
        or not _lie_there([*present, *by_image], device)
        or any(column is not _ABSENT and column.shape != shape for column, shape in zip(columns, shapes))
        or any(value.dtype != _INT64 or value.shape != rows[:1] for value in by_image)
    ):  # fmt: skip
        return None
    words = dict.fromkeys(native.fields("valor_cuda", "Batch"), 0)
    for name, column in zip(_NAMES, columns):
        if column is not _ABSENT:
            words[name] = column.data_ptr()
            words[f"stride_{name}"] = column.element_size() * COLUMNS[name].width
    for name, value in zip(("counts", "gt_counts", "image_ids"), sized):
        if value is not _ABSENT:
            words[name] = value.data_ptr()
    images, room, gt_room = rows[0], rows[1], gt_rows[1]
    words["images"] = images
    listed = [[] if column is _ABSENT else [column] for column in columns]
    most = room if sized[0] is _ABSENT else 0
    sizes = images, images * room, images * gt_room
    return _plain_words(sizes, (room, gt_room), most, listed, array("q", words.values()))
