"""Spearman's and Kendall's coefficients of whole-number sums over ranks. No torch.

Sources: Spearman, "The proof and measurement of association between two things" (1904); Kendall, "A new measure of rank
correlation" (1938) and "The treatment of ties in ranking problems" (1945); Stuart, "The estimation and comparison of
strengths of association in contingency tables" (1953), for variant c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from valor_gpu._frozen import frozen
from valor_gpu.ops.rank_sums.cpu import RANK_SUMS

VARIANTS = ("a", "b", "c")
ALTERNATIVES = ("two-sided", "less", "greater")
_DIGITS = 200
"""Bits of a square root before it is rounded: a coefficient that is not 0 is above 2^-100."""


@frozen
class RankSums:
    """Sums over the rows of two columns of numbers; see :func:`valor_gpu.ops.rank_sums.op.rank_sums`.

    Attributes:
        rows: N.
        nan_rows: rows with NaN; unless it is 0, the rest is 0.
        groups: different values of both columns.
        squares: sums of the squares of the sizes of groups of equal values.
        cubes: sums of their cubes.
        products: sum of the products of centred ranks, each twice the mid-rank less N + 1.
        concordant: pairs of rows in the same order in both columns.
        discordant: pairs of rows in opposite order.
    """

    rows: int
    nan_rows: int
    groups: tuple[int, int]
    squares: tuple[int, int]
    cubes: tuple[int, int]
    products: int
    concordant: int
    discordant: int

    @classmethod
    def of(cls, rows: int, words: Sequence[int]) -> RankSums:
        """Returns the sums of one row of the op's result."""
        word = dict(zip(RANK_SUMS, words))

        def whole(name: str) -> int:
            return (word[f"{name}_high"] << 32) + word[f"{name}_low"]

        return cls(
            rows,
            word["nan_rows"],
            (word["groups_x"], word["groups_y"]),
            (word["squares_x"], word["squares_y"]),
            (whole("cubes_x"), whole("cubes_y")),
            whole("products"),
            word["concordant"],
            word["discordant"],
        )

    @property
    def tied(self) -> tuple[int, int]:
        """Pairs of rows that are equal in a column, for both columns."""
        return (self.squares[0] - self.rows) // 2, (self.squares[1] - self.rows) // 2


def missing(sums: RankSums, constants: bool = True) -> str:
    """Returns why there is no coefficient; empty where there is one.

    Args:
        sums: over the ranks.
        constants: whether a column of equal numbers has none.

    Example:
        >>> missing(RankSums(1, 0, (1, 1), (1, 1), (1, 1), 0, 0, 0))
        'fewer than two rows'
    """
    if sums.nan_rows:
        return f"rows with NaN: {sums.nan_rows}"
    if sums.rows < 2:
        return "fewer than two rows" if sums.rows else "no row was added"
    for name, groups in zip(("preds", "target"), sums.groups):
        if constants and groups < 2:
            return f"all of {name} are equal"
    return ""


def spearman(sums: RankSums) -> float:
    """Computes Pearson's correlation of the mid-ranks; NaN where :func:`missing` has a reason.

    Example:
        >>> spearman(RankSums(3, 0, (3, 3), (3, 3), (3, 3), 4, 2, 1))  # of 1, 2, 3 and 1, 3, 2
        0.5
    """
    if missing(sums):
        return math.nan
    spread = [(sums.rows**3 - cubes) // 3 for cubes in sums.cubes]  # sums of squares of centred ranks
    return _by_root(sums.products, spread[0] * spread[1])


def kendall(sums: RankSums, variant: str = "b") -> float:
    """Computes a variant of Kendall's tau; NaN where there is none.

    Args:
        sums: over the ranks, with pairs.
        variant: ``a`` divides by all pairs of rows, ``b`` by the geometric mean of the pairs that differ in each
            column, ``c`` by the most that tables of so many different values allow.

    Example:
        >>> kendall(RankSums(3, 0, (3, 3), (3, 3), (3, 3), 4, 2, 1), "a")
        0.3333333333333333
    """
    if missing(sums, variant != "a"):
        return math.nan
    difference, pairs = sums.concordant - sums.discordant, sums.rows * (sums.rows - 1) // 2
    if variant == "a":
        return difference / pairs
    if variant == "b":
        return _by_root(difference, (pairs - sums.tied[0]) * (pairs - sums.tied[1]))
    least = min(sums.groups)
    return 2 * difference * least / ((least - 1) * sums.rows**2)


def kendall_p_value(sums: RankSums, variant: str = "b", alternative: str = "two-sided") -> float:
    """Computes the p-value of no correlation by the normal approximation; NaN where there is none.

    Args:
        sums: over the ranks, with pairs.
        variant: ``a`` takes the variance without ties, ``b`` and ``c`` that with the ties of both columns, which takes
            three rows.
        alternative: of the correlation: ``two-sided``, ``less`` or ``greater``.

    Example:
        >>> sums = RankSums(3, 0, (3, 3), (3, 3), (3, 3), 4, 2, 1)
        >>> round(kendall_p_value(sums), 4), round(kendall_p_value(sums, alternative="greater"), 4)
        (0.6015, 0.3008)
    """
    if missing_p_value(sums, variant):
        return math.nan
    deviate = (sums.concordant - sums.discordant) / math.sqrt(_variance(sums, variant))
    if alternative == "two-sided":
        return math.erfc(abs(deviate) / math.sqrt(2))
    return math.erfc((deviate if alternative == "greater" else -deviate) / math.sqrt(2)) / 2


def missing_p_value(sums: RankSums, variant: str = "b") -> str:
    """Returns why there is no p-value; empty where there is one.

    Example:
        >>> missing_p_value(RankSums(2, 0, (2, 2), (2, 2), (2, 2), 2, 1, 0))
        'fewer than three rows'
    """
    few = "fewer than three rows" if variant != "a" and sums.rows == 2 else ""
    return missing(sums, variant != "a") or few


def _variance(sums: RankSums, variant: str) -> Fraction:
    """Variance of concordant less discordant pairs of unrelated columns with these ties."""
    n = sums.rows
    ordered, whole = n * (n - 1), n * (n - 1) * (2 * n + 5)
    if variant == "a":
        return Fraction(whole, 18)
    # Sums over groups of t rows of t (t - 1) (t - 2) and t (t - 1) (2 t + 5).
    threes = [c - 3 * s + 2 * n for c, s in zip(sums.cubes, sums.squares)]
    fives = [2 * c + 3 * s - 5 * n for c, s in zip(sums.cubes, sums.squares)]
    found = Fraction(whole - sum(fives), 18) + Fraction(2 * sums.tied[0] * sums.tied[1], ordered)
    return found + Fraction(threes[0] * threes[1], 9 * ordered * (n - 2))


def _by_root(number: int, square: int) -> float:
    """``number / sqrt(square)``, rounded once."""
    root = math.isqrt((number * number << 2 * _DIGITS) // square)
    return math.copysign(root / (1 << _DIGITS), number) if number else 0.0
