"""Values where texts are needed: which of them have one obvious text, and what is said of the others. No torch.

Example:
    >>> as_text(42), as_text(42.0), not_text("answer", 42.0)
    ('42', 42.0, 'answer must be text but is float: write its digits as a text, since 42.0 may stand for 42')
"""

from __future__ import annotations

from typing import Any


def as_text(value: Any) -> Any:
    """The digits of an integer; every other value as it is.

    A float has several texts (42.0 is what a data frame makes of 42 beside a gap), and so has a bool.
    """
    return str(value) if type(value) is int else value


def not_text(name: str, value: Any, needed: str = "text") -> str:
    """The message for a value that is no text, with what to do where it is a number or a bool.

    Args:
        name: of the field.
        value: what it holds.
        needed: what it must be.
    """
    said = f"{name} must be {needed} but is {type(value).__name__}"
    if isinstance(value, bool):
        return f"{said}: write it as a text, as the other texts do"
    if isinstance(value, float):
        short = f", since {value!r} may stand for {value:.0f}" if value.is_integer() and abs(value) < 1e15 else ""
        return f"{said}: write its digits as a text{short}"
    return said
