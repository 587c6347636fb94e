"""ROC AUC and average precision on CUDA: kernels of csrc/cuda/ranks.cu and rank_columns.cu, without synchronising."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.ops._launch import check_not_capturing, launching
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.targets import op as targets

ROOM = 1 << 29
"""Bytes that columns which are sorted whole may take at a time, if one column does not need more."""

_TILE = 32  # columns that a block reads; from a multiple of it on, reads begin with a sector of memory


def auroc_and_ap(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The op ``auroc_and_ap`` for CUDA tensors; see :func:`valor_gpu.ops.ranks.op.auroc_and_ap`.

    Beyond the input it takes 28 bytes per row (float64 scores: 48), if the target is class indices and there are no
    weights; else ``ROOM``, or 20 bytes per row (weights or float64 scores: 36).
    """
    task = _task(scores, target, ignore_index, weight)
    if target.ndim == 1 and weight is None:
        _look_up(task, scores.new_empty(_look_up(task), dtype=torch.uint8))
    else:
        for column, width, room in _parts(task):
            _sort(task, column, width, room)
    return task.areas, task.totals, task.error


def rank_curves(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The op ``rank_curves`` for CUDA tensors; see :func:`valor_gpu.ops.ranks.op.rank_curves`.

    Beyond input and result it takes ``ROOM``, or up to 61 bytes per row. The host waits for the number of points.

    Raises:
        InputError: a CUDA graph is captured.
    """
    check_not_capturing("rank_curves sizes its result by values on the device and must not run")
    task = _task(scores, target, ignore_index, weight)
    points: list[tuple[Tensor, ...]] = []
    for column, width, room in _parts(task, 17 + scores.element_size()):
        shape = (width, scores.shape[0])
        last, thresholds = scores.new_empty(shape, dtype=torch.bool), scores.new_empty(shape)
        sums = task.totals.new_empty((2, *shape))
        _sort(task, column, width, room, (last, thresholds, *sums))
        points.append((thresholds[last], *(part[last] for part in sums), last.sum(1)))
    thresholds, tp, fp, counts = (torch.cat(parts) for parts in zip(*points))
    return thresholds, tp, fp, torch.cat((counts.new_zeros(1), counts)).cumsum(0), task.error


class _Task(NamedTuple):
    """The RankTask of csrc/cuda/rank_task.h as ``words``, and the tensors behind it."""

    words: bytes
    scores: Tensor
    target: Tensor
    weight: Tensor | None
    areas: Tensor
    totals: Tensor
    error: Tensor


def _task(scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None) -> _Task:
    named = {"scores": scores, "target": target} | ({} if weight is None else {"weight": weight})
    check_same_device(list(named), list(named.values()))
    scores, target = scores.contiguous(), target.contiguous()
    weight = None if weight is None else weight.contiguous()
    rows, classes = scores.shape
    areas = scores.new_empty((2, classes), dtype=torch.float64)
    totals = areas.new_empty((2, classes), dtype=torch.int64 if weight is None else torch.float64)
    error = scores.new_full((), NO_ERROR, dtype=torch.int64)
    words = struct.pack(
        "4q", scores.data_ptr(), FLOAT_TYPES[scores.dtype], rows, 0 if weight is None else weight.data_ptr()
    )
    words += targets.target_words(target, classes, ignore_index)
    words += struct.pack("3q", areas.data_ptr(), totals.data_ptr(), error.data_ptr())
    return _Task(words, scores, target, weight, areas, totals, error)


def _look_up(task: _Task, room: Tensor | None = None) -> int:
    """Sorts the positives, one per row, then looks up the position of every score among the positives of its class.

    Returns:
        Bytes that ``room`` needs. Without room nothing else is done.
    """
    size = ctypes.c_int64()
    with launching(task.scores.device) as stream:
        native.function("valor_cuda", "valor_rank_places_cuda")(
            task.words, 0 if room is None else room.data_ptr(), ctypes.addressof(size), stream
        )
    return size.value


def _sort(task: _Task, column: int, width: int, room: Tensor | None = None, points: tuple[Tensor, ...] = ()) -> int:
    """Sorts columns whole; running sums then tell what stands at or above each positive, or at each of the points.

    Args:
        task: of the op.
        column: the first one.
        width: number of columns.
        room: what they take.
        points: results ``[width, N]`` of the C function, for curves.

    Returns:
        Bytes that ``room`` needs. Without room nothing else is done.
    """
    size = ctypes.c_int64()
    outputs = [part.data_ptr() for part in points] or [0] * 4
    with launching(task.scores.device) as stream:
        native.function("valor_cuda", "valor_rank_columns_cuda")(
            task.words, column, width, 0 if room is None else room.data_ptr(), ctypes.addressof(size), *outputs, stream
        )
    return size.value


def _parts(task: _Task, more: int = 0) -> Iterator[tuple[int, int, Tensor]]:
    """First column, number and room of the columns that are sorted at a time; each element takes ``more`` bytes."""
    rows, classes = task.scores.shape
    width = max(1, min(classes, ROOM // (_sort(task, 0, 1) + more * rows)))
    if _TILE < width < classes:
        width -= width % _TILE
    room = task.scores.new_empty(_sort(task, 0, width), dtype=torch.uint8)
    for column in range(0, classes, width):
        yield column, min(width, classes - column), room
