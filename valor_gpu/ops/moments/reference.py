"""Definition in plain torch of the op in :mod:`valor_gpu.ops.moments.op`.

A number of float64 is a whole number of 53 bits times a power of two. So are the halves of a product of two of them.
These whole numbers are cut into pieces of 32 bits and added to the limbs where they belong. Carries come at the end.
Terms that need a logarithm or a power are those of ``valor_gpu/ops/moments/powers.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import first_error
from valor_gpu.ops.moments import powers
from valor_gpu.ops.moments.kinds import PRED_DOMAIN, TARGET_DOMAIN, Kind

EPSILON = 1.17e-06
"""Least divisor of errors in per cent; kLeastDivisor in csrc/core/moments.h."""

_BITS, _MASK = 32, 2**32 - 1


def moments(preds: Tensor, target: Tensor, kind: int, parameter: float, limbs: int) -> tuple[Tensor, ...]:
    """See :func:`valor_gpu.ops.moments.op.moments`."""
    columns = _columns(preds)
    p, t = (side.double().reshape(-1, columns) for side in (preds, target))
    which = Kind(kind)
    numbers, pairs, state = _terms(p, t, which, parameter)
    bad = _domain(p, t, which, parameter)
    too_large = [(v.abs() >= 2.0 ** (8 * limbs - _BITS)) if 8 * limbs - _BITS < 1024 else v.isinf() for v in numbers]
    state = torch.where(bad[0] | bad[1], torch.nan, torch.where(state.isfinite(), 0.0, state))
    for v, beyond in zip(numbers, too_large):
        state = torch.where(beyond & (state == 0), torch.copysign(torch.full_like(v, torch.inf), v), state)
    kept = state == 0
    numbers = [_cut(torch.where(kept, v, 0.0), limbs) for v in numbers]
    sums = torch.zeros((columns, which.sums, limbs), dtype=torch.int64, device=p.device)
    for place, factors in enumerate(pairs):
        _add(sums[:, place], [numbers[i] for i in factors])
    lowest, highest = (
        torch.full((columns,), end, dtype=torch.float64, device=p.device) for end in (torch.inf, -torch.inf)
    )
    if which == Kind.VARIANCE and len(p):
        lowest = torch.where(kept, t, torch.inf).amin(0)
        highest = torch.where(kept, t, -torch.inf).amax(0)
    counts = [torch.ones_like(kept), state.isnan(), state == torch.inf, state == -torch.inf]
    error = first_error([(bad[0], PRED_DOMAIN), (bad[1], TARGET_DOMAIN)])
    return _carried(sums), torch.stack([c.sum(0) for c in counts], 1), lowest + 0.0, highest + 0.0, error


def moments_fake(preds: Tensor, target: Tensor, kind: int, parameter: float, limbs: int) -> tuple[Tensor, ...]:
    """Shapes and dtypes of ``moments``."""
    columns = _columns(preds)
    sums = preds.new_empty((columns, Kind(kind).sums, limbs), dtype=torch.int64)
    ends = [preds.new_empty(columns, dtype=torch.float64) for _ in range(2)]
    return sums, preds.new_empty((columns, 4), dtype=torch.int64), *ends, preds.new_empty((), dtype=torch.int64)


def _columns(preds: Tensor) -> int:
    return preds.shape[1] if preds.ndim == 2 else 1


_Terms = tuple[list[Tensor], tuple[tuple[int, ...], ...], Tensor]


def _terms(p: Tensor, t: Tensor, kind: Kind, parameter: float) -> _Terms:
    """Numbers ``[N, D]``, which are multiplied for each sum, and the state of a row: finite, NaN or infinite."""
    e = p - t
    if kind == Kind.ABSOLUTE:
        return [e.abs()], ((0,),), e.abs()
    if kind == Kind.SQUARED:
        return [e], ((0, 0),), e.abs()
    if kind == Kind.WEIGHTED:
        return [e.abs(), t.abs()], ((0,), (1,)), torch.where(t.isfinite(), e.abs(), torch.nan)
    if kind == Kind.VARIANCE:
        return [e, t], ((0,), (0, 0), (1,), (1, 1)), torch.where(t.isfinite(), e, torch.nan)
    if kind == Kind.PRODUCTS:
        state = torch.where(p.isfinite() & t.isfinite(), 0.0, torch.nan)
        return [p, t], ((0,), (1,), (0, 0), (1, 1), (0, 1)), state
    term = _rounded_term(p, t, e, kind, parameter)
    return [term], ((0,),), term


def _rounded_term(p: Tensor, t: Tensor, e: Tensor, kind: Kind, parameter: float) -> Tensor:
    if kind == Kind.PERCENTAGE:
        return e.abs() / t.abs().clamp(min=EPSILON)
    if kind == Kind.SYMMETRIC:
        return 2.0 * e.abs() / (p.abs() + t.abs()).clamp(min=EPSILON)
    if kind == Kind.PINBALL:
        return torch.where(e < 0, parameter * -e, (1.0 - parameter) * e)
    if kind == Kind.SQUARED_LOG:
        d = powers.log_ratio(p, t)
        return d * d
    if kind == Kind.LOG_COSH:
        return powers.log_cosh(e)
    if kind == Kind.MINKOWSKI:
        return powers.power(e.abs(), parameter)
    return powers.tweedie(p, t, parameter)


def _domain(p: Tensor, t: Tensor, kind: Kind, parameter: float) -> tuple[Tensor, Tensor]:
    """Which predictions and which targets have no term."""
    none = torch.zeros_like(p, dtype=torch.bool)
    if kind == Kind.SQUARED_LOG:
        return p < -1, t < -1
    if kind != Kind.TWEEDIE or parameter == 0:
        return none, none
    return p <= 0, none if parameter < 0 else t < 0 if parameter < 2 else t <= 0


def _cut(values: Tensor, limbs: int) -> Tensor:
    """Numbers without what lies below 2^(-8 limbs)."""
    return values if 8 * limbs >= 1074 else torch.trunc(values * 2.0 ** (8 * limbs)) * 2.0 ** (-8 * limbs)


def _add(sums: Tensor, factors: list[Tensor]) -> None:
    """Adds numbers, or products of two, to limbs ``[D, limbs]``."""
    base = 8 * sums.shape[1]
    whole, place = zip(*(_whole(values, base) for values in factors))
    if len(factors) == 1:
        _scatter(sums, whole[0], place[0] + base)
        return
    (a1, a0), (b1, b0) = ((w >> 27, w & (2**27 - 1)) for w in whole)
    place = place[0] + place[1]
    _scatter(sums, a1 * b1, place + 54)
    _scatter(sums, a1 * b0 + a0 * b1, place + 27)
    _scatter(sums, a0 * b0, place)


def _whole(values: Tensor, base: int) -> tuple[Tensor, Tensor]:
    """Whole numbers of up to 53 bits and places from 0 on: ``values = whole * 2^(place - base)``."""
    bits = values.view(torch.int64)
    field = bits >> 52 & 2047
    whole = bits & (2**52 - 1) | torch.where(field > 0, 2**52, 0)
    place = torch.where(whole == 0, 0, field.clamp(min=1) - 1075 + base)
    whole = whole >> (-place).clamp(min=0, max=62)
    return torch.where(bits < 0, -whole, whole), place.clamp(min=0)


def _scatter(sums: Tensor, whole: Tensor, place: Tensor) -> None:
    """Adds whole numbers of up to 62 bits times ``2^place``."""
    limb, shift = place >> 5, place & 31
    low = (whole & _MASK) << shift
    high = (whole >> _BITS) << shift  # at most 30 + 31 bits
    columns = torch.arange(len(sums), device=sums.device).expand_as(limb)
    last = sums.shape[1] - 1
    for step, piece in ((0, low & _MASK), (1, (low >> _BITS & _MASK) + (high & _MASK)), (2, high >> _BITS)):
        sums.index_put_((columns, (limb + step).clamp(max=last)), piece, accumulate=True)


def _carried(sums: Tensor) -> Tensor:
    """Sums whose limbs but the last are from 0 to 2^32 - 1."""
    carry = torch.zeros_like(sums[..., 0])
    for limb in range(sums.shape[-1] - 1):
        value = sums[..., limb] + carry
        sums[..., limb], carry = value & _MASK, value >> _BITS
    sums[..., -1] += carry
    return sums
