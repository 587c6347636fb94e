"""Numbers of two states under the same draws: differences, their intervals and tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.intervals import Bootstrap, Interval
from valor_gpu.stats.inversion import Inverted, check_paired_method, inverted, normal_deviate
from valor_gpu.stats.methods import (
    DELETED,
    EQUAL,
    Replicates,
    default_method,
    interval_by,
    too_few_units,
    used_replicates,
)
from valor_gpu.stats.paired_test import PairedTest
from valor_gpu.stats.resample import LOST_CLASSES, Resampled, collected, jackknife
from valor_gpu.stats.units import Pairing

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

BOOTSTRAP_NULL = "both models have the same expected number"
PERMUTATION_NULL = "for each unit it does not matter which model a prediction is of"
SAME = "no replicate tells the models apart"
"""Said of a difference of 0 whose interval is 0 to 0, and whose p-value is 1."""
MEASURED = 100
"""Fewest units for which benchmarks/coverage.py has chosen the methods of differences."""
UNSAMPLED = "the metric gives no replicates of it"
_ROUNDING = 1e-12
"""Relative difference of numbers that are equal but for the order of additions."""


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
        statistic: the difference in standard errors, whose deviations ``deviations`` has; NaN where there is no test.
        deviations: float64 ``[B]``, replicates of the difference less their mean, in standard errors; of which maxima
            over numbers are taken. None: there is no interval.
        spread: standard error of the difference that the test takes; NaN where there is none.
    """

    first: float
    second: float
    difference: float
    interval: Interval
    p_value: float = math.nan
    test: str = "bootstrap"
    null: str = BOOTSTRAP_NULL
    p_permutation: float = math.nan
    statistic: float = math.nan
    deviations: Floats | None = None
    spread: float = math.nan


@frozen
class Replicated:
    """Numbers of one state in replicates.

    Attributes:
        kinds: by kind of :class:`Draws`, the numbers by leaf name.
    """

    kinds: Mapping[str, Mapping[str, Floats]]

    def less(self, other: Replicated) -> dict[str, dict[str, Floats]]:
        """Returns the differences of the numbers that both have, by kind of draws."""
        with np.errstate(invalid="ignore"):  # infinities of one sign
            return {
                kind: {name: values - other.kinds[kind][name] for name, values in found.items() if name in other[kind]}
                for kind, found in self.kinds.items()
            }

    def __getitem__(self, kind: str) -> Mapping[str, Floats]:
        return self.kinds[kind]


def paired_methods(names: Iterable[str], state: Resampled, choices: Bootstrap) -> dict[str, str]:
    """Returns the method of the difference of each number.

    Raises:
        InputError: the chosen method is of fractions alone.
    """
    if choices.method is not None:
        check_paired_method(choices.method)
        return dict.fromkeys(names, choices.method)
    return {name: default_method(state.family_of(name), choices.target, paired=True) for name in names}


def replicated(state: Resampled, codes: Codes, methods: Iterable[str], choices: Bootstrap) -> Replicated:
    """Draws the units of a state anew, in the ways that methods need.

    Args:
        state: of one model.
        codes: the drawn thing that each unit belongs to.
        methods: of :data:`valor_gpu.stats.inversion.PAIRED_METHODS`.
        choices: of the bootstrap.
    """
    methods = set(methods)
    draws = Draws(state.units, choices.replicates, seed=choices.seed, clusters=codes)
    kinds: dict[str, Mapping[str, Floats]] = {}
    if any(not method.startswith("half") for method in methods):
        kinds["multinomial"] = collected(state, draws)
    if any(method.startswith("half") for method in methods):
        kinds["half"] = collected(state, replace(draws, kind="half"))
    if any(method in DELETED for method in methods):
        kinds["delete"] = jackknife(state, draws)
    return Replicated(kinds)


def paired_numbers(
    values: tuple[Mapping[str, float], Mapping[str, float]],
    states: tuple[Resampled, Resampled],
    pairing: Pairing,
    choices: Bootstrap,
    drawn: tuple[Replicated, Replicated] | None = None,
) -> dict[str, PairedNumber]:
    """Computes the differences of the numbers that both models have, with interval and test.

    Args:
        values: leaf names to numbers, of each model.
        states: what they came from.
        pairing: of the units of both.
        choices: of the bootstrap; ``clusters`` is not read.
        drawn: the replicates of both under these choices; None: they are drawn.
    """
    names = [name for name in values[0] if name in values[1]]
    methods = paired_methods(names, states[0], choices)
    if drawn is None:
        sides = (replicated(state, codes, methods.values(), choices) for state, codes in zip(states, pairing.codes))
        drawn = next(sides), next(sides)
    found = drawn[1].less(drawn[0])
    lost = _lost_classes(drawn)
    refused = {**states[0].refused(), **states[1].refused()}
    supports = _least(*(state.supports(codes) for state, codes in zip(states, pairing.codes)))
    tests = {} if choices.method else states[0].paired_tests(states[1], pairing, choices.confidence)
    made = {}
    for name in names:
        method = _of_few(methods[name], pairing.drawn) if choices.method is None else methods[name]
        whole = found["half" if method.startswith("half") else "multinomial"].get(name)
        reason = (
            refused.get(name) or _too_few(name, states[0], pairing, choices) or (UNSAMPLED if whole is None else "")
        )
        pair = values[0][name], values[1][name]
        if reason or whole is None:
            made[name] = _without(pair, reason)
            continue
        half = whole if method.startswith("half") else None
        deleted, support = found.get("delete", {}).get(name), supports.get(name)
        sample = Replicates(whole, half, deleted, support, _freedom(support or pairing.drawn, choices.replicates))
        number = _paired(pair, method, sample, choices.confidence, pairing.unit)
        number = _tested(number, tests.get(name))
        made[name] = replace(number, interval=_within(number.interval, states[0].range_of(name), lost.get(name)))
    return made


def _tested(number: PairedNumber, test: PairedTest | None) -> PairedNumber:
    """The number with the test that is made for it, and with its interval, so that both decide alike."""
    if test is None or math.isnan(test.p_value) or number.interval.reason not in ("", EQUAL):
        return number
    interval = number.interval
    if not math.isnan(test.low):
        interval = replace(interval, low=test.low, high=test.high, standard_error=test.standard_error, reason="")
    elif test.reason and not interval.reason:
        interval = Interval(lost=interval.lost, reason=test.reason)
    statistic = math.copysign(normal_deviate(test.p_value), number.difference)
    spread = test.standard_error if test.standard_error > 0 else number.spread
    number = replace(number, interval=interval, p_value=test.p_value, test=test.test, null=test.null)
    return replace(number, statistic=statistic, spread=spread)


def _of_few(method: str, units: int) -> str:
    """The method of so few units: quantiles of replicates know nothing of the error of their spread."""
    return "normal" if method == "percentile" and units < MEASURED else method


def _freedom(units: int, replicates: int) -> float:
    """Degrees of freedom of a spread that so many replicates show of so many units."""
    return 1 / (1 / (units - 1) + 1 / (replicates - 1)) if min(units, replicates) > 1 else 1.0


def _without(pair: tuple[float, float], reason: str) -> PairedNumber:
    """A number whose difference has no interval."""
    return PairedNumber(*pair, _difference(pair), Interval(reason=reason))


def _difference(pair: tuple[float, float]) -> float:
    return 0.0 if pair[0] == pair[1] else pair[1] - pair[0]  # infinite numbers may be equal


def _paired(pair: tuple[float, float], method: str, sample: Replicates, confidence: float, unit: str) -> PairedNumber:
    difference = _difference(pair)
    interval = interval_by(method, difference, sample, confidence, unit)
    kept = used_replicates(method, sample)
    kept = kept[~np.isnan(kept)]
    rounding = _ROUNDING * max(map(abs, pair))
    if interval.reason in ("", EQUAL) and kept.max() - kept.min() <= rounding:
        same = max(abs(difference), float(np.abs(kept).max())) <= rounding
        equal = Interval(0.0, 0.0, 0.0, 0.0, interval.lost) if same else Interval(lost=interval.lost, reason=EQUAL)
        zeros = np.zeros(len(sample.values)) if same else None
        return PairedNumber(
            *pair, difference, equal, 1.0 if same else math.nan, statistic=0.0 if same else math.nan, deviations=zeros
        )
    if interval.reason:
        return PairedNumber(*pair, difference, interval)
    if method.startswith("half"):  # half of the units have another bias than all
        interval = replace(interval, bias=math.nan)
    test: Inverted = inverted(method, difference, sample)
    return PairedNumber(
        *pair, difference, interval, test.p_value, statistic=test.statistic, deviations=test.deviations,
        spread=test.spread,
    )  # fmt: skip


def _too_few(name: str, state: Resampled, pairing: Pairing, choices: Bootstrap) -> str:
    """Why so few units give no interval; empty where they do."""
    if pairing.drawn == 1:
        return f"too few {pairing.unit}: there is 1, it takes 2"
    if choices.method:
        return ""
    return too_few_units(state.family_of(name), choices.target, pairing.drawn, pairing.unit, paired=True)


def _least(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: min(count, second.get(name, count)) for name, count in first.items()}


def _lost_classes(drawn: tuple[Replicated, Replicated]) -> dict[str, int]:
    """By mean over classes, replicates in which a model lost a class."""
    found: dict[str, int] = {}
    for kind in ("half", "multinomial"):
        sides = [side.kinds.get(kind, {}) for side in drawn]
        for name in sides[0].keys() & sides[1].keys():
            if name.endswith(LOST_CLASSES):
                lost: Any = (sides[0][name] > 0) | (sides[1][name] > 0)
                found[name.removesuffix(LOST_CLASSES)] = int(lost.sum())
    return found


def _within(made: Interval, range_of: tuple[float, float], lost: int | None) -> Interval:
    """The interval without differences that two numbers of a range cannot have."""
    span = range_of[1] - range_of[0]
    made = made if lost is None else replace(made, lost_classes=lost)
    return made if made.reason else replace(made, low=max(made.low, -span), high=min(made.high, span))
