"""Definitions in plain torch of the ops in :mod:`valor_gpu.ops.labels.op`, and their shapes and dtypes."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import NAN_SCORE, PREDICTION, TARGET, WEIGHT, first_error
from valor_gpu.ops.targets.cpu import block_rows
from valor_gpu.ops.targets.op import bad_weights, read_target


def _sum_cells(cells: Tensor, used: Tensor, size: int, weight: Tensor | None, block: int) -> Tensor:
    """Rows, or sums of weights, of each cell: in row order within a block of rows, then in order of the blocks."""
    if weight is None:
        return torch.bincount(cells[used], minlength=size)
    rows = used.nonzero()[:, 0]
    blocks = -(-cells.shape[0] // block)
    sums = torch.zeros(blocks * size, dtype=torch.float64, device=cells.device)
    sums.index_put_((rows // block * size + cells[rows],), weight[rows], accumulate=True)
    total = torch.zeros(size, dtype=torch.float64, device=cells.device)
    for part in sums.view(blocks, size):
        total += part
    return total


def _counts(predicted: Tensor, true: Tensor, used: Tensor, classes: int, weight: Tensor | None) -> Tensor:
    block = block_rows(true.shape[0], 3 * classes)
    lists = ((true, used & (predicted == true)), (predicted, used), (true, used))
    return torch.stack([_sum_cells(cells, of, classes, weight, block) for cells, of in lists])


def count_top(
    scores: Tensor, target: Tensor, k: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.labels.op.count_top`."""
    values = scores.double() + 0.0  # -0.0 becomes 0.0
    classes = scores.shape[1]
    labels = read_target(target, classes, ignore_index)
    nan = values.isnan() & labels.kept[:, None]
    errors = [(labels.bad, TARGET), (nan, NAN_SCORE)]
    used = labels.kept & ~nan.any(1)
    if weight is not None:
        errors.append((bad_weights(weight) & labels.kept, WEIGHT))
        used &= ~bad_weights(weight)
    top = values.sort(dim=1, descending=True, stable=True).indices[:, :k]
    predicted = torch.where((top == labels.values[:, None]).any(1), labels.values, top[:, 0])
    return _counts(predicted, labels.values, used, classes, weight), first_error(errors)


def top_classes(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.labels.op.top_classes`."""
    values = scores.double() + 0.0
    nan = values.isnan()
    top = values.sort(dim=1, descending=True, stable=True).indices[:, :k].int()
    top = top.masked_fill(nan.any(1)[:, None], -1).contiguous()
    return top, first_error([(nan, NAN_SCORE)])


def _pairs(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Predicted and true classes, the rows that count, and the first error."""
    labels, predicted = read_target(target, num_classes, ignore_index), preds.long()
    bad = ((predicted < 0) | (predicted >= num_classes)) & labels.kept
    errors = [(labels.bad, TARGET), (bad, PREDICTION)]
    used = labels.kept & ~bad
    if weight is not None:
        errors.append((bad_weights(weight) & labels.kept, WEIGHT))
        used &= ~bad_weights(weight)
    return predicted, labels.values, used, first_error(errors)


def count_labels(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.labels.op.count_labels`."""
    predicted, true, used, error = _pairs(preds, target, num_classes, ignore_index, weight)
    return _counts(predicted, true, used, num_classes, weight), error


def count_pairs(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.labels.op.count_pairs`."""
    predicted, true, used, error = _pairs(preds, target, num_classes, ignore_index, weight)
    cells, size = true * num_classes + predicted, num_classes * num_classes
    sums = _sum_cells(cells, used, size, weight, block_rows(true.shape[0], size))
    return sums.view(num_classes, num_classes), error


def first_in_cells(cells: Tensor, num_cells: int, k: int) -> Tensor:
    """See :func:`valor_gpu.ops.labels.op.first_in_cells`."""
    wide = cells.long()
    keys, order = torch.where((wide >= 0) & (wide < num_cells), wide, num_cells).sort(stable=True)
    begins = torch.searchsorted(keys, torch.arange(num_cells + 1, device=cells.device))
    rank = torch.arange(cells.shape[0], device=cells.device) - begins[keys]
    none = num_cells * k  # a place for rows that are not asked for
    out = cells.new_full((none + 1,), -1, dtype=torch.int64)
    out[torch.where((rank < k) & (keys < num_cells), keys * k + rank, none)] = order
    return out[:none].view(num_cells, k)


# ------------------------------------------------------------------------------------------------------------- shapes


def empty_table(like: Tensor, rows: int, classes: int, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """A table of counts and an error code on the device of ``like``, both unset."""
    dtype = torch.int64 if weight is None else torch.float64
    return like.new_empty((rows, classes), dtype=dtype), like.new_empty((), dtype=torch.int64)


def count_top_fake(
    scores: Tensor, target: Tensor, k: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``count_top``."""
    return empty_table(scores, 3, scores.shape[1], weight)


def count_labels_fake(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``count_labels``."""
    return empty_table(preds, 3, num_classes, weight)


def count_pairs_fake(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``count_pairs``."""
    return empty_table(preds, num_classes, num_classes, weight)


def top_classes_fake(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``top_classes``."""
    return scores.new_empty((scores.shape[0], k), dtype=torch.int32), scores.new_empty((), dtype=torch.int64)


def first_in_cells_fake(cells: Tensor, num_cells: int, k: int) -> Tensor:
    """Shape and dtype of ``first_in_cells``."""
    return cells.new_empty((num_cells, k), dtype=torch.int64)
