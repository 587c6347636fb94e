"""Kernels of the ops in :mod:`valor_gpu.ops.overlaps.op`: how C++ and CUDA are called, and what their errors mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import launching
from valor_gpu.ops.error_codes import NO_ERROR, unpack_box
from valor_gpu.ops.pairs.cpu import words

COLUMNS = ("sizes", "labels", "scores", "gt_labels", "counts", "ground_truths", "ious")
"""Arguments of the ops, in their order."""

TableWords = words("TableWords", (*COLUMNS, "firsts", "offsets", "datums", "rows", "gts", "pairs"))
"""OverlapTable of csrc/core/overlaps.h."""

SIZES, SIZE_TOTAL, SCORES, COUNTS, COUNT_TOTAL, GROUND_TRUTH, IOU = range(7)
"""What an error code is about, OverlapColumn of csrc/core/overlaps.h: the image of the code; its row is the place."""


class Table(NamedTuple):
    """The columns for C++: words, and the tensors that must live as long."""

    words: bytes
    kept: tuple[Tensor, ...]


def first_places(sizes: Tensor) -> Tensor:
    """Sums of the sizes before each place along the last dimension, and of all of them."""
    return torch.nn.functional.pad(sizes.cumsum(-1), (1, 0))


def table_of(columns: tuple[Tensor, ...]) -> Table:
    """The table of int64 and float64 columns in the order of ``COLUMNS``, without synchronising with a device."""
    sizes, labels, _, gt_labels, counts, _, ious = columns
    kept = (*(column.contiguous() for column in columns), first_places(sizes), first_places(counts))
    rows = (sizes.shape[1], len(labels), len(gt_labels), len(ious))
    return Table(bytes(TableWords(*(column.data_ptr() for column in kept), *rows)), kept)


def ranked_room(labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Room for what ``rank_overlaps`` returns, also as its fake."""
    numbers = (labels.new_empty(labels.shape, dtype=torch.float64) for _ in range(3))
    return torch.empty_like(labels), *numbers, labels.new_empty((), dtype=torch.int64)  # type: ignore[return-value]


def rank_fake(*arguments: Any) -> tuple[Tensor, ...]:
    """Shapes and dtypes of ``rank_overlaps``."""
    return ranked_room(arguments[1])


def rank_on_cpu(*arguments: Any) -> tuple[Tensor, ...]:
    """``rank_overlaps`` of CPU tensors."""
    *columns, document = arguments
    table, out = table_of(tuple(columns)), ranked_room(columns[1])
    native.function("valor_cpu", "valor_rank_overlaps_cpu", "pipppppq")(
        table.words, document, *(column.data_ptr() for column in out), torch.get_num_threads()
    )
    return out


def partner_room(labels: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """Room for what ``confuse_overlaps`` returns, also as its fake."""
    return labels.new_empty((thresholds.shape[0], labels.shape[0])), labels.new_empty(())


def confuse_fake(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``confuse_overlaps``."""
    return partner_room(arguments[1], arguments[7])


def confuse_on_cpu(*arguments: Any) -> tuple[Tensor, Tensor]:
    """``confuse_overlaps`` of CPU tensors."""
    *columns, thresholds, dissolve = arguments
    table, ious = table_of(tuple(columns)), thresholds.contiguous()
    partners, error = partner_room(columns[1], ious)
    native.function("valor_cpu", "valor_confuse_overlaps_cpu", "ppqippq")(
        table.words, ious.data_ptr(), len(ious), dissolve, partners.data_ptr(), error.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return partners, error


def describe(code: int, columns: tuple[Tensor, ...]) -> str:
    """The message of an error code of columns in the order of ``COLUMNS``: the place, what is needed, what came."""
    column, place, _ = unpack_box(code)
    sizes, labels, _, gt_labels, counts, ground_truths, ious = columns
    if column in (SIZES, SIZE_TOTAL):
        side, datum = divmod(place, max(sizes.shape[1], 1)) if column == SIZES else (place, -1)
        total, name = ((len(labels), "labels"), (len(gt_labels), "gt_labels"))[side]
        if column == SIZES:
            value = int(sizes[side, datum])
            return f"sizes[{side}, {datum}] must lie between 0 and {total}, the number of {name}, but is {value}"
        return f"sizes[{side}] must sum to {total}, the number of {name}, but sums to {int(sizes[side].sum())}"
    if column == COUNTS:
        return f"counts[{place}] must lie between 0 and {len(ious)}, the number of ious, but is {int(counts[place])}"
    if column == COUNT_TOTAL:
        return f"counts must sum to {len(ious)}, the number of ious, but sum to {int(counts.sum())}"
    if column == SCORES:
        return f"scores[{place}] must not be NaN"
    if column == IOU:
        return f"ious[{place}] must be above 0 and at most 1 but is {float(ious[place])}"
    return _describe_ground_truth(place, sizes, counts, int(ground_truths[place]))


def _describe_ground_truth(pair: int, sizes: Tensor, counts: Tensor, gt: int) -> str:
    """The message of a pair whose ground truth is one of another datum."""
    row = int(torch.searchsorted(first_places(counts), pair, right=True)) - 1
    datum = int(torch.searchsorted(first_places(sizes)[0].contiguous(), row, right=True)) - 1
    first, end = first_places(sizes)[1][datum : datum + 2].tolist()
    have = f"those from {first} to {end - 1}" if end > first else "none"
    return f"ground_truths[{pair}] must be one of datum {datum}, like detection {row}, which has {have}, but is {gt}"


def rank_on_cuda(*arguments: Any) -> tuple[Tensor, ...]:
    """``rank_overlaps`` of CUDA tensors; does not synchronise with the device."""
    *columns, document = arguments
    with launching(columns[1].device) as stream:
        table, (best, ious, before, others, error) = table_of(tuple(columns)), ranked_room(columns[1])
        error.fill_(NO_ERROR)
        taken = columns[3].new_zeros(len(columns[3]) if document else 0, dtype=torch.uint8)
        pairs = torch.empty_like(best) if document else best
        native.function("valor_cuda", "valor_rank_overlaps_cuda", "pipppppppp")(
            table.words, document, best.data_ptr(), ious.data_ptr(), before.data_ptr(), others.data_ptr(),
            pairs.data_ptr(), taken.data_ptr(), error.data_ptr(), stream,
        )  # fmt: skip
    return best, ious, before, others, error


def confuse_on_cuda(*arguments: Any) -> tuple[Tensor, Tensor]:
    """``confuse_overlaps`` of CUDA tensors; does not synchronise with the device."""
    *columns, thresholds, dissolve = arguments
    with launching(columns[1].device) as stream:
        table, ious = table_of(tuple(columns)), to_device(thresholds.contiguous(), columns[1].device)
        partners, error = partner_room(columns[1], ious)
        error.fill_(NO_ERROR)
        taken = columns[3].new_zeros(len(ious) * len(columns[3]), dtype=torch.uint8)
        native.function("valor_cuda", "valor_confuse_overlaps_cuda", "ppqipppp")(
            table.words, ious.data_ptr(), len(ious), dissolve, partners.data_ptr(), taken.data_ptr(),
            error.data_ptr(), stream,
        )  # fmt: skip
    return partners, error
