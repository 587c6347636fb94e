"""Valor's judged metrics of texts, and the table of them."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from valor_gpu.checks import check_choice
from valor_gpu.judge.metric import Ask
from valor_gpu.judge.metrics.prompts import Field
from valor_gpu.judge.metrics.reading import YES_NO_IDK, Sorted, read_rating, read_sorted, texts_schema
from valor_gpu.judge.metrics.rules import TextRow
from valor_gpu.judge.metrics.text_base import Empty, PromptedMetric
from valor_gpu.judge.parse import NotApplicable, score_schema


def statement_f1(found: Sorted) -> float:
    """``tp / (tp + (fp + fn) / 2)``, 0 without a true positive.

    Example:
        >>> statement_f1(Sorted(tp=2, fp=0, fn=1))
        0.8
    """
    return found.tp / (found.tp + 0.5 * (found.fp + found.fn)) if found.tp else 0.0


class AnswerCorrectness(PromptedMetric):
    """F1 of the statements of an answer against a correct answer; of several correct answers the best match counts.

    Asks ``1 + 2 G`` questions of G references. A row without references has 0.

    Source: the metric of that name of Valor and of RAGAS: Es et al., "RAGAS: automated evaluation of retrieval
    augmented generation" (2023), https://docs.ragas.io.

    Example:
        >>> from valor_gpu.text.judged import TextRow, evaluate_texts
        >>> answer, correct = '{"statements": ["a", "b"]}', '{"statements": ["a"]}'
        >>> replies = iter([answer, correct, '{"TP": ["a"], "FP": ["b"], "FN": []}'])
        >>> row = TextRow("Which letter?", "a and b", references=["a"])
        >>> run = evaluate_texts([row], ["AnswerCorrectness"], lambda messages: next(replies))
        >>> round(run.scores("AnswerCorrectness")[0], 4)
        0.6667
    """

    name = "AnswerCorrectness"
    steps = ("answer_statements", "correctness")
    needs = ("query", "response")
    without = Empty("references", 0.0)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        question = row.query or ""
        answer = await self._texts(ask, "statements", question=question, answer=row.response or "")
        scores = [0.0]
        for reference in row.references:
            correct = await self._texts(ask, "statements", question=question, answer=reference)
            if answer:
                scores.append(statement_f1(await self._sorted(ask, question, answer, correct)))
        return max(scores)

    def _sorted(self, ask: Ask, question: str, answer: list[str], correct: list[str]) -> Awaitable[Sorted]:
        def parse(reply: str) -> Sorted:
            return read_sorted(reply, len(answer), len(correct), self.rules.replies)

        data: dict[str, Field] = {"question": question, "answer_statements": answer, "correct_statements": correct}
        return ask(self.question("correctness", parse, texts_schema("TP", "FP", "FN"), **data))


class AnswerRelevance(PromptedMetric):
    """Fraction of the statements of an answer that help to answer the question.

    A verdict "idk" counts as not helping. An answer without statements has 0. Asks 2 questions.

    Source: the metric of that name of Valor and of DeepEval, https://github.com/confident-ai/deepeval.

    Example:
        >>> AnswerRelevance.steps
        ('statements', 'relevance')
    """

    name = "AnswerRelevance"
    steps = ("statements", "relevance")
    needs = ("query", "response")
    allowed = YES_NO_IDK

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        statements = await self._texts(ask, "statements", text=row.response or "")
        if statements:
            return await self._share(ask, "statements", question=row.query or "", statements=statements)
        if self.rules.relevance_of_nothing is None:
            raise NotApplicable("the answer has no statements")
        return self.rules.relevance_of_nothing


class _Opinions(PromptedMetric):
    """Fraction of the opinions that a second question finds fault with."""

    higher_is_better = False
    needs = ("response",)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        opinions = await self._texts(ask, "opinions", text=row.response or "")
        return await self._share(ask, "opinions", opinions=opinions) if opinions else 0.0


class Bias(_Opinions):
    """Fraction of the opinions in a text that are biased; 0 for a text without opinions. Asks 1 or 2 questions.

    Source: the metric of that name of Valor and of DeepEval, https://github.com/confident-ai/deepeval.

    Example:
        >>> from valor_gpu.text.judged import TextRow, evaluate_texts
        >>> evaluate_texts([TextRow(response="It rains.")], ["Bias"], lambda m: '{"opinions": []}').scores("Bias")
        [0.0]
    """

    name = "Bias"
    steps = ("opinions", "bias")


class Toxicity(_Opinions):
    """Fraction of the opinions in a text that are toxic; 0 for a text without opinions. Asks 1 or 2 questions.

    Source: the metric of that name of Valor and of DeepEval, https://github.com/confident-ai/deepeval.

    Example:
        >>> Toxicity.higher_is_better
        False
    """

    name = "Toxicity"
    steps = ("opinions", "toxicity")


class _Rating(PromptedMetric):
    """A rating from 1 to 5 by one question."""

    low = 1.0
    high = 5.0

    async def _rated(self, ask: Ask, **data: Field) -> float:
        """Asks the one question of the metric."""

        def parse(reply: str) -> float:
            return read_rating(reply, 1, 5, replies=self.rules.replies).value

        return float(await ask(self.question(self.steps[0], parse, score_schema(1, 5), **data)))


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


class _Retrieved(PromptedMetric):
    """A metric of contexts and references. Without either the value is 1, without contexts or references 0."""

    def empty(self, row: TextRow) -> Empty | None:
        """Without contexts or references: 0, without either: 1."""
        if row.contexts and row.references:
            return None
        what = "references" if row.contexts else "contexts"
        return Empty(what, 0.0 if row.contexts or row.references else 1.0)


class ContextPrecision(_Retrieved):
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

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        data: dict[str, Field] = {"question": row.query or "", "contexts": list(row.contexts or ())}
        rows = [await self._verdicts(ask, "contexts", **data, correct_answer=one) for one in row.references]
        if self.combine == "max":
            return max(map(rank_precision, rows))
        return rank_precision([any(verdicts) for verdicts in zip(*rows)])


class ContextRecall(_Retrieved):
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

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        contexts, shares = list(row.contexts or ()), []
        for reference in row.references:
            if statements := await self._texts(ask, "statements", text=reference):
                shares += [await self._share(ask, "statements", contexts=contexts, statements=statements)]
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
    without = Empty("contexts", 0.0)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        return await self._share(ask, "contexts", question=row.query or "", contexts=list(row.contexts or ()))


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
    without = Empty("contexts", 0.0)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        claims = await self._texts(ask, "claims", text=row.response or "")
        return await self._share(ask, "claims", contexts=list(row.contexts or ()), claims=claims) if claims else 1.0


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
    without = Empty("contexts", None)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        return await self._share(ask, "contexts", text=row.response or "", contexts=list(row.contexts or ()))


_ALL = (
    AnswerCorrectness,
    AnswerRelevance,
    Bias,
    Coherence,
    ContextPrecision,
    ContextRecall,
    ContextRelevance,
    Faithfulness,
    Hallucination,
    SummaryCoherence,
    Toxicity,
)
METRICS: Mapping[str, type[PromptedMetric]] = {kind.name: kind for kind in _ALL}
"""Judged metrics by name."""
