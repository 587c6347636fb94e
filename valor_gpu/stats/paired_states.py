"""Numbers of two states under the same draws: differences, their intervals and tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.intervals import Bootstrap, Interval
from valor_gpu.stats.methods import Replicates, default_method, interval_by
from valor_gpu.stats.resample import Resampled, collected
from valor_gpu.stats.units import Pairing

Floats = NDArray[np.float64]

BOOTSTRAP_NULL = "both models have the same expected number"
PERMUTATION_NULL = "for each unit it does not matter which model a prediction is of"


@frozen
class PairedNumber:
    """A number of two models on the same units.

    Attributes:
        first: of the first model; NaN: it does not exist.
        second: of the second.
        difference: second less first.
        interval: of the difference.
        p_value: of ``test``; NaN, with the reason of the interval, where it does not exist.
        test: name of the test, such as ``bootstrap``, ``delong``, ``mcnemar`` or ``sign_flip``.
        null: hypothesis that it tests.
        p_permutation: of the permutation that swaps whole units between the models; NaN: it was not made.
        deviations: float64 ``[B]``, replicates of the difference less their mean, in standard errors; of which maxima
            over numbers are taken. None: there is no interval.
    """

    first: float
    second: float
    difference: float
    interval: Interval
    p_value: float = math.nan
    test: str = "bootstrap"
    null: str = BOOTSTRAP_NULL
    p_permutation: float = math.nan
    deviations: Floats | None = None


def paired_numbers(
    values: tuple[Mapping[str, float], Mapping[str, float]],
    states: tuple[Resampled, Resampled],
    pairing: Pairing,
    choices: Bootstrap,
) -> dict[str, PairedNumber]:
    """Computes the differences of the numbers that both states have, with interval and test.

    Args:
        values: leaf names to numbers, of each model.
        states: what they came from.
        pairing: of the units of both.
        choices: of the bootstrap; ``clusters`` is not read.
    """
    found = _differences(states, pairing, choices, "multinomial")
    names = [name for name in values[0] if name in values[1] and name in found]
    methods = {
        name: choices.method or default_method(states[0].family_of(name), choices.target, paired=True) for name in names
    }
    half = {}
    if any(method.startswith("half") for method in methods.values()):
        half = _differences(states, pairing, choices, "half")
    supports = states[0].supports(pairing.codes[0])
    made = {}
    for name in names:
        sample = Replicates(found[name], half.get(name), None, supports.get(name))
        first, second = values[0][name], values[1][name]
        difference = second - first
        interval = interval_by(methods[name], difference, sample, choices.confidence, pairing.unit)
        p_value = math.nan if interval.reason else _inverted(methods[name], difference, sample)
        made[name] = PairedNumber(first, second, difference, interval, p_value, deviations=_deviations(sample))
    return made


def _differences(
    states: tuple[Resampled, Resampled], pairing: Pairing, choices: Bootstrap, kind: str
) -> dict[str, Floats]:
    sides = []
    for state, codes in zip(states, pairing.codes):
        draws = Draws(state.units, choices.replicates, seed=choices.seed, clusters=codes)
        sides.append(collected(state, replace(draws, kind=kind)))
    return {name: sides[1][name] - sides[0][name] for name in sides[0] if name in sides[1]}


def _inverted(method: str, difference: float, sample: Replicates) -> float:
    """The least error rate at which the interval of a method leaves out 0."""
    values = sample.half if method.startswith("half") and sample.half is not None else sample.values
    kept = values[~np.isnan(values)]
    if method == "percentile":
        below, above = int((kept <= 0).sum()), int((kept >= 0).sum())
        return min(1.0, 2 * (min(below, above) + 1) / (len(kept) + 1))
    error = float(kept.std(ddof=1))
    return 2 * NormalDist().cdf(-abs(difference) / error) if error else math.nan


def _deviations(sample: Replicates) -> Floats | None:
    kept = sample.values
    error = float(np.nanstd(kept, ddof=1))
    return (kept - np.nanmean(kept)) / error if error else None
