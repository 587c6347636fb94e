"""Greedy assignment of detections to ground truths, in all thresholds and area ranges at once.

Definition: pycocotools ``COCOeval.evaluateImg`` (Dollar and Lin, 2015). Row layouts of the outputs:
docs/design/001-detection-records.md; how it fits in: docs/design/004-one-matcher.md.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from valor_gpu.ops._launch import cpp, cuda, on_host
from valor_gpu.ops._library import disabled, register
from valor_gpu.ops.assign import cpu as _assign_cpu
from valor_gpu.ops.assign import cuda as _assign_cuda
from valor_gpu.ops.assign import reference as _assign_reference
from valor_gpu.ops.assign.match_batch import (
    COLUMNS,
    IMAGE_COLUMNS,
    MAX_ROWS,
    MatchBatch,
    Matched,
    MatchRule,
    allocate,
    from_arguments,
    schema,
    to_arguments,
)
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR

_DTYPES = {"uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64}


def assign(batch: MatchBatch, rule: MatchRule, error: Tensor | None = None) -> Matched:
    """Matches the detections of every image against its ground truths.

    Detections of an (image, label) cell are taken by descending score, then input order. In each setting (a threshold
    of an area range) one takes the free ground truth of largest similarity at or above the threshold, the later on
    ties; ground truths that count come before ignored ones; a crowd may be matched again. The similarity of boxes is
    float64 IoU, ``intersection / union`` of xywh boxes, converted in the dtype of the boxes but at least float32;
    against a crowd it is intersection over detection area. Other geometries store their pairs.

    A rule of kind ``GROUP_OF`` follows Open Images instead: crowds are groups, and a detection looks at groups only if
    it matches nothing else. Of either kind it looks at the one ground truth of largest similarity, the earlier on ties.
    If that reaches the threshold and counts, its first detection is matched, while a further one stays unmatched, or is
    ignored if it is in a group; if it does not count, the detection is ignored. Groups with flag ``GROUP`` count.

    Args:
        batch: the images, as tensors, validated for shape by the caller.
        rule: thresholds, area ranges, limits and options.
        error: int64 ``[]`` on the device of tensors on CUDA: an error code, lowered to the first error of the batch,
            which takes no launch of its own. None makes a new one.

    Returns:
        Row tables of detections, ground truths and images.

    Raises:
        InputError: on CPU tensors, for the first row whose values cannot be matched. On CUDA the error code is
            returned instead, since reading it would wait for the device.
    """
    if _direct(batch) and not (batch.labels[0].is_cuda and disabled("assign")):
        if batch.labels[0].is_cuda:
            return _assign_cuda.run(batch, rule, error)
        matched = _run(batch, rule)
    else:
        whole = batch.without_gaps(torch.from_numpy) if batch.room or batch.gt_room else batch
        matched = Matched(*_OP(*to_arguments(whole, rule, torch.from_numpy)))
    if not matched.error.is_cuda:
        _assign_cpu.raise_if_bad(matched, batch)
    return matched if error is None else matched._replace(error=error.copy_(torch.minimum(error, matched.error)))


class PlainBoxes(NamedTuple):
    """Upright boxes on the CPU whose shapes, dtypes and sizes the caller has checked, one column for all images.

    Attributes:
        columns: plain contiguous tensors of the dtypes in :class:`MatchBatch`: boxes, scores, labels, gt_boxes,
            gt_labels, gt_flags and gt_areas, of which the last two may be None.
        lengths: int64 ``[2, I]``: rows of detections, then of ground truths, of each image.
        image_ids: int64 ``[I]`` or None.
        rows: how many detections and ground truths there are.
        rooms: rows from one image to the next, 0 where there are no gaps.
    """

    columns: Sequence[Tensor | None]
    lengths: array[int]
    image_ids: Tensor | None
    rows: tuple[int, int]
    rooms: tuple[int, int]


def assign_plain(boxes: PlainBoxes, rule: MatchRule, box_format: int) -> tuple[Tensor, Tensor, Tensor] | None:
    """The row tables of detections, ground truths and images, as :func:`assign` gives them, in less time.

    Args:
        boxes: the images.
        rule: thresholds, area ranges, limits and options without ``WANT_MATCHES``.
        box_format: code of the format of all boxes.

    Returns:
        None where a row cannot be matched, which :func:`assign` tells, or where the C++ library cannot be called.
    """
    if not on_host("valor_cpu") or sum(boxes.rows) > MAX_ROWS:
        return None
    tables = (
        _LIKE["uint8"].new_empty(boxes.rows[0], rule.detection_bytes),
        _LIKE["uint8"].new_empty(boxes.rows[1], rule.ground_truth_bytes),
        _LIKE["int64"].new_empty(len(boxes.lengths) // 2, len(IMAGE_COLUMNS)),
    )
    error = _assign_cpu.assign_plain(boxes, rule, box_format, [*map(Tensor.data_ptr, tables)], TORCH)
    return tables if error == NO_ERROR else None


_PLAIN = {Tensor}
_ALL_TENSORS = attrgetter(*COLUMNS, "image_ids")


def _direct(batch: MatchBatch) -> bool:
    """Whether the dispatcher would only pass the batch on to a kernel: its call costs as much as small images.

    Every tensor is looked at: the memory of a FakeTensor among real ones lies nowhere.
    """
    if len(batch.labels) == 0 or set(map(type, chain.from_iterable(_ALL_TENSORS(batch)))) != _PLAIN:
        return False
    library = {"cpu": "valor_cpu", "cuda": "valor_cuda"}.get(batch.labels[0].device.type)
    return library is not None and on_host(library)


_LIKE = {name: torch.empty(0, dtype=dtype, device="cpu") for name, dtype in _DTYPES.items()}


def _empty(shape: tuple[int, ...], dtype: str) -> Tensor:
    """``torch.empty`` on the CPU, whose keyword arguments take as long as its work."""
    like = _LIKE[dtype]
    return like.new_empty(*shape) if shape else like.new_empty(shape)


TORCH = _assign_cpu.Access(
    address=Tensor.data_ptr,
    codes={**FLOAT_TYPES, **INT_TYPES},
    join=torch.cat,  # type: ignore[arg-type]
    contiguous=Tensor.contiguous,
    empty=_empty,
    threads=torch.get_num_threads,
)
"""How tensors on the CPU are read."""


def _run(batch: MatchBatch, rule: MatchRule) -> Matched:
    return _assign_cpu.run(batch, rule, TORCH)


def _assign_on_cpu(*arguments: Any) -> Matched:
    return _run(*from_arguments(arguments, Tensor.numpy))


def _assign_on_cuda(*arguments: Any) -> Matched:
    return _assign_cuda.run(*from_arguments(arguments, Tensor.numpy))


def _assign_by_reference(*arguments: Any) -> Matched:
    return _assign_reference.assign(*from_arguments(arguments, Tensor.numpy))


def _assign_fake(*arguments: Any) -> Matched:
    batch, rule = from_arguments(arguments, lambda tensor: tensor)
    context = torch.library.get_ctx()
    rows = (context.new_dynamic_size(), context.new_dynamic_size(), batch.lengths.shape[1])
    like = batch.labels[0] if batch.labels else batch.lengths
    return allocate(lambda shape, dtype: like.new_empty(shape, dtype=_DTYPES[dtype]), rows, rule)


_OP = register(
    schema("assign"),
    reference=_assign_by_reference,
    fake=_assign_fake,
    cpu=cpp(_assign_on_cpu),
    cuda=cuda(_assign_on_cuda),
)
