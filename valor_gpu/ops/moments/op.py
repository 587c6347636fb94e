"""Sums over pairs of numbers, exact: no order, no split of the rows and no number of threads changes a bit.

Definition in plain torch: ``valor_gpu/ops/moments/reference.py``. Design: docs/design/053-exact-moments.md.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from valor_gpu.checks import check_dense, check_dtype, check_number, check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import register
from valor_gpu.ops.error_codes import LAST_ROW, value_kind, value_place, value_row
from valor_gpu.ops.moments import reference
from valor_gpu.ops.moments.kinds import TARGET_DOMAIN, WIDE, Kind
from valor_gpu.ops.moments.launches import NUMBER_TYPES, on_cpu, on_cuda


class Moments(NamedTuple):
    """Sums over the rows of a batch, for each of D columns. ``valor_gpu.reduce.exact_sums`` reads them.

    Attributes:
        sums: int64 ``[D, K, limbs]``: the K sums of the kind. A sum is ``limb[i] * 2^(32 i - 16 limbs)`` over its
            limbs, of which all but the last are from 0 to 2^32 - 1. Tensors of sums may be added, 2^30 of them.
        counts: int64 ``[D, 4]``: all rows; those that are in no sum, since their term is NaN, infinite, or minus
            infinite. For kinds of several sums a row is NaN if a number is, or if ``t`` is infinite (of products: p or
            t); else the infinity is that of ``e``.
        lowest: float64 ``[D]``, the smallest target of ``Kind.VARIANCE`` in the sums; inf without any, or for another
            kind.
        highest: float64 ``[D]``, the largest one, or -inf.
        error: int64 ``[]``, an error code, see :func:`describe_moment`; unless it is ``NO_ERROR`` the sums mean
            nothing.
    """

    sums: Tensor
    counts: Tensor
    lowest: Tensor
    highest: Tensor
    error: Tensor


def moments(preds: Tensor, target: Tensor, kind: Kind, parameter: float = 0.0, *, limbs: int = WIDE) -> Moments:
    """Sums terms of predictions and targets exactly, in one read.

    Args:
        preds: numbers of any floating or integer dtype, ``[N]`` or ``[N, D]``; they are read as float64.
        target: likewise, of the same shape.
        kind: what is summed.
        parameter: of the kind.
        limbs: how wide a sum is, even, at least 4. Numbers are cut to whole multiples of 2^(-8 limbs), and one of at
            least 2^(8 limbs - 32) counts as infinite: ``WIDE`` sums are exact for all of float64, ``NARROW`` ones for
            all numbers of 32 bits and fewer.

    Returns:
        Moments.

    Raises:
        InputError: on another shape, dtype or device, or a parameter that the kind does not have. A bad value is in
            ``error``, so that the host does not synchronise with the device.

    Example:
        >>> import torch
        >>> from valor_gpu.reduce.exact_sums import rounded
        >>> rounded(moments(torch.tensor([1e30, 1.0, -1e30]), torch.zeros(3), Kind.PRODUCTS).sums)[0, 0]
        tensor(1., dtype=torch.float64)
    """
    _check(preds, target, kind, parameter, limbs)
    return Moments(*_MOMENTS(preds, target, int(kind), float(parameter), limbs))


def describe_moment(code: int, kind: Kind, parameter: float = 0.0, sides: tuple[Tensor, Tensor] | None = None) -> str:
    """Returns the message of an error code: the place of the first bad value, what it must be, and what it is.

    Args:
        code: the error code.
        kind: of the sums.
        parameter: of the kind.
        sides: predictions and targets, from which the message takes the value; None leaves it out.

    Example:
        >>> describe_moment((3 << 32) << 4 | 6, Kind.TWEEDIE, 1.5)
        'preds[3] must be above 0 for power=1.5'
    """
    of_target, row, column = value_kind(code) == TARGET_DOMAIN, value_row(code), value_place(code)
    name = "target" if of_target else "preds"
    place = f"{row}" if row < LAST_ROW else f"{row} or later"
    if column or (sides is not None and sides[0].ndim == 2):
        place += f", {column}"
    side = None if sides is None or row >= LAST_ROW else sides[of_target]
    got = "" if side is None else f" but is {side.reshape(len(side), -1)[row, column].item():.6g}"
    if kind == Kind.SQUARED_LOG:
        return f"{name}[{place}] must be at least -1{got}"
    need = "at least 0" if of_target and 1 <= parameter < 2 else "above 0"
    return f"{name}[{place}] must be {need} for power={parameter:g}{got}"


def _check(preds: Tensor, target: Tensor, kind: Kind, parameter: float, limbs: int) -> None:
    for name, tensor in (("preds", preds), ("target", target)):
        check_dense(name, tensor)
        check_dtype(name, tensor, NUMBER_TYPES)
    if preds.shape != target.shape or preds.ndim not in (1, 2):
        need = "preds and target must have the same shape, [N] or [N, D],"
        raise InputError(f"{need} but have shapes {list(preds.shape)} and {list(target.shape)}")
    check_same_device(("preds", "target"), (preds, target))
    if kind == Kind.PINBALL:
        check_number("quantile", parameter, 0, 1)
    elif kind == Kind.MINKOWSKI:
        check_number("p", parameter, 1)
    else:
        check_number("power", parameter)
    if kind == Kind.TWEEDIE and 0 < parameter < 1:
        raise InputError(f"power must be at most 0, or at least 1, but got {parameter}")
    if limbs < 4 or limbs % 2:
        raise InputError(f"limbs must be even and at least 4 but got {limbs}")


_MOMENTS = register(
    "moments(Tensor preds, Tensor target, int kind, float parameter, int limbs)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=reference.moments,
    fake=reference.moments_fake,
    cpu=cpp(on_cpu),
    cuda=cuda(on_cuda),
)
