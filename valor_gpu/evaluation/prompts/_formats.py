"""``str.format`` of templates: Python's own texts, with widths and precisions within the limits. No torch."""

from __future__ import annotations

import re
from _string import formatter_field_name_split  # type: ignore[import-not-found]
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.prompts._budget import ELEMENT, LONGEST_OUTPUT, plain_text, size_of, take, too_much
from valor_gpu.evaluation.prompts._filters import escaped

_DIGITS = len(str(LONGEST_OUTPUT))


class BoundedFormatter(Formatter):
    """A formatter that counts before it makes anything, and reads attributes as its sandbox allows.

    Args:
        sandbox: environment of jinja2.
        escape: for texts that are put into Markup; None leaves them as they are.
    """

    def __init__(self, sandbox: Any, escape: Any = None) -> None:
        self._sandbox, self._escape = sandbox, escape

    def vformat(self, format_string: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Returns the text with the fields in it."""
        # Every brace may begin a field or end a piece of text, each of which is an object.
        take(len(format_string) + ELEMENT * (format_string.count("{") + format_string.count("}")))
        return super().vformat(format_string, args, kwargs)

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Returns the value of a field, without attributes that the sandbox forbids."""
        first, rest = formatter_field_name_split(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            value = self._sandbox.getattr(value, name) if is_attribute else self._sandbox.getitem(value, name)
        return value, first

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Returns the value as ``!r``, ``!a`` or ``!s`` show it."""
        if conversion in ("r", "a"):
            _check_shown(value)
            take(size_of(value, ascii if conversion == "a" else repr))
        elif conversion == "s":
            return plain_text(value)
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        """Returns the text of a value by its format."""
        _check_shown(value)
        for number in re.findall(r"\d+", format_spec):  # width and precision, whatever stands around them
            if len(number.lstrip("0")) > _DIGITS:
                raise too_much()
            take(int(number))
        is_plain = not format_spec and type(value).__module__ == "builtins"
        text = plain_text(value) if is_plain else format(value, format_spec)
        take(len(text) + ELEMENT)
        return text if self._escape is None or hasattr(value, "__html__") else str(self._escape(text))


def _check_shown(value: Any) -> None:
    """Raises for what templates show nothing of, such as functions; dates and decimal numbers have formats."""
    kind = type(value)
    if kind.__name__ != "StrictUndefined" and (kind.__module__.startswith("jinja2") or callable(value)):
        raise InputError(f"a template must show texts, numbers, lists and dicts but shows a {kind.__name__}")


def format_method(sandbox: Any, text: str, name: str) -> Any:
    """Returns the method ``format`` or ``format_map`` of a text."""
    escape = escaped if hasattr(text, "__html__") else None
    kind: Any = type(text)

    def formatted(*values: Any, **named: Any) -> Any:
        if name == "format":
            return kind(BoundedFormatter(sandbox, escape).vformat(text, values, named))
        if named or len(values) != 1 or not isinstance(values[0], Mapping):
            raise InputError("format_map must have one dict of values")
        return kind(BoundedFormatter(sandbox, escape).vformat(text, (), values[0]))

    return formatted
