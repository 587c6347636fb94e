"""Decisions of gates on numbers: a gate holds, does not hold, or cannot be decided.

Example:
    >>> numbers = {"map": 0.41, "delta_map": -0.01, "p_map": 0.2}
    >>> [found] = decide(numbers, ["delta_map < -0.003 and p_map < 0.05"], lambda name: "", fail_if=True)
    >>> found.holds, found.failed, str(found)
    (False, False, 'delta_map < -0.003 and p_map < 0.05 does not hold: delta_map is -0.01, p_map is 0.2')
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.checks import check_type, near_names
from valor_gpu.errors import InputError
from valor_gpu.gates.grammar import Gate, parse_gate

_SHOWN = 12
"""How many names a message lists where none looks alike."""
_OF_TWO = ("delta_", "p_")
"""How names begin that only a comparison has."""


@dataclass(frozen=True)
class Decision:
    """A gate and what became of it.

    Attributes:
        gate: the conditions.
        holds: all conditions hold; False: one does not; None: none is known not to hold, but a number does not exist.
        numbers: value of each number that the gate names; None where it does not exist.
        reasons: name to why a number does not exist, where that is known.
        fail_if: the gate names what must not be, instead of what must.
    """

    gate: Gate
    holds: bool | None
    numbers: Mapping[str, float | None]
    reasons: Mapping[str, str] = field(default_factory=dict)
    fail_if: bool = False

    @property
    def failed(self) -> bool:
        """Whether the gate holds against ``fail_if``, does not hold without it, or cannot be decided."""
        return self.holds is None or self.holds is self.fail_if

    @property
    def found(self) -> str:
        """The numbers in words, or which of them do not exist."""
        alone = len(self.numbers) == 1
        lacking = [name for name, value in self.numbers.items() if value is None]
        if self.holds is None:
            return "; ".join(self._lacking(name, alone) for name in lacking)
        shown = {name: "no number" if value is None else f"{value:.12g}" for name, value in self.numbers.items()}
        return ", ".join(f"{'it' if alone else name} is {value}" for name, value in shown.items())

    def to_dict(self) -> dict[str, Any]:
        """Returns a dict that ``json.dumps(..., allow_nan=False)`` takes.

        It has ``gate`` (text), ``holds`` (None: undecided), ``failed``, ``numbers`` (None: does not exist, or infinite)
        and ``reasons``.
        """
        finite = {name: None if value is None or math.isinf(value) else value for name, value in self.numbers.items()}
        found = {"gate": str(self.gate), "holds": self.holds, "failed": self.failed}
        return {**found, "numbers": finite, "reasons": dict(self.reasons)}

    def __str__(self) -> str:
        words = {True: "holds", False: "does not hold", None: "cannot be decided"}
        return f"{self.gate} {words[self.holds]}: {self.found}"

    def _lacking(self, name: str, alone: bool) -> str:
        problem = "there is no number" if alone else f"there is no {name}"
        return ", ".join([problem, *filter(None, [self.reasons.get(name)])])


def decide(
    numbers: Mapping[str, float | None],
    gates: Iterable[str | Gate],
    reason: Callable[[str], str | None],
    *,
    fail_if: bool = False,
) -> list[Decision]:
    """Returns the decision of each gate.

    A gate with a condition that does not hold does not hold, whatever its other numbers are. Any other gate with a
    number that does not exist cannot be decided, which counts as failed.

    Args:
        numbers: name to number; None or NaN: it does not exist.
        gates: gates, or their texts; one text alone is one gate.
        reason: gives why the number of a name does not exist.
        fail_if: the gates name what must not be, instead of what must.

    Raises:
        InputError: a text is no gate, or a gate names no number.
    """
    check_type("gates", gates, Iterable)
    parsed = [each if isinstance(each, Gate) else parse_gate(each) for each in _listed(gates)]
    return [_decided(numbers, gate, reason, fail_if) for gate in parsed]


def failing(
    numbers: Mapping[str, float | None],
    gates: Iterable[str | Gate],
    reason: Callable[[str], str | None],
    *,
    fail_if: bool = False,
) -> list[Decision]:
    """Returns the decisions of :func:`decide` that failed."""
    return [each for each in decide(numbers, gates, reason, fail_if=fail_if) if each.failed]


def _listed(gates: Iterable[str | Gate]) -> list[str | Gate]:
    return [gates] if isinstance(gates, (str, Gate)) else list(gates)


def _decided(
    numbers: Mapping[str, float | None], gate: Gate, reason: Callable[[str], str | None], fail_if: bool
) -> Decision:
    found: dict[str, float | None] = {}
    for name in gate.names:
        if name not in numbers:
            raise InputError(f"gate must name a number of the run but {name!r} is none{_hint(name, numbers)}")
        value = numbers[name]
        found[name] = None if value is None or math.isnan(value) else value
    known = [(each, found[each.name]) for each in gate.conditions]
    held = [None if value is None else each.holds(value) for each, value in known]
    holds = False if False in held else None if None in held else True
    reasons = {name: reason(name) or "" for name, value in found.items() if value is None}
    return Decision(gate, holds, found, {name: text for name, text in reasons.items() if text}, fail_if)


def _hint(name: str, numbers: Mapping[str, float | None]) -> str:
    if name.startswith(_OF_TWO) and not any(each.startswith("delta_") for each in numbers):
        return ": differences and their p-values are of two models: valor-gpu compare, or valor_gpu.stats.compare"
    plain = [each for each in numbers if "." not in each and "/" not in each][:_SHOWN]
    return near_names(name, numbers) or f"; there are {', '.join(plain)}"
