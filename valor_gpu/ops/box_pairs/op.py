"""Upright boxes as stored pairs, for rules that look at more of them than the fused matcher keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import reference, register
from valor_gpu.ops.assign.match_batch import MatchBatch, MatchRule
from valor_gpu.ops.box_pairs import cpu as _box_pairs_cpu
from valor_gpu.ops.box_pairs.cpu import SHAPE
from valor_gpu.ops.boxes.op import to_xywh
from valor_gpu.ops.error_codes import NO_ERROR, pack_box
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ops.pairs.cpu import Found, first_rows
from valor_gpu.ops.pairs.reference import find, joined, row_hashes, valid_rows
from valor_gpu.ops.pairs.rows import SCHEMA, device_of, find_stored, run_fake, run_on_cpu, run_on_cuda, to_batch
from valor_gpu.ops.pairs.rows_cpu import Kernels

_NOT_FINITE, _GT_NOT_FINITE = 1, 4  # kinds of errors in csrc/core/error_codes.h
_XYWH = BOX_FORMATS.index("xywh")


def box_pairs(batch: MatchBatch, rule: MatchRule) -> tuple[MatchBatch, Tensor]:
    """Returns a batch of stored pairs for :func:`valor_gpu.ops.assign.op.assign`, and an error code.

    Pairs have a detection and a ground truth of its class (of any class with ``AGNOSTIC``) whose similarity reaches the
    lowest threshold, every pair of the class if that is at most 0. The similarity is that of
    :func:`~valor_gpu.ops.boxes.op.box_iou`, against a crowd intersection over detection area; 0 where an area is beyond
    float64. It is what :func:`~valor_gpu.ops.assign.op.assign` finds in boxes without pairs, to the last bit, but never
    above 1, which rounding can give there: the difference of the ends of a box is not always its width. On CUDA
    every detection has room for all ground truths of its image, 12 bytes each, so that the host waits for nothing.

    Args:
        batch: tensors; ``boxes`` and ``gt_boxes`` have the formats ``box_format`` and ``gt_box_format``.
        rule: of which thresholds and options are looked at.

    Returns:
        The batch without boxes, and int64 ``[]``, an error code.

    Raises:
        InputError: on CPU tensors, for the first row that is not finite. On CUDA the error code is returned instead,
            since reading it would wait for the device.
    """
    return find_stored(_OP, batch, rule)


def _load(boxes: Tensor, code: int, sizes: list[int], valid: list[int], kind: int) -> tuple[Tensor, Tensor, int]:
    """Xywh rows and hashes, zeros for padding, and the first error; rows that are not finite become zeros."""
    rows, real = to_xywh(boxes, code), torch.zeros(boxes.shape[0], dtype=torch.bool, device=boxes.device)
    error, first = NO_ERROR, 0
    for image, (size, count) in enumerate(zip(sizes, valid)):
        real[first : first + count] = True
        bad = (~rows[first : first + count].isfinite().all(1)).nonzero()
        if len(bad):
            error = min(error, pack_box(image, int(bad[0]), kind))
        first += size
    good = real & rows.isfinite().all(1)
    return torch.where(good[:, None], rows, 0.0), torch.where(real, row_hashes(rows), 0), error


def _by_reference(*arguments: Any) -> Found:
    """The definition: :func:`box_iou` of every detection and ground truth."""
    batch, lowest, agnostic = to_batch(*arguments)
    device, sizes, valid = device_of(batch), batch.lengths.tolist(), valid_rows(batch)
    none = torch.zeros(0, 4, device=device)
    boxes, gt_boxes = (joined(side, 4) if side else none for side in (batch.boxes, batch.gt_boxes))
    rows, hashes, error = _load(boxes, batch.box_format, sizes[0], valid[0], _NOT_FINITE)
    gts, gt_hashes, gt_error = _load(gt_boxes, batch.gt_box_format, sizes[1], valid[1], _GT_NOT_FINITE)
    firsts = torch.from_numpy(first_rows(batch.lengths))
    crowds = (torch.full((len(gts),), crowd, device=device) for crowd in (False, True))
    every = (reference("box_iou")(rows, gts, firsts, crowd, _XYWH) for crowd in crowds)
    values = [iou.nan_to_num(0.0).clamp(max=1.0).tolist() for iou in every]
    sizes_of_rows = batch.lengths[0].cpu()
    first, first_gt, first_pair = (side[:-1].repeat_interleave(sizes_of_rows) for side in firsts)
    widths = batch.lengths[1].cpu().repeat_interleave(sizes_of_rows)
    starts = (first_pair + (torch.arange(len(rows)) - first) * widths - first_gt).tolist()
    pairs = find(batch, lowest, agnostic, lambda row, gt, crowd: values[crowd][starts[row] + gt], device)
    first_error = torch.tensor(min(error, gt_error), device=device)
    areas = [side[:, 2] * side[:, 3] for side in (rows, gts)]
    return Found._make([*vars(pairs).values(), *areas, hashes, gt_hashes, first_error])


def _on_cpu(*arguments: Any) -> Found:
    return run_on_cpu(arguments, SHAPE, _box_pairs_cpu.kernels())


def _on_cuda(*arguments: Any) -> Found:
    kernels = Kernels(
        native.function("valor_cuda", "valor_load_boxes_cuda", "pqpp"),
        native.function("valor_cuda", "valor_box_pairs_cuda", "pqp"),
    )
    return run_on_cuda(arguments, SHAPE, kernels)


_OP = register(f"box_pairs{SCHEMA}", reference=_by_reference, fake=run_fake, cpu=cpp(_on_cpu), cuda=cuda(_on_cuda))
