"""Overlaps whose rows are dealt out to groups, so that one pass counts every group."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.ops.overlaps.op import Overlaps


def split_overlaps(
    overlaps: Overlaps, groups: Tensor | None, gt_groups: Tensor | None, num_groups: int
) -> tuple[Overlaps, Tensor]:
    """Makes datums of the rows of each datum and group; a pair is kept in a group that has both its ends.

    Args:
        overlaps: the rows.
        groups: int64 ``[D]``, the group of each detection, negative for none; None puts all of them into every group.
        gt_groups: likewise of ground truths, int64 ``[G]``.
        num_groups: number of groups.

    Returns:
        The overlaps, without datums that have no rows, and the group of each datum, int64.

    Example:
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 7]), torch.tensor([0.9, 0.8]),
        ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
        ...                     torch.tensor([0.6, 0.8], dtype=torch.float64))
        >>> found, group = split_overlaps(overlaps, torch.tensor([1, 0]), None, 2)
        >>> found.ious.tolist(), group.tolist()
        ([0.8, 0.6], [0, 1])
    """
    datums, gt_datums = overlaps.datums()
    size = overlaps.sizes.shape[1]
    rows, keys = _deal(groups, datums, num_groups, size)
    gt_rows, gt_keys = _deal(gt_groups, gt_datums, num_groups, size)
    there = torch.cat((keys, gt_keys)).unique()
    sizes = torch.stack(
        [torch.bincount(torch.searchsorted(there, side), minlength=len(there)) for side in (keys, gt_keys)]
    )
    counts = overlaps.counts[rows]
    owner = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
    first = (overlaps.counts.cumsum(0) - overlaps.counts)[rows] - (counts.cumsum(0) - counts)
    pairs = first[owner] + torch.arange(len(owner), device=rows.device)
    ends = overlaps.ground_truths[pairs]
    group = keys[owner] // max(size, 1)
    if gt_groups is None:
        places = group * len(overlaps.gt_labels) + ends
    else:
        kept = gt_groups[ends] == group
        owner, pairs = owner[kept], pairs[kept]
        place = torch.empty_like(gt_groups)
        place[gt_rows] = torch.arange(len(gt_rows), device=rows.device)
        places = place[ends[kept]]
    found = Overlaps(
        sizes, overlaps.labels[rows], overlaps.scores[rows], overlaps.gt_labels[gt_rows],
        torch.bincount(owner, minlength=len(rows)), places, overlaps.ious[pairs],
    )  # fmt: skip
    return found, there // max(size, 1)


def _deal(groups: Tensor | None, datums: Tensor, num_groups: int, size: int) -> tuple[Tensor, Tensor]:
    """Rows by group, then as they were, and ``group * size + datum`` of each."""
    if groups is None:
        rows = torch.arange(len(datums), device=datums.device).repeat(num_groups)
        group = torch.arange(num_groups, device=datums.device).repeat_interleave(len(datums))
        return rows, group * size + datums[rows]
    rows = (groups >= 0).nonzero()[:, 0]
    rows = rows[groups[rows].sort(stable=True).indices]
    return rows, groups[rows] * size + datums[rows]
