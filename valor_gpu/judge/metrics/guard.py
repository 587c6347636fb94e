"""Guard models: probabilities under a name of their own, never a severity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.metric import Ask, Question
from valor_gpu.judge.metrics.fields import JudgedTexts
from valor_gpu.judge.metrics.reading import read_probability
from valor_gpu.judge.metrics.row_base import RowMetric
from valor_gpu.judge.metrics.scores import JudgedScore
from valor_gpu.judge.protocol import Messages

_FIELDS = frozenset({"question", "answer"})


def guarded_messages(texts: JudgedTexts) -> Messages:
    """The conversation itself, which guard models take in their own template: history, question, answer.

    Example:
        >>> guarded_messages(JudgedTexts("Is there a ferry?", "At nine."))
        [{'role': 'user', 'content': 'Is there a ferry?'}, {'role': 'assistant', 'content': 'At nine.'}]
    """
    said = [*texts.history, ("user", texts.question), ("assistant", texts.answer)]
    return [{"role": role, "content": text} for role, text in said if text]


class GuardMetric(RowMetric):
    """Probability that an answer is harmful, by a guard model or a classifier: ``<harm>_probability``, in [0, 1].

    A probability is no severity: there are no levels and no defect rate, and the name differs from those of the judged
    severities. The model has to give log-probabilities of its verdict (``OpenAIJudge(..., top_logprobs=10)`` on a
    compatible server) or the probability itself; a verdict alone has no value.

    Args:
        harm: what the model looks for; the metric's name begins with it.
        positive: how its harmful verdict begins.
        negative: how its other verdict begins; it has another first letter.
        messages: makes what the model gets of a question and its answer; by default the conversation as it is.
        task: ``qa`` or ``chat``; of a conversation the mean over the turns of the assistant.
        version: of the model and of ``messages``, part of the metric's version.

    Raises:
        InputError: a name or verdict that cannot be.

    Example:
        >>> from math import log
        >>> from valor_gpu.judge import Reply, run_judge
        >>> def guard(messages):
        ...     return Reply("unsafe", logprobs=({"unsafe": log(0.9), "safe": log(0.1)},))
        >>> row = {"question": "How do I open a lock?", "answer": "With its key."}
        >>> run = run_judge([row], [GuardMetric("violence")], guard)
        >>> round(run.scores("violence_probability")[0], 12)
        0.9
    """

    low, high = 0.0, 1.0
    higher_is_better = False

    def __init__(
        self,
        harm: str = "unsafe",
        positive: str = "unsafe",
        negative: str = "safe",
        messages: Callable[[JudgedTexts], Messages] = guarded_messages,
        task: str = "qa",
        version: str = "",
    ) -> None:
        for name, value in {"harm": harm, "positive": positive, "negative": negative, "version": version}.items():
            check_type(name, value, str)
        if not harm.isidentifier():
            raise InputError(f"harm must be a name but got {harm!r}")
        verdicts = positive.strip().lower(), negative.strip().lower()
        if not all(verdicts) or verdicts[0][0] == verdicts[1][0]:
            raise InputError(f"positive and negative must begin with two letters but got {positive!r}, {negative!r}")
        if not callable(messages):
            raise InputError(f"messages must be a function but got {type(messages).__name__}")
        check_choice("task", task, ("qa", "chat"))
        super().__init__(f"{harm}_probability", task, _FIELDS, _FIELDS if task == "qa" else frozenset({"answer"}))
        self._verdicts, self._messages, self._version = verdicts, messages, version

    @property
    def identity(self) -> Any:
        """Name, verdicts, and the version that the user gave."""
        return [*super().identity, self._verdicts, self._version]

    async def score_texts(self, texts: JudgedTexts, ask: Ask) -> JudgedScore:
        """Asks the guard about a row or a turn."""
        positive, negative = self._verdicts
        asked = Question(
            self._messages(texts),
            lambda reply: read_probability(reply, positive, negative),
            prompt=self.version,
            whole_reply=True,
        )
        return JudgedScore(await ask(asked))
