"""Permutation test of two states: whole units are swapped between the models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from valor_gpu.stats.draws import Draws
from valor_gpu.stats.methods import MOST_LOST
from valor_gpu.stats.resample import Resampled, collected
from valor_gpu.stats.units import Pairing

Floats = NDArray[np.float64]
_ROUNDING = 1e-12
"""Relative difference of numbers that are equal but for the order of additions."""


def permuted(
    values: tuple[Mapping[str, float], Mapping[str, float]],
    states: tuple[Resampled, Resampled],
    pairing: Pairing,
    names: Iterable[str],
    permutations: int,
    seed: int,
) -> dict[str, float]:
    """Computes p-values of differences by swapping what two models predict for a unit, of each unit or not at random.

    The hypothesis is that units are exchangeable: for each of them it does not matter which model a prediction is of.
    Two models whose predictions differ in other ways may have the same number, and the hypothesis is false all the
    same. Scores are ranks within model and class, so that models with scores of different scales can be mixed.

    Args:
        values: leaf names to numbers, of each model.
        states: what they came from.
        pairing: of the units of both; what is drawn, such as a cluster, is swapped as a whole.
        names: of the numbers.
        permutations: how many; 0: none.
        seed: of the draws.

    Returns:
        p-values (b + 1) / (B + 1), where b of B permutations have a difference at least as large as the models have;
        NaN where more than 5 % of the permutations lack the number, and of every number where the states cannot be
        joined.

    Source: Phipson and Smyth, "Permutation p-values should never be zero" (2010); Good, "Permutation, parametric, and
    bootstrap tests of hypotheses" (2005), for paired units.
    """
    joined = states[0].swapping(states[1]) if permutations and pairing.drawn > 1 else None
    if joined is None:
        return dict.fromkeys(names, math.nan)
    first, second = pairing.codes
    draws = Draws(joined.units, permutations, seed=seed, kind="swap", clusters=_codes(first, second + pairing.drawn))
    one = collected(joined, draws)
    other = collected(joined, replace(draws, clusters=_codes(first + pairing.drawn, second)))
    return {name: _p_value(values[0][name], values[1][name], one.get(name), other.get(name)) for name in names}


def _codes(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((first, second))


def _p_value(first: float, second: float, one: Floats | None, other: Floats | None) -> float:
    if one is None or other is None or math.isnan(first) or math.isnan(second):
        return math.nan
    with np.errstate(invalid="ignore"):
        differences = np.abs(other - one)
    kept = differences[~np.isnan(differences)]
    if len(kept) < (1 - MOST_LOST) * len(differences):
        return math.nan
    least = abs(second - first) - _ROUNDING * max(abs(first), abs(second))
    return (int((kept >= least).sum()) + 1) / (len(kept) + 1)
