"""Numbers of exact sums: whole numbers of Python, and quotients, roots and variances of them, each rounded once.

Sums are tensors of limbs as :func:`valor_gpu.ops.moments.op.moments` gives them, or sums of such tensors. A sum of L
limbs is a whole number times ``2^(-16 L)``, its unit.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from torch import Tensor

_SIGN = np.int64(-(2**63))


def unit(sums: Tensor) -> int:
    """Returns how many units of the sums make 1."""
    return 1 << 16 * sums.shape[-1]


def exact(sums: Tensor) -> list[int]:
    """Returns sums as whole numbers of units, one for each row of limbs.

    Args:
        sums: int64 ``[..., limbs]``.

    Example:
        >>> from valor_gpu.ops.moments.kinds import Kind
        >>> from valor_gpu.ops.moments.op import moments
        >>> sums = moments(torch.tensor([0.5, 1.25]), torch.zeros(2), Kind.ABSOLUTE).sums
        >>> [number / unit(sums) for number in exact(sums)]
        [1.75]
    """
    limbs = sums.shape[-1]
    table = (sums if sums.is_cpu else sums.cpu()).numpy().reshape(-1, limbs) ^ _SIGN  # without a sign
    even, odd = table[:, ::2].tobytes(), table[:, 1::2].tobytes()  # limbs that stand 64 bits apart
    size, offset = 4 * limbs, _offset(limbs)
    return [
        int.from_bytes(even[at : at + size], "little") + (int.from_bytes(odd[at : at + size], "little") << 32) - offset
        for at in range(0, len(even), size)
    ]


@functools.cache
def _offset(limbs: int) -> int:
    """The number all of whose limbs are 2^63."""
    return sum(1 << 63 + 32 * limb for limb in range(limbs))


def rounded(sums: Tensor) -> Tensor:
    """Returns sums as the nearest float64 ``[...]``, ties to even; inf beyond the largest.

    Args:
        sums: int64 ``[..., limbs]``.
    """
    whole = unit(sums)
    numbers = [quotient(number, whole) for number in exact(sums)]
    return torch.tensor(numbers, dtype=torch.float64, device=sums.device).reshape(sums.shape[:-1])


def quotient(numerator: int, denominator: int) -> float:
    """Returns the nearest float64 of a quotient; NaN for a denominator of 0, inf beyond the largest.

    Example:
        >>> quotient(1, 3), quotient(10**400, -3)
        (0.3333333333333333, -inf)
    """
    if denominator == 0:
        return math.nan
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if (numerator < 0) == (denominator < 0) else -math.inf


def root(numerator: int, denominator: int) -> float:
    """Returns the nearest float64 of the square root of a quotient; NaN if it is negative or the denominator 0.

    Example:
        >>> root(1, 2)
        0.7071067811865476
    """
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    if denominator == 0 or numerator < 0:
        return math.nan
    # 128 bits of the root, and a last one for what is left of it: that number rounds as the root does.
    shift = 256 - numerator.bit_length() + denominator.bit_length()
    shift += shift & 1
    square, rest = divmod(numerator << max(shift, 0), denominator << max(-shift, 0))
    whole = math.isqrt(square)
    whole = whole << 1 | (rest > 0 or whole * whole < square)
    half = shift // 2 + 1
    return quotient(whole << max(-half, 0), 1 << max(half, 0))


def centred(products: int, first: int, second: int, count: int, unit: int) -> int:
    """Returns ``count`` times the sum of products of deviations from the means, in units of ``unit^-2``: no rounding.

    The variance of ``count`` numbers is ``quotient(centred(squares, total, total, count, unit), count**2 * unit**2)``.

    Args:
        products: the sum of the products of two numbers, or of squares, of :func:`exact`.
        first: the sum of the first numbers.
        second: the sum of the second numbers; of squares, that of the first again.
        count: how many there are.
        unit: of the sums, see :func:`unit`.

    Example:
        >>> centred(1 + 4 + 9, 1 + 2 + 3, 1 + 2 + 3, 3, 1)  # 3 x (1 + 0 + 1)
        6
    """
    return count * products * unit - first * second


def correlation(products: int, first: int, second: int) -> float:
    """Returns the nearest float64 of ``products / sqrt(first * second)``, NaN where one of these is 0.

    Args:
        products: :func:`centred` products of two numbers.
        first: centred squares of the first ones.
        second: centred squares of the second ones.

    Example:
        >>> correlation(-3, 9, 4)
        -0.5
    """
    value = root(products * products, first * second)
    return -value if products < 0 else value
