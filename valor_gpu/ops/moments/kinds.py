"""What may be summed over pairs of numbers, and how wide a sum is. No torch."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """Which sums are taken over predictions ``p`` and targets ``t``; ``e`` is ``p - t``.

    MomentKind of csrc/core/moments.h.

    ``ABSOLUTE``, ``SQUARED``, ``WEIGHTED``, ``VARIANCE`` and ``PRODUCTS`` are exact: numbers that are summed are
    float64, squares and products are not rounded. The others sum terms that are rounded to float64.
    """

    ABSOLUTE = 0
    """``|e|``."""
    SQUARED = 1
    """``e^2``."""
    WEIGHTED = 2
    """``|e|`` and ``|t|``."""
    VARIANCE = 3
    """``e``, ``e^2``, ``t`` and ``t^2``."""
    PRODUCTS = 4
    """``p``, ``t``, ``p^2``, ``t^2`` and ``p t``."""
    PERCENTAGE = 5
    """``|e| / max(|t|, 1.17e-06)``."""
    SYMMETRIC = 6
    """``2 |e| / max(|p| + |t|, 1.17e-06)``."""
    PINBALL = 7
    """``q (t - p)`` where ``t > p``, else ``(1 - q) (p - t)``; the parameter is q."""
    SQUARED_LOG = 8
    """``(log(1 + p) - log(1 + t))^2``."""
    LOG_COSH = 9
    """``log(cosh(e))``."""
    MINKOWSKI = 10
    """``|e|^parameter``."""
    TWEEDIE = 11
    """The deviance of the Tweedie distribution whose power is the parameter."""

    @property
    def sums(self) -> int:
        """How many sums, K."""
        return _SUMS.get(self, 1)


_SUMS = {Kind.WEIGHTED: 2, Kind.VARIANCE: 4, Kind.PRODUCTS: 5}

WIDE, NARROW = 136, 24
"""Limbs of a sum that holds products of all float64 numbers; of all float32, float16 and bfloat16 numbers."""

ROWS, NANS, INFINITE, NEGATIVE_INFINITE = range(4)
"""Places of the counts of rows."""

PRED_DOMAIN, TARGET_DOMAIN = 6, 7
"""Kinds of errors: a number for which the term is not defined. MomentError of csrc/core/moments.h."""


def limbs_for(columns: int) -> int:
    """Returns the limbs of the sums of so many columns: wide ones take 1 KiB each, too much for thousands."""
    return WIDE if columns <= 256 else NARROW
