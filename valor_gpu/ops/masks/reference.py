"""Definition of ``dense_pairs``: pixels in both masks over pixels in any, one image after another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from valor_gpu.ops.assign.image_reference import mix
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.pairs.cpu import Found
from valor_gpu.ops.pairs.reference import find, valid_rows

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)


def packed(masks: Tensor) -> Tensor:
    """int64 ``[N, ceil(H * W / 64)]`` of masks ``[N, H, W]``: bit i of word j is pixel 64 j + i."""
    pixels = (masks != 0).flatten(1)
    words = (pixels.shape[1] + 63) // 64
    bits = torch.nn.functional.pad(pixels, (0, 64 * words - pixels.shape[1])).view(len(masks), words, 64).long()
    return (bits << torch.arange(64, device=masks.device)).sum(2)


def mask_hashes(masks: Tensor) -> Tensor:
    """int64 ``[N]``: content and size of masks ``[N, H, W]``."""
    words = packed(masks)
    places = torch.arange(1, words.shape[1] + 1, device=masks.device) * _GOLDEN
    content = torch.where(words != 0, mix(words + places), 0).sum(1)
    size = torch.tensor(masks.shape[1] << 32 | masks.shape[2], device=masks.device)
    return mix(content ^ mix(size))


def _valid(masks: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
    """Pixels, bool ``[N, H * W]``, of each image; rows of padding are empty."""
    return [(m != 0).flatten(1) & (torch.arange(len(m), device=m.device) < n)[:, None] for m, n in zip(masks, counts)]


def _hashes(masks: Sequence[Tensor], counts: Sequence[int], device: torch.device) -> Tensor:
    parts = [torch.zeros(0, dtype=torch.int64, device=device)]
    for image, n in zip(masks, counts):
        parts += [mask_hashes(image[:n]), parts[0].new_zeros(len(image) - n)]
    return torch.cat(parts)


def run(
    batch: MatchBatch, sides: Sequence[tuple[Sequence[Tensor], Sequence[Tensor]]], lowest: float, agnostic: bool,
    device: torch.device,
) -> Found:  # fmt: skip
    """Reference of the op; see :func:`valor_gpu.ops.masks.op.dense_pairs` for the definition."""
    valid = valid_rows(batch)
    layers = [tuple(_valid(side, counts) for side, counts in zip(masks, valid)) for masks in sides]
    rows = [[row for image in layer[0] for row in image] for layer in layers]
    gt_rows = [[row for image in layer[1] for row in image] for layer in layers]

    def similarity(d: int, g: int, crowd: bool) -> float:
        found = []
        for ours, theirs in list(zip(rows, gt_rows))[: 1 if crowd else None]:
            both = int((ours[d] & theirs[g]).sum())
            whole = int(ours[d].sum()) + (0 if crowd else int(theirs[g].sum()) - both)
            found.append(both / whole if both else 0.0)
        return min(found)

    pairs = find(batch, lowest, agnostic, similarity, device)
    areas, gt_areas = (
        torch.tensor([int(row.sum()) for row in side], dtype=torch.float64, device=device)
        for side in (rows[0], gt_rows[0])
    )
    hashes = [_hashes(side, counts, device) for side, counts in zip(sides[0], valid)]
    return Found._make([*vars(pairs).values(), areas, gt_areas, *hashes, torch.tensor(NO_ERROR, device=device)])
