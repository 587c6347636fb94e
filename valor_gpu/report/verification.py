"""Compares the document of a result with the one that the same inputs give now. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_SECTIONS = ("signature", "counts", "values", "reasons", "interval_choices", "intervals")
"""Of a result, in the order in which a difference explains the next ones."""
_MORE = ("classes", "categories", "evaluators", "failed", "unreadable", "slices")
"""Of commands alone."""
_NESTED = ("errors", "operating_points")
"""Results within a document."""
_MISSING: Any = object()
"""What stands for a value that one side lacks."""


def first_difference(found: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """Returns the first difference between two documents of results, empty where all numbers have the same bits.

    Versions, devices and provenance may differ.

    Args:
        found: what the inputs give.
        told: what the file says.

    Example:
        >>> told = {"values": {"map": 0.5, "map_small": 0.25}}
        >>> first_difference({"values": {"map": 0.5, "map_small": 0.125}}, told)
        'map_small is 0.125 but the file says 0.25'
    """
    for name in (*_SECTIONS, *_MORE):
        for key, (shown, other) in _different(found.get(name), told.get(name), ""):
            if (name, key) != ("signature", "version"):
                return f"{_called(name, key)} is {shown} but the file says {other}"
    for name in _NESTED:
        here, there = found.get(name), told.get(name)
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            if difference := first_difference(here, there):
                return f"{name.replace('_', ' ')}: {difference}"
        elif here is not there:
            sides = ("missing" if side is None else "there" for side in (here, there))
            return f"{name.replace('_', ' ')} is {' but the file says '.join(sides)}"
    return ""


def count_numbers(document: Mapping[str, Any]) -> int:
    """Counts the numbers of a document, those of intervals and of nested results too."""
    parts = (document.get(name) for name in ("values", "intervals", "slices"))
    return sum(map(_numbers, parts)) + sum(count_numbers(document[name]) for name in _NESTED if name in document)


def _numbers(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(map(_numbers, value.values()))
    if isinstance(value, list):
        return sum(map(_numbers, value))
    return int(isinstance(value, (int, float)) and not isinstance(value, bool))


def _called(section: str, key: str) -> str:
    if section == "values":
        return key
    return " ".join(filter(None, (section.replace("_", " ").removesuffix("s") if key else section, key)))


def _different(here: Any, there: Any, name: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Names of what differs, and both sides as they are shown; names in mappings are joined by ``/``."""
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        for key in dict.fromkeys((*there, *here)):
            whole = f"{name}/{key}" if name else str(key)
            if key not in here or key not in there:
                yield whole, (_shown(here.get(key, _MISSING)), _shown(there.get(key, _MISSING)))
            else:
                yield from _different(here[key], there[key], whole)
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for place, pair in enumerate(zip(here, there)):
            yield from _different(*pair, f"{name}[{place}]")
    elif not _same(here, there):
        yield name, (_shown(here), _shown(there))


def _same(here: Any, there: Any) -> bool:
    """Whether two values of JSON are equal to the last bit, the sign of zero with them."""
    if isinstance(here, float) and isinstance(there, float):
        return repr(here) == repr(there)
    return type(here) is type(there) and bool(here == there)


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "missing"
    return "null" if value is None else f"{value!r:.80}" if isinstance(value, (str, list, Mapping)) else str(value)
