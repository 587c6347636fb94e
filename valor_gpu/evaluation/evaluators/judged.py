"""Outcomes of rows by judged metrics. No torch."""

from __future__ import annotations

from valor_gpu.evaluation.evaluators.base import Outcome
from valor_gpu.judge.metrics.scores import JudgedScore, failed_score
from valor_gpu.judge.protocol import Judgement


def judged_outcome(judgement: Judgement) -> Outcome:
    """Returns the outcome of a row by a metric of :mod:`valor_gpu.evaluation.judged`, or by any other judged metric.

    Args:
        judgement: of one row and repeat, as :func:`valor_gpu.judge.run_judge` gives it.

    Example:
        >>> from valor_gpu.evaluation.judged import judged_metric, judged_outcome
        >>> from valor_gpu.judge import run_judge
        >>> row = {"question": "Is there a ferry?", "answer": "Yes, at nine."}
        >>> run = run_judge([row], [judged_metric("gpt_fluency")], lambda m: '{"reason": "No errors.", "score": 5}')
        >>> judged_outcome(run.judgements["gpt_fluency"][0][0])
        Outcome(value=5.0, reason='No errors.')
    """
    found = judgement.details
    if not isinstance(found, JudgedScore):
        found = failed_score(judgement) if not judgement.ok else JudgedScore(float(judgement.value))
    return Outcome(found.value, found.status, found.reason, found.level, found.details)
