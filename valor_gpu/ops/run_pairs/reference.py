"""Definition of ``run_pairs``: masks are decoded to pixels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.ops.assign.image_reference import mix
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.pairs.cpu import Found
from valor_gpu.ops.pairs.reference import find, valid_rows
from valor_gpu.ops.run_pairs.cpu import Boundaries
from valor_gpu.ops.runs.op import MAX_PIXELS, Runs

_STEP = 0x9E3779B97F4A7C15 - (1 << 64)
_MASK_ERROR = 20
_KIND_BITS, _ROW_BITS = 5, 28


class _Mask(NamedTuple):
    """Set pixels, bool ``[W * H]`` column by column; left, top, right and bottom; height and width."""

    pixels: Tensor
    box: tuple[int, int, int, int]
    size: tuple[int, int]


def _bounds(counts: Tensor, height: int) -> tuple[int, int, int, int]:
    """Bounds of the set pixels; a run that goes on in the next column spans all rows."""
    ends = counts.long().cumsum(0)
    last, first = ends[1::2] - 1, (ends - counts)[1::2]
    kept = last >= first
    if not kept.any():
        return 0, 0, 0, 0
    first, last = first[kept], last[kept]
    spans = bool((first // height != last // height).any())
    rows = (0, height) if spans else (int((first % height).min()), int((last % height).max()) + 1)
    return int(first[0]) // height, rows[0], int(last[-1]) // height + 1, rows[1]


def _decode(runs: Runs, mask: int) -> _Mask | None:
    """Pixels of a mask, None where its runs are none."""
    first, end = runs.offsets[mask : mask + 2].tolist()
    height, width = runs.sizes[mask].tolist()
    counts = runs.counts[max(first, 0) : end]
    sound = 0 <= first <= end <= len(runs.counts) and min(height, width) >= 0 and height * width <= MAX_PIXELS
    if not sound or (counts < 0).any() or (len(counts) and int(counts.long().sum()) != height * width):
        return None
    values = torch.arange(len(counts), device=counts.device) % 2 == 1
    pixels = values.repeat_interleave(counts.long()) if len(counts) else values.new_zeros(height * width)
    return _Mask(pixels, _bounds(counts, height), (height, width))


def _hash(runs: Runs, mask: int) -> Tensor:
    """int64 ``[]``: the runs of a mask in 64 bits."""
    first, end = runs.offsets[mask : mask + 2].tolist()
    counts = runs.counts[first:end].long()
    pairs = torch.nn.functional.pad(counts, (0, len(counts) % 2)).view(-1, 2)
    place = torch.arange(1, len(pairs) + 1, device=counts.device)
    total = mix((pairs[:, 0] | pairs[:, 1] << 32) + place * _STEP).sum()
    height, width = runs.sizes[mask].long()
    return mix(total ^ mix(height | width << 32))


def _iou(mask: _Mask, gt: _Mask, crowd: bool) -> float:
    (left, top, right, bottom), other = mask.box, gt.box
    if not (left < other[2] and other[0] < right and top < other[3] and other[1] < bottom):
        return 0.0
    if mask.size != gt.size:
        return -1.0
    shared, area, gt_area = (int(x.sum()) for x in (mask.pixels & gt.pixels, mask.pixels, gt.pixels))
    return shared / (area if crowd else area + gt_area - shared) if shared else 0.0


def _load(runs: Runs, batch: MatchBatch, side: int) -> tuple[list[_Mask], Tensor, Tensor, int]:
    """Masks, areas, hashes and the first error; padding is empty."""
    sizes, valid = batch.lengths[side].tolist(), valid_rows(batch)[side]
    empty = _Mask(runs.counts.new_zeros(0, dtype=torch.bool), (0, 0, 0, 0), (0, 0))
    masks, hashes, errors, row = [], [runs.offsets.new_zeros(())], [NO_ERROR], 0
    for image, (size, n) in enumerate(zip(sizes, valid)):
        for position in range(size):
            decoded = _decode(runs, row) if position < n else empty
            if decoded is None:
                errors.append((image << _ROW_BITS | position) << _KIND_BITS | (_MASK_ERROR + side))
            good = position < n and decoded is not None
            hashes.append(_hash(runs, row) if good else hashes[0])
            masks.append(decoded or empty)
            row += 1
    areas = [int(mask.pixels.sum()) for mask in masks]
    made = torch.tensor(areas, dtype=torch.float64, device=runs.offsets.device)
    return masks, made, torch.stack(hashes)[1:], min(errors)


def run(
    batch: MatchBatch, sides: Boundaries, lowest: float, agnostic: bool, boundaries: Boundaries | None,
    device: torch.device,
) -> Found:  # fmt: skip
    """Reference of the op; see :func:`valor_gpu.ops.run_pairs.op.run_pairs` for the definition."""
    loaded = [_load(runs, batch, side) for side, runs in enumerate(sides)]
    edges = [_load(runs, batch, side) for side, runs in enumerate(boundaries or ())]

    def similarity(d: int, g: int, crowd: bool) -> float:
        iou = _iou(loaded[0][0][d], loaded[1][0][g], crowd)
        return iou if crowd or not edges else min(iou, _iou(edges[0][0][d], edges[1][0][g], False))

    pairs = find(batch, lowest, agnostic, similarity, device)
    (_, areas, hashes, _), (_, gt_areas, gt_hashes, _) = loaded
    error = torch.tensor(min(side[3] for side in loaded + edges), device=device)
    return Found._make([*vars(pairs).values(), areas, gt_areas, hashes, gt_hashes, error])
