"""Nested values of results: listed, read-only, plain, and as JSON. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.exports.texts import is_array, is_scalar


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no mapping, its nested names joined by ``/``."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}/")
        elif is_scalar(value) or is_array(value):
            yield f"{prefix}{name}", value
        else:
            raise InputError(f"value {prefix}{name} must be a number, array or mapping but got {type(value).__name__}")


def numbers_of(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every number; those of arrays of one or two dimensions by their places, as ``per_class/3`` or ``matrix/0,3``."""
    for name, value in leaves(values):
        if is_scalar(value):
            yield name, float(value)
        elif len(value.shape) == 1:
            yield from ((f"{name}/{i}", float(number)) for i, number in enumerate(value.tolist()))
        elif len(value.shape) == 2:
            for i, row in enumerate(value.tolist()):
                yield from ((f"{name}/{i},{j}", float(number)) for j, number in enumerate(row))


def single_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers that stand in no array, by name.

    Example:
        >>> single_numbers({"map": 0.5, "map_per_class": {"cat": 0.25}})
        {'map': 0.5, 'map_per_class/cat': 0.25}
    """
    return {name: float(value) for name, value in leaves(values) if is_scalar(value)}


def read_only(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A view of a copy of nested mappings."""
    return MappingProxyType({n: read_only(v) if isinstance(v, Mapping) else v for n, v in values.items()})


def plain(value: Any) -> Any:
    """Read-only views, which do not pickle, back to dicts."""
    return {n: plain(v) for n, v in value.items()} if isinstance(value, MappingProxyType) else value


def json_value(value: Any, arrays: bool = True) -> Any:
    """A value as strict JSON has it: what is not finite is None.

    Args:
        value: mappings, lists, arrays, numbers, strings.
        arrays: keep the arrays of mappings, as nested lists.
    """
    if isinstance(value, Mapping):
        kept = {name: part for name, part in value.items() if arrays or not is_array(part)}
        return {str(name): json_value(part, arrays) for name, part in kept.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(part) for part in value]
    if hasattr(value, "tolist"):
        return json_value(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def reasons_of(
    values: Mapping[str, Any], reason: Callable[[str], str | None], arrays: bool
) -> Iterator[tuple[str, str]]:
    """Yields the name and the reason of every number that is not finite, and of arrays that hold such a number.

    Args:
        values: numbers, arrays and mappings of them.
        reason: gives the reason of a name, None for unknown: an array then has no entry.
        arrays: with the arrays.
    """
    for name, value in leaves(values):
        why = reason(name)
        if is_scalar(value) and not math.isfinite(value):
            yield name, why or f"{float(value)}, no reason known"
        elif arrays and why and _has_none(json_value(value)):
            yield name, why


def _has_none(value: Any) -> bool:
    return any(map(_has_none, value)) if isinstance(value, list) else value is None
