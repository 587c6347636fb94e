"""Whole numbers of 64 bits that float64 would round: refused, or taken by their exact differences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from valor_gpu.ops.dtypes import INT_TYPES
from valor_gpu.ops.error_codes import first_error, value_kind, value_row
from valor_gpu.ops.moments.kinds import Kind

ROUNDED_PREDS, ROUNDED_TARGET, ROUNDED_DIFFERENCE = 8, 9, 10
"""Kinds of errors, beside those of :mod:`valor_gpu.ops.moments.kinds`."""

OF_DIFFERENCES = (Kind.ABSOLUTE, Kind.SQUARED, Kind.LOG_COSH, Kind.MINKOWSKI)
"""Kinds whose terms depend on ``p - t`` alone."""

_MOST = 2**53  # whole numbers up to here are float64
_FEW = 128


def held_by_float64(side: Tensor) -> bool:
    """Returns whether float64 holds every number of a tensor on the CPU, of whatever dtype."""
    if side.dtype != torch.int64 or not side.numel():
        return True
    if side.numel() <= _FEW:  # Python's numbers are quicker than an op of torch
        values: list[int] = side.reshape(-1).tolist()
        return min(values) >= -_MOST and max(values) <= _MOST
    least, largest = side.aminmax()
    return least.item() >= -_MOST and largest.item() <= _MOST


def rounding_error(sides: Sequence[Tensor]) -> Tensor | None:
    """Returns the error code of the first number that float64 rounds, int64 ``[]``; None where all are held.

    Args:
        sides: predictions and targets ``[N]`` or ``[N, D]``. CUDA tensors are not waited for: of int64 there is a code.
    """
    if all(side.is_cpu and held_by_float64(side) for side in sides):
        return None
    kinds = (ROUNDED_PREDS, ROUNDED_TARGET)
    masks = [(_beyond(side), kind) for side, kind in zip(sides, kinds) if side.dtype == torch.int64]
    return first_error(masks) if masks else None


def exact_differences(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns ``preds - target`` of whole numbers, int64, and the error code of the first that float64 rounds.

    Args:
        preds: whole numbers ``[N]`` or ``[N, D]``.
        target: likewise.
    """
    p, t = preds.long(), target.long()
    difference = p - t
    overflow = ((p ^ t) & (p ^ difference)) < 0
    return difference, first_error([(_beyond(difference) | overflow, ROUNDED_DIFFERENCE)])


def differences_matter(preds: Tensor, target: Tensor, kind: Kind) -> bool:
    """Returns whether sums of a kind are those of exact differences: of int64 that float64 may round.

    Args:
        preds: predictions.
        target: targets.
        kind: of the sums.
    """
    sides = (preds, target)
    whole = all(side.dtype in INT_TYPES for side in sides) and kind in OF_DIFFERENCES
    return whole and not all(side.dtype != torch.int64 or (side.is_cpu and held_by_float64(side)) for side in sides)


def describe_rounding(code: int) -> str | None:
    """Returns the message of an error code of this module; None for another code.

    Example:
        >>> describe_rounding((3 << 32) << 4 | ROUNDED_TARGET)
        'target must be at most 2^53 in size but row 3 is larger: pass float64 to have it rounded'
    """
    kind, row = value_kind(code), value_row(code)
    if kind == ROUNDED_DIFFERENCE:
        return f"preds and target must differ by at most 2^53 but those of row {row} do not: pass both as float64"
    if kind not in (ROUNDED_PREDS, ROUNDED_TARGET):
        return None
    name = "preds" if kind == ROUNDED_PREDS else "target"
    return f"{name} must be at most 2^53 in size but row {row} is larger: pass float64 to have it rounded"


def _beyond(side: Tensor) -> Tensor:
    return (side > _MOST) | (side < -_MOST)  # abs() of the least int64 is negative
