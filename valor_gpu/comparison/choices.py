"""Choices of a comparison."""

from __future__ import annotations

from valor_gpu._frozen import frozen
from valor_gpu.checks import check_choice, check_int, check_number
from valor_gpu.errors import InputError
from valor_gpu.stats.intervals import MOST_REPLICATES, Bootstrap
from valor_gpu.stats.power import check_power

ADJUSTMENTS = ("max_t", "holm", "benjamini_hochberg", "benjamini_yekutieli")
"""Ways to adjust p-values for many numbers; the last two hold the false discovery rate."""


@frozen
class Choices:
    """Choices of :func:`valor_gpu.stats.compare`.

    Attributes:
        bootstrap: replicates, confidence and seed.
        permutations: how many; 0: no permutation test.
        adjust: of :data:`ADJUSTMENTS`.
        smallest_difference: that would matter, or None.
        power: of the detectable difference.
        observed_power: whether the power for the seen difference is wanted.
    """

    bootstrap: Bootstrap
    permutations: int
    adjust: str = "max_t"
    smallest_difference: float | None = None
    power: float = 0.8
    observed_power: bool = False

    def __post_init__(self) -> None:
        check_int("permutations", self.permutations)
        if self.permutations > MOST_REPLICATES:
            raise InputError(f"permutations must be at most {MOST_REPLICATES:,} but is {self.permutations}")
        check_choice("adjust", self.adjust, ADJUSTMENTS)
        check_power(self.power)
        if self.smallest_difference is not None:
            check_number("smallest_difference", self.smallest_difference)
            if self.smallest_difference <= 0:
                raise InputError(
                    "smallest_difference must be above 0, the size of a difference that would matter, but is"
                    f" {self.smallest_difference!r}"
                )
