"""Means of two models on few rows: the test of sign flips, and the interval that it gives. No torch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.stats.paired import random_bits
from valor_gpu.stats.paired_test import PairedTest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NULL = "the differences of the units are as likely to have the opposite sign"
MOST_UNITS = 200
"""Rows, or clusters, up to which the test takes the place of that of the bootstrap, which alarms too often on few."""
_MOST_EXACT = 16
"""Units up to which all assignments of signs are made."""
_FLIPS = 9_999
"""Random assignments of more units: their p-values start at 2 / 10,000."""
_ROUNDING = 1e-14
"""Relative to the sizes of scores: sums of the same scores in another order are equal."""
_EQUAL = 1e-12
"""Relative to the largest difference: means of the same numbers in another order are equal."""


@frozen
class UnitSums:
    """Sums of scores over the rows of units.

    Attributes:
        sums: float64 ``[U]``.
        rows: int64 ``[U]``, how many have a score.
        sizes: float64 ``[U]``, sums of the sizes of scores.
    """

    sums: Floats
    rows: Ints
    sizes: Floats

    def less(self, first: UnitSums) -> Floats:
        """Returns these sums less those of the first model; 0 where they differ by rounding alone."""
        found: Floats = self.sums - first.sums
        found[np.abs(found) <= _ROUNDING * np.maximum(self.sizes, first.sizes)] = 0.0
        return found


def units_of(scores: Floats, codes: Ints, units: int) -> UnitSums:
    """Returns the sums of units over their rows.

    Args:
        scores: float64 ``[N]``, NaN where a row has none.
        codes: int64 ``[N]``, the unit of each row, 0 to ``units`` - 1.
        units: U.

    Example:
        >>> units_of(np.array([1.0, np.nan, 0.5]), np.array([0, 0, 1]), 2).sums.tolist()
        [1.0, 0.5]
    """
    there = ~np.isnan(scores)
    scores, codes = scores[there], codes[there]
    sums: Floats = np.bincount(codes, scores, units).astype(np.float64)
    sizes: Floats = np.bincount(codes, np.abs(scores), units).astype(np.float64)
    return UnitSums(sums, np.bincount(codes, minlength=units).astype(np.int64), sizes)


def sign_flips(sums: Floats, rows: Ints, confidence: float) -> PairedTest | None:
    """Compares the means of two models by flips of the signs of whole units.

    The mean of a set of units is below a shift with the probability of an assignment of signs: so ordered means of all
    sets are the ends of intervals, and the interval leaves out 0 exactly where the p-value is below ``1 -
    confidence``. All sets are taken of up to 16 units, random ones of more; their seed is fixed.

    Args:
        sums: float64 ``[U]``, of each unit the sum over its rows of second less first.
        rows: int64 ``[U]``, how many rows it has.
        confidence: of the interval, above 0 and below 1.

    Returns:
        The test, without the numbers of the models; None where all differences are 0, or there are fewer than two units
        or more than :data:`MOST_UNITS`. Its ends are NaN, with the reason, where so few units have no interval.

    Source: Fisher, "The design of experiments" (1935), section 21; Hartigan, "Using subsample values as typical values"
    (1969).

    Example:
        >>> found = sign_flips(np.array([1.0, 2, 3, 4, 5, 6]), np.ones(6, np.int64), 0.95)
        >>> found.difference, found.low, found.high, found.p_value  # 2 of 64 assignments
        (3.5, 1.0, 6.0, 0.03125)
    """
    sums, rows = sums[rows > 0], rows[rows > 0]
    if not 2 <= len(sums) <= MOST_UNITS or not sums.any():
        return None
    total, count = math.fsum(sums), int(rows.sum())
    order = np.lexsort((rows, math.copysign(1, total) * sums))  # neither order of units nor of models changes a bit
    sums, rows = sums[order], rows[order]
    exact = len(sums) <= _MOST_EXACT
    means = _means_of_sets(sums, rows, exact)
    slack = _EQUAL * float(np.abs(sums / rows).max())
    sets = len(means) + 1  # and the empty one: the assignment that was seen
    least = min(int((means <= slack).sum()), int((means >= -slack).sum()))
    p_value = min(1.0, 2 * (least + 1) / sets)
    # The end is the mean of the k-th set for the least k at which p, 2 (k + 1) / sets, is not below the error rate.
    place = math.ceil((1 - confidence) * sets / 2 - 1e-9) - 1
    low, high = (float(means[place - 1]), float(means[-place])) if place > 0 else (math.nan, math.nan)
    needed = math.ceil(1 - math.log2(1 - confidence))
    reason = "" if place > 0 else f"too few units: signs of {len(sums)} have no interval, those of {needed} do"
    spread = math.sqrt(float(((sums - total / count * rows) ** 2).sum()) * len(sums) / (len(sums) - 1)) / count
    name = "exact sign flip" if exact else "sign flip"
    low, high = (0.0 if abs(end) <= slack else end for end in (low, high))
    return PairedTest(
        math.nan, math.nan, total / count, low, high, p_value, name, NULL, len(sums), confidence, spread, reason
    )


def _means_of_sets(sums: Floats, rows: Ints, exact: bool) -> Floats:
    """Means over the rows of sets of units, ascending: of all sets but the empty one, or of random ones."""
    if exact:
        codes = np.arange(1, 1 << len(sums))
        held = ((codes[:, None] >> np.arange(len(sums))) & 1).astype(np.float64)
    else:
        held = random_bits(_FLIPS, len(sums), np.random.default_rng(0))
        held = held[held.any(1)]
    found: Floats = np.sort((held @ sums) / (held @ rows.astype(np.float64)))
    return found
