"""Definition in plain torch of the op in :mod:`valor_gpu.ops.one_hot.op`, and its shapes and dtypes."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import PREDICTION, TARGET, first_error
from valor_gpu.ops.pixel_counts.cpu import table_shape

Output = tuple[Tensor, Tensor, Tensor]


def is_one_hot(preds: Tensor, target: Tensor) -> tuple[bool, bool]:
    """Whether either side is one-hot: both are of one number of dimensions, or it has one more than the other."""
    return preds.ndim >= target.ndim, target.ndim >= preds.ndim


def count_one_hot(preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, per_image: bool) -> Output:
    """See :func:`valor_gpu.ops.one_hot.op.count_one_hot`."""
    classes = torch.arange(num_classes, device=preds.device)[:, None]
    images = preds.shape[0]
    has, bad, values = [], [], []
    for side, one_hot in zip((preds, target), is_one_hot(preds, target)):
        pixels = side.shape[2 if one_hot else 1 :].numel()
        value = side.long().reshape(images, num_classes if one_hot else 1, pixels)  # [B, C or 1, P]
        has.append(value == 1 if one_hot else value == classes)
        bad.append((value < 0) | (value >= (2 if one_hot else num_classes)))
        values.append(value)
    kept = torch.ones_like(has[1][:, :1])
    if ignore_index is not None and not is_one_hot(preds, target)[1]:
        kept = values[1] != ignore_index
    elif ignore_index is not None and 0 <= ignore_index < num_classes:
        kept = values[1][:, ignore_index, None] != 1
    has = [side & kept for side in has]
    counts = torch.stack([(has[0] & has[1]).sum(-1), has[0].sum(-1), has[1].sum(-1)], 1)  # [B, 3, C]
    error = first_error([((side & kept).flatten(1), kind) for side, kind in zip(bad, (PREDICTION, TARGET))])
    return counts if per_image else counts.sum(0), (~kept).sum(), error


def count_one_hot_fake(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, per_image: bool
) -> Output:
    """Shapes and dtypes of ``count_one_hot``."""
    shape = table_shape(target.shape, num_classes, per_image, False)
    like = {"dtype": torch.int64, "device": target.device}
    return torch.empty(shape, **like), torch.empty((), **like), torch.empty((), **like)  # type: ignore[call-overload]
