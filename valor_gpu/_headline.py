"""Results on one line, as Python's prompt shows them. Imports nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MOST_VALUES = 6
"""Values of a result that a headline shows."""


def number_text(value: float | None) -> str:
    """A number with four digits after the point; None where there is none."""
    return str(value) if value is None or isinstance(value, int) else f"{value:.4f}"


def headline(
    kind: str,
    name: str,
    values: Mapping[str, Any],
    notes: Mapping[str, Any] | None = None,
    text: Callable[[Any], str] = number_text,
) -> str:
    """The class of a result, its first values, and how many more there are.

    Args:
        kind: the class.
        name: what the values are of; empty where nothing says it.
        values: by name.
        notes: counts that are shown behind the values.
        text: shows a value.

    Example:
        >>> headline("SavedRun", "detection", {"map": 0.25, "map_small": None}, {"images": 8})
        'SavedRun(detection: map=0.2500, map_small=None; images 8)'
    """
    shown = [f"{key}={text(value)}" for key, value in values.items()]
    if len(shown) > _MOST_VALUES:
        shown = [*shown[:_MOST_VALUES], f"{len(shown) - _MOST_VALUES} more"]
    parts = [": ".join(part for part in (name, ", ".join(shown)) if part)]
    parts += [f"{key} {value}" for key, value in (notes or {}).items()]
    return f"{kind}({'; '.join(part for part in parts if part)})"
