"""Rows of texts, and the rules in which Valor's releases differ for judged metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError

COMPAT = (None, "valor-api", "valor-core", "valor-lite")


@dataclass(frozen=True)
class TextRow:
    """A question, its answer, and what the answer is compared with.

    Attributes:
        query: the question, or the text that was summarised.
        response: the answer, or the summary.
        references: correct answers, any number.
        contexts: what was retrieved, in the order of its ranks; None where nothing retrieves.

    Raises:
        InputError: something that is no text.

    Example:
        >>> TextRow("Where is the mill?", "At Rook.", references=["In Rook."]).references
        ('In Rook.',)
    """

    query: str | None = None
    response: str | None = None
    references: Sequence[str] = ()
    contexts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("query", "response"):
            check_type(f"TextRow.{name}", getattr(self, name), (str, type(None)))
        for name in ("references", "contexts"):
            value = getattr(self, name)
            if value is None and name == "contexts":
                continue
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise InputError(f"TextRow.{name} must be a list of texts but got {type(value).__name__}")
            for text in value:
                check_type(f"TextRow.{name}", text, str)
            object.__setattr__(self, name, tuple(value))


@dataclass(frozen=True)
class TextRules:
    """Rules of one release.

    Attributes:
        replies: how replies are read: ``tolerant`` (:mod:`valor_gpu.judge.parse`), ``core`` or ``lite``.
        raise_on_empty: an empty input of a row is an error before anything is asked. Otherwise the row has the value
            that valor-lite gives it, or none.
        relevance_of_nothing: AnswerRelevance of an answer without statements; None: there is no number.
        repairs: how often a reply that cannot be read is sent back, see :class:`valor_gpu.judge.Limits`.
    """

    replies: str = "tolerant"
    raise_on_empty: bool = False
    relevance_of_nothing: float | None = 0.0
    repairs: int = 1


_CORE = TextRules("core", raise_on_empty=True, relevance_of_nothing=None, repairs=0)
_PRESETS = {
    None: TextRules(),
    "valor-api": _CORE,
    "valor-core": _CORE,
    "valor-lite": TextRules("lite", repairs=0),
}


def text_rules(compat: str | None) -> TextRules:
    """The rules of a preset; None: those of this library.

    Raises:
        InputError: no such preset.
    """
    check_choice("compat", compat, COMPAT)
    return _PRESETS[compat]
