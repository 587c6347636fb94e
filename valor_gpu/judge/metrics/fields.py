"""What a judged metric reads of a row: its texts, and what of them is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError

Row = Mapping[str, Any]
MISSING_FIELD = "missing_field"
"""Status of a row that lacks a field."""


@dataclass(frozen=True)
class JudgedTexts:
    """Texts of a row, or of one turn of a conversation. A text that is missing or blank is empty, as is such a list.

    Attributes:
        question: what was asked.
        answer: what is rated.
        baseline_answer: the answer that it is compared with.
        context: retrieved texts, in the order of their ranks; in a conversation the citations of the turn.
        ground_truth: correct answers.
        history: earlier messages of the conversation, each with its role before it.
    """

    question: str = ""
    answer: str = ""
    baseline_answer: str = ""
    context: tuple[str, ...] = ()
    ground_truth: tuple[str, ...] = ()
    history: tuple[tuple[str, str], ...] = ()

    def missing(self, required: Collection[str]) -> list[str]:
        """Required fields that have no text, sorted."""
        return sorted(name for name in required if not getattr(self, name))


def is_blank(text: str) -> bool:
    r"""Whether a text shows nothing: it is empty, or has only white space, controls and invisible characters.

    Example:
        >>> is_blank(" \u200b\n"), is_blank("?")
        (True, False)
    """
    return not any(character.isprintable() and not character.isspace() for character in text)


def as_text(value: Any) -> Any:
    """Returns the digits of an integer; every other value as it is.

    A float has several texts (42.0 is what a data frame makes of 42 beside a gap), and so has a bool.

    Example:
        >>> as_text(42), as_text(42.0), not_text("answer", 42.0)
        ('42', 42.0, 'answer must be text but is float: write its digits as a text, since 42.0 may stand for 42')
    """
    return str(value) if type(value) is int else value


def not_text(name: str, value: Any, needed: str = "text") -> str:
    """Returns the message for a value that is no text, with what to do where it is a number or a bool.

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


def one_text(name: str, value: Any) -> str:
    """The text of a field, of an integer its digits; empty where it is missing or blank.

    Raises:
        InputError: it is something else than text; ``name`` names it.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):  # data frames have NaN for a missing text
        return ""
    value = as_text(value)
    if not isinstance(value, str):
        raise InputError(not_text(name, value))
    return "" if is_blank(value) else value


def texts(name: str, value: Any) -> tuple[str, ...]:
    r"""The texts of a field that may be a text, a list of texts, or a list of citations ``{"id", "content"}``.

    Blank ones are left out.

    Raises:
        InputError: something else, named by ``name``.

    Example:
        >>> texts("context", ["Holm has a ferry.", " ", {"id": "a.md", "content": "It leaves at nine."}])
        ('Holm has a ferry.', 'a.md\nIt leaves at nine.')
    """
    if value is None or isinstance(value, (str, int, float)):
        found = [one_text(name, value)]
    elif isinstance(value, Sequence):
        found = [_document(f"{name}[{index}]", one) for index, one in enumerate(value)]
    else:
        raise InputError(f"{name} must be text or a list of texts but is {type(value).__name__}")
    return tuple(text for text in found if text)


def _document(name: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        return one_text(name, value)
    content = one_text(f"{name}.content", value.get("content"))
    label = value.get("id")
    return f"{label}\n{content}" if content and isinstance(label, str) and not is_blank(label) else content


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "question": one_text,
    "answer": one_text,
    "baseline_answer": one_text,
    "context": texts,
    "ground_truth": texts,
}


def is_blank_field(name: str, value: Any) -> bool:
    """Whether judged metrics take the value of a field for missing: it has no text that shows anything.

    Example:
        >>> is_blank_field("answer", " "), is_blank_field("context", ["", "It leaves at nine."])
        (True, False)
    """
    reader = _READERS.get(name)
    try:
        return reader is not None and not reader(name, value)
    except InputError:
        return False


def row_texts(row: Row, fields: Collection[str]) -> JudgedTexts:
    """The texts of ``fields`` of a row; other columns are not looked at.

    Raises:
        InputError: a field is neither text nor what it may be beside.

    Example:
        >>> row_texts({"answer": "At nine.", "note": 7}, ["answer"]).answer
        'At nine.'
    """
    return JudgedTexts(**{name: _READERS[name](name, row.get(name)) for name in fields})
