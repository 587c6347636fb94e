"""Which types of Arrow columns can be values of rows, and numbers that are no numbers of Python's own. No torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def unread_type(kind: Any) -> Any:
    """The part of a type, or all of it, that no argument of a metric can be, such as a time; None: there is none.

    Example:
        >>> import pyarrow as pa
        >>> unread_type(pa.list_(pa.date32())), unread_type(pa.list_(pa.float16()))
        (DataType(date32[day]), None)
    """
    from pyarrow import types

    if (inner := _inner(kind)) is not None:
        return next((found for each in inner if (found := unread_type(each)) is not None), None)
    tests = (
        types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_string,
        types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary, types.is_binary_view,
        types.is_fixed_size_binary,
    )  # fmt: skip
    return None if any(test(kind) for test in tests) else kind


def decimals_as_numbers(kind: Any) -> Callable[[Any], Any] | None:
    """What makes integers of decimals without places, and floats of others, in a value of a type; None: it has none.

    Example:
        >>> import decimal, pyarrow as pa
        >>> decimals_as_numbers(pa.list_(pa.decimal128(5, 2)))([decimal.Decimal("0.25"), None])
        [0.25, None]
    """
    from pyarrow import types

    if types.is_decimal(kind):
        number = float if kind.scale > 0 else int
        return lambda value: None if value is None else number(value)
    inner = [decimals_as_numbers(each) for each in _inner(kind) or ()]
    if not any(inner):
        return None
    if types.is_struct(kind):
        parts = [(kind.field(place).name, part) for place, part in enumerate(inner) if part is not None]
        return lambda value: None if value is None else {**value, **{name: part(value[name]) for name, part in parts}}
    (part,) = inner
    assert part is not None
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind) or hasattr(kind, "storage_type"):
        return part
    return lambda value: None if value is None else [part(item) for item in value]


def _inner(kind: Any) -> list[Any] | None:
    """The types within a type; None: it has none that is read."""
    from pyarrow import types

    if hasattr(kind, "storage_type"):  # an extension, such as a tensor
        return [kind.storage_type]
    if types.is_struct(kind):
        return [kind.field(place).type for place in range(kind.num_fields)]
    tests = (
        types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view,
        types.is_dictionary, types.is_run_end_encoded,
    )  # fmt: skip
    return [kind.value_type] if any(test(kind) for test in tests) else None
