"""Judged metrics by name."""

from __future__ import annotations

from typing import Any

from valor_gpu.checks import check_choice
from valor_gpu.judge.metrics.preference import PreferenceMetric
from valor_gpu.judge.metrics.ratings import RatingMetric
from valor_gpu.judge.metrics.row_base import RowMetric
from valor_gpu.judge.metrics.table import RATINGS, VALOR
from valor_gpu.judge.metrics.valor import ValorMetric


def judged_metric(name: str, **parameters: Any) -> RowMetric:
    """Makes a judged metric.

    Args:
        name: a key of :data:`~valor_gpu.evaluation.judged.RATINGS` or ``VALOR``, or ``preference``.
        parameters: of :class:`RatingMetric`, :class:`ValorMetric` or :class:`PreferenceMetric`, ``task`` for example.

    Raises:
        InputError: no such metric, or a parameter that cannot be.

    Example:
        >>> judged_metric("gpt_groundedness", task="chat")
        RatingMetric('gpt_groundedness', task='chat')
        >>> sorted(judged_metric("gpt_groundedness").requires)
        ['answer', 'context']
    """
    check_choice("name", name, (*RATINGS, *VALOR, "preference"))
    if name in VALOR:
        return ValorMetric(name, **parameters)
    return PreferenceMetric(**parameters) if name == "preference" else RatingMetric(name, **parameters)
