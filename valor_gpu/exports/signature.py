"""Signature: the choices that made a number. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from valor_gpu._version import __version__
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import json_value
from valor_gpu.exports.texts import choice_text


class Signature(Mapping[str, Any]):
    """The choices that made a number, in order, ending in the version. Numbers compare when their signatures do.

    Args:
        choices: name to value: a number, string, bool, None, or a list or tuple of these. ``version`` is added.

    Raises:
        InputError: a name is no string, or holds ``:`` or ``|``, which separate the parts of the text.

    Example:
        >>> print(Signature({"metric": "AP", "iou": (0.5, 0.75), "crowd": True, "version": "1.0"}))
        metric:AP|iou:0.5,0.75|crowd:yes|version:1.0
    """

    def __init__(self, choices: Mapping[str, Any]) -> None:
        for name in choices:
            if not isinstance(name, str) or ":" in name or "|" in name:
                raise InputError(f"signature names must be strings without ':' and '|' but got {name!r}")
        self._choices = {"version": __version__} | dict(choices)
        self._choices["version"] = self._choices.pop("version")

    def __getitem__(self, name: str) -> Any:
        return self._choices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def __eq__(self, other: object) -> bool:
        # Choices that are read from a file are lists where they may have been tuples.
        return isinstance(other, Mapping) and json_value(self) == json_value(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"Signature({self._choices!r})"

    def __str__(self) -> str:
        return "|".join(f"{name}:{choice_text(value)}" for name, value in self.items())


def grid_choice(values: Iterable[float]) -> str | list[float]:
    """Thresholds as a signature shows them: ``first-last in count`` when they are ``numpy.linspace``, else each one.

    Example:
        >>> grid_choice([0.0, 0.25, 0.5]), grid_choice([0.5, 0.75, 0.9])
        ('0-0.5 in 3', [0.5, 0.75, 0.9])
    """
    import numpy as np  # here, since results load without it

    numbers = [float(value) for value in values]
    even = len(numbers) > 2 and numbers == np.linspace(numbers[0], numbers[-1], len(numbers)).tolist()
    return f"{numbers[0]:g}-{numbers[-1]:g} in {len(numbers)}" if even else numbers
