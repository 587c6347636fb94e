"""Rows of numbers as the bootstrap asks them: means of terms, and numbers that are made of such means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.paired_test import PairedTest
from valor_gpu.stats.resample import Resampled
from valor_gpu.stats.row_samples import Arrivals, RowSample
from valor_gpu.stats.units import Pairing
from valor_gpu.stats.weighted_sums import weighted_sums

Columns = NDArray[np.float64]


class Recipe(NamedTuple):
    """How a number is made of rows.

    Attributes:
        name: of the number.
        terms: gives float64 ``[N, K]`` of predictions and targets ``[N]`` of one output.
        numbers: makes the numbers ``[D, L]``, or one of all outputs ``[L]``, of means of terms ``[D, K, L]`` and of the
            rows of each replicate ``[L]``; None: each number is the mean of one term.
        averages: whether the number is the mean over outputs.
        least: the number is never below.
        largest: the number is never above.
        refused: why there are no intervals; empty: there are.
    """

    name: str
    terms: Callable[[Columns, Columns], Columns]
    numbers: Callable[[Columns, Columns], Columns] | None = None
    averages: bool = False
    least: float = -math.inf
    largest: float = math.inf
    refused: str = ""


def resampled_rows(recipe: Recipe, preds: Columns, target: Columns) -> Resampled:
    """Returns the rows of a metric.

    Args:
        recipe: of its number.
        preds: ``[N, D]``.
        target: ``[N, D]``.

    Raises:
        InputError: a row is not finite.
    """
    for name, side in (("preds", preds), ("target", target)):
        if not (finite := np.isfinite(side).all(1)).all():
            row = int(finite.argmin())
            raise InputError(
                f"intervals and comparisons need finite rows but row {row} of {name} is {side[row].tolist()}:"
                " take intervals of the other rows alone"
            )
    terms = [recipe.terms(p, t) for p, t in zip(preds.T, target.T)]
    arrivals = Arrivals(np.arange(len(target)), len(target), target)
    if recipe.numbers is None and (len(terms) == 1 or not recipe.averages):
        names = _names(recipe.name, len(terms))
        ranges = dict.fromkeys(names, (recipe.least, recipe.largest))
        return RowSample(dict(zip(names, (each[:, 0] for each in terms))), ranges=ranges, arrivals=arrivals)
    return ResampledTerms(recipe, terms, arrivals)


def _names(name: str, outputs: int) -> list[str]:
    """Leaf names of a number of each output."""
    return [name] if outputs == 1 else [f"{name}/{place}" for place in range(outputs)]


class ResampledTerms(RowSample):
    """Rows whose number is made of means of several terms, or by a root.

    Args:
        recipe: of the number.
        terms: ``[N, K]`` of each output.
        arrivals: of the rows.
    """

    def __init__(self, recipe: Recipe, terms: list[Columns], arrivals: Arrivals) -> None:
        self._recipe, self._outputs = recipe, len(terms)
        columns = np.concatenate(terms, 1)
        # Names that no result has, so that nothing takes the mean of a term for a number.
        super().__init__({f"term {place}": column for place, column in enumerate(columns.T)}, arrivals=arrivals)

    def family_of(self, name: str) -> str:
        """Returns ``rows``: the methods for numbers without bounds."""
        return "rows"

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns the least and the largest value that the number can have."""
        return self._recipe.least, self._recipe.largest

    def refused(self) -> Mapping[str, str]:
        """Returns the reason of a number without intervals."""
        return dict.fromkeys(self._leaves(), self._recipe.refused) if self._recipe.refused else {}

    def _leaves(self) -> list[str]:
        return _names(self._recipe.name, 1 if self._recipe.averages else self._outputs)

    def replicates(self, draws: Draws) -> dict[str, Columns]:
        """Computes the numbers of every replicate; see :meth:`Resampled.replicates`."""
        assert self._columns is not None
        terms = len(self._names)
        sums = weighted_sums(self._columns, draws)
        rows = sums[terms]
        with np.errstate(invalid="ignore", divide="ignore"):
            means = (sums[:terms] / rows).reshape(self._outputs, -1, draws.count)
            found = means[:, 0] if self._recipe.numbers is None else self._recipe.numbers(means, rows)
        if found.ndim == 2 and self._recipe.averages:
            found = found.mean(0)
        return dict(zip(self._leaves(), found.reshape(-1, draws.count)))

    def paired_tests(self, other: Resampled, pairing: Pairing, confidence: float) -> dict[str, PairedTest]:
        """Returns none: tests of terms are none of the number."""
        return {}


def centre_of(target: Columns) -> float:
    """Returns the mean of targets, the same number for every model and order of the rows; 0 without rows."""
    return float(np.sort(target).mean()) if len(target) else 0.0
