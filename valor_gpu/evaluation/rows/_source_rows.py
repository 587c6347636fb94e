"""What a row of a data set may hold: values of strict JSON, whatever library they come from. No torch, no pandas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from valor_gpu.errors import InputError
from valor_gpu.judge.returned import fields_in

FIRST_ROWS = 100
"""How many rows are looked at for the names of columns."""
DEEPEST = 100
"""Lists and objects within one another that a value may have: what reads it later shall not run out of stack."""

_LONGEST_INT = 1300  # bits, about 400 digits
_TIMES = ("datetime64", "timedelta64")  # numpy's, whose tolist() gives nanoseconds as an int
_OF_TIMES = ("m", "M", "V")  # kinds of arrays of times, and of records, which may hold some
_TEXTS = (Decimal, UUID, PurePath, timedelta)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row of a data set.

    Attributes:
        number: from 1, in the order of the data, rows with an error included.
        values: column name to value: None (missing), str, int, finite float, bool, list or dict of these.
        error: why the row could not be read, with the file and line; ``values`` is empty then.
        line: of a text file where the row begins, from 1; None for other data.
    """

    number: int
    values: dict[str, Any]
    error: str = ""
    line: int | None = None


def plain_row(place: str, row: Mapping[Any, Any]) -> dict[str, Any]:
    """The values of a row as those of strict JSON.

    Args:
        place: of the row, for messages.
        row: column name to value.

    Raises:
        InputError: a value that is none of JSON; the message names row and column.

    Example:
        >>> import datetime
        >>> plain_row("row 1", {"a": float("nan"), "b": (1, 2), "c": datetime.date(2024, 5, 21)})
        {'a': None, 'b': [1, 2], 'c': '2024-05-21'}
    """
    values = {}
    for name, value in row.items():
        if not isinstance(name, str):
            raise InputError(f"{place} must have texts as names of columns but has {name!r:.80}")
        values[name] = value if value is None or type(value) is str else _plain(place, name, value, DEEPEST)
    return values


def own_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row for code of the user: lists and objects are copies, which it may change.

    Example:
        >>> row = {"context": ["one"]}
        >>> own_values(row)["context"].append("two")
        >>> row
        {'context': ['one']}
    """
    return {name: value if isinstance(value, str) else deepcopy(value) for name, value in values.items()}


def _plain(place: str, name: str, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):  # also an enumeration of texts, which would print its name in a prompt
        return str.__str__(value)
    if isinstance(value, int):
        if value.bit_length() > _LONGEST_INT:
            raise InputError(
                f"{place}, column {name!r} must be a number of JSON but is an int of {value.bit_length()} bits"
            )
        return int(value)
    if isinstance(value, float):
        return _finite(place, name, float(value))
    if depth == 0:
        raise InputError(f"{place}, column {name!r} must have at most {DEEPEST} levels of lists but has more")
    if isinstance(value, Mapping):
        return {_key(place, name, key): _plain(place, name, each, depth - 1) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(place, name, each, depth - 1) for each in value]
    return _foreign(place, name, value, depth)


def _foreign(place: str, name: str, value: Any, depth: int) -> Any:
    """The value of a type that JSON does not have."""
    if isinstance(value, (date, time)):
        return None if value != value else value.isoformat()  # pandas' NaT is a date that differs from itself
    if isinstance(value, Decimal) and value.is_nan():
        return None
    if isinstance(value, _TEXTS):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return _decoded(place, name, bytes(value))
    if type(value).__name__ in _TIMES:
        return None if value != value else str(value)
    if (found := _parts(value)) is not value:
        return _plain(place, name, found, depth - 1)
    if (fields := fields_in(value)) is not None:
        return _plain(place, name, fields, depth)
    if type(value).__name__ == "NAType":  # pandas.NA: no comparison of it gives a bool
        return None
    raise InputError(f"{place}, column {name!r} must be a value of JSON but is {type(value).__name__}")


def _parts(value: Any) -> Any:
    """What an array, a record or a number of numpy, or what is like it, holds; the value itself where it is none."""
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "kind", "") in _OF_TIMES:  # tolist() would give nanoseconds as an int
        if getattr(value, "ndim", 0):
            return list(value)
        if names := getattr(dtype, "names", None):
            return [value[each] for each in names]
    as_list: Callable[[], Any] | None = getattr(value, "tolist", None)
    found = as_list() if callable(as_list) else value
    return value if type(found) is type(value) else found


def _key(place: str, name: str, key: Any) -> str:
    if not isinstance(key, str):
        raise InputError(f"{place}, column {name!r} must have texts as keys but has {key!r:.80}")
    return key


def _finite(place: str, name: str, value: float) -> float | None:
    if math.isinf(value):
        raise InputError(f"{place}, column {name!r} must be a finite number but is {value}")
    return None if math.isnan(value) else value


def _decoded(place: str, name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{place}, column {name!r} must be text but has bytes that are no UTF-8: {error}") from None
