"""Ratings of how a text hangs together: Coherence and SummaryCoherence."""

from __future__ import annotations

from valor_gpu.judge.metric import Ask, Question
from valor_gpu.text.judged.metric import PromptedMetric
from valor_gpu.text.judged.prompts import Field
from valor_gpu.text.judged.reading import RATING_SCHEMA, read_rating
from valor_gpu.text.judged.rules import TextRow


class _Rating(PromptedMetric):
    """A rating from 1 to 5 by one question."""

    low = 1.0
    high = 5.0

    def rating_question(self, **data: Field) -> Question:
        """The one question of the metric."""
        return self.question(self.steps[0], lambda reply: read_rating(reply, self.rules.replies), RATING_SCHEMA, **data)


class Coherence(_Rating):
    """How well the sentences of a text belong together, 1 to 5, from the text alone. Asks 1 question.

    Source: the metric of that name in Valor's document of August 2024.

    Example:
        >>> from valor_gpu.text.judged import TextRow, evaluate_texts
        >>> evaluate_texts([TextRow(response="It rains. We stay.")], ["Coherence"], lambda m: "4").scores("Coherence")
        [4.0]
    """

    name = "Coherence"
    steps = ("coherence",)
    needs = ("response",)

    async def score(self, row: TextRow, ask: Ask) -> float:
        """Computes the value of a row."""
        if (value := self.value_without_asking(row)) is not None:
            return value
        rating: float = await ask(self.rating_question(text=row.response or ""))
        return rating


class SummaryCoherence(_Rating):
    """How well a summary gives an ordered account of its text, 1 to 5. Asks 1 question.

    Source: the metric of that name of Valor since 0.32.2; the scale is that of Fabbri et al., "SummEval" (2021).

    Example:
        >>> SummaryCoherence.low, SummaryCoherence.high
        (1.0, 5.0)
    """

    name = "SummaryCoherence"
    steps = ("summary_coherence",)
    needs = ("query", "response")

    async def score(self, row: TextRow, ask: Ask) -> float:
        """Computes the value of a row."""
        if (value := self.value_without_asking(row)) is not None:
            return value
        rating: float = await ask(self.rating_question(text=row.query or "", summary=row.response or ""))
        return rating
