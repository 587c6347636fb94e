"""Nested values of results: listed, read-only, plain, and as JSON. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
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
