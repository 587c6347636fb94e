"""Judged metrics: what a metric asks about a row, and which values it may have."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.judge.parse import ParseError
from valor_gpu.judge.protocol import Judgement, Messages, Schema


@dataclass(frozen=True)
class Question:
    """Messages for a judge, and how its reply is read.

    Attributes:
        messages: the chat, each message with ``role`` and ``content``.
        parse: makes a value of the reply's text. Whatever it raises is a reply without a value; :class:`NotApplicable`
            says that there is nothing to score.
        schema: JSON schema of the reply, for judges that can keep to one.
        prompt: version or hash of the prompt that made the messages, part of the cache key.
        whole_reply: whether ``parse`` gets the :class:`Reply`, with its log-probabilities, in place of its text.
    """

    messages: Messages
    parse: Callable[[Any], Any]
    schema: Schema | None = None
    prompt: str = ""
    whole_reply: bool = False


Ask = Callable[[Question], Awaitable[Any]]
"""Asks a :class:`Question` and returns its value; raises :class:`FailedJudgement` when there is none."""


class FailedJudgement(Exception):
    """A question of a metric got no value.

    Attributes:
        judgement: what happened to the question.

    Raises:
        InputError: the judgement is ok.
    """

    def __init__(self, judgement: Judgement) -> None:
        if not isinstance(judgement, Judgement) or judgement.ok:
            raise InputError("judgement must be a Judgement without a value")
        super().__init__(f"{judgement.status}: {judgement.error}")
        self.judgement = judgement


class LLMMetric(ABC):
    """Base class of metrics that a judge computes: one number per row.

    A metric that asks one question is made by :func:`question_metric`; one that asks several overrides :meth:`score`.

    Attributes:
        name: key of the metric in results.
        low: least possible value, used for the bounds of a mean with failures; -inf where there is none.
        high: greatest possible value; inf where there is none. A value outside [low, high] counts as no value.

    Example:
        >>> class Agreement(LLMMetric):
        ...     name = "agreement"
        ...     async def score(self, row, ask):
        ...         first, second = [
        ...             await ask(Question([{"role": "user", "content": text}], str)) for text in row
        ...         ]
        ...         return float(first == second)
        >>> from valor_gpu.judge import run_judge
        >>> run_judge([("a", "b"), ("a", "aa")], [Agreement()], lambda messages: messages[0]["content"][0]).scores(
        ...     "agreement"
        ... )
        [0.0, 1.0]
    """

    name: str
    low: float = 0.0
    high: float = 1.0

    @abstractmethod
    async def score(self, row: Any, ask: Ask) -> Any:
        """Computes the number of ``row`` from the answers to questions.

        Args:
            row: one of the rows of the run.
            ask: ``await ask(question)`` gives the value that ``question.parse`` made of the reply.

        Returns:
            A number in [low, high], or an object with a ``__float__`` that gives one: the judgement keeps the object in
            its ``details``.

        Raises:
            NotApplicable: the row has no number, for lack of an input, say.
            FailedJudgement: from ``ask``; a metric lets it pass.
        """


class _QuestionMetric(LLMMetric):
    """Metric of one question whose value is the number."""

    def __init__(self, name: str, question: Callable[[Any], Question], low: float, high: float) -> None:
        self.name, self.low, self.high = name, low, high
        self._question = question

    def __repr__(self) -> str:
        return f"question_metric({self.name!r}, low={self.low:g}, high={self.high:g})"

    async def score(self, row: Any, ask: Ask) -> Any:
        """Asks the question about ``row``; a reply whose value is no number in the range has no value."""
        question = check_question(self._question(row))
        return await ask(replace(question, parse=lambda text: check_value(question.parse(text), self)))


def question_metric(name: str, question: Callable[[Any], Question], low: float = 0.0, high: float = 1.0) -> LLMMetric:
    """Metric that asks one question about a row and takes the value of the reply as its number.

    Args:
        name: key of the metric in results.
        question: makes the :class:`Question` of a row; may raise :class:`NotApplicable`.
        low: least possible value.
        high: greatest possible value. A reply with a value outside [low, high] cannot be used: it is sent back or
            asked again as :class:`Limits` says, and never kept.

    Raises:
        InputError: ``low`` is not less than ``high``.

    Example:
        >>> def ask_for(row):
        ...     return Question([{"role": "user", "content": f"From 1 to 5, how good is: {row}"}], int)
        >>> question_metric("quality", ask_for, 1, 5)
        question_metric('quality', low=1, high=5)
    """
    return check_metric(_QuestionMetric(name, question, low, high))


def check_metric(metric: Any) -> LLMMetric:
    """Returns ``metric`` when it is a usable :class:`LLMMetric`.

    Raises:
        InputError: it is something else, has no name, or its ``low`` is not less than its ``high``.
    """
    if not isinstance(metric, LLMMetric):
        raise InputError(f"metrics must be LLMMetric objects but one is {type(metric).__name__}")
    if not isinstance(getattr(metric, "name", None), str) or not metric.name:
        raise InputError(f"name of {type(metric).__name__} must be a text but is {getattr(metric, 'name', None)!r}")
    if not metric.low < metric.high:
        raise InputError(f"low must be less than high but got {metric.low!r} and {metric.high!r}")
    return metric


def check_question(question: Any) -> Question:
    """Returns ``question`` when it is a :class:`Question`.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(question, Question):
        raise InputError(f"a metric must ask a Question but asked {type(question).__name__}")
    return question


def check_value(value: Any, metric: LLMMetric) -> float:
    """Returns ``value`` as a float when it is a number that ``metric`` may have. True and False are 1 and 0.

    Raises:
        ParseError: it is a text, None, NaN, infinite or outside [low, high], or has no number.
    """
    try:
        number = math.nan if isinstance(value, (str, bytes, bytearray)) else float(value)
    except Exception:  # whatever an object's __float__ raises
        number = math.nan
    if math.isnan(number):
        shown = "NaN" if isinstance(value, float) else type(value).__name__
        raise ParseError(f"the value must be a number but is {shown}")
    if math.isinf(number) or not metric.low <= number <= metric.high:
        raise ParseError(f"the value must lie in {metric.low:g} to {metric.high:g} but is {number:g}")
    return number
