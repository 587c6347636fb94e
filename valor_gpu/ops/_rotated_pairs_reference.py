"""Definition of ``rotated_pairs``: one detection and one ground truth at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from valor_gpu.ops._image_reference import bits, fold, mix
from valor_gpu.ops._rotated_cpu import Found, columns_of, first_rows
from valor_gpu.ops._rotated_reference import EMPTY, Quad, iou, load_rows
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.match_batch import CROWD, MatchBatch

_SEED = 0x2545F4914F6CDD1D


def _joined(parts: Sequence[Tensor], width: int = 1) -> Tensor:
    """One tensor of the tensors of all images."""
    return torch.cat([part.reshape(-1, width) if width > 1 else part.reshape(-1) for part in parts])


def _valid(count: Tensor | None, sizes: list[int]) -> list[int]:
    """How many rows of each image are no padding."""
    given = sizes if count is None else count.tolist()
    return [min(max(n, 0), size) for n, size in zip(given, sizes)]


def _load(
    boxes: Sequence[Tensor], code: int, sizes: list[int], valid: list[int], target: bool, device: torch.device
) -> tuple[list[Quad], Tensor, int]:
    """Polygons and hashes of all rows, and the first error."""
    quads, hashes, errors = [], [torch.zeros(0, dtype=torch.int64, device=device)], [NO_ERROR]
    rows = _joined(boxes, columns_of(code)).split(sizes) if boxes else []
    for image, (part, size, n) in enumerate(zip(rows, sizes, valid)):
        found, error = load_rows(part[:n], code, image, target)
        quads += [*found, *[EMPTY] * (size - n)]
        state = torch.full((n,), _SEED, dtype=torch.int64, device=device)
        for column in part[:n].double().unbind(1):
            state = fold(state, bits(column))
        hashes += [mix(state), state.new_zeros(size - n)]
        errors.append(error)
    return quads, torch.cat(hashes), min(errors)


def run(batch: MatchBatch, lowest: float, agnostic: bool, device: torch.device) -> Found:
    """Reference of the op; see :func:`valor_gpu.ops.rotated.rotated_pairs` for the definition."""
    sizes = batch.lengths.tolist()
    valid = _valid(batch.counts, sizes[0]), _valid(batch.gt_counts, sizes[1])
    quads, hashes, error = _load(batch.boxes, batch.box_format, sizes[0], valid[0], False, device)
    gts, gt_hashes, gt_error = _load(batch.gt_boxes, batch.gt_box_format, sizes[1], valid[1], True, device)
    labels, gt_labels = (_joined(x).tolist() if x else [] for x in (batch.labels, batch.gt_labels))
    crowd = [
        bool(flag & CROWD) for flag in (_joined(batch.gt_flags).long().tolist() if batch.gt_flags else [0] * len(gts))
    ]
    firsts = first_rows(batch.lengths).tolist()
    pairs: list[tuple[float, int]] = []
    counts = []
    for image, (first, end) in enumerate(zip(firsts[0], firsts[0][1:])):
        first_gt = firsts[1][image]
        for row in range(first, end):
            found = [
                (iou(quads[row], gts[j], crowd[j]), j - first_gt)
                for j in range(first_gt, first_gt + valid[1][image] * (row - first < valid[0][image]))
                if agnostic or labels[row] == gt_labels[j]
            ]
            kept = sorted((pair for pair in found if pair[0] >= lowest), reverse=True)
            counts.append(len(kept))
            pairs += kept

    def made(values: list[int] | list[float], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    used = made(counts, torch.int32)
    return Found(
        torch.nn.functional.pad(used.long().cumsum(0), (1, 0)), used, made([gt for _, gt in pairs], torch.int32),
        made([similarity for similarity, _ in pairs], torch.float64), made([q.area for q in quads], torch.float64),
        made([q.area for q in gts], torch.float64), hashes, gt_hashes, made([min(error, gt_error)], torch.int64)[0],
    )  # fmt: skip
