"""Valor's judged metrics over rows of fields, under names of their own: ``valor_coherence``, not ``gpt_coherence``."""

from __future__ import annotations

from typing import Any

from valor_gpu.checks import check_choice
from valor_gpu.judge.metric import Ask
from valor_gpu.judge.metrics.fields import JudgedTexts
from valor_gpu.judge.metrics.prompts import OwnPrompts
from valor_gpu.judge.metrics.row_base import RowMetric
from valor_gpu.judge.metrics.rules import TextRow
from valor_gpu.judge.metrics.scores import JudgedScore
from valor_gpu.judge.metrics.table import VALOR
from valor_gpu.judge.metrics.text_metrics import METRICS


class ValorMetric(RowMetric):
    """A metric of :data:`~valor_gpu.text.judged.METRICS`, computed from the fields of a row.

    Several questions a row; see the class of the metric in :mod:`valor_gpu.text.judged`.

    Args:
        name: a key of :data:`~valor_gpu.evaluation.judged.VALOR`.
        task: ``qa``; Valor has no definition for conversations.
        prompts: the user's own in place of the package's, see :func:`valor_gpu.text.judged.load_prompts`.

    Attributes:
        prompts: those of its questions, in their order.

    Raises:
        InputError: no such metric or task, or a prompt that does not show the inputs of its step.

    Example:
        >>> from valor_gpu.judge import run_judge
        >>> row = {"question": "Is there a ferry?", "answer": "Yes, at nine."}
        >>> run = run_judge([row], [ValorMetric("valor_coherence")], lambda messages: '{"score": 5}')
        >>> run.scores("valor_coherence")
        [5.0]
    """

    def __init__(self, name: str, task: str = "qa", prompts: OwnPrompts = None) -> None:
        check_choice("name", name, tuple(VALOR))
        check_choice("task", task, ("qa",))
        info = VALOR[name]
        self._metric = METRICS[info.metric](prompts)
        self.prompts = tuple(self._metric.prompts.values())
        super().__init__(name, "qa", info.fields, info.fields)
        self.low, self.high = self._metric.low, self._metric.high
        self.higher_is_better = self._metric.higher_is_better

    @property
    def identity(self) -> Any:
        """Name, scale, and the versions and hashes of the prompts."""
        return [*super().identity, [prompt.id for prompt in self.prompts]]

    async def score_texts(self, texts: JudgedTexts, ask: Ask) -> JudgedScore:
        """Asks the questions of the metric."""
        row = TextRow(texts.question, texts.answer, texts.ground_truth, texts.context or None)
        return JudgedScore(float(await self._metric.score(row, ask)))
