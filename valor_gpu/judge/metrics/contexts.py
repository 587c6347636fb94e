"""Metrics of what was retrieved: ContextPrecision, ContextRecall and ContextRelevance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valor_gpu.checks import check_choice
from valor_gpu.judge.metric import Ask
from valor_gpu.judge.metrics.reading import YES_NO
from valor_gpu.judge.metrics.rules import TextRow
from valor_gpu.judge.metrics.text_metric import Empty, PromptedMetric, share
from valor_gpu.judge.parse import NotApplicable


def rank_precision(useful: Sequence[bool]) -> float:
    """Mean, over the ranks k that are useful, of the fraction of useful ones among the first k; 0 when none is.

    Example:
        >>> rank_precision([True, False, False, True])
        0.75
    """
    hits, total = 0, 0.0
    for rank, one in enumerate(useful, 1):
        if one:
            hits += 1
            total += hits / rank
    return total / hits if hits else 0.0


def _empty_pair(row: TextRow) -> Empty | None:
    """Nothing was retrieved and there was nothing to retrieve: 1. Only one of both: 0."""
    if row.contexts and row.references:
        return None
    what = "references" if row.contexts else "contexts"
    return Empty(what, 0.0 if row.contexts or row.references else 1.0)


class ContextPrecision(PromptedMetric):
    """How high the contexts rank that are useful for the correct answer.

    Asks G questions of G references. A context is useful when it is for one of them. Without contexts or references the
    value is 0, without either 1.

    Args:
        combine: ``any``: see above. ``max``: the best value of one reference, as before Valor 0.32.2.
        **kwargs: see :class:`~valor_gpu.text.judged.PromptedMetric`.

    Source: the metric of that name of Valor and of RAGAS, https://docs.ragas.io.

    Example:
        >>> ContextPrecision(combine="max").combine
        'max'
    """

    name = "ContextPrecision"
    steps = ("context_precision",)
    needs = ("query", "contexts")

    def __init__(self, *args: Any, combine: str = "any", **kwargs: Any) -> None:
        check_choice("combine", combine, ("any", "max"))
        self.combine = combine
        super().__init__(*args, **kwargs)

    def empty(self, row: TextRow) -> Empty | None:
        """Without contexts or references: 0, without either: 1."""
        return _empty_pair(row)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        contexts = list(row.contexts or ())
        rows = [
            await ask(
                self.verdicts_question(
                    "context_precision",
                    len(contexts),
                    YES_NO,
                    question=row.query or "",
                    contexts=contexts,
                    correct_answer=reference,
                )
            )
            for reference in row.references
        ]
        if self.combine == "max":
            return max(map(rank_precision, rows))
        return rank_precision([any(verdicts) for verdicts in zip(*rows)])


class ContextRecall(PromptedMetric):
    """Fraction of the statements of the correct answer that the contexts hold; of several references the best counts.

    Asks ``2 G`` questions of G references. References without statements do not count; when all are such, there is no
    number. Without contexts or references the value is 0, without either 1.

    Source: the metric of that name of Valor and of RAGAS, https://docs.ragas.io.

    Example:
        >>> ContextRecall.steps
        ('statements', 'context_recall')
    """

    name = "ContextRecall"
    steps = ("statements", "context_recall")
    needs = ("contexts",)

    def empty(self, row: TextRow) -> Empty | None:
        """Without contexts or references: 0, without either: 1."""
        return _empty_pair(row)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        contexts, shares = list(row.contexts or ()), []
        for reference in row.references:
            statements = await ask(self.texts_question("statements", "statements", text=reference))
            if statements:
                data = {"contexts": contexts, "statements": statements}
                shares.append(
                    share(await ask(self.verdicts_question("context_recall", len(statements), YES_NO, **data)))
                )
        if not shares:
            raise NotApplicable("no reference has a statement")
        return max(shares)


class ContextRelevance(PromptedMetric):
    """Fraction of the contexts that are relevant to the question; 0 without contexts. Asks 1 question.

    Source: the metric of that name of Valor and of DeepEval, https://github.com/confident-ai/deepeval.

    Example:
        >>> ContextRelevance.needs
        ('query', 'contexts')
    """

    name = "ContextRelevance"
    steps = ("context_relevance",)
    needs = ("query", "contexts")

    def empty(self, row: TextRow) -> Empty | None:
        """Without contexts: 0."""
        return None if row.contexts else Empty("contexts", 0.0)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        contexts = list(row.contexts or ())
        data = {"question": row.query or "", "contexts": contexts}
        return share(await ask(self.verdicts_question("context_relevance", len(contexts), YES_NO, **data)))
