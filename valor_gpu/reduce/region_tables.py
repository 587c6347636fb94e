"""Ratios of the pixels of one table of regions in plain numbers: the bits of :mod:`valor_gpu.reduce.regions`.

NumPy takes some microseconds for each of the thirty operations there, whatever the size; one image of a few classes is
done in less than two of them. No torch, no array in: a table is read once. Every function takes the three rows
true positives, predicted and true pixels, of counts below :data:`MAX_COUNT`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MAX_CLASSES = 64
"""Most classes of a table for which plain numbers are faster than arrays."""

MAX_COUNT = 2**52
"""Counts below it, their sums in pairs too, are exact in float64."""

Row = Sequence[int]
Table = tuple[Row, Row, Row]

_PAIRWISE = 8  # NumPy adds this many numbers or more in another order than one after the other


def table_iou(table: Table) -> list[float]:
    """Intersection over union of each class, NaN where it is absent.

    Example:
        >>> table_iou(([3, 1, 0], [4, 1, 0], [3, 2, 0]))
        [0.75, 0.5, nan]
    """
    return [tp / union if (union := predicted + true - tp) else math.nan for tp, predicted, true in zip(*table)]


def table_dice(table: Table, average: str | None) -> float | list[float]:
    """Dice's coefficient of each class, or averaged over classes as :func:`valor_gpu.reduce.regions.region_value` does.

    Example:
        >>> table_dice(([3, 1, 0], [4, 1, 0], [3, 3, 0]), "macro") == (6 / 7 + 0.5) / 2
        True
    """
    if average == "micro":
        table = tuple([sum(row)] for row in table)  # type: ignore[assignment]
    values = [2 * tp / both if (both := predicted + true) else math.nan for tp, predicted, true in zip(*table)]
    if average == "micro":
        return values[0]
    if average in ("none", None):
        return values
    known = [value == value for value in values]
    if not any(known):
        return math.nan
    weights = table[2] if average == "weighted" else [1] * len(values)
    weight = sum(each for each, exists in zip(weights, known) if exists)
    terms = [each * value if exists else 0.0 for each, value, exists in zip(weights, values, known)]
    return _sum(terms) / weight if weight else 0.0


def table_generalized_dice(table: Table, weight_type: str, per_class: bool) -> float | list[float]:
    """Generalized Dice score, or with ``per_class`` that of each class, 0 for 0 / 0.

    Example:
        >>> round(table_generalized_dice(([2, 1], [2, 2], [3, 1]), "square", False), 4)
        0.6875
    """
    if weight_type == "linear":
        weights = [1.0] * len(table[2])
    elif weight_type == "square":
        weights = [1.0 / (true * true) if true else 0.0 for true in table[2]]
    else:
        weights = [1.0 / true if true else 0.0 for true in table[2]]
    numerators = [2 * tp * weight for tp, weight in zip(table[0], weights)]
    denominators = [(predicted + true) * weight for predicted, true, weight in zip(*table[1:], weights)]
    if per_class:
        return [above / below if below else 0.0 for above, below in zip(numerators, denominators)]
    below = _sum(denominators)
    return _sum(numerators) / below if below else 0.0


def mean_of_values(values: Sequence[float]) -> float:
    """The mean of the values that are not NaN, of their exact sum; NaN where there is none.

    Example:
        >>> mean_of_values([0.75, 0.5, math.nan])
        0.625
    """
    known = [value for value in values if value == value]
    return math.fsum(known) / len(known) if known else math.nan


def _sum(terms: Sequence[float]) -> float:
    """The sum in NumPy's order; the builtin ``sum`` compensates rounding from Python 3.12 on."""
    if len(terms) >= _PAIRWISE:
        return float(np.add.reduce(np.array(terms)))
    total = 0.0
    for term in terms:
        total += term
    return total
