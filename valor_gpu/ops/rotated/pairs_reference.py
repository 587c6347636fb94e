"""Definition of ``rotated_pairs``: the pairs of a batch by the IoU of quadrilaterals."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.pairs.cpu import Found
from valor_gpu.ops.pairs.reference import find, joined, row_hashes, valid_rows
from valor_gpu.ops.rotated.cpu import columns_of
from valor_gpu.ops.rotated.reference import EMPTY, Quad, iou, load_rows


def _load(
    boxes: Sequence[Tensor], code: int, sizes: list[int], valid: list[int], target: bool, device: torch.device
) -> tuple[list[Quad], Tensor, int]:
    """Polygons and hashes of all rows, and the first error."""
    quads, hashes, errors = [], [torch.zeros(0, dtype=torch.int64, device=device)], [NO_ERROR]
    rows = joined(boxes, columns_of(code)).split(sizes) if boxes else []
    for image, (part, size, n) in enumerate(zip(rows, sizes, valid)):
        found, error = load_rows(part[:n], code, image, target)
        quads += [*found, *[EMPTY] * (size - n)]
        hashes += [row_hashes(part[:n]), hashes[0].new_zeros(size - n)]
        errors.append(error)
    return quads, torch.cat(hashes), min(errors)


def run(batch: MatchBatch, lowest: float, agnostic: bool, device: torch.device) -> Found:
    """Reference of the op; see :func:`valor_gpu.ops.rotated.op.rotated_pairs` for the definition."""
    sizes, valid = batch.lengths.tolist(), valid_rows(batch)
    quads, hashes, error = _load(batch.boxes, batch.box_format, sizes[0], valid[0], False, device)
    gts, gt_hashes, gt_error = _load(batch.gt_boxes, batch.gt_box_format, sizes[1], valid[1], True, device)
    pairs = find(batch, lowest, agnostic, lambda row, j, crowd: iou(quads[row], gts[j], crowd), device)
    areas, gt_areas = (
        torch.tensor([q.area for q in side], dtype=torch.float64, device=device) for side in (quads, gts)
    )
    first_error = torch.tensor(min(error, gt_error), device=device)
    return Found._make([*vars(pairs).values(), areas, gt_areas, hashes, gt_hashes, first_error])
