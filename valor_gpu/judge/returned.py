"""What functions of users return in place of a text or a dict: objects with fields, messages, numbers. No torch."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any


def fields_in(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass, a pydantic model or a named tuple; None for anything else.

    Example:
        >>> from collections import namedtuple
        >>> fields_in(namedtuple("Point", "x y")(1, 2)), fields_in("text")
        ({'x': 1, 'y': 2}, None)
    """
    kind = type(value)  # asked instead of the value: mocks have every attribute
    if dataclasses.is_dataclass(kind):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(kind)}
    if hasattr(kind, "__pydantic_fields__") or hasattr(kind, "model_fields"):
        return dict(value.model_dump(mode="json"))
    if hasattr(kind, "__fields__") and callable(getattr(kind, "dict", None)):  # pydantic 1
        return dict(value.dict())
    as_dict = getattr(kind, "_asdict", None) if issubclass(kind, tuple) else None
    return None if as_dict is None else dict(as_dict(value))


def reply_text(value: Any) -> str | None:
    """The text that a judge's function means by what it returned; None where that is not plain.

    A text is itself. A message (``{"role": ..., "content": ...}``) and an object with a text as ``content`` are their
    content. A finite number, a mapping and an object with fields are their JSON text.

    Example:
        >>> reply_text({"score": 4}), reply_text({"role": "assistant", "content": "4"}), reply_text(4), reply_text(None)
        ('{"score": 4}', '4', '4', None)
    """
    if isinstance(value, str):
        return value
    is_mapping = isinstance(value, Mapping)
    message = value if is_mapping and isinstance(value.get("role"), str) else {}
    content = message.get("content") if is_mapping else getattr(value, "content", None)
    if isinstance(content, str):
        return content
    try:
        if isinstance(value, Real):
            return None if isinstance(value, bool) or not math.isfinite(value) else json.dumps(_plain(value))
        found = dict(value) if is_mapping else fields_in(value)
        return None if found is None else json.dumps(found, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    """A value that ``json`` does not know, as one that it knows."""
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if (found := fields_in(value)) is not None:
        return found
    as_list = getattr(type(value), "tolist", None)  # of numpy
    if as_list is None:
        raise TypeError(f"{type(value).__name__} is no value of JSON")
    return as_list(value)
