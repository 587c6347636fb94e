"""Numbers of regression from exact sums: quotients of whole numbers and roots of them, each rounded once.

A sum is a whole number of units (:mod:`valor_gpu.reduce.exact_sums`). So a variance is a difference of whole numbers,
in which nothing cancels, and a number has the same bits for any order and split of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from valor_gpu.reduce.exact_sums import centred, correlation, quotient, root

EPSILON = 1.17e-06
"""Least divisor of a weighted mean absolute percentage error, as in torchmetrics."""
LEAST_SQUARES = 2.0**-23
"""What torchmetrics divides by in place of the squares of a constant target: the rounding unit of float32."""

NO_ROWS = "no row was added"
ONE_ROW = "fewer than two rows"
CONSTANT_TARGET = "the target is constant"
ZERO_TARGET = "the target is 0 in all rows"
CONSTANT = "predictions or target are constant"
ALL_CONSTANT = "predictions and target are one constant"


class Sums(NamedTuple):
    """Sums of one output over its rows, all of them finite.

    Attributes:
        rows: how many.
        unit: how many units make 1.
        sums: whole numbers of units, in the order of :class:`valor_gpu.ops.moments.kinds.Kind`.
        lowest: least target.
        highest: largest target.
    """

    rows: int
    unit: int
    sums: Sequence[int]
    lowest: float = math.nan
    highest: float = math.nan


class Number(NamedTuple):
    """A number of one output, or of several.

    Attributes:
        value: what ``compute`` gives, also where torchmetrics puts a stand-in.
        reason: why the number does not exist, or is not finite; empty: it does.
    """

    value: float
    reason: str = ""

    @property
    def shown(self) -> float:
        """What a result gives: NaN in place of a finite stand-in."""
        return math.nan if self.reason and math.isfinite(self.value) else self.value


def mean(o: Sums) -> Number:
    """Returns the mean of the terms."""
    return Number(quotient(o.sums[0], o.rows * o.unit)) if o.rows else Number(math.nan, NO_ROWS)


def root_mean(o: Sums) -> Number:
    """Returns the square root of :func:`mean`."""
    return Number(root(o.sums[0], o.rows * o.unit)) if o.rows else Number(math.nan, NO_ROWS)


def distance(o: Sums, power: float) -> Number:
    """Returns ``(sum |e|^power)^(1 / power)``, 0 without rows."""
    if power == 2:
        return Number(root(o.sums[0], o.unit))
    total = quotient(o.sums[0], o.unit)
    return Number(total if power == 1 else total ** (1 / power))


def weighted_error(o: Sums) -> Number:
    """Returns ``sum |e| / max(sum |t|, EPSILON)``, 0 without rows."""
    if not o.rows:
        return Number(0.0, NO_ROWS)
    least = int(Fraction(EPSILON) * o.unit)
    return Number(quotient(o.sums[0], max(o.sums[1], least)), "" if o.sums[1] else ZERO_TARGET)


# ------------------------------------------------------------------------------------- of e, e^2, t and t^2


def squared_errors(o: Sums) -> int:
    """Returns ``n sum e^2``, in units squared."""
    return o.rows * o.unit * o.sums[1]


def spread_of_errors(o: Sums) -> int:
    """Returns ``n sum (e - mean e)^2``, in units squared."""
    return centred(o.sums[1], o.sums[0], o.sums[0], o.rows, o.unit)


def spread_of_target(o: Sums) -> int:
    """Returns ``n sum (t - mean t)^2``, in units squared."""
    return centred(o.sums[3], o.sums[2], o.sums[2], o.rows, o.unit)


def adjustment(rows: int, regressors: int) -> tuple[int, int]:
    """Returns ``n - 1`` and ``n - k - 1``, whose quotient scales the error; 1 and 1 where there are too few rows."""
    return (rows - 1, rows - regressors - 1) if 0 < regressors < rows - 1 else (1, 1)


def r2(o: Sums, regressors: int = 0) -> Number:
    """Returns ``1 - sum e^2 / sum (t - mean t)^2``, the quotient times ``(n - 1) / (n - k - 1)``.

    Of a constant target it is 1 where all is right, else as if the quotient were 1. Too few rows leave it unadjusted.
    """
    if o.rows < 2:
        return Number(math.nan, ONE_ROW)
    up, down = adjustment(o.rows, regressors)
    errors, whole = squared_errors(o) * up, spread_of_target(o) * down
    if not whole:
        return Number(1 - up / down if errors else 1.0, CONSTANT_TARGET)
    return Number(quotient(whole - errors, whole), too_few(o.rows, regressors))


def too_few(rows: int, regressors: int) -> str:
    """Returns why R2 cannot be adjusted; empty: it can."""
    return f"{rows} rows are too few for {regressors} regressors" if regressors >= max(rows - 1, 1) else ""


def explained(o: Sums) -> Number:
    """Returns ``1 - Var e / Var t``; of a constant target 1 where the error is constant, else 0."""
    if not o.rows:
        return Number(math.nan, NO_ROWS)
    errors, whole = spread_of_errors(o), spread_of_target(o)
    return Number(quotient(whole - errors, whole)) if whole else Number(float(errors == 0), CONSTANT_TARGET)


def relative_error(o: Sums, squared: bool) -> Number:
    """Returns ``sum e^2 / sum (t - mean t)^2``, or its root."""
    if not o.rows:
        return Number(math.nan, NO_ROWS)
    errors, whole = squared_errors(o), spread_of_target(o)
    if whole:
        return Number(quotient(errors, whole) if squared else root(errors, whole))
    value = quotient(o.sums[1], o.unit) / LEAST_SQUARES
    return Number(value if squared else math.sqrt(value), CONSTANT_TARGET)


def normalized_error(o: Sums, normalization: str) -> Number:
    """Returns the root of the mean squared error by the ``mean``, ``range``, ``std`` or ``l2`` of the target."""
    if not o.rows:
        return Number(math.nan, NO_ROWS)
    errors, reason, negative = squared_errors(o), CONSTANT_TARGET, False
    if normalization == "mean":
        below, negative, reason = o.sums[2] ** 2, o.sums[2] < 0, "the mean of the target is 0"
    elif normalization == "range":
        width = Fraction(o.highest) - Fraction(o.lowest)
        errors, below = errors * width.denominator**2, (o.rows * o.unit * width.numerator) ** 2
    elif normalization == "std":
        below = spread_of_target(o)
    else:
        below, reason = o.rows**2 * o.unit * o.sums[3], ZERO_TARGET
    if not below:
        return Number(math.inf if errors else math.nan, reason)
    value = root(errors, below)
    return Number(-value if negative else value)


# ------------------------------------------------------------------------------------- of p, t, p^2, t^2 and p t


def _spreads(o: Sums) -> tuple[int, int, int]:
    """Squares of both about their means, and products, each times n, in units squared."""
    p, t, pp, tt, pt = o.sums
    return centred(pp, p, p, o.rows, o.unit), centred(tt, t, t, o.rows, o.unit), centred(pt, p, t, o.rows, o.unit)


def pearson(o: Sums) -> Number:
    """Returns the covariance by the root of the product of the variances."""
    if o.rows < 2:
        return Number(math.nan, ONE_ROW)
    of_preds, of_target, both = _spreads(o)
    if not (of_preds and of_target):
        return Number(math.nan, CONSTANT)
    return Number(correlation(both, of_preds, of_target))


def concordance(o: Sums) -> Number:
    """Returns ``2 Cov / (Var p + Var t + (mean p - mean t)^2)``, with variances and covariance by n - 1."""
    if o.rows < 2:
        return Number(math.nan, ONE_ROW)
    of_preds, of_target, both = _spreads(o)
    apart = (o.sums[0] - o.sums[1]) ** 2
    below = o.rows * (of_preds + of_target) + (o.rows - 1) * apart
    return Number(quotient(2 * o.rows * both, below)) if below else Number(math.nan, ALL_CONSTANT)


# ------------------------------------------------------------------------------------- of several outputs


def average(numbers: Sequence[Number]) -> Number:
    """Returns the mean over outputs, whose sum is rounded once, with the first of their reasons."""
    if len(numbers) == 1:
        return numbers[0]
    values, reason = [number.value for number in numbers], first_reason(numbers)
    total = math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
    return Number(total / len(values) if values else math.nan, reason)


def first_reason(numbers: Sequence[Number]) -> str:
    """Returns the first reason, with the output that has it; empty: none has."""
    for place, number in enumerate(numbers):
        if number.reason:
            return number.reason if len(numbers) == 1 else f"output {place}: {number.reason}"
    return ""


def weighted_by_spread(outputs: Sequence[Sums], of_errors: Callable[[Sums], int], regressors: int = 0) -> Number:
    """Returns ``1 - sum of errors / sum of spreads`` over the outputs whose target is not constant.

    Args:
        outputs: sums of each.
        of_errors: :func:`squared_errors` or :func:`spread_of_errors`.
        regressors: of :func:`r2`.
    """
    spreads = [spread_of_target(o) for o in outputs]
    up, down = adjustment(outputs[0].rows, regressors)
    whole = down * sum(spreads)
    if not whole:
        return Number(math.nan, CONSTANT_TARGET)
    errors = up * sum(of_errors(o) for o, spread in zip(outputs, spreads) if spread)
    return Number(quotient(whole - errors, whole), too_few(outputs[0].rows, regressors))
