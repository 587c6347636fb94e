"""Quality from 1 to 5 and severity from 0 to 7: metrics whose one question has a rating as its answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.evaluation.judged.fields import JudgedTexts
from valor_gpu.evaluation.judged.metric import PromptMetric
from valor_gpu.evaluation.judged.reading import rating_schema, read_rating, read_severity
from valor_gpu.evaluation.judged.scores import JudgedScore
from valor_gpu.evaluation.judged.severity import severity_level
from valor_gpu.judge.metric import Ask
from valor_gpu.judge.parse import Score
from valor_gpu.text.judged.prompts import Prompts

_QA = frozenset({"question", "answer"})


@dataclass(frozen=True)
class Rating:
    """What a rating metric sends to the judge.

    Attributes:
        prompts: task to the name of its prompt file.
        fields: task to the fields that the prompt shows.
        needed: those that must be there, where it is not all of them but the history.
        low, high: the scale.
        summary: one line.
    """

    prompts: Mapping[str, str]
    fields: Mapping[str, frozenset[str]]
    needed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    low: int = 1
    high: int = 5
    summary: str = ""

    @property
    def is_safety(self) -> bool:
        """Whether the rating is a severity."""
        return self.low == 0

    def need(self, task: str) -> frozenset[str]:
        """Fields that a row or a turn must have."""
        return self.needed.get(task, self.fields[task] - {"history"})


def _answered(prompt: str, summary: str) -> Rating:
    """A metric of question and answer, the same in both tasks."""
    return Rating({"qa": prompt, "chat": prompt}, {"qa": _QA, "chat": _QA}, summary=summary)


def _severity(prompt: str, summary: str) -> Rating:
    # An assistant that speaks first has no question; that must not hide what it says.
    return Rating({"qa": prompt, "chat": prompt}, {"qa": _QA, "chat": _QA}, {"chat": frozenset({"answer"})}, 0, 7, summary)


_TURN = _QA | {"context", "history"}
RATINGS: Mapping[str, Rating] = {
    "gpt_groundedness": Rating(
        {"qa": "groundedness", "chat": "chat_groundedness"},
        {"qa": frozenset({"answer", "context"}), "chat": _TURN},
        summary="whether the context bears out what the answer states",
    ),
    "gpt_relevance": Rating(
        {"qa": "relevance", "chat": "chat_relevance"},
        {"qa": _QA | {"context"}, "chat": _TURN},
        summary="how completely the answer deals with the question, and with how little else",
    ),
    "gpt_coherence": _answered("coherence", "how well the sentences of the answer hang together"),
    "gpt_fluency": _answered("fluency", "quality of the answer's language"),
    "gpt_similarity": Rating(
        {"qa": "similarity"},
        {"qa": _QA | {"ground_truth"}},
        summary="how far the answer gives the information of the ground truth",
    ),
    "gpt_retrieval_score": Rating(
        {"qa": "retrieval", "chat": "retrieval"},
        {"qa": frozenset({"question", "context"}), "chat": frozenset({"question", "context", "history"})},
        summary="whether the retrieved documents hold what the question needs, the useful ones first",
    ),
    "violence": _severity("violence", "how severe the violent content of the answer is"),
    "sexual": _severity("sexual", "how severe the sexual content of the answer is"),
    "self_harm": _severity("self_harm", "how severe the content about self-harm in the answer is"),
    "hate_unfairness": _severity("hate_unfairness", "how severe the hateful or unfair content of the answer is"),
}
"""Every metric that rates, by name."""
QUALITY = tuple(name for name, rating in RATINGS.items() if not rating.is_safety)
SAFETY = tuple(name for name, rating in RATINGS.items() if rating.is_safety)


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
        prompts: Prompts | str | os.PathLike[str] | None = None,
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
        if self.rating.is_safety:
            return read_severity(reply, self.round_fractions)
        return read_rating(reply, self.rating.low, self.rating.high, self.round_fractions)

    async def score_texts(self, texts: JudgedTexts, ask: Ask) -> JudgedScore:
        """Asks for the rating of a row or a turn."""
        found: Score = await ask(self.question(texts, self.read, rating_schema(self.rating.low, self.rating.high)))
        return JudgedScore(found.value, reason=found.reason, level=self.level(found.value))
