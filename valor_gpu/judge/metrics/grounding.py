"""Metrics of an answer against its contexts: Faithfulness and Hallucination."""

from __future__ import annotations

from valor_gpu.judge.metric import Ask
from valor_gpu.judge.metrics.reading import YES_NO
from valor_gpu.judge.metrics.rules import TextRow
from valor_gpu.judge.metrics.text_metric import Empty, PromptedMetric, share


class Faithfulness(PromptedMetric):
    """Fraction of the claims of an answer that the contexts support. Asks 1 or 2 questions.

    An answer without claims has 1; without contexts the value is 0.

    Source: the metric of that name of Valor and of RAGAS, https://docs.ragas.io.

    Example:
        >>> Faithfulness.steps
        ('claims', 'faithfulness')
    """

    name = "Faithfulness"
    steps = ("claims", "faithfulness")
    needs = ("response", "contexts")

    def empty(self, row: TextRow) -> Empty | None:
        """Without contexts: 0."""
        return None if row.contexts else Empty("contexts", 0.0)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        claims = await ask(self.texts_question("claims", "claims", text=row.response or ""))
        if not claims:
            return 1.0
        data = {"contexts": list(row.contexts or ()), "claims": claims}
        return share(await ask(self.verdicts_question("faithfulness", len(claims), YES_NO, **data)))


class Hallucination(PromptedMetric):
    """Fraction of the contexts that an answer contradicts; no number without contexts. Asks 1 question.

    Source: the metric of that name of Valor and of DeepEval, https://github.com/confident-ai/deepeval.

    Example:
        >>> Hallucination.higher_is_better
        False
    """

    name = "Hallucination"
    steps = ("hallucination",)
    higher_is_better = False
    needs = ("response", "contexts")

    def empty(self, row: TextRow) -> Empty | None:
        """Without contexts: no number."""
        return None if row.contexts else Empty("contexts", None)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        contexts = list(row.contexts or ())
        data: dict[str, str | list[str]] = {"text": row.response or "", "contexts": contexts}
        return share(await ask(self.verdicts_question("hallucination", len(contexts), YES_NO, **data)))
