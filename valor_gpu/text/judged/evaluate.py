"""Rows of texts x judged metrics: one run, one scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.progress import Progress
from valor_gpu.judge.run import JudgeRun, run_judge
from valor_gpu.judge.statistics import Prices
from valor_gpu.text.judged.answers import AnswerCorrectness, AnswerRelevance
from valor_gpu.text.judged.coherence import Coherence, SummaryCoherence
from valor_gpu.text.judged.contexts import ContextPrecision, ContextRecall, ContextRelevance
from valor_gpu.text.judged.grounding import Faithfulness, Hallucination
from valor_gpu.text.judged.metric import PromptedMetric
from valor_gpu.text.judged.opinions import Bias, Toxicity
from valor_gpu.text.judged.prompts import Prompts
from valor_gpu.text.judged.rules import TextRow, text_rules

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


@dataclass(frozen=True)
class JudgedTexts(JudgeRun):
    """Results of a judge run; see :class:`valor_gpu.judge.JudgeRun`.

    Attributes:
        prompts: metric name to name, version and hash of its prompts.
    """

    prompts: Mapping[str, tuple[str, ...]]


def evaluate_texts(
    rows: Sequence[TextRow],
    metrics: Sequence[str | PromptedMetric],
    judge: Any,
    *,
    prompts: Prompts | str | os.PathLike[str] | None = None,
    compat: str | None = None,
    raise_on_empty: bool | None = None,
    limits: Limits | None = None,
    cache: JudgeCache | str | None = None,
    repeats: int = 1,
    clusters: Sequence[Hashable] | None = None,
    prices: Prices | None = None,
    progress: Callable[[Progress], object] | bool = False,
) -> JudgedTexts:
    """Judge every row by every metric.

    A judgement that failed is NaN with a status and the last reply; a row without an input that the metric needs is
    told before anything is asked.

    Args:
        rows: texts.
        metrics: names of :data:`METRICS`, or metrics with choices of their own.
        judge: a :class:`valor_gpu.judge.Judge`, or a callable from messages to text.
        prompts: the user's own, for metrics given by name; see :class:`~valor_gpu.text.judged.metric.PromptedMetric`.
        compat: likewise.
        raise_on_empty: likewise.
        limits: how the judge may be asked. None: the usual ones, under a preset without the repair of replies.
        cache: see :func:`valor_gpu.judge.run_judge`.
        repeats: likewise.
        clusters: likewise.
        prices: likewise.
        progress: likewise.

    Raises:
        InputError: an unknown metric, or a row that lacks an input.

    Example:
        >>> rows = [TextRow(response="Rain, then sun."), TextRow(response="Sun turnip of.")]
        >>> run = evaluate_texts(rows, ["Coherence"], lambda messages: "4" if "Rain" in messages[1]["content"] else "?")
        >>> run.scores("Coherence"), run.summaries["Coherence"].n_failed, run.summaries["Coherence"].lower
        ([4.0, nan], {'parse_error': 1}, 2.5)
    """
    made = [one if isinstance(one, PromptedMetric) else _named(one)(prompts, compat, raise_on_empty)
            for one in metrics]  # fmt: skip
    by_name = {metric.name: metric for metric in made}
    if len(by_name) < len(made):
        raise InputError(f"metrics must differ by name but got {', '.join(metric.name for metric in made)}")
    for at, row in enumerate(rows):
        check_type("rows", row, TextRow)
        for metric in made:
            metric.check(row, f"row {at}")
    run = run_judge(
        rows,
        made,
        judge,
        limits=limits or Limits(repairs=text_rules(compat).repairs),
        cache=cache,
        repeats=repeats,
        clusters=clusters,
        prices=prices,
        progress=progress,
    )
    used = {name: tuple(prompt.id for prompt in metric.prompts.values()) for name, metric in by_name.items()}
    return JudgedTexts(**vars(run), prompts=used)


def _named(name: str) -> type[PromptedMetric]:
    if name not in METRICS:
        raise InputError(f"metrics must be of {', '.join(METRICS)} but got {name!r}")
    return METRICS[name]
