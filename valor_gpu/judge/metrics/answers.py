"""Metrics of answers to questions: AnswerCorrectness and AnswerRelevance."""

from __future__ import annotations

from valor_gpu.judge.metric import Ask, Question
from valor_gpu.judge.metrics.reading import YES_NO_IDK, Sorted, read_sorted, texts_schema
from valor_gpu.judge.metrics.rules import TextRow
from valor_gpu.judge.metrics.text_metric import Empty, PromptedMetric, share
from valor_gpu.judge.parse import NotApplicable


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

    def empty(self, row: TextRow) -> Empty | None:
        """No references: 0."""
        return None if row.references else Empty("references", 0.0)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        answer: list[str] = await ask(self._statements(row, row.response or ""))
        scores = [0.0]
        for reference in row.references:
            correct: list[str] = await ask(self._statements(row, reference))
            if answer:
                scores.append(statement_f1(await ask(self._comparison(row, answer, correct))))
        return max(scores)

    def _comparison(self, row: TextRow, answer: list[str], correct: list[str]) -> Question:
        return self.question(
            "correctness",
            lambda reply: read_sorted(reply, len(answer), len(correct), self.rules.replies),
            texts_schema("TP", "FP", "FN"),
            question=row.query or "",
            answer_statements=answer,
            correct_statements=correct,
        )

    def _statements(self, row: TextRow, answer: str) -> Question:
        return self.texts_question("answer_statements", "statements", question=row.query or "", answer=answer)


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

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        statements = await ask(self.texts_question("statements", "statements", text=row.response or ""))
        if statements:
            data = {"question": row.query or "", "statements": statements}
            return share(await ask(self.verdicts_question("relevance", len(statements), YES_NO_IDK, **data)))
        if self.rules.relevance_of_nothing is None:
            raise NotApplicable("the answer has no statements")
        return self.rules.relevance_of_nothing
