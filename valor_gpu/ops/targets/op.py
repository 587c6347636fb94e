"""Targets of classification: checks of the arguments of ops, and the target as kernels read it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.checks import check_dtype, check_same_device, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.targets.cpu import pack_pairs, pack_target

MAX_WEIGHT = 1e60
"""Largest weight: no sum of weights, nor a product of four sums, can overflow. kMaxWeight in csrc/core/targets.h."""

MAX_COLUMNS = 2**31 - 1
"""Most classes or labels: kernels hold their numbers in 32 bits."""


def check_scores(scores: Tensor, name: str = "scores") -> None:
    """Raises unless ``scores`` are floating ``[N, C]`` with at least one column."""
    check_shape(name, scores, (None, None))
    check_dtype(name, scores, FLOAT_TYPES)
    if scores.shape[1] == 0:
        raise InputError(f"{name} must have at least one column but has shape {list(scores.shape)}")
    if scores.shape[1] > MAX_COLUMNS:
        raise InputError(f"{name} must have at most {MAX_COLUMNS} columns but has {scores.shape[1]}")


def check_labels(labels: Tensor, name: str, like: tuple[str, Tensor] | None = None) -> None:
    """Raises unless ``labels`` are integers ``[N]``, with as many rows and on the device of ``like``."""
    check_shape(name, labels, (like[1].shape[0] if like else None,))
    check_dtype(name, labels, INT_TYPES)
    if like:
        check_same_device((like[0], name), (like[1], labels))


def check_target(target: Tensor, scores: Tensor, *, per_element: bool | None = None) -> bool:
    """Raises unless ``target`` fits ``scores`` ``[N, C]``; returns whether it is ``[N, C]`` of 0 and 1.

    Args:
        target: integers ``[N]``, or ``[N, C]`` on the device of ``scores``.
        scores: what it must fit.
        per_element: the only form that is allowed; None allows both.
    """
    elementwise = target.ndim == 2 if per_element is None else per_element
    check_shape("target", target, tuple(scores.shape) if elementwise else (scores.shape[0],))
    check_dtype("target", target, INT_TYPES)
    check_same_device(("scores", "target"), (scores, target))
    return elementwise


def check_weight(weight: Tensor | None, like: tuple[str, Tensor]) -> None:
    """Raises unless ``weight`` is None, or float64 with as many rows and on the device of ``like``."""
    if weight is None:
        return
    check_shape("weight", weight, (like[1].shape[0],))
    check_dtype("weight", weight, (torch.float64,))
    check_same_device((like[0], "weight"), (like[1], weight))


def target_words(target: Tensor, classes: int, ignore_index: int | None) -> bytes:
    """The Target of csrc/core/targets.h; ``target`` must be contiguous and outlive the words."""
    return pack_target(target.data_ptr(), INT_TYPES[target.dtype], target.ndim == 2, classes, ignore_index)


def pair_words(
    preds: Tensor, target: Tensor, classes: int, ignore_index: int | None, weight: Tensor | None, left_out: bool
) -> bytes:
    """The PairRows of csrc/core/labels.h; all tensors must be contiguous and outlive the words.

    With ``left_out``, -1 among ``preds`` stands for rows to leave out.
    """
    address, code = 0 if weight is None else weight.data_ptr(), INT_TYPES[preds.dtype]
    words = target_words(target, classes, ignore_index)
    return pack_pairs(preds.data_ptr(), code, left_out, address, target.shape[0], words)


# ------------------------------------------------------------------------------------------------------- definitions


class Truths(NamedTuple):
    """A target, read: int64 ``values``, bool ``kept`` (neither ignored nor bad), bool ``bad``; all of its shape."""

    values: Tensor
    kept: Tensor
    bad: Tensor


def read_target(target: Tensor, classes: int, ignore_index: int | None) -> Truths:
    """What kernels read of a target, in plain torch: class indices ``[N]``, or 0 and 1 of ``[N, C]``."""
    values = target.long()
    ignored = torch.zeros_like(values, dtype=torch.bool) if ignore_index is None else values == ignore_index
    good = (values >= 0) & (values < (2 if target.ndim == 2 else classes))
    return Truths(values, good & ~ignored, ~good & ~ignored)


def bad_weights(weight: Tensor) -> Tensor:
    """Which weights are negative, NaN or above ``MAX_WEIGHT``, bool."""
    return ~((weight >= 0) & (weight <= MAX_WEIGHT))
