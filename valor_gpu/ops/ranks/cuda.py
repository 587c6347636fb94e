"""ROC AUC and average precision on CUDA: kernels of csrc/cuda/ranks.cu around torch's sort, without synchronising."""

from __future__ import annotations

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

_MOST_COLUMNS = 1 << 20  # 32 a block of a grid whose second side ends at 65,535
_BYTES = 56  # of an element of such a column: its keys, sorted and not, rows, running sums, and what torch's sort takes


def auroc_and_ap(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The op ``auroc_and_ap`` for CUDA tensors; see :func:`valor_gpu.ops.ranks.op.auroc_and_ap`.

    Beyond the input it takes 40 bytes per row, if the target is class indices and there are no weights; else ``ROOM``,
    or 56 bytes per row.
    """
    task = _task(scores, target, ignore_index, weight)
    if target.ndim == 1 and weight is None:
        _look_up(task.words, task.scores)
    else:
        for column, width in task.parts():
            _sort(task.words, task.scores, column, width)
    return task.areas, task.totals, task.error


def rank_curves(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The op ``rank_curves`` for CUDA tensors; see :func:`valor_gpu.ops.ranks.op.rank_curves`.

    Beyond input and result it takes ``ROOM``, or 56 bytes per row. The host waits for the number of points.

    Raises:
        InputError: a CUDA graph is captured.
    """
    check_not_capturing("rank_curves sizes its result by values on the device and must not run")
    task = _task(scores, target, ignore_index, weight)
    points: list[tuple[Tensor, ...]] = []
    for column, width in task.parts():
        keys, tp, fp = _sort(task.words, task.scores, column, width)
        last = keys != torch.iinfo(keys.dtype).max  # what is left out has the largest key
        last[:, :-1] &= keys[:, :-1] != keys[:, 1:]
        sums = (part[last].view(task.totals.dtype) for part in (tp, fp))
        points.append((_scores_of(keys[last], scores.dtype), *sums, last.sum(1)))
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

    def parts(self) -> Iterator[tuple[int, int]]:
        """First column and number of columns that are sorted at a time."""
        rows, classes = self.scores.shape
        most = min(_MOST_COLUMNS, max(1, ROOM // max(1, rows * _BYTES)))
        for column in range(0, classes, most):
            yield column, min(most, classes - column)


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


def _scores_of(keys: Tensor, dtype: torch.dtype) -> Tensor:
    """The scores behind sorted keys, which are those of SignedOrder in csrc/cuda/rank_task.h upside down."""
    lowest = torch.iinfo(keys.dtype).min
    if dtype.itemsize > 2:
        return torch.where(keys < 0, ~keys, keys | lowest).view(dtype)
    bits = ~keys ^ lowest
    return torch.where(bits >= 1 << 15, bits & 0x7FFF, ~bits & 0xFFFF).to(torch.int16).view(dtype)


def _key_dtype(scores: Tensor) -> torch.dtype:
    return torch.int64 if scores.dtype == torch.float64 else torch.int32


def _look_up(words: bytes, scores: Tensor) -> None:
    """Sorts the positives, one per row, then looks up the position of every score among the positives of its class."""
    rows, classes = scores.shape
    class_of_positive = scores.new_empty(rows, dtype=torch.int32)
    keys = scores.new_empty(rows, dtype=_key_dtype(scores))
    with launching(scores.device) as stream:
        native.function("valor_cuda", "valor_rank_list_cuda", "pppp")(
            words, class_of_positive.data_ptr(), keys.data_ptr(), stream
        )
        keys, order = keys.sort()
        class_of_positive, by_class = class_of_positive[order].sort(stable=True)
        keys = keys[by_class]
        first = scores.new_empty(classes + 1, dtype=torch.int64)
        counts = scores.new_zeros((2, rows), dtype=torch.int32)
        native.function("valor_cuda", "valor_rank_places_cuda", "ppppppp")(
            words, class_of_positive.data_ptr(), keys.data_ptr(), first.data_ptr(), counts[0].data_ptr(),
            counts[1].data_ptr(), stream,
        )  # fmt: skip


def _sort(words: bytes, scores: Tensor, column: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sorts columns whole; running sums then tell what stands at or above each positive.

    Returns:
        Sorted keys and running sums of positives and negatives ``[width, N]``, the latter 8 bytes of their type each.
    """
    shape = (width, scores.shape[0])
    keys = scores.new_empty(shape, dtype=_key_dtype(scores))
    with launching(scores.device) as stream:
        native.function("valor_cuda", "valor_rank_keys_cuda", "pqqpp")(words, column, width, keys.data_ptr(), stream)
        keys, order = keys.sort(stable=True)
        tp, fp = (keys.new_empty(shape, dtype=torch.int64) for _ in range(2))
        positions = keys.new_empty(shape, dtype=torch.int32)
        native.function("valor_cuda", "valor_rank_columns_cuda", "pqqpppppp")(
            words, column, width, keys.data_ptr(), order.data_ptr(), tp.data_ptr(), fp.data_ptr(),
            positions.data_ptr(), stream,
        )  # fmt: skip
    return keys, tp, fp
