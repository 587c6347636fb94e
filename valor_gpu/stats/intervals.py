"""Intervals of numbers, and the choices of the bootstrap that makes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from valor_gpu._frozen import frozen
from valor_gpu.checks import check_choice, check_int, check_number
from valor_gpu.errors import InputError, InputTypeError

TARGETS = ("expected", "population")
"""The number that samples of this size have on average, and that of the population that they are drawn from."""
MOST_REPLICATES = 10_000_000
"""Most replicates, or permutations: more would only take hours."""
_MISSING = ("NAType", "NaTType")
"""What pandas has in a place without a value."""


@frozen
class Interval:
    """The interval of a number.

    Attributes:
        low: lower end; NaN: the interval does not exist.
        high: upper end.
        standard_error: standard deviation of the replicates.
        bias: mean of the replicates less the number: the bootstrap's estimate of the bias of the number.
        lost: replicates in which the number does not exist, which are left out.
        reason: why the ends are NaN; empty where they are not.
        lost_classes: of a mean over classes: replicates that hold no truth of some class, which has no part in the mean
            of that replicate.
    """

    low: float = math.nan
    high: float = math.nan
    standard_error: float = math.nan
    bias: float = math.nan
    lost: int = 0
    reason: str = ""
    lost_classes: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Returns the attributes; NaN as None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in values.items()}


class Intervals(Mapping[str, Interval]):
    """Intervals by the names of the numbers; nested names are joined by ``/``.

    Args:
        found: name to interval.
        choices: what made them: ``replicates``, ``confidence``, ``seed``, ``target``, ``unit``, ``units``, ``methods``.
    """

    def __init__(self, found: Mapping[str, Interval] | None = None, choices: Mapping[str, Any] | None = None) -> None:
        self._found, self.choices = dict(found or {}), dict(choices or {})

    def __getitem__(self, name: str) -> Interval:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"Intervals({self._found!r}, {self.choices!r})"


@frozen
class Bootstrap:
    """Choices of a bootstrap.

    Attributes:
        replicates: how often the units are drawn anew.
        confidence: of the intervals, above 0 and below 1.
        seed: of the draws, 0 to 2**64 - 1: the same seed gives the same bits on every machine.
        target: of :data:`TARGETS`: what the interval is to hold.
        clusters: units that belong together (frames of a video, images of a patient), which are drawn as a whole: a
            mapping of the id of every unit to its cluster, or the cluster of every unit in their order. None: each unit
            stands alone. An array, tensor or column of a table serves as a sequence.
        method: of the ends; None: the default of the family of metrics. ``delong`` (areas under ROC curves), ``wilson``
            and ``clopper_pearson`` (proportions) take no replicates.

    Raises:
        InputError: a choice is out of its range, or a unit has no cluster: None or NaN.
        InputTypeError: clusters are no mapping or sequence of one dimension, or cannot be told apart by a hash.
    """

    replicates: int = 1000
    confidence: float = 0.95
    seed: int = 0
    target: str = "expected"
    clusters: Mapping[Any, Any] | Sequence[Any] | None = None
    method: str | None = None

    def __post_init__(self) -> None:
        check_int("replicates", self.replicates, 2)
        if self.replicates > MOST_REPLICATES:
            raise InputError(f"replicates must be at most {MOST_REPLICATES:,} but is {self.replicates}")
        check_int("seed", self.seed, 0)
        check_choice("target", self.target, TARGETS)
        check_number("confidence", self.confidence)
        if not 0 < self.confidence < 1:
            raise InputError(f"confidence must be above 0 and below 1 but is {self.confidence!r}")
        if self.seed >= 1 << 64:
            raise InputError(f"seed must be below 2**64 but is {self.seed}")
        if self.clusters is not None:
            vars(self)["clusters"] = _named_clusters(self.clusters)

    @classmethod
    def of(cls, intervals: int | str | Bootstrap) -> Bootstrap:
        """Returns the choices that the argument ``intervals`` stands for: replicates, a method, or all of them."""
        if isinstance(intervals, Bootstrap):
            return intervals
        if isinstance(intervals, str):
            return cls(method=intervals)
        if isinstance(intervals, bool) or not isinstance(intervals, int):
            raise InputTypeError(
                f"intervals must be a number of replicates, a method or a Bootstrap but is {intervals!r}"
            )
        return cls(intervals)


def _named_clusters(given: Any) -> dict[Any, Any] | list[Any]:
    """The clusters as plain values, which are equal where clusters are: elements of a tensor are not."""
    if isinstance(given, Mapping):
        return dict(zip(given, _plain_clusters(list(given.values()), list(given))))
    values = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise InputTypeError(
            "clusters must be a mapping of ids to clusters or a sequence of the cluster of every unit but is"
            f" {type(given).__name__}"
        )
    return _plain_clusters(list(values), range(len(values)))


def _plain_clusters(values: list[Any], units: Sequence[Any]) -> list[Any]:
    if {*map(type, values)} <= {int, str}:
        return values
    values = [value.item() if hasattr(value, "item") else value for value in values]
    for unit, value in zip(units, values):
        if value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in _MISSING:
            raise InputError(
                f"clusters must have one for every unit but that of {unit!r} is {value}: name each of them"
            )
        if value.__hash__ is None:
            kind = type(value).__name__
            raise InputTypeError(
                f"clusters must be numbers or texts but that of {unit!r} is a {kind}: name each of them"
            )
    return values
