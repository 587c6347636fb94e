"""Intervals of the numbers of a result, from replicates of the state that it came from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.stats.clusters import plain_clusters
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.intervals import Bootstrap, Interval, Intervals
from valor_gpu.stats.methods import (
    ANALYTIC,
    DELETED,
    EQUAL,
    METHODS,
    Replicates,
    all_equal,
    default_method,
    interval_by,
    too_few_units,
)
from valor_gpu.stats.proportions import pass_rate

if TYPE_CHECKING:
    from valor_gpu.stats.paired_test import PairedTest
    from valor_gpu.stats.units import Pairing, Units

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
GROUPS = 50
"""Shares of the jackknife."""
LOST_CLASSES = "/lost classes"
"""After the name of a mean over classes: how many hold no truth in a replicate, and are left out of its mean."""


@frozen
class Shared:
    """A state of the units that can be compared with those of another model.

    Attributes:
        state: of these units.
        values: numbers of these units by their leaf names, where they are not those of the result.
        left_out: how many units a number leaves out, by its leaf name, since one of both models has no number for them.
    """

    state: Resampled
    values: Mapping[str, float]
    left_out: Mapping[str, int]


class Resampled(ABC):
    """The immutable state that numbers came from, as the bootstrap asks it.

    Attributes:
        family: of the metric: its default method is that of :func:`valor_gpu.stats.methods.default_method`.
        unit: name of the units in the plural, ``images`` or ``rows``.
        units: how many there are, in the order of their keys.
        chunk: replicates that :meth:`replicates` takes at a time.
        keeps: what to do for a state whose units can be told apart, for messages; empty: nothing.
    """

    family: str = "rows"
    unit: str = "rows"
    keeps: str = ""
    units: int
    chunk: int = 64

    @abstractmethod
    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of ``draws.count`` replicates.

        Returns:
            Leaf names of the result's values to float64 ``[L]``; NaN where the number does not exist in a replicate. A
            name that is missing has no interval. A name with :data:`LOST_CLASSES` after it: how many classes the mean
            lost in each replicate.
        """

    def family_of(self, name: str) -> str:
        """Returns the family of a number, for a metric whose numbers are of several."""
        return self.family

    def supports(self, clusters: Codes | None = None) -> Mapping[str, int]:
        """Returns how many units hold a truth of a number, for numbers that need enough of them (those of a class).

        Args:
            clusters: of the units, see :meth:`clusters`; then how many clusters do, which are what is drawn.
        """
        return {}

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no honest interval, such as a maximum."""
        return {}

    def portion_bytes(self) -> int:
        """Returns the memory of a portion of replicates beside the state: the weights of the units, or more."""
        return self.units * self.chunk

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns the least and the largest value that a number can have; the ends of its interval stay within them."""
        return -math.inf, math.inf

    def proportions(self) -> Mapping[str, tuple[int, int]]:
        """Returns successes and trials of the numbers that are proportions of units, by name."""
        return {}

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """Returns the codes of the clusters of the units, ascending by the first unit of each.

        Raises:
            InputError: the units of this state cannot be told apart, or one has no cluster.
        """
        why = f"the state keeps counts, not which of the {self.unit} they are of"
        raise InputError(f"clusters must be None but came: {why}{self.keeps and ': '}{self.keeps}")

    def identities(self) -> Units:
        """Returns what tells the units apart, by which those of two models are paired.

        Raises:
            InputError: the units of this state cannot be told apart.
        """
        raise counts_alone(self.unit, self.keeps)

    def shared(self, other: Resampled) -> Shared:
        """Returns the state of the units that both models have a number for; by default all units.

        Args:
            other: the state of the other model, of the same metric.
        """
        return Shared(self, {}, {})

    def swapping(self, other: Resampled) -> Resampled | None:
        """Returns the units of this state and then those of another model's, as one state of both models.

        Drawn with weights of 0 and 1, it gives the numbers of a model that has the predictions of one model for some
        units, and those of the other for the rest. Scores are ranks within model and class, since those of two models
        have different scales. Draws have ``clusters`` of the units of both, in the order of :meth:`identities`.

        Args:
            other: a state of the same metric.

        Returns:
            The state, or None where there is none: its numbers have no permutation test.
        """
        return None

    def paired_tests(self, other: Resampled, pairing: Pairing, confidence: float) -> Mapping[str, PairedTest]:
        """Returns tests of the differences of numbers that have one of their own, better than that of the bootstrap.

        Args:
            other: the state of the other model, of the same metric.
            pairing: of the units of both.
            confidence: of the intervals.

        Returns:
            Leaf names to tests; differences are of the other model less this one.
        """
        return {}

    def analytic(self, method: str, clusters: Codes | None, confidence: float) -> Mapping[str, Interval]:
        """Returns the intervals of the numbers that a method without replicates serves.

        Args:
            method: of :data:`valor_gpu.stats.methods.ANALYTIC`.
            clusters: of the units; None: each stands alone.
            confidence: of the intervals.
        """
        if method == "delong" or clusters is not None:
            return {}
        return {name: proportion_interval(*trials, confidence, method) for name, trials in self.proportions().items()}


def intervals_of(values: Mapping[str, float], state: Resampled, choices: Bootstrap) -> Intervals:
    """Computes the intervals of numbers.

    Args:
        values: leaf names to numbers.
        state: what they came from.
        choices: of the bootstrap.
    """
    if choices.method is not None:
        check_choice("method", choices.method, (*METHODS, *ANALYTIC))
    clusters = None if choices.clusters is None else state.clusters(plain_clusters(choices.clusters))
    if choices.method in ANALYTIC:
        return _without_replicates(values, state, clusters, choices)
    draws = Draws(state.units, choices.replicates, seed=choices.seed, clusters=clusters)
    unit = state.unit if clusters is None else "clusters"
    refused, supports = state.refused(), state.supports(clusters)
    found = collected(state, draws)
    wanted = [name for name in values if name in found and name not in refused]
    methods = {name: choices.method or default_method(state.family_of(name), choices.target) for name in wanted}
    half = collected(state, replace(draws, kind="half")) if any(m.startswith("half") for m in methods.values()) else {}
    deleted = jackknife(state, draws) if any(method in DELETED for method in methods.values()) else {}
    wilson = {} if clusters is not None or choices.method is not None else state.proportions()
    intervals = {}
    for name in values:
        if reason := refused.get(name) or (_too_few(name, state, draws.drawn, unit, choices) if name in found else ""):
            intervals[name] = Interval(reason=reason)
        elif name in wanted:
            sample = Replicates(found[name], half.get(name), deleted.get(name), supports.get(name))
            made = interval_by(methods[name], values[name], sample, choices.confidence, unit)
            made = _checked(made, sample.values, wilson.get(name), choices.confidence)
            made = _within(made, *state.range_of(name))
            intervals[name] = _with_lost_classes(made, found.get(name + LOST_CLASSES))
    drawn: dict[str, Any] = {} if clusters is None else {"clusters": draws.drawn}
    drawn |= {"lost_classes": "left out"} if any(name.endswith(LOST_CLASSES) for name in found) else {}
    drawn |= {"wilson": shown} if (shown := sorted(wilson.keys() & intervals.keys())) else {}
    return Intervals(
        intervals,
        {
            "replicates": choices.replicates,
            "confidence": choices.confidence,
            "seed": choices.seed,
            "target": choices.target,
            "method": ", ".join(dict.fromkeys(methods.values())),
            "unit": state.unit,
            "units": state.units,
            **drawn,
        },
    )


def _without_replicates(
    values: Mapping[str, float], state: Resampled, clusters: Codes | None, choices: Bootstrap
) -> Intervals:
    """Intervals of the numbers that a method without replicates serves; the others say which numbers it does.

    Raises:
        InputError: it serves none of the numbers.
    """
    method = str(choices.method)
    found = state.analytic(method, clusters, choices.confidence)
    if not found.keys() & values.keys():
        clustered = " without clusters" if clusters is not None and method != "delong" else ""
        raise InputError(
            f"method must be left out, for the bootstrap, but is {method!r}, which is for"
            f" {ANALYTIC[method]}{clustered}: there are none"
        )
    sampled = {*found, *state.refused(), *state.replicates(Draws(state.units, 2))}  # not counts of rows, for example
    other = Interval(reason=f"method {method!r} is for {ANALYTIC[method]}: leave it out for the bootstrap")
    drawn = {} if clusters is None else {"clusters": int(clusters.max(initial=-1)) + 1}
    made = {"confidence": choices.confidence, "target": choices.target, "method": method}
    return Intervals(
        {name: found.get(name, other) for name in values if name in sampled},
        {**made, "unit": state.unit, "units": state.units, **drawn},
    )


def proportion_interval(successes: int, n: int, confidence: float, method: str) -> Interval:
    """Computes the interval of a proportion of units.

    Args:
        successes: from 0 to ``n``.
        n: number of units.
        confidence: of the interval.
        method: ``wilson`` or ``clopper_pearson``.
    """
    found = pass_rate(successes, n, confidence, method=method)
    error = math.sqrt(found.rate * (1 - found.rate) / n) if n else math.nan
    return Interval(found.low, found.high, error, reason=found.reason)


def _too_few(name: str, state: Resampled, drawn: int, unit: str, choices: Bootstrap) -> str:
    """Why so few units, or clusters, give no interval of the target; empty where they do or a method was chosen."""
    if drawn == 1:
        return f"too few {unit}: there is 1, it takes 2"
    return "" if choices.method else too_few_units(state.family_of(name), choices.target, drawn, unit)


def _checked(made: Interval, replicates: Floats, trials: tuple[int, int] | None, confidence: float) -> Interval:
    """The score interval of a proportion, which holds near 0 and 1, and no interval where nothing varies."""
    kept = replicates[~np.isnan(replicates)]
    if trials is not None and trials[1] > 0:
        ends, some = pass_rate(*trials, confidence), len(kept) > 1
        error = float(kept.std(ddof=1)) if some else math.nan
        return Interval(ends.low, ends.high, error, float(kept.mean()) - ends.rate if some else math.nan, made.lost)
    equal = not made.reason and len(kept) > 0 and all_equal(kept)
    return Interval(lost=made.lost, reason=EQUAL) if equal else made


def _within(made: Interval, least: float, largest: float) -> Interval:
    """The interval without values that the number cannot have."""
    return made if made.reason else replace(made, low=max(made.low, least), high=min(made.high, largest))


def _with_lost_classes(made: Interval, lost: Floats | None) -> Interval:
    return made if lost is None else replace(made, lost_classes=int((lost > 0).sum()))


def holders(classes: NDArray[Any], units: NDArray[Any], number: int, clusters: Codes | None = None) -> list[int]:
    """Counts the units that hold each class, or the clusters that do.

    Args:
        classes: int ``[P]``, 0 to ``number`` - 1, each beside a unit that holds it; a pair may come again.
        units: int ``[P]``.
        number: of classes.
        clusters: codes of the units; None: units are counted.

    Example:
        >>> classes, units = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
        >>> holders(classes, units, 3), holders(classes, units, 3, np.array([0, 0]))
        ([2, 1, 0], [1, 1, 0])
    """
    of = units if clusters is None else clusters[units]
    width = int(of.max(initial=0)) + 1
    pairs = np.unique(classes.astype(np.int64) * width + of)
    found: list[int] = np.bincount(pairs // width, minlength=number).tolist()
    return found


def sides_of_labels(labels: NDArray[Any], classes: int, clusters: Codes | None = None) -> list[NDArray[np.int64]]:
    """Counts the units, or the clusters, with each label, and those with another.

    Args:
        labels: int ``[U]``, 0 to ``classes`` - 1.
        classes: C.
        clusters: codes of the units; None: units are counted.

    Returns:
        Two arrays int64 ``[C]``.

    Example:
        >>> [side.tolist() for side in sides_of_labels(np.array([0, 0, 1]), 2)]
        [[2, 1], [1, 2]]
        >>> [side.tolist() for side in sides_of_labels(np.array([0, 0, 1]), 2, np.array([0, 1, 1]))]
        [[2, 1], [1, 2]]
    """
    of = np.arange(len(labels)) if clusters is None else clusters
    width = int(of.max(initial=0)) + 1
    pairs = np.unique(labels.astype(np.int64) * width + of)
    kinds = np.bincount(pairs % width, minlength=width)  # labels of each cluster
    alone = pairs[kinds[pairs % width] == 1] // width  # labels of clusters that have no other
    held = np.bincount(pairs // width, minlength=classes)
    return [held, int((kinds > 0).sum()) - np.bincount(alone, minlength=classes)]


def counts_alone(unit: str, keeps: str = "") -> InputError:
    """Returns the error of a state whose units cannot be paired with those of another model.

    Args:
        unit: name of the units in the plural.
        keeps: what to do for a state that keeps them; empty: nothing.
    """
    fix = f": {keeps}" if keeps else ", and no choice of its metric keeps them"
    return InputError(f"a paired comparison needs the {unit} one by one but the state keeps counts alone{fix}")


def refusing(reason: str) -> Callable[[], Resampled]:
    """Returns what a result may have as ``state`` where its numbers have no intervals: it raises the reason.

    Args:
        reason: text of the :class:`InputError`.
    """

    def refuse() -> Resampled:
        raise InputError(reason)

    return refuse


def collected(state: Resampled, draws: Draws) -> dict[str, Floats]:
    """Computes the numbers of all replicates, portion by portion; says how long it takes if that is long."""
    from valor_gpu.stats.forecast import Forecast

    forecast, parts = Forecast(draws.kind, draws.count, f"{state.units:,} {state.unit}"), []
    forecast.memory(state.portion_bytes())
    for part in _portions(draws, state.chunk):
        parts.append(state.replicates(part))
        forecast.after(part.count)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def jackknife(state: Resampled, draws: Draws) -> dict[str, Floats]:
    """Computes the numbers without each of :data:`GROUPS` shares of what is drawn, or of as many as there are."""
    groups = min(GROUPS, draws.drawn)
    if not groups:
        return {}
    return collected(state, replace(draws, kind="delete", groups=groups, count=groups))


def _portions(draws: Draws, size: int) -> Iterator[Draws]:
    for first in range(0, draws.count, size):
        yield replace(draws, first=draws.first + first, count=min(size, draws.count - first))
