"""Pairs of boxes of any shape: the op that finds them, of a geometry whose rows C++ loads first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import launching
from valor_gpu.ops.assign.cuda import check_one_device
from valor_gpu.ops.assign.match_batch import AGNOSTIC, MatchBatch, MatchRule
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error
from valor_gpu.ops.pairs import rows_cpu as _row_pairs_cpu
from valor_gpu.ops.pairs.cpu import Found, Search, first_rows, stored
from valor_gpu.ops.pairs.cuda import access_on, fake, find
from valor_gpu.ops.pairs.rows_cpu import Kernels, Shape, found_of, load_sides, read_columns, side_words

BATCH_FIELDS = (
    "boxes", "labels", "gt_boxes", "gt_labels", "gt_flags", "lengths", "counts", "gt_counts", "box_format",
    "gt_box_format",
)  # fmt: skip

SCHEMA = (
    "(Tensor[] boxes, Tensor[] labels, Tensor[] gt_boxes, Tensor[] gt_labels, Tensor[] gt_flags,"
    " Tensor lengths, Tensor? counts, Tensor? gt_counts, int box_format, int gt_box_format, float lowest,"
    " bool agnostic) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
"""Arguments of the op, ``BATCH_FIELDS`` first, and the fields of :class:`Found`."""


def find_stored(op: Callable[..., Any], batch: MatchBatch, rule: MatchRule) -> tuple[MatchBatch, Tensor]:
    """Returns a batch of stored pairs and an error code; raises for the first row that is no box on CPU tensors.

    Args:
        op: the op of the geometry.
        batch: tensors.
        rule: of which thresholds and options are looked at.
    """
    given = (getattr(batch, name) for name in BATCH_FIELDS)
    found = Found(*op(*given, float(rule.thresholds.min()), bool(rule.options & AGNOSTIC)))
    if not found.error.is_cuda:
        raise_error(found.error, describe_box)
    return stored(batch, found), found.error


def to_batch(*arguments: Any) -> tuple[MatchBatch, float, bool]:
    """The batch, the lowest threshold and whether classes are passed over, of the arguments of the op."""
    *columns, lowest, agnostic = arguments
    return MatchBatch(**dict(zip(BATCH_FIELDS, columns))), lowest, agnostic


def device_of(batch: MatchBatch) -> torch.device:
    """The device of a batch whose columns may be empty."""
    return batch.labels[0].device if batch.labels else torch.device("cpu")


def run_on_cpu(arguments: tuple[Any, ...], shape: Shape, kernels: Kernels) -> Found:
    """The op on CPU tensors, by the kernels of the CPU."""
    found = _row_pairs_cpu.run(*to_batch(*arguments), access_on(torch.device("cpu")), shape, kernels)
    return found._replace(error=torch.tensor(found.error))


def run_on_cuda(arguments: tuple[Any, ...], shape: Shape, kernels: Kernels) -> Found:
    """The op on CUDA tensors, by the kernels of CUDA; does not synchronise with the device."""
    batch, lowest, agnostic = to_batch(*arguments)
    device = check_one_device({
        "labels": batch.labels, "gt_labels": batch.gt_labels, "boxes": batch.boxes, "gt_boxes": batch.gt_boxes,
        "gt_flags": batch.gt_flags, "counts": [c for c in (batch.counts, batch.gt_counts) if c is not None],
    })  # fmt: skip
    access, firsts = access_on(device), first_rows(batch.lengths)
    rows = tuple(int(n) for n in firsts[:2, -1])
    with launching(device) as stream:
        given = read_columns(batch, rows, shape, access)
        table, error = to_device(torch.from_numpy(firsts), device), torch.full((), NO_ERROR, device=device)
        sides = load_sides(
            batch, given, [side.data_ptr() for side in table[:2]], rows, shape, access,
            lambda task, count: kernels.load(task, count, error.data_ptr(), stream),
        )  # fmt: skip
        search = Search(given, side_words(sides, access), lowest, agnostic)
        pairs = find(search, firsts, table, access, kernels.find, stream)
    return found_of(pairs, sides, error)


def run_fake(*arguments: Any) -> Found:
    """Shapes and dtypes of the op."""
    batch, _, _ = to_batch(*arguments)
    return fake(batch.labels[0] if batch.labels else batch.lengths)
