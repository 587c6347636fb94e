"""Logarithms and powers in plain torch, by the operations of csrc/core/powers.h in their order: the same bits."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LOG2_HIGH, _LOG2_LOW = float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b3ap-40")
_LOG2_E, _ROOT_2 = float.fromhex("0x1.71547652b82fep0"), float.fromhex("0x1.6a09e667f3bcdp0")
_LOG2 = float.fromhex("0x1.62e42fefa39efp-1")
_SPLIT, _MAGIC = 2.0**27 + 1, 1.5 * 2.0**52
_EXP_TERMS = [1.0 / math.factorial(n) for n in range(2, 15)]
_COSH_TERMS = [1.0 / math.factorial(2 * n) for n in range(1, 11)]


def log1p(x: Tensor) -> Tensor:
    """``log(1 + x)``; -inf for -1, NaN below."""
    u, rest = _sum(torch.ones_like(x), x)
    inside = (x > -1) & (x < torch.inf)
    high, low = _log(torch.where(inside, u, 1.0))
    value = high + (low + torch.where(inside, rest, 0.0) / torch.where(inside, u, 1.0))
    return torch.where(inside, value, torch.where(x == -1, -torch.inf, torch.where(x == torch.inf, x, torch.nan)))


def log(x: Tensor) -> Tensor:
    """The logarithm; -inf for 0, NaN below."""
    inside = (x > 0) & (x < torch.inf)
    high, low = _log(torch.where(inside, x, 1.0))
    return torch.where(inside, high + low, torch.where(x == 0, -torch.inf, torch.where(x == torch.inf, x, torch.nan)))


def power(x: Tensor, exponent: float) -> Tensor:
    """``x^exponent`` for ``x >= 0``."""
    inside = (x > 0) & (x < torch.inf) & (x != 1) & (exponent != 0)
    high, low = _log(torch.where(inside, x, 2.0))
    product = high * exponent
    near = product.abs() < 1e4
    exact, rest = _product(torch.where(near, high, 0.0), exponent if bool(near.any()) else 0.0)
    value = torch.where(near, _exp(exact, rest + torch.where(near, low * exponent, 0.0)), (product > 0) * torch.inf)
    value = torch.where(near | (product > 0), value, 0.0)
    if exponent == 0:
        return torch.where(x.isnan(), x, 1.0)
    grows = exponent > 0
    special = torch.where(x == 1, 1.0, torch.where(x == 0, 0.0 if grows else torch.inf, torch.inf if grows else 0.0))
    return torch.where(inside, value, torch.where(x.isnan(), x, special))


def log_cosh(x: Tensor) -> Tensor:
    """``log(cosh(x))``."""
    a = x.abs()
    small = a < 1
    z = torch.where(small, a * a, 0.0)
    series = torch.full_like(z, _COSH_TERMS[-1])
    for term in reversed(_COSH_TERMS[:-1]):
        series = series * z + term
    far = torch.where(small, 1.0, a)
    return torch.where(small, log1p(series * z), far + (log1p(_exp(-2.0 * far, torch.zeros_like(far))) - _LOG2))


def tweedie(p: Tensor, t: Tensor, exponent: float) -> Tensor:
    """The deviance of targets ``t`` from predictions ``p``."""
    if exponent == 0:
        return (p - t) * (p - t)
    if exponent == 1:
        return 2.0 * (torch.where(t == 0, 0.0, t * log(t / p)) + p - t)
    if exponent == 2:
        return 2.0 * (log(p / t) + t / p - 1.0)
    first = power(torch.where(t < 0, 0.0, t), 2.0 - exponent) / ((1.0 - exponent) * (2.0 - exponent))
    second = t * power(p, 1.0 - exponent) / (1.0 - exponent)
    return 2.0 * (first - second + power(p, 2.0 - exponent) / (2.0 - exponent))


def _log(x: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of a positive finite number, in two parts."""
    tiny = x < 2.0**-1022
    bits = torch.where(tiny, x * 2.0**54, x).view(torch.int64)
    m = ((bits & (2**52 - 1)) | (1023 << 52)).view(torch.float64)
    large = m > _ROOT_2
    k = ((bits >> 52) - 1023 - 54 * tiny.long() + large.long()).double()
    m = torch.where(large, m * 0.5, m)
    f = m - 1.0
    g, g_rest = _sum(m, torch.ones_like(m))
    q = f / g
    product, rest = _product(q, g)
    q_rest = (((f - product) - rest) - q * g_rest) / g
    z = q * q
    series = torch.full_like(z, 1 / 21)
    for n in range(9, 0, -1):
        series = series * z + 1 / (2 * n + 1)
    twice = q + q
    high, low = _fast_sum(k * _LOG2_HIGH, twice)
    return _fast_sum(high, low + (((q_rest + q_rest) + twice * z * series) + k * _LOG2_LOW))


def _exp(high: Tensor, low: Tensor) -> Tensor:
    """The exponential of ``high + low``."""
    inside = (high > -746.0) & (high < 710.0)
    high_inside = torch.where(inside, high, 0.0)
    k = (high_inside * _LOG2_E + _MAGIC) - _MAGIC
    r = (high_inside - k * _LOG2_HIGH) - (k * _LOG2_LOW - torch.where(inside, low, 0.0))
    series = torch.full_like(r, _EXP_TERMS[-1])
    for term in reversed(_EXP_TERMS[:-1]):
        series = series * r + term
    steps = k.long()
    half = steps >> 1
    value = (1.0 + (r + r * r * series)) * _power_of_2(half) * _power_of_2(steps - half)
    return torch.where(inside, value, torch.where(high > 0, torch.inf, torch.where(high <= 0, 0.0, torch.nan)))


def _power_of_2(k: Tensor) -> Tensor:
    return ((k + 1023) << 52).view(torch.float64)


def _sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _fast_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    total = a + b
    return total, b - (total - a)


def _product(a: Tensor, b: Tensor | float) -> tuple[Tensor, Tensor]:
    other = torch.as_tensor(b, dtype=torch.float64, device=a.device)
    product = a * other
    (a1, a2), (b1, b2) = ((high, x - high) for x in (a, other) for high in [x * _SPLIT - (x * _SPLIT - x)])
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
