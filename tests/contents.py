"""Values in a form that compares to the last bit, and where two of them differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from torch import Tensor


def content(value: Any) -> Any:
    """``value`` in a form whose ``==`` is equality to the last bit, NaN included."""
    if isinstance(value, Tensor):
        array = value.detach().cpu().contiguous().numpy()
        return "Tensor", str(array.dtype), array.shape, _readable(array), array.tobytes()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, _readable(value), value.tobytes()
    if isinstance(value, Mapping):
        return {key: content(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [content(part) for part in value]
    return repr(value)


def expect(found: Any, wanted: Any) -> None:
    """Raises an error that shows where two contents differ first: ranks have no ``assert`` of pytest."""
    if found != wanted:
        raise AssertionError(_difference(found, wanted, "value"))


def _difference(found: Any, wanted: Any, place: str) -> str:
    pairs: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys():
        pairs = ((key, found[key], wanted[key]) for key in found)
    elif isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)) and len(found) == len(wanted):
        if len(found) == 5 and found[:3] == wanted[:3] and isinstance(found[4], bytes):
            arrays = [np.frombuffer(each[4], each[1]).reshape(each[2]) for each in (found, wanted)]
            bits = [array.reshape(-1, 1).view(np.uint8) for array in arrays]
            places = np.flatnonzero((bits[0] != bits[1]).any(1))
            index = np.unravel_index(places[0], found[2])
            at = f"{place}{list(map(int, index))}, the first of {len(places)} of {len(bits[0])}"
            return f"{at}: found {arrays[0][index]!r}, expected {arrays[1][index]!r}"
        pairs = zip(range(len(found)), found, wanted)
    for key, *both in pairs:
        if both[0] != both[1]:
            return _difference(*both, f"{place}[{key!r}]")
    return f"{place}: found {found!r:.600}, expected {wanted!r:.600}"


def _readable(array: Any) -> str:
    """The numbers of a small array, so that a failed comparison shows more than bytes."""
    return repr(array.tolist()) if array.size <= 16 else "..."
