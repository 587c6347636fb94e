"""Values of results as text, and what kinds of values there are. Imports nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell begins with that spreadsheets run as a formula, also in its wide form, or drop and then run."""
_MOST_NUMBERS = 10
"""Numbers of an array that are shown one by one."""


def is_array(value: object) -> bool:
    """Whether a value is an array of numpy, torch or alike; numbers in an array without dimensions are none."""
    return hasattr(value, "tolist") and hasattr(value, "shape") and len(value.shape) > 0


def is_scalar(value: object) -> bool:
    """Whether a value is one number."""
    if isinstance(value, (bool, int, float)):
        return True
    return hasattr(value, "item") and hasattr(value, "shape") and len(value.shape) == 0


def value_text(value: Any) -> str:
    """A value on one line: a number, the numbers of a short array, or how much there is.

    Example:
        >>> value_text(0.25), value_text(123456.789), value_text({"cat": 0.5})
        ('0.2500', '123457', '1 values')
    """
    if isinstance(value, Mapping):
        return f"{len(value)} values"
    if is_array(value):
        short = 0 < math.prod(value.shape) <= _MOST_NUMBERS
        return _list_text(value.tolist()) if short else f"array {list(value.shape)}"
    number = value if isinstance(value, (bool, int, float)) else value.item()
    if not isinstance(number, float):
        return str(number)
    return f"{number:.4f}" if abs(number) < 1000 else f"{number:.6g}"


def needs_reason(value: Any) -> bool:
    """Whether the text of a value shows a number that does not exist."""
    if is_scalar(value):
        return not math.isfinite(value)
    return is_array(value) and "nan" in value_text(value)


def _list_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{' '.join(map(_list_text, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def choice_text(value: Any) -> str:
    """A choice of a signature as its text has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(choice_text, value))
    return "none" if value is None else str(value).replace("|", "\\|")


def printable(text: str) -> str:
    """The text with escapes for characters that are not printable, such as newlines and those that steer a terminal.

    Example:
        >>> print(printable("a" + chr(9) + "b") == "a" + chr(92) + "tb")
        True
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def spreadsheet_cell(value: Any) -> Any:
    """Returns a cell that no spreadsheet runs: a text that begins like a formula gets an apostrophe before it.

    Example:
        >>> spreadsheet_cell("=1+1"), spreadsheet_cell("cat"), spreadsheet_cell(-1.5)
        ("'=1+1", 'cat', -1.5)
    """
    if not isinstance(value, str):
        return value
    # Spreadsheets skip blanks, also wide ones, before the sign that makes a formula.
    begins = value if value.startswith(FORMULAS) else value.lstrip()
    return f"'{value}" if begins.startswith(FORMULAS) else value


def utf8(text: str) -> bytes:
    r"""Returns the text in UTF-8, which has no lone surrogates: each of them is written as its escape.

    Example:
        >>> utf8("dog \ud800")
        b'dog \\ud800'
    """
    return text.encode("utf-8", "backslashreplace")
