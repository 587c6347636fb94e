"""Detections and ground truths in tensors padded to one number of rows per image."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.inputs.box_columns import (
    AREA,
    REQUIRED,
    BoxLayout,
    Columns,
    Item,
    check_devices,
    match_batch,
    read_column,
)
from valor_gpu.inputs.values import as_values
from valor_gpu.ops import _device_tables
from valor_gpu.ops._launch import check_not_capturing
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.dtypes import INT_TYPES


def from_padded(preds: Item, target: Item, layout: BoxLayout, flag: str) -> MatchBatch:
    """The batch of two dicts of tensors ``[B, N, ...]``; see :func:`valor_gpu.inputs.boxes.detection_batch`.

    On the CPU rows beyond the counts get no record; on a GPU, where nobody waits for the counts, they get empty ones.
    """
    columns: Columns = {}
    for (side, keys), item in zip(REQUIRED.items(), (preds, target)):
        for key in keys:
            columns[side, key] = read_column([item], side, key)
    for key in (flag, AREA):
        columns["target", key] = read_column([target], "target", key) if key in target else []
    images = columns["preds", "labels"][0].shape[:1].numel()
    for (side, key), column in columns.items():
        for tensor in column:
            _check_shape(side, key, tensor, columns[side, "labels"][0].shape, images, layout.width)
    on_gpu = check_devices(columns)
    rooms = [columns[side, "labels"][0].shape[1] for side in REQUIRED]
    counts = [_counts(item, side, images) for side, item in zip(REQUIRED, (preds, target))]
    flat = {name: [tensor.flatten(0, 1) for tensor in column] for name, column in columns.items()}
    ids = _image_ids(target, images, on_gpu)
    if on_gpu:
        lengths = torch.tensor([[room] for room in rooms]).expand(-1, images)
        device = columns["preds", "labels"][0].device
        counts = [_on_device(side, count, device) for side, count in zip(REQUIRED, counts)]
        return match_batch(flat, lengths, layout, flag, image_ids=ids, counts=counts[0], gt_counts=counts[1])
    used = np.stack([_lengths(*of_side, images) for of_side in zip(REQUIRED, counts, rooms)])
    return match_batch(flat, torch.from_numpy(used), layout, flag, image_ids=ids, room=rooms[0], gt_room=rooms[1])


def _check_shape(side: str, key: str, tensor: Tensor, rows: torch.Size, images: int, width: int) -> None:
    if len(rows) == 1:
        raise InputError(f"{side} must be a dict of padded tensors [B, N, ...], or a list of dicts, but is the dict"
                         f" of one image: put it in a list")  # fmt: skip
    need = (images, *rows[1:2], *((width,) if key == "boxes" else ()))
    if len(rows) != 2 or tensor.shape != need:
        last = f", {width}" if key == "boxes" else ""
        raise InputError(f"{side}[{key!r}] must have shape [B, N{last}] = {list(need)}"
                         f" but got {list(tensor.shape)}")  # fmt: skip


def _lengths(side: str, counts: Tensor | None, room: int, images: int) -> NDArray[np.int64]:
    """int64 ``[I]`` valid rows of each image."""
    if counts is None:
        return np.full(images, room)
    lengths: NDArray[np.int64] = counts.cpu().numpy()
    if images and not 0 <= lengths.min() <= lengths.max() <= room:
        wrong = int(np.flatnonzero((lengths < 0) | (lengths > room))[0])
        raise InputError(f"{side}['counts'][{wrong}] must lie between 0 and {room} but is {lengths[wrong]}")
    return lengths


def _counts(item: Item, side: str, images: int) -> Tensor | None:
    if "counts" not in item:
        return None
    counts = as_values(f"{side}['counts']", item["counts"])
    if counts.dtype not in INT_TYPES or tuple(counts.shape) != (images,):
        raise InputError(f"{side}['counts'] must be integers of shape [{images}] but got {counts.dtype}"
                         f" {list(counts.shape)}")  # fmt: skip
    return counts.long()


def _on_device(side: str, counts: Tensor | None, device: torch.device) -> Tensor | None:
    """Counts where kernels read them; those of the host go there without a wait, and not into a graph."""
    if counts is None or counts.is_cuda:
        return counts
    check_not_capturing(f"{side}['counts'] must not come from the host, which every replay would repeat,")
    return _device_tables.upload(counts.contiguous().numpy(), device)


def _image_ids(target: Item, images: int, on_gpu: bool) -> list[Tensor]:
    if target.get("image_id") is None:
        return []
    ids = as_values("target['image_id']", target["image_id"])
    if ids.dtype not in INT_TYPES or tuple(ids.shape) != (images,):
        raise InputError(f"target['image_id'] must be integers of shape [{images}] but got {ids.dtype}"
                         f" {list(ids.shape)}")  # fmt: skip
    if not on_gpu:
        return [ids.long().cpu()]
    if not ids.is_cuda:
        check_not_capturing("target['image_id'] must not come from the host, which every replay would repeat,")
    return [ids.long()]
