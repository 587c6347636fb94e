"""Ratings of how a text hangs together: Coherence and SummaryCoherence."""

from __future__ import annotations

from valor_gpu.judge.metric import Ask
from valor_gpu.judge.metrics.prompts import Field
from valor_gpu.judge.metrics.reading import read_rating
from valor_gpu.judge.metrics.rules import TextRow
from valor_gpu.judge.metrics.text_metric import PromptedMetric
from valor_gpu.judge.parse import score_schema


class _Rating(PromptedMetric):
    """A rating from 1 to 5 by one question."""

    low = 1.0
    high = 5.0

    async def _rated(self, ask: Ask, **data: Field) -> float:
        """Asks the one question of the metric."""
        replies = self.rules.replies
        question = self.question(
            self.steps[0], lambda reply: read_rating(reply, 1, 5, replies=replies).value, score_schema(1, 5), **data
        )
        return float(await ask(question))


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

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        return await self._rated(ask, text=row.response or "")


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

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        return await self._rated(ask, text=row.query or "", summary=row.response or "")
