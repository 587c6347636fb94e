"""Logarithms and powers in plain torch, by the operations of csrc/core/powers.h in their order: the same bits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def _numbers(text: str) -> list[float]:
    return [float.fromhex(word) for word in text.split()]


_LOG2_HIGH, _LOG2_LOW = _numbers("0x1.62e42fefa0000p-1 0x1.cf79abc9e3b3ap-40")
_STEPS, _LOG2 = _numbers("0x1.71547652b82fep4 0x1.62e42fefa39efp-1")
_SPLIT, _MAGIC = 2.0**27 + 1, 1.5 * 2.0**52
_START = 0x3FE6800000000000
"""The bits of 0.703125, where the fractions of logarithms begin."""
RECIPROCALS = _numbers(
    "0x1.642d000000000p0 0x1.5555000000000p0 0x1.47ae000000000p0 0x1.3b14000000000p0 0x1.2f68000000000p0 "
    "0x1.2492000000000p0 0x1.1a7c000000000p0 0x1.1111000000000p0 0x1.0842000000000p0 0x1p0 0x1.e1e2000000000p-1 "
    "0x1.c71c000000000p-1 0x1.af28000000000p-1 0x1.999a000000000p-1 0x1.8618000000000p-1 0x1.745e000000000p-1"
)
"""For each sixteenth of the fractions m, about 1 / m: a multiple of 2^-16."""
LOGS_HIGH = _numbers(
    "-0x1.522c40734e000p-2 -0x1.269521132e000p-2 -0x1.f99146cb38000p-3 -0x1.a940d3c86e000p-3 "
    "-0x1.5bf206b504000p-3 -0x1.1176e8223e000p-3 -0x1.933be5d474000p-4 -0x1.08588b59dc000p-4 "
    "-0x1.0413d89e68000p-5 0x0p0 0x1.f0a10c0128000p-5 0x1.e27476e330000p-4 0x1.5ff5070aba000p-3 "
    "0x1.c8fd7c79ea000p-3 0x1.1676cabada000p-2 0x1.46163c228e000p-2"
)
"""Minus their logarithms, multiples of 2^-42."""
LOGS_LOW = _numbers(
    "0x1.09d506add0abfp-44 0x1.1b77465e77b87p-44 0x1.90d0a22d25d89p-44 0x1.86f98a62b76a5p-45 "
    "0x1.2757941bdeda4p-46 -0x1.1ecce23025d2ep-45 -0x1.31a5c3835489cp-45 0x1.7e5f2c55fe581p-46 "
    "0x1.dddcd49b75a6bp-44 0x0p0 -0x1.d59a92de0b93cp-45 -0x1.a31817fc55578p-45 -0x1.85719c2a69690p-44 "
    "-0x1.77bfa12ca2ef8p-45 0x1.83963c8b4ab26p-44 -0x1.42b847691edaap-46"
)
"""What these leave."""
POWERS_HIGH = _numbers(
    "0x1p0 0x1.0b5586cf9890fp0 0x1.172b83c7d517bp0 0x1.2387a6e756238p0 0x1.306fe0a31b715p0 0x1.3dea64c123422p0 "
    "0x1.4bfdad5362a27p0 0x1.5ab07dd485429p0 0x1.6a09e667f3bcdp0 0x1.7a11473eb0187p0 0x1.8ace5422aa0dbp0 "
    "0x1.9c49182a3f090p0 0x1.ae89f995ad3adp0 0x1.c199bdd85529cp0 0x1.d5818dcfba487p0 0x1.ea4afa2a490dap0"
)
"""2^(i / 16)."""
POWERS_LOW = _numbers(
    "0x0p0 0x1.8a62e4adc610bp-54 -0x1.19041b9d78a76p-55 0x1.9b07eb6c70573p-54 0x1.6f46ad23182e4p-55 "
    "0x1.ada0911f09ebcp-55 0x1.d4397afec42e2p-56 0x1.6324c054647adp-54 -0x1.bdd3413b26456p-54 "
    "-0x1.41577ee04992fp-55 0x1.6e9f156864b27p-54 0x1.c7c46b071f2bep-56 0x1.7a1cd345dcc81p-54 "
    "0x1.11065895048ddp-55 0x1.2ed02d75b3707p-55 -0x1.e9c23179c2893p-54"
)
"""What these leave."""
_LOG_TERMS = _numbers(
    "-0x1p-1 0x1.5555555555521p-2 -0x1.fffffffffffa0p-3 0x1.9999999af751bp-3 -0x1.5555555695eabp-3 "
    "0x1.2492357975d4dp-3 -0x1.ffffdbf0c4765p-4 0x1.c7ee28ac92f04p-4 -0x1.9a59d76189686p-4"
)
"""(log(1 + f) - f) / f^2 for f up to 1 / 32: the error is below 2^-61 of the logarithm."""
_EXP_TERMS = _numbers(
    "0x1p-1 0x1.5555555555556p-3 0x1.55555554e9456p-5 0x1.11111110e10a0p-7 0x1.6c17ed4e4d929p-10 0x1.a01b0c30381a9p-13"
)
"""(exp(r) - 1 - r) / r^2 for r up to log 2 / 32: the error is below 2^-62 of the exponential."""
_COSH_TERMS = _numbers(
    "0x1p-1 0x1.5555555555502p-5 0x1.6c16c16c212c0p-10 0x1.a01a01907b7eep-16 0x1.27e5069de9344p-22 "
    "0x1.1ee5640e638a2p-29 0x1.99848a67700e4p-37"
)
"""(cosh(sqrt z) - 1) / z for z up to 1: the error is below 2^-55 of it."""
PLAIN_POWERS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
"""Those of products and a square root."""


def log1p(x: Tensor) -> Tensor:
    """``log(1 + x)``; -inf for -1, NaN below."""
    inside = (x > -1) & (x < 2.0**1000)
    value, _ = _log(*_sum(torch.ones_like(x), torch.where(inside, x, 0.0)))
    outside = torch.where(x == -1, -torch.inf, torch.where(x > 0, log(x), torch.nan))
    return torch.where(inside, value, outside)


def log(x: Tensor) -> Tensor:
    """The logarithm; -inf for 0, NaN below."""
    inside = (x > 0) & (x < torch.inf)
    high, low = _long_log(torch.where(inside, x, 1.0))
    return torch.where(inside, high + low, torch.where(x == 0, -torch.inf, torch.where(x == torch.inf, x, torch.nan)))


def log_ratio(p: Tensor, t: Tensor) -> Tensor:
    """The absolute difference of ``log(1 + p)`` and ``log(1 + t)``, as one logarithm, so that nothing cancels."""
    ratio = (p - t).abs() / (1.0 + torch.where(p < t, p, t))
    return torch.where(ratio < torch.inf, log1p(ratio), log1p(p) - log1p(t))


def power(x: Tensor, exponent: float) -> Tensor:
    """``x^exponent`` for ``x >= 0``."""
    if exponent in PLAIN_POWERS:
        return _plain_power(x, exponent)
    inside = (x > 0) & (x < torch.inf) & (x != 1) & (exponent != 0)
    high, low = _long_log(torch.where(inside, x, 2.0))
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


def _plain_power(x: Tensor, exponent: float) -> Tensor:
    if exponent < 2:
        return x if exponent == 1 else x * _root(x)
    square = x * x
    if exponent < 3:
        return square if exponent == 2 else square * _root(x)
    return square * x if exponent == 3 else square * square


def log_cosh(x: Tensor) -> Tensor:
    """``log(cosh(x))``: below 0.8 by the series of ``cosh(x) - 1``, else ``|x| + log(1 + exp(-2 |x|)) - log 2``."""
    a = x.abs()
    small = a < 0.8
    z = torch.where(small, a * a, 0.0)
    faded = _exp(torch.where(a < 300, -2.0 * a, -600.0), torch.zeros_like(a))
    value = log1p(torch.where(small, _series(_COSH_TERMS, z) * z, faded))
    return torch.where(small, value, a + (value - _LOG2))


def tweedie(p: Tensor, t: Tensor, exponent: float) -> Tensor:
    """The deviance of targets ``t`` from predictions ``p``."""
    if exponent == 0:
        return (p - t) * (p - t)
    if exponent == 1:
        return 2.0 * (torch.where(t == 0, 0.0, t * log(t / p)) + p - t)
    if exponent == 2:
        return 2.0 * (log(p / t) + t / p - 1.0)
    if exponent == 3:
        return (p - t) / p * ((p - t) / p) / t
    if exponent == 1.5:
        root = _root(p)
        gap = root - _root(t)
        return 4.0 * gap * gap / root
    one, two = 1.0 / (1.0 - exponent), 1.0 / (2.0 - exponent)
    first = power(torch.where(t < 0, 0.0, t), 2.0 - exponent) * (one * two)
    return 2.0 * (first + power(p, 1.0 - exponent) * (p * two - t * one))


def _long_log(x: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of a positive finite number, in two parts."""
    tiny = x < 2.0**-1022
    normal = torch.where(tiny, x * 2.0**54, x)
    high, low = _log(normal, torch.zeros_like(x))
    lower = torch.where(tiny, -54.0, 0.0).to(x)
    total, rest = _fast_sum(high, lower * _LOG2_HIGH)
    return total, rest + (low + lower * _LOG2_LOW)


def _log(x: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of ``x + rest`` in two parts; x is from 2^-1022 on, and below 2^1000 with a rest."""
    bits = x.view(torch.int64)
    steps = bits - _START
    power = steps & ~(2**52 - 1)
    place = steps >> 48 & 15
    k = (steps >> 52).double()
    m = (bits - power).view(torch.float64)
    m_high = (bits - power + 2**26 & ~(2**27 - 1)).view(torch.float64)
    scale = (0x3FF0000000000000 - power).view(torch.float64)
    m_low = m - m_high + torch.where(rest == 0, 0.0, rest * scale)
    c = _look_up(RECIPROCALS, place)
    f_high, f_low = m_high * c - 1.0, m_low * c
    f = f_high + f_low
    low = f * f * _series(_LOG_TERMS, f) + (k * _LOG2_LOW + _look_up(LOGS_LOW, place))
    total, left = _fast_sum(k * _LOG2_HIGH + (_look_up(LOGS_HIGH, place) + f_high), f_low)
    return _fast_sum(total, left + low)


def _exp(high: Tensor, low: Tensor) -> Tensor:
    """The exponential of ``high + low``."""
    inside = (high > -746.0) & (high < 710.0)
    high_inside = torch.where(inside, high, 0.0)
    k = (high_inside * _STEPS + _MAGIC) - _MAGIC
    r = (high_inside - k * (_LOG2_HIGH / 16)) - (k * (_LOG2_LOW / 16) - torch.where(inside, low, 0.0))
    steps = k.long()
    first, second = _look_up(POWERS_HIGH, steps & 15), _look_up(POWERS_LOW, steps & 15)
    value = first + (first * (r + r * r * _series(_EXP_TERMS, r)) + second)
    whole = steps >> 4
    half = whole >> 1
    value = value * _power_of_2(half) * _power_of_2(whole - half)
    return torch.where(inside, value, torch.where(high > 0, torch.inf, torch.where(high <= 0, 0.0, torch.nan)))


def _root(x: Tensor) -> Tensor:
    """The square root, to the nearest: that of torch on a CPU may be its neighbour."""
    return torch.sqrt(x) if x.is_cuda else torch.from_numpy(np.sqrt(x.detach().clamp(min=0.0).numpy()))


def _look_up(table: list[float], places: Tensor) -> Tensor:
    return torch.tensor(table, dtype=torch.float64, device=places.device)[places]


def _series(terms: list[float], x: Tensor) -> Tensor:
    """The sum of ``terms[n] x^n``: neighbours are joined, then pairs, pairs of pairs and so on (Estrin)."""
    parts = [torch.full_like(x, term) for term in terms]
    while len(parts) > 1:
        joined = [low + high * x for low, high in zip(parts[::2], parts[1::2])]
        parts, x = joined + parts[2 * len(joined) :], x * x
    return parts[0]


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
