"""Detections and ground truths as users hold them, to one :class:`MatchBatch`: every box format ends here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.inputs.box_columns import (
    AREA,
    FLAG,
    REQUIRED,
    UPRIGHT,
    BoxLayout,
    Columns,
    Item,
    check_devices,
    check_shapes,
    match_batch,
    read_column,
)
from valor_gpu.inputs.padded_boxes import from_padded
from valor_gpu.inputs.values import as_values
from valor_gpu.ops._launch import check_not_capturing
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.dtypes import INT_TYPES

_INT64 = torch.iinfo(torch.int64)
_SHAPE = attrgetter("shape")


def detection_batch(preds: Any, target: Any, box_format: str, flag: str = FLAG) -> MatchBatch:
    """Reads a batch given as two lists of dicts (one per image), or as two dicts of padded tensors.

    Lists: ``preds[i]`` holds ``boxes [D, 4]``, ``scores [D]``, ``labels [D]``; ``target[i]`` holds ``boxes [G, 4]``,
    ``labels [G]`` and optionally ``iscrowd [G]`` (0 or 1), ``area [G]`` (square pixels; not positive: of the box) and
    ``image_id``. Dicts: the same keys padded to ``[B, N, ...]``, ``image_id [B]``, and ``counts [B]``, the valid rows.
    Boxes of class ``torchvision.tv_tensors.BoundingBoxes`` are read in their own format.

    Args:
        preds: the detections.
        target: the ground truths.
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``, of plain tensors.
        flag: ``iscrowd``, or the key that holds such flags of ground truths instead.

    Raises:
        InputError: naming the image and key, what is needed and what came.
    """
    return read_batch(preds, target, UPRIGHT[box_format], flag)


def read_batch(preds: Any, target: Any, layout: BoxLayout | None, flag: str = FLAG) -> MatchBatch:
    """Reads a batch whose boxes have ``layout``; see :func:`detection_batch`. With None it has no boxes, only lists."""
    if layout is not None and isinstance(preds, Mapping) and isinstance(target, Mapping):
        return from_padded(preds, target, layout, flag)
    return _from_lists(preds, target, layout, flag)


def _from_lists(preds: Any, target: Any, layout: BoxLayout | None, flag: str) -> MatchBatch:
    for name, value in (("preds", preds), ("target", target)):
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            needed, hint = "one per image,", ": masks and keypoints come as lists, only boxes may be padded"
            if layout is not None:
                needed, hint = "or a dict of padded tensors like the other,", ""
            raise InputError(f"{name} must be a sequence of dicts, {needed} but got {type(value).__name__}{hint}")
    if len(preds) != len(target):
        raise InputError(f"target must have one dict per image like preds, {len(preds)} but has {len(target)}")
    columns: Columns = {}
    lengths = []
    for (side, keys), items in zip(REQUIRED.items(), (preds, target)):
        required = keys if layout is not None else keys[1:]
        for key in required:
            columns[side, key] = read_column(items, side, key)
        sizes = list(map(Tensor.numel, columns[side, "labels"]))
        for key in required[:-1]:
            _check_sizes(columns[side, key], side, key, sizes, 1 if layout is None else layout.width)
        lengths.append(sizes)
    for key in (flag, AREA):
        columns["target", key] = _optional_column(target, key, lengths[1])
    ids = _image_ids(target, check_devices(columns))
    return match_batch(columns, torch.from_numpy(np.array(lengths, np.int64)), layout, flag, image_ids=ids)


def _optional_column(items: Sequence[Item], key: str, sizes: list[int]) -> list[Tensor]:
    """The tensors of a key that items may lack; zeros stand for a missing one, an empty list for none at all."""
    found = [key in item for item in items]
    if True not in found:
        return []
    if False in found:
        at = found.index(True)
        like = as_values(f"target[{at}][{key!r}]", items[at][key])
        items = [item if has else {key: like.new_zeros(size)} for item, has, size in zip(items, found, sizes)]
    column = read_column(items, "target", key)
    _check_sizes(column, "target", key, sizes, 1)
    return column


def _check_sizes(column: list[Tensor], side: str, key: str, sizes: list[int], width: int) -> None:
    """Raises unless every tensor has one row per label; an empty one may have any shape, like ``torch.tensor([])``."""
    if key == "boxes":
        usual = list(map(_SHAPE, column)) == [(size, width) for size in sizes]
    else:
        usual = list(map(Tensor.numel, column)) == sizes
    if not usual:
        check_shapes(column, side, key, sizes, width)


def _image_ids(target: Sequence[Item], on_gpu: bool) -> list[Tensor]:
    """The ids as one CPU tensor, or, for a batch on a GPU, as one-element device tensors that nobody waits for."""
    ids: list[Any] = [item.get("image_id") for item in target]
    if not on_gpu and (joined := _joined_ids(ids)) is not None:
        return [joined]
    of_numpy = np.integer, np.ndarray
    ids = [as_values("image_id", np.asarray(value)) if isinstance(value, of_numpy) else value for value in ids]
    kinds = set(map(type, ids))
    if kinds == {type(None)}:
        return []
    if on_gpu and not all(isinstance(value, Tensor) and value.is_cuda for value in ids):
        check_not_capturing("image_id must not come from the host, which every replay would repeat,")
    if kinds == {int} and all(_INT64.min <= value <= _INT64.max for value in ids):
        return [torch.tensor(ids)]
    missing = [i for i, value in enumerate(ids) if value is None]
    if missing:
        raise InputError(f"target[{missing[0]}] must have key 'image_id' since other images of the batch have one")
    for i, value in enumerate(ids):
        one = isinstance(value, Tensor) and value.numel() == 1 and value.dtype in INT_TYPES
        if not one and (isinstance(value, bool) or not isinstance(value, int)):
            got = f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise InputError(
                f"target[{i}]['image_id'] must be an int or an integer tensor of one element but got {got}"
            )
        if isinstance(value, int) and not _INT64.min <= value <= _INT64.max:
            raise InputError(f"target[{i}]['image_id'] must fit in int64 but is {value}")
    if on_gpu and all(isinstance(value, Tensor) and value.is_cuda for value in ids):
        return [value.long() for value in ids]
    return [torch.tensor([int(value) for value in ids])]


def _joined_ids(ids: list[Any]) -> Tensor | None:
    """int64 ``[I]`` of the usual ids, one-element CPU tensors; None for any other."""
    try:
        joined = torch.cat(ids)
    except (TypeError, RuntimeError, ValueError):
        return None
    usual = joined.dtype == torch.int64 and joined.ndim == 1 and joined.is_cpu
    return joined if usual and list(map(Tensor.numel, ids)) == [1] * len(ids) else None
