"""Definitions in plain torch of the ops in :mod:`valor_gpu.ops.pixel_counts.op`, and their shapes and dtypes."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import PREDICTION, TARGET, first_error
from valor_gpu.ops.pixel_counts.cpu import table_shape


def count_pixels(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, per_image: bool, pairs: bool
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.pixel_counts.op.count_pixels`."""
    shape, many = target.shape, target.ndim > 1
    rows, columns = shape[0] if many else 1, (shape[1:] if many else shape).numel()
    predicted, true = preds.long().reshape(rows, columns), target.long().reshape(rows, columns)
    kept = torch.ones_like(true, dtype=torch.bool) if ignore_index is None else true != ignore_index
    bad = kept & ((true < 0) | (true >= num_classes))
    wrong = kept & ~bad & ((predicted < 0) | (predicted >= num_classes))
    used = kept & ~bad & ~wrong
    table = torch.arange(rows, device=true.device)[:, None].expand_as(true) * per_image
    count = _pairs if pairs else _classes
    tables = rows if per_image else 1
    counts = count(table[used], true[used], predicted[used], tables, num_classes)
    error = first_error([(bad, TARGET), (wrong, PREDICTION)])
    return counts.reshape(table_shape(shape, num_classes, per_image, pairs)), error


def _pairs(table: Tensor, true: Tensor, predicted: Tensor, tables: int, classes: int) -> Tensor:
    return torch.bincount((table * classes + true) * classes + predicted, minlength=tables * classes * classes)


def _classes(table: Tensor, true: Tensor, predicted: Tensor, tables: int, classes: int) -> Tensor:
    right = true == predicted
    first = table * (3 * classes)
    cells = torch.cat([(first + true)[right], first + classes + predicted, first + 2 * classes + true])
    return torch.bincount(cells, minlength=tables * 3 * classes)


def count_logits(
    logits: Tensor, target: Tensor, ignore_index: int | None, per_image: bool, pairs: bool
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.pixel_counts.op.count_logits`."""
    preds = (
        logits.argmax(1).reshape(target.shape) if logits.numel() else target.new_zeros(target.shape, dtype=torch.int64)
    )
    return count_pixels(preds, target, logits.shape[1], ignore_index, per_image, pairs)


# ------------------------------------------------------------------------------------------------------------- shapes


def count_pixels_fake(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, per_image: bool, pairs: bool
) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``count_pixels``."""
    shape = table_shape(target.shape, num_classes, per_image, pairs)
    return target.new_empty(shape, dtype=torch.int64), target.new_empty((), dtype=torch.int64)


def count_logits_fake(
    logits: Tensor, target: Tensor, ignore_index: int | None, per_image: bool, pairs: bool
) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``count_logits``."""
    return count_pixels_fake(target, target, logits.shape[1], ignore_index, per_image, pairs)
