"""Intervals of the numbers of a result, from replicates of the state that it came from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.intervals import Bootstrap, Interval, Intervals
from valor_gpu.stats.methods import Replicates, default_method, interval_by

Floats = NDArray[np.float64]
GROUPS = 50
"""Shares of the jackknife."""
LOST_CLASSES = "/lost classes"
"""After the name of a mean over classes: how many hold no truth in a replicate, and are left out of its mean."""


class Resampled(ABC):
    """The immutable state that numbers came from, as the bootstrap asks it.

    Attributes:
        family: of the metric: its default method is that of :func:`valor_gpu.stats.methods.default_method`.
        unit: name of the units in the plural, ``images`` or ``rows``.
        units: how many there are, in the order of their keys.
        chunk: replicates that :meth:`replicates` takes at a time.
    """

    family: str
    unit: str = "rows"
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

    def supports(self) -> Mapping[str, int]:
        """Returns how many units hold a truth of a number, for numbers that need enough of them (those of a class)."""
        return {}

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no honest interval, such as a maximum."""
        return {}

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """Returns the codes of the clusters of the units, ascending by the first unit of each.

        Raises:
            InputError: the units of this state cannot be told apart, or one has no cluster.
        """
        raise InputError(
            f"clusters must be None but came: the state keeps counts, not which of the {self.unit} they are of"
        )


def intervals_of(values: Mapping[str, float], state: Resampled, choices: Bootstrap) -> Intervals:
    """Computes the intervals of numbers.

    Args:
        values: leaf names to numbers.
        state: what they came from.
        choices: of the bootstrap.
    """
    clusters = None if choices.clusters is None else state.clusters(choices.clusters)
    method = choices.method or default_method(state.family, choices.target)
    draws = Draws(state.units, choices.replicates, seed=choices.seed, clusters=clusters)
    refused, supports = state.refused(), state.supports()
    found = collected(state, draws)
    wanted = [name for name in values if name in found and name not in refused]
    half = collected(state, replace(draws, kind="half")) if method.startswith("half") else {}
    deleted = _jackknife(state, draws) if method == "bca" else {}
    intervals = {}
    for name in values:
        if name in refused:
            intervals[name] = Interval(reason=refused[name])
        elif name in wanted:
            sample = Replicates(found[name], half.get(name), deleted.get(name), supports.get(name))
            interval = interval_by(method, values[name], sample, choices.confidence, state.unit)
            lost = found.get(name + LOST_CLASSES)
            intervals[name] = interval if lost is None else replace(interval, lost_classes=int((lost > 0).sum()))
    return Intervals(
        intervals,
        {
            "replicates": choices.replicates, "confidence": choices.confidence, "seed": choices.seed,
            "target": choices.target, "method": method, "unit": state.unit, "units": state.units,
            **({} if clusters is None else {"clusters": draws.drawn}),
            **({"lost_classes": "left out"} if any(name.endswith(LOST_CLASSES) for name in found) else {}),
        },
    )  # fmt: skip


def refusing(reason: str) -> Callable[[], Resampled]:
    """Returns what a result may have as ``state`` where its numbers have no intervals: it raises the reason.

    Args:
        reason: text of the :class:`InputError`.
    """

    def refuse() -> Resampled:
        raise InputError(reason)

    return refuse


def collected(state: Resampled, draws: Draws) -> dict[str, Floats]:
    """Computes the numbers of all replicates, portion by portion."""
    parts = [state.replicates(part) for part in _portions(draws, state.chunk)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _jackknife(state: Resampled, draws: Draws) -> dict[str, Floats]:
    groups = min(GROUPS, draws.drawn)
    return collected(state, replace(draws, kind="delete", groups=groups, count=groups))


def _portions(draws: Draws, size: int) -> Iterator[Draws]:
    for first in range(0, draws.count, size):
        yield replace(draws, first=draws.first + first, count=min(size, draws.count - first))
