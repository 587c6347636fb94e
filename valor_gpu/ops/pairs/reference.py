"""Definition of the pairs of a batch by any similarity: one detection and one ground truth at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from valor_gpu.ops.assign.image_reference import bits, fold, mix
from valor_gpu.ops.assign.match_batch import CROWD, MatchBatch, Pairs
from valor_gpu.ops.pairs.cpu import first_rows

_SEED = 0x2545F4914F6CDD1D


def joined(parts: Sequence[Tensor], width: int = 1) -> Tensor:
    """One tensor of the tensors of all images."""
    return torch.cat([part.reshape(-1, width) if width > 1 else part.reshape(-1) for part in parts])


def valid_rows(batch: MatchBatch) -> tuple[list[int], list[int]]:
    """How many detections and ground truths of each image are no padding."""
    found = []
    for count, sizes in zip((batch.counts, batch.gt_counts), batch.lengths.tolist()):
        given = sizes if count is None else count.tolist()
        found.append([min(max(n, 0), size) for n, size in zip(given, sizes)])
    return found[0], found[1]


def row_hashes(rows: Tensor) -> Tensor:
    """int64 ``[N]``: the content of rows ``[N, C]`` in 64 bits, by the bits of each value as float64."""
    state = torch.full((rows.shape[0],), _SEED, dtype=torch.int64, device=rows.device)
    for column in rows.double().unbind(1):
        state = fold(state, bits(column))
    return mix(state)


def find(
    batch: MatchBatch, lowest: float, agnostic: bool, similarity: Callable[[int, int, bool], float],
    device: torch.device,
) -> Pairs:  # fmt: skip
    """The pairs of a batch that reach ``lowest``.

    Args:
        batch: labels, flags, lengths and counts are read.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.
        similarity: of a detection and a ground truth, rows of the whole batch, and whether that is a crowd.
        device: where the pairs are to lie.
    """
    sizes, valid = batch.lengths.tolist(), valid_rows(batch)
    labels, gt_labels = (joined(x).tolist() if x else [] for x in (batch.labels, batch.gt_labels))
    flags = joined(batch.gt_flags).long().tolist() if batch.gt_flags else [0] * sum(sizes[1])
    firsts = first_rows(batch.lengths).tolist()
    pairs: list[tuple[float, int]] = []
    counts = []
    for image, (first, end) in enumerate(zip(firsts[0], firsts[0][1:])):
        first_gt = firsts[1][image]
        for row in range(first, end):
            found = [
                (similarity(row, j, bool(flags[j] & CROWD)), j - first_gt)
                for j in range(first_gt, first_gt + valid[1][image] * (row - first < valid[0][image]))
                if agnostic or labels[row] == gt_labels[j]
            ]
            kept = sorted((pair for pair in found if pair[0] >= lowest), reverse=True)
            counts.append(len(kept))
            pairs += kept
    used = torch.tensor(counts, dtype=torch.int32, device=device)
    return Pairs(
        torch.nn.functional.pad(used.long().cumsum(0), (1, 0)), used,
        torch.tensor([gt for _, gt in pairs], dtype=torch.int32, device=device),
        torch.tensor([value for value, _ in pairs], dtype=torch.float64, device=device),
    )  # fmt: skip
