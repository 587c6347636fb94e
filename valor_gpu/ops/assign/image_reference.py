"""Content hashes and the row of an image, in plain torch: what the reference of ``assign`` writes for an image."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from valor_gpu.ops.assign.match_batch import HASHED


@dataclass(frozen=True)
class Image:
    """One image: boxes as float64 xywh ``[N, 4]``, or for stored pairs hashes of geometries int64 ``[N]``."""

    geometry: Tensor
    scores: Tensor
    labels: Tensor
    areas: Tensor
    flags: Tensor
    gt_geometry: Tensor
    gt_labels: Tensor
    gt_flags: Tensor
    gt_areas: Tensor
    given_areas: Tensor

    def empty(self) -> Image:
        """Returns the image without its rows."""
        return Image(*(getattr(self, f.name)[:0] for f in fields(self)))


def _logical_shift(x: Tensor, by: int) -> Tensor:
    return (x >> by) & ((1 << (64 - by)) - 1)


def mix(x: Tensor) -> Tensor:
    """Finaliser of splitmix64 on int64 words (two's complement arithmetic wraps as unsigned does)."""
    x = (x ^ _logical_shift(x, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    x = (x ^ _logical_shift(x, 27)) * (0x94D049BB133111EB - (1 << 64))
    return x ^ _logical_shift(x, 31)


def fold(state: Tensor, word: Tensor) -> Tensor:
    """Returns the state of a content hash after one more word."""
    return (state ^ word) * (0x9E3779B97F4A7C15 - (1 << 64)) + _logical_shift(state, 29)


def bits(values: Tensor) -> Tensor:
    """Returns the bits of float64 values as int64."""
    return values.double().contiguous().view(torch.int64)


def _row_hashes(seed: Tensor, geometry: Tensor, tail: Tensor) -> Tensor:
    """Sum of row hashes, a 64-bit word."""
    state = seed
    for word in bits(geometry).unbind(1) if geometry.ndim == 2 else [geometry]:
        state = fold(state, word)
    return mix(fold(state, tail)).sum()


def _hashes(image: Image) -> tuple[Tensor, Tensor]:
    """(hash of the ground truths, free of their order; hash of the detections)."""
    seed = torch.full_like(image.gt_labels, 0x51AFD7ED558CCD6D)
    tail = fold(bits(image.gt_areas), image.gt_labels << 3 | (image.gt_flags & 7))
    ground_truths = _row_hashes(seed, image.gt_geometry, tail)
    rows = torch.arange(1, len(image.labels) + 1, device=image.labels.device)
    records = _row_hashes(mix(rows), image.geometry, fold(bits(image.scores), image.labels))
    return ground_truths, records


def _negative_sizes(boxes: Tensor) -> Tensor:
    """int64 ``[]``: boxes of negative width or height."""
    return (boxes[:, 2:] < 0).any(1).sum()


def _reach(boxes: Tensor) -> Tensor:
    """int64 ``[]``: the float32 bits of the largest coordinate as a size, 0 without boxes."""
    return torch.cat((boxes.reshape(-1).abs(), boxes.new_zeros(1))).max().float().view(torch.int32).long()


def _pair(low: Tensor, high: Tensor) -> Tensor:
    """int64 ``[]`` of two words of 32 bits."""
    return low | high << 32


def image_row(image: Image, image_ids: list[Tensor], i: int, rows: tuple[int, int], options: int) -> Tensor:
    """int64 ``[8]``: the row of the images table."""
    zero = torch.zeros((), dtype=torch.int64, device=image.labels.device)
    gt_hash, record_hash = _hashes(image) if options & HASHED else (zero, zero)
    content = mix(fold(gt_hash, record_hash)) if options & HASHED else zero
    if image_ids:
        content = image_ids[0].reshape(-1)[i] if len(image_ids) == 1 else image_ids[i].reshape(())
    rest = torch.tensor(rows, device=zero.device)
    has_id = zero + bool(image_ids)
    extents = torch.stack((zero, zero))
    if image.geometry.ndim == 2:
        sides = (image.geometry, image.gt_geometry)
        extents = torch.stack((_pair(*map(_negative_sizes, sides)), _pair(*map(_reach, sides))))
    return torch.cat((torch.stack((content.to(zero.device), has_id, gt_hash, record_hash)), rest, extents))
