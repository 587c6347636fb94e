"""Definition in plain torch of the op in :mod:`valor_gpu.ops.panoptic.op`, and its shapes and dtypes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import PREDICTION, TARGET, first_error
from valor_gpu.ops.panoptic.cpu import (
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    IOU_SUM,
    PREDICTED,
    ROWS,
    TRUE,
    TRUE_POSITIVES,
)

_VOID = -1  # in the place of the row of a category


def count_panoptic(
    preds: Tensor, target: Tensor, categories: Sequence[int], things: int, modified: bool, allow_unknown: bool
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.panoptic.op.count_panoptic`."""
    tables, error = count_panoptic_fake(preds, target, categories, things, modified, allow_unknown)
    segments = [_segments(side, categories, things) for side in (preds, target)]  # [B, P, 2]
    for image, (own, true) in enumerate(zip(*segments)):
        tables[image] = _count_image(own, true, len(categories), things if modified else len(categories))
    unknown = segments[0][..., 0] == _VOID
    bad = torch.zeros_like(unknown) if allow_unknown else unknown
    return tables, error.copy_(first_error([(bad, PREDICTION), (torch.zeros_like(bad), TARGET)]))


def _segments(side: Tensor, categories: Sequence[int], things: int) -> Tensor:
    """``[B, P, 2]``: row of the category and instance, 0 for stuff; void is ``(-1, 0)``."""
    pixels = side.long().reshape(side.shape[0], side[..., 0].numel() // max(side.shape[0], 1), 2)
    rows = torch.full_like(pixels[..., 0], _VOID)
    for row, category in enumerate(categories):
        rows[pixels[..., 0] == category] = row
    has_instances = (rows != _VOID) & (rows < things)
    return torch.stack([rows, torch.where(has_instances, pixels[..., 1], 0)], 2)


def _count_image(preds: Tensor, target: Tensor, classes: int, modified: int) -> Tensor:
    """The table ``[8, C]`` of segments ``[P, 2]``."""
    pairs, common = torch.unique(torch.cat([preds, target], 1), dim=0, return_counts=True)  # [N, 4], [N]
    own, index = torch.unique(pairs[:, :2], dim=0, return_inverse=True)  # [S, 2]
    true, true_index = torch.unique(pairs[:, 2:], dim=0, return_inverse=True)  # [R, 2]
    on_void, true_on_void = (side[:, 0] == _VOID for side in (pairs[:, 2:], pairs[:, :2]))

    def total(groups: Tensor, index: Tensor, kept: Tensor) -> Tensor:
        return torch.zeros(len(groups), dtype=torch.int64, device=groups.device).index_add_(0, index, common * kept)

    every = torch.ones_like(on_void)
    area, void = total(own, index, every), total(own, index, on_void)
    true_area, true_void = total(true, true_index, every), total(true, true_index, true_on_void)
    together = (area - void)[index] + (true_area - true_void)[true_index] - common
    same = (pairs[:, 0] == pairs[:, 2]) & (pairs[:, 0] != _VOID)
    matched = same & ((2 * common > together) | (pairs[:, 0] >= modified))
    kept, true_kept = (
        (side[:, 0] != _VOID) & (side[:, 0] < modified) & (2 * empty <= size) & ~torch.isin(ids, found)
        for side, empty, size, ids, found in (
            (own, void, area, torch.arange(len(own), device=own.device), index[matched]),
            (true, true_void, true_area, torch.arange(len(true), device=own.device), true_index[matched]),
        )
    )

    def count(rows: Tensor, weights: Tensor | None = None) -> Tensor:
        out = torch.zeros(classes, dtype=torch.int64, device=rows.device)
        return out.index_add_(0, rows, torch.ones_like(rows) if weights is None else weights)

    table = torch.zeros((ROWS, classes), dtype=torch.int64, device=preds.device)
    segments, true_segments = (side[side[:, 0] != _VOID, 0] for side in (own, true))
    hits = pairs[matched, 0]
    table[TRUE_POSITIVES] = count(torch.cat([hits[hits < modified], true_segments[true_segments >= modified]]))
    table[FALSE_POSITIVES], table[FALSE_NEGATIVES] = count(own[kept, 0]), count(true[true_kept, 0])
    table[PREDICTED], table[TRUE] = count(segments), count(true_segments)
    rest = common[matched].double() / together[matched].double()
    for row in range(IOU_SUM, ROWS):  # the quotient in words of 32 bits, exactly
        rest = rest * 2.0**32
        table[row] = count(hits, rest.long())
        rest = rest - rest.long()
    return table


# ------------------------------------------------------------------------------------------------------------- shapes


def count_panoptic_fake(
    preds: Tensor, target: Tensor, categories: Sequence[int], things: int, modified: bool, allow_unknown: bool
) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``count_panoptic``."""
    shape = (target.shape[0], ROWS, len(categories))
    return target.new_empty(shape, dtype=torch.int64), target.new_empty((), dtype=torch.int64)
