"""Launches ``assign`` on CUDA: what travels in kernel parameters, what through pinned memory, the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import launching
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES, to_device
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.match_batch import (
    COLUMNS,
    DETECTIONS,
    TYPED,
    WANT_MATCHES,
    MatchBatch,
    Matched,
    MatchRule,
    SegmentWords,
    allocate,
    check_sizes,
)

_DEVICE = attrgetter("device")
_CODES = {**FLOAT_TYPES, **INT_TYPES}
_DTYPES = {"uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64}
_IMAGES_BY_VALUE = 16  # likewise in csrc/cuda/matching.cu, which refuses a call that disagrees
_NUMBERS_BY_VALUE = 64
_DETECTION_BYTES, _GROUND_TRUTH_BYTES = 16, 72


def run(batch: MatchBatch, rule: MatchRule) -> Matched:
    """Matches a batch of boxes on its device, without waiting for it; see :func:`valor_gpu.ops.assign.assign`."""
    if batch.pairs is not None:
        raise InputError("pairs must be on the CPU: CUDA assigns boxes only")
    padded = [count for count in (batch.counts, batch.gt_counts) if count is not None]
    ids = [] if by_value(batch.image_ids) else batch.image_ids
    columns = {name: getattr(batch, name) for name in COLUMNS}
    check_one_device({**columns, "counts": padded, "image_ids": ids})
    rows = (sum(map(len, batch.labels)), sum(map(len, batch.gt_labels)), batch.lengths.shape[1])
    check_sizes(rows, batch.lengths)
    like = batch.labels[0]
    out = allocate(lambda shape, dtype: like.new_empty(shape, dtype=_DTYPES[dtype]), rows, rule)
    out.error.fill_(NO_ERROR)
    if rule.options & WANT_MATCHES:
        out.matches.fill_(-1)
    launch(segment_table(batch), batch, rule, out)
    return out


def check_one_device(columns: Mapping[str, Sequence[Tensor]]) -> torch.device:
    """The device of all tensors; raises :class:`InputError` that names one which lies elsewhere.

    Args:
        columns: tensors by the name of the argument that holds them; the first argument holds at least one.
    """
    name, first = next((name, tensors[0]) for name, tensors in columns.items())
    devices = set().union(*(map(_DEVICE, tensors) for tensors in columns.values()))
    if len(devices) > 1:
        for other, tensors in columns.items():
            for i, tensor in enumerate(tensors):
                check_same_device((f"{name}[0]", f"{other}[{i}]"), (first, tensor))
    return first.device


def by_value(image_ids: Sequence[Tensor]) -> bool:
    """Whether the ids are one CPU tensor, to be read here, not tensors whose addresses a kernel reads."""
    return len(image_ids) == 1 and not image_ids[0].is_cuda


def segment_table(batch: MatchBatch) -> NDArray[np.int64]:
    """The Segment table of csrc/core/match_batch.h, int64 ``[fields, I]``."""
    fields = _fields_of_tensors(batch) if _one_each(batch) else _fields_of_arrays(batch)
    images = batch.lengths.shape[1]
    zeros: Any = [0] * images
    return np.array([fields.get(name, zeros) for name, _ in SegmentWords._fields_], np.int64).reshape(-1, images)


def _one_each(batch: MatchBatch) -> bool:
    images = batch.lengths.shape[1]
    return any(len(getattr(batch, name)) == images > 1 for name in COLUMNS)


def _fields_of_arrays(batch: MatchBatch) -> dict[str, Any]:
    """Fields of a batch of one tensor for thousands of images: numpy is the fastest."""
    sizes = batch.lengths.numpy()
    firsts = np.cumsum(sizes, axis=1) - sizes
    every = 8 * np.arange(batch.lengths.shape[1])
    fields: dict[str, Any] = _sizes(sizes, firsts)
    for name, column in COLUMNS.items():
        for tensor in getattr(batch, name)[:1]:
            first = firsts[int(column.side != DETECTIONS)]
            fields[name] = tensor.data_ptr() + first * (tensor.element_size() * column.width)
    if by_value(batch.image_ids):
        fields["id"] = batch.image_ids[0].numpy()
    elif batch.image_ids:
        fields["id_address"] = batch.image_ids[0].data_ptr() + every
    fields["has_id"] = np.full_like(every, bool(batch.image_ids))
    for name in ("counts", "gt_counts"):
        if (count := getattr(batch, name)) is not None:
            fields[name] = count.data_ptr() + every
    return fields


def _sizes(sizes: Any, firsts: Any) -> dict[str, Any]:
    names = ("detections", "ground_truths", "first_detection", "first_ground_truth")
    return dict(zip(names, (*sizes, *firsts)))


def _fields_of_tensors(batch: MatchBatch) -> dict[str, Any]:
    """Fields of a batch of a training loop, whose tensors are many and small: Python integers are the fastest."""
    sizes = batch.lengths.tolist()
    images = len(sizes[0])
    firsts = [[0, *accumulate(size)][:images] for size in sizes]
    fields: dict[str, Any] = _sizes(sizes, firsts)
    for name, column in COLUMNS.items():
        tensors = getattr(batch, name)
        if len(tensors) == images:
            fields[name] = list(map(Tensor.data_ptr, tensors))
        elif tensors:
            base, step = tensors[0].data_ptr(), tensors[0].element_size() * column.width
            fields[name] = [base + step * first for first in firsts[int(column.side != DETECTIONS)]]
    ids = batch.image_ids
    if by_value(ids):
        fields["id"] = ids[0].tolist()
    elif ids:
        fields["id_address"] = list(map(Tensor.data_ptr, ids))
    fields["has_id"] = [int(bool(ids))] * images
    return fields


def rule_words(batch: MatchBatch, rule: MatchRule) -> bytes:
    """The Rule of csrc/core/match_batch.h with its numbers, for the dtypes of ``batch``."""
    columns = {name: getattr(batch, name) for name in TYPED}
    types = {name: _CODES[tensors[0].dtype] if tensors else 0 for name, tensors in columns.items()}
    return rule.words(types, batch.box_format, batch.gt_box_format)


def launch(table: NDArray[np.int64], batch: MatchBatch, rule: MatchRule, out: Matched) -> None:
    """Runs the kernel on the current stream; nothing here waits for the device.

    Args:
        table: what :func:`segment_table` gives.
        batch: the images.
        rule: the choices of the run.
        out: output on the device.
    """
    device, images = out.detections.device, batch.lengths.shape[1]
    workspace = _DETECTION_BYTES * out.detections.shape[0] + _GROUND_TRUTH_BYTES * out.ground_truths.shape[0]
    segments = choices = None
    with launching(device) as stream:
        scratch = torch.empty(workspace, dtype=torch.uint8, device=device)
        if images > _IMAGES_BY_VALUE:
            segments = to_device(torch.from_numpy(table), device)
        numbers = rule.numbers()
        if len(numbers) > _NUMBERS_BY_VALUE:
            choices = to_device(torch.from_numpy(numbers), device)
        native.function("valor_cuda", "valor_match_boxes_cuda", "ppqppppppppqp")(
            table.ctypes.data, 0 if segments is None else segments.data_ptr(), images, rule_words(batch, rule),
            0 if choices is None else choices.data_ptr(), *map(Tensor.data_ptr, out), scratch.data_ptr(),
            workspace, stream,
        )  # fmt: skip
