"""Metrics whose one question has a rating as its answer: quality from 1 to 5, severity from 0 to 7."""

from __future__ import annotations

from typing import Any

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.metric import Ask
from valor_gpu.judge.metrics.fields import JudgedTexts
from valor_gpu.judge.metrics.prompts import OwnPrompts
from valor_gpu.judge.metrics.reading import SCORE_KEYS, SEVERITY_KEYS, rating_schema, read_rating
from valor_gpu.judge.metrics.row_base import PromptMetric
from valor_gpu.judge.metrics.scores import JudgedScore
from valor_gpu.judge.metrics.severity import severity_level
from valor_gpu.judge.metrics.table import RATINGS
from valor_gpu.judge.parse import Score


class RatingMetric(PromptMetric):
    """A metric of :data:`RATINGS`: a quality from 1 to 5, or a severity from 0 to 7.

    Asks one question a row, or one a turn. ``score`` gives value, reason, and for severities the level.

    Args:
        name: one of :data:`RATINGS`.
        task: ``qa``: rows have the fields of the metric; ``chat``: they have ``messages``.
        prompts: the user's own in place of the package's.
        round_fractions: whether a rating such as 4.5 is rounded, halves upwards; otherwise it is no rating.

    Raises:
        InputError: no such metric or task, or a prompt that does not show the inputs of its step.

    Example:
        >>> from valor_gpu.judge import run_judge
        >>> rows = [{"question": "Is there a ferry?", "answer": "Yes, at nine."}, {"question": "Is there a ferry?"}]
        >>> run = run_judge(rows, [RatingMetric("violence")], lambda messages: '{"reason": "None.", "score": 0}')
        >>> [one[0].details for one in run.judgements["violence"]]  # doctest: +NORMALIZE_WHITESPACE
        [JudgedScore(value=0.0, status='ok', reason='None.', level='Very low', details=None),
         JudgedScore(value=None, status='missing_field', reason='missing answer', level='', details=None)]
    """

    def __init__(
        self,
        name: str,
        task: str = "qa",
        prompts: OwnPrompts = None,
        round_fractions: bool = False,
    ) -> None:
        check_choice("name", name, tuple(RATINGS))
        check_type("round_fractions", round_fractions, bool)
        rating = RATINGS[name]
        if task not in rating.prompts:
            raise InputError(f"{name} must have a task of {', '.join(rating.prompts)} but got {task!r}")
        super().__init__(name, task, rating.prompts[task], rating.fields[task], rating.need(task), prompts)
        self.rating, self.round_fractions = rating, round_fractions
        self.low, self.high, self.higher_is_better = rating.low, rating.high, not rating.is_safety

    @property
    def identity(self) -> Any:
        """Name, scale, prompt and rounding."""
        return [*super().identity, self.round_fractions]

    def level(self, value: float) -> str:
        """Level of a severity; a quality has none."""
        return severity_level(value) if self.rating.is_safety else ""

    def read(self, reply: str) -> Score:
        """Reads the judge's reply.

        Raises:
            ParseError: it has no rating on the scale.
            NotApplicable: it says that there is nothing to rate.
        """
        keys = SEVERITY_KEYS if self.rating.is_safety else SCORE_KEYS
        return read_rating(reply, self.rating.low, self.rating.high, keys, self.round_fractions)

    async def score_texts(self, texts: JudgedTexts, ask: Ask) -> JudgedScore:
        """Asks for the rating of a row or a turn."""
        found: Score = await ask(self.question(texts, self.read, rating_schema(self.rating.low, self.rating.high)))
        return JudgedScore(found.value, reason=found.reason, level=self.level(found.value))
