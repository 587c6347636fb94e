"""Base of evaluators of texts: the texts of a portion and their words, made once for all evaluators. No torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from valor_gpu.evaluation.evaluators.base import INVALID_FIELD, Evaluator, Outcome, Portion, evaluator_info
from valor_gpu.judge.metrics.fields import as_text, not_text
from valor_gpu.text.tokens import Ints, TokenizedRows, texts_of, tokenize_rows, unread_rows

T = TypeVar("T")


class TextRows:
    """Answers and ground truths of rows.

    Attributes:
        predictions: the answers of the rows that can be compared.
        references: for each of them one text or several.
        failures: index among the rows given to the outcome of those that cannot.

    Args:
        rows: mappings with ``answer`` and ``ground_truth``.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.predictions: list[str] = []
        self.references: list[str | Sequence[str]] = []
        self.failures: dict[int, Outcome] = {}
        self._shared: dict[Hashable, Any] = {}
        for i, row in enumerate(rows):
            answer, truth = row["answer"], row["ground_truth"]
            if type(answer) is str and type(truth) is str:
                pass
            else:
                answer, truth = as_text(answer), as_text(truth)
                truth = [as_text(text) for text in truth] if isinstance(truth, (list, tuple)) else truth
                if reason := _invalid(answer, truth):
                    self.failures[i] = Outcome(None, INVALID_FIELD, reason)
                    continue
            self.predictions.append(answer)
            self.references.append(truth)

    @cached_property
    def _texts(self) -> tuple[list[str], Ints]:
        return texts_of(self.predictions, self.references)

    @property
    def texts(self) -> list[str]:
        """All texts, one after another: of each row the answer, then its ground truths."""
        return self._texts[0]

    @property
    def rows(self) -> Ints:
        """int64 ``[rows + 1]``: where each row begins in ``texts``."""
        return self._texts[1]

    def words(self, tokenizer: str) -> TokenizedRows:
        """The texts as words by the tokenizer of that name."""
        return self.share(("words", tokenizer), lambda: tokenize_rows(self.texts, self.rows, tokenizer))

    def unread(self, tokenizer: str) -> list[int]:
        """Indices of the rows whose texts the tokenizer of that name cannot read."""
        return self.share(("unread", tokenizer), lambda: unread_rows(self.texts, self.words(tokenizer), tokenizer))

    def share(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once for each key."""
        if key not in self._shared:
            self._shared[key] = make()
        value: T = self._shared[key]
        return value


def _invalid(answer: object, truth: object) -> str:
    """What is wrong with the fields of a row, or nothing."""
    if not isinstance(answer, str):
        return not_text("answer", answer)
    if isinstance(truth, str):
        return ""
    if not isinstance(truth, list | tuple):
        return not_text("ground_truth", truth, "a text or a list of texts")
    if not truth:
        return "ground_truth must have at least one text but is an empty list"
    other = next(((i, text) for i, text in enumerate(truth) if not isinstance(text, str)), None)
    return "" if other is None else not_text(f"ground_truth[{other[0]}]", other[1])


class TextEvaluator(Evaluator):
    """Base of evaluators that compare ``answer`` with ``ground_truth``; a subclass implements :meth:`score_texts`.

    A ground truth may be a list of texts. An integer is its digits; rows with other values are outcomes of status
    ``invalid_field``.

    Args:
        name: of the evaluator.
        parameters: what its numbers depend on.
    """

    def __init__(self, name: str, **parameters: Any) -> None:
        super().__init__(evaluator_info(name), parameters)

    @abstractmethod
    def score_texts(self, texts: TextRows) -> list[Outcome]:
        """Scores the rows of ``texts``, at least one."""

    def score_complete(self, portion: Portion, complete: Sequence[int]) -> list[Outcome]:
        """Scores rows that have both fields."""
        texts = portion.share(("texts", self.requires), lambda: TextRows([portion.rows[i] for i in complete]))
        scored = self.score_texts(texts) if texts.predictions else []
        if not texts.failures:
            return scored
        found = iter(scored)
        return [texts.failures.get(i) or next(found) for i in range(len(complete))]
