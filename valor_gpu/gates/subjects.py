"""Numbers of results that gates can name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any


def subject_of(result: Any) -> tuple[dict[str, float], Callable[[str], str]]:
    """Returns the numbers of a result that gates can name, and a function that gives why one does not exist.

    Args:
        result: a :class:`valor_gpu.Result`, whose ``scalars()`` and counts (``counts/images``) are taken, or a
            comparison, whose ``gate_numbers()`` take their place.

    Example:
        >>> from valor_gpu import Result, Signature
        >>> result = Result({"map_small": float("nan")}, Signature({}), {"images": 3}, {"map_small": "no small object"})
        >>> numbers, reason = subject_of(result)
        >>> numbers, reason("map_small")
        ({'map_small': nan, 'counts/images': 3}, 'no small object')
    """
    named = getattr(result, "gate_numbers", None)
    found = dict(result.scalars() if named is None else named())
    found |= {f"counts/{name}": count for name, count in getattr(result, "counts", {}).items()}
    if named is not None:
        return found, result.gate_reason
    lacking = _ends_that_do_not_exist(result, found)
    found |= dict.fromkeys(lacking, math.nan)
    return found, lambda name: result.reason(name) or lacking.get(name, "")


def _ends_that_do_not_exist(result: Any, found: Mapping[str, float]) -> dict[str, str]:
    """Name to reason of the ends of numbers that have no interval although intervals were asked for."""
    numbers = ((name, each.reason) for name, each in result.intervals.items() if name in result.values)
    ends = {f"{name}_{end}": reason for name, reason in numbers for end in ("low", "high")}
    return {name: reason for name, reason in ends.items() if name not in found}
