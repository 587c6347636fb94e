"""Copies of an image, as samplers add them to fill a batch: one of them counts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.ops.assign.image_order import raise_conflict, warn_of_other_copies

_MULTIPLIERS = (-7046029254386353131, -4417276706812531889, 1609587929392839161)
"""Odd numbers with bits all over, of Steele's splitmix64 and xxHash: 64 bits in two's complement."""


def images_that_count(records: OverlapRecords) -> Tensor:
    """Bool ``[I]``: of images with one id, the one that counts; every image without an id.

    Of copies with other detections the one with the smallest hash counts, so that the order of images changes nothing.

    Args:
        records: checked.

    Raises:
        InputError: an id came with two different ground truths.

    Warns:
        Of copies with other detections: those that a sampler adds have the same.
    """
    kept = torch.ones_like(records.images[:, 0], dtype=torch.bool)
    named = records.images[:, 0].nonzero()[:, 0]
    ids = records.images[named, 1]
    if len(named) == len(torch.unique(ids)):
        return kept
    hashes = _hashes(records)
    order = named[torch.sort(hashes.detections[named], stable=True).indices]
    order = order[torch.sort(records.images[order, 1], stable=True).indices]
    names = records.images[order, 1]
    again = (names[1:] == names[:-1]).nonzero()[:, 0] + 1
    first, second = order[again - 1], order[again]
    conflict = first[hashes.ground_truths[first] != hashes.ground_truths[second]]
    if len(conflict):
        raise_conflict(int(records.images[conflict[0], 1]))
    other = first[hashes.detections[first] != hashes.detections[second]]
    warn_of_other_copies(len(other), int(records.images[other[0], 1]) if len(other) else 0)
    kept[second] = False
    return kept


def content_order(records: OverlapRecords, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the order of the images that count: those without an id by their content, then others by id.

    Args:
        records: checked.
        kept: bool ``[I]`` of :func:`images_that_count`.

    Returns:
        In that order int64 ``[N]`` places among the images that count, int64 ``[N, 3]`` keys that are equal where
        the images are alike, and int64 ``[N]`` hashes of the labels of the ground truths.
    """
    hashes, (named, ids) = _hashes(records), records.images[:, :2][kept].unbind(1)
    content = [torch.where(named == 0, column[kept], ids) for column in hashes]
    order = torch.arange(len(ids), device=ids.device)
    for key in (*content, named):  # stable sorts, from the least key to the first
        order = order[torch.sort(key[order], stable=True).indices]
    return order, torch.stack((named, *content), 1)[order], hashes.ground_truths[kept][order]


class _Hashes(NamedTuple):
    """int64 ``[I]``: hashes of the labels of ground truths, and of the detections with their pairs."""

    detections: Tensor
    ground_truths: Tensor


def _hashes(records: OverlapRecords) -> _Hashes:
    sizes = records.images[:, 2:]
    images, rows = _places(sizes[:, 0], len(records.labels))
    gt_images, gt_rows = _places(sizes[:, 1], len(records.gt_labels))
    detections, entries = _places(records.counts.long(), len(records.ious))
    of_pairs = _mix(rows[detections], entries, records.ground_truths.long(), _bits(records.ious))
    of_rows = _mix(rows, records.labels, _bits(records.scores), records.counts.long())
    found = torch.zeros_like(sizes[:, 0]).index_add_(0, images, of_rows)
    found.index_add_(0, images[detections], of_pairs)
    true = torch.zeros_like(found).index_add_(0, gt_images, _mix(gt_rows, records.gt_labels))
    return _Hashes(found, true + sizes[:, 1])


def _places(sizes: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """int64 ``[total]``: of rows that follow one another, group by group, the group and the place in it."""
    groups = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes, output_size=total)
    return groups, torch.arange(total, device=sizes.device) - (sizes.cumsum(0) - sizes)[groups]


def _bits(values: Tensor) -> Tensor:
    return (values + 0.0).view(torch.int64)


def _mix(*columns: Tensor) -> Tensor:
    """int64 ``[N]``: a hash of each row of the columns."""
    mixed = torch.full_like(columns[0], _MULTIPLIERS[2])
    for column in columns:
        mixed = (mixed ^ column) * _MULTIPLIERS[0]
        mixed = (mixed ^ (mixed >> 29)) * _MULTIPLIERS[1]
        mixed = mixed ^ (mixed >> 32)
    return mixed
