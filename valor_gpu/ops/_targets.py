"""What the ops of classification share: checks of their inputs, the target as kernels read it, words for problems.

A problem word is int64: ``(row << 32 | column) << 4 | code``, so that the smallest is the first in reading order;
``FINE`` when nothing is wrong. Rows beyond ``LAST_ROW`` are told as that row. The same in csrc/core/targets.h.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.checks import check_dtype, check_same_device, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import FLOAT_TYPES, INT_TYPES

FINE = torch.iinfo(torch.int64).max
TARGET, NAN_SCORE, WEIGHT, PREDICTION = 1, 2, 3, 4
LAST_ROW = (1 << 27) - 1
_COLUMN_BITS, _CODE_BITS = 32, 4


class Names(NamedTuple):
    """What a message calls the arguments, and what their values may be.

    Attributes:
        classes: number of classes or labels, C.
        per_element: whether the target is ``[N, C]`` of 0 and 1, else ``[N]`` of class indices.
        scores: the argument that holds scores, or predicted classes.
        target: the argument that holds the target.
        weight: the argument that holds the weights.
    """

    classes: int
    per_element: bool = False
    scores: str = "preds"
    target: str = "target"
    weight: str = "sample_weight"


def describe(problem: int, names: Names) -> str:
    """The place packed into a problem word, and what its value must be.

    Example:
        >>> describe((7 << 32 | 2) << 4 | NAN_SCORE, Names(classes=3))
        'preds[7, 2] must not be NaN'
    """
    code = problem & ((1 << _CODE_BITS) - 1)
    column = problem >> _CODE_BITS & ((1 << _COLUMN_BITS) - 1)
    row = problem >> (_CODE_BITS + _COLUMN_BITS)
    first = f"{row}" if row < LAST_ROW else f"{row} or later"
    element = f"{first}, {column}" if names.classes > 1 else first
    index = f"must be a class index from 0 to {names.classes - 1}"
    if code in (TARGET, PREDICTION) and names.per_element:
        return f"{names.target if code == TARGET else names.scores}[{element}] must be 0 or 1"
    return {
        TARGET: f"{names.target}[{first}] {index}",
        NAN_SCORE: f"{names.scores}[{element}] must not be NaN",
        WEIGHT: f"{names.weight}[{first}] must be finite and not negative",
        PREDICTION: f"{names.scores}[{first}] {index}",
    }.get(code, f"{names.scores}[{first}] failed with code {code}")


def raise_problem(problem: int, names: Names) -> None:
    """Raise :class:`InputError` that names the value of a problem word; do nothing when all is fine."""
    if problem != FINE:
        raise InputError(describe(problem, names))


def check_scores(scores: Tensor, name: str = "scores") -> None:
    """Raise unless ``scores`` are floating ``[N, C]`` with at least one column."""
    check_shape(name, scores, (None, None))
    check_dtype(name, scores, FLOAT_TYPES)
    if scores.shape[1] == 0:
        raise InputError(f"{name} must have at least one column but has shape {list(scores.shape)}")


def check_labels(labels: Tensor, name: str, like: tuple[str, Tensor] | None = None) -> None:
    """Raise unless ``labels`` are integers ``[N]``, with as many rows and on the device of ``like``."""
    check_shape(name, labels, (like[1].shape[0] if like else None,))
    check_dtype(name, labels, INT_TYPES)
    if like:
        check_same_device((like[0], name), (like[1], labels))


def check_target(target: Tensor, scores: Tensor, *, per_element: bool | None = None) -> bool:
    """Raise unless ``target`` fits ``scores`` ``[N, C]``; returns whether it is ``[N, C]`` of 0 and 1.

    Args:
        target: integers ``[N]``, or ``[N, C]`` on the device of ``scores``.
        scores: what it must fit.
        per_element: the only form that is allowed; None allows both.
    """
    found = target.ndim == 2 if per_element is None else per_element
    check_shape("target", target, tuple(scores.shape) if found else (scores.shape[0],))
    check_dtype("target", target, INT_TYPES)
    check_same_device(("scores", "target"), (scores, target))
    return found


def check_weight(weight: Tensor | None, like: tuple[str, Tensor]) -> None:
    """Raise unless ``weight`` is None, or float64 with as many rows and on the device of ``like``."""
    if weight is None:
        return
    check_shape("weight", weight, (like[1].shape[0],))
    check_dtype("weight", weight, (torch.float64,))
    check_same_device((like[0], "weight"), (like[1], weight))


def target_words(target: Tensor, classes: int, ignore_index: int | None) -> bytes:
    """The Target of csrc/core/targets.h; ``target`` must be contiguous and outlive the words."""
    per_element, ignores = target.ndim == 2, ignore_index is not None
    code = INT_TYPES[target.dtype]
    return struct.pack("6q", target.data_ptr(), code, per_element, classes, ignores, ignore_index or 0)


def pair_words(
    preds: Tensor, target: Tensor, classes: int, ignore_index: int | None, weight: Tensor | None, left_out: bool
) -> bytes:
    """The PairRows of csrc/core/labels.h; all tensors must be contiguous and outlive the words.

    With ``left_out``, -1 among ``preds`` stands for rows to leave out.
    """
    address = 0 if weight is None else weight.data_ptr()
    rows = struct.pack("5q", preds.data_ptr(), INT_TYPES[preds.dtype], left_out, address, target.shape[0])
    return rows + target_words(target, classes, ignore_index)


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
    """Which weights are negative or not finite, bool."""
    return ~(weight.isfinite() & (weight >= 0))


def first_problem(masks: Sequence[tuple[Tensor, int]]) -> Tensor:
    """The smallest problem word, int64 ``[]``, of bool masks ``[N]`` or ``[N, C]`` and their codes."""
    words = [torch.full((1,), FINE, device=masks[0][0].device)]
    for mask, code in masks:
        columns = mask if mask.ndim == 2 else mask[:, None]
        rows = torch.arange(columns.shape[0], device=mask.device).clamp(max=LAST_ROW)[:, None]
        places = rows << _COLUMN_BITS | torch.arange(columns.shape[1], device=mask.device)
        words.append(torch.where(columns, places << _CODE_BITS | code, FINE).reshape(-1))
    return torch.cat(words).min()
