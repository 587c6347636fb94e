"""Metrics of the opinions in a text: Bias and Toxicity."""

from __future__ import annotations

from valor_gpu.judge.metric import Ask
from valor_gpu.judge.metrics.reading import YES_NO
from valor_gpu.judge.metrics.rules import TextRow
from valor_gpu.judge.metrics.text_metric import PromptedMetric, share


class _Opinions(PromptedMetric):
    """Fraction of the opinions that a second question finds fault with."""

    higher_is_better = False
    needs = ("response",)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        opinions = await ask(self.texts_question("opinions", "opinions", text=row.response or ""))
        if not opinions:
            return 0.0
        return share(await ask(self.verdicts_question(self.steps[1], len(opinions), YES_NO, opinions=opinions)))


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
