"""The grammar of gates.

.. code-block:: text

    gate      = condition, {"and", condition}
    condition = name, (">=" | "<=" | "==" | "!=" | ">" | "<"), number, ["%"]
    name      = characters other than < > = !, or any characters in double or single quotes

``and`` joins conditions only after a whole condition, so that names may hold it. Quotes in a quoted name are doubled.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_SPACE = re.compile(r"\s*")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"|' + r"'((?:[^']|'')*)'")
_PLAIN = re.compile(r"[^<>=!]*")
_SIGN = re.compile(r">=|<=|==|!=|[<>](?!=)")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,4}))?(?![\w.+])")
_AND = re.compile(r"\s+and(?=\s)")
_JOINED_OTHERWISE = re.compile(r"\s*(?:(and|&)|(or|\|)|,)", re.IGNORECASE)


@dataclass(frozen=True)
class Condition:
    """A condition on one number.

    Attributes:
        name: of the number.
        sign: ``>=``, ``<=``, ``==``, ``!=``, ``>`` or ``<``.
        limit: number on the right of the sign, after a percentage was divided by 100.

    Example:
        >>> condition = Condition("map", ">=", 0.4)
        >>> condition.holds(0.41), str(condition)
        (True, 'map >= 0.4')
    """

    name: str
    sign: str
    limit: float

    def holds(self, value: float) -> bool:
        """Returns whether a number meets the condition."""
        return _OPERATORS[self.sign](value, self.limit)

    def __str__(self) -> str:
        short = f"{self.limit:.12g}"
        return f"{_written(self.name)} {self.sign} {short if float(short) == self.limit else repr(self.limit)}"


@dataclass(frozen=True)
class Gate:
    """Conditions that all have to hold for the gate to hold.

    Attributes:
        conditions: at least one.

    Example:
        >>> str(Gate((Condition("delta_map", "<", -0.003), Condition("p_map", "<", 0.05))))
        'delta_map < -0.003 and p_map < 0.05'
    """

    conditions: tuple[Condition, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers, each once."""
        return tuple(dict.fromkeys(each.name for each in self.conditions))

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))


def parse_gate(text: str) -> Gate:
    """Returns the gate that a text stands for.

    Args:
        text: conditions joined by ``and``. A condition is a name, one of ``>= <= == != > <``, and a number, perhaps
            with ``%``. A name that holds ``<``, ``>``, ``=`` or ``!`` needs quotes, in which a quote is written twice.

    Raises:
        InputError: the text is no gate; the message names the character and what is expected there.

    Example:
        >>> parse_gate("violence_defect_rate <= 5%").conditions
        (Condition(name='violence_defect_rate', sign='<=', limit=0.05),)
        >>> parse_gate("map_per_class/salt and pepper > 0.5 and map < 1").names
        ('map_per_class/salt and pepper', 'map')
        >>> print(parse_gate("'f1_per_class/a<b' < 0.5"))
        "f1_per_class/a<b" < 0.5
    """
    check_type("gate", text, str)
    conditions = []
    place = 0
    while True:
        condition, place = _condition(text, place)
        conditions.append(condition)
        joined = _AND.match(text, place)
        if joined is None:
            break
        place = joined.end()
    place = _after_space(text, place)
    if place < len(text):
        raise _error(text, place, f"and, or the end, is expected{_how_to_join(text, place)}")
    return Gate(tuple(conditions))


def _condition(text: str, place: int) -> tuple[Condition, int]:
    """A condition and the place after it."""
    name, place = _name(text, _after_space(text, place))
    place = _after_space(text, place)
    sign = _SIGN.match(text, place)
    if sign is None:
        hint = ": equal is ==" if text.startswith("=", place) else ""
        raise _error(text, place, f"one of {' '.join(_OPERATORS)} is expected{hint}")
    place = _after_space(text, sign.end())
    number = _NUMBER.match(text, place)
    limit, end = (math.nan, place) if number is None else _limit(text, number)
    if not math.isfinite(limit):
        raise _error(text, place, "a finite number is expected; a name that holds < > = or ! needs quotes")
    return Condition(name, sign[0], limit), end


def _name(text: str, place: int) -> tuple[str, int]:
    if text[place : place + 1] in ('"', "'"):
        quoted = _QUOTED.match(text, place)
        if quoted is None:
            raise _error(text, place, "the quote has no end")
        quote = text[place]
        name = quoted[0][1:-1].replace(quote * 2, quote)
        return name, quoted.end()
    found = _PLAIN.match(text, place)
    name = "" if found is None else found[0].rstrip()
    if not name:
        raise _error(text, place, "the name of a number is expected")
    return name, place + len(name)


def _limit(text: str, number: re.Match[str]) -> tuple[float, int]:
    """The number, a percentage divided by 100 before it is rounded, and the place after it."""
    end = _after_space(text, number.end())
    percent = text.startswith("%", end)
    exponent = int(number[2] or 0) - 2 * percent
    return float(f"{number[1]}e{exponent}"), end + 1 if percent else number.end()


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _how_to_join(text: str, place: int) -> str:
    found = _JOINED_OTHERWISE.match(text, place)
    if found is None:
        return ""
    return ": alternatives are gates of their own" if found[2] else ": conditions are joined by and"


def _error(text: str, place: int, problem: str) -> InputError:
    return InputError(
        f"gate must be like 'map >= 0.4 and p_map < 0.05' but is {text!r}: at character {place + 1} {problem}"
    )


def _written(name: str) -> str:
    """A name as the grammar takes it."""
    if name and name == name.strip() and name[0] not in "\"'" and not set(name) & set("<>=!"):
        return name
    return '"' + name.replace('"', '""') + '"'
