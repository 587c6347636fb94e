"""Rows of texts x judged metrics: one run, one scheduler."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.metrics.prompts import OwnPrompts
from valor_gpu.judge.metrics.rules import TextRow, text_rules
from valor_gpu.judge.metrics.text_base import PromptedMetric
from valor_gpu.judge.metrics.text_metrics import METRICS
from valor_gpu.judge.progress import Progress
from valor_gpu.judge.run import JudgeAborted, JudgeCancelled, JudgeInterrupted, JudgeRun, run_judge, run_judge_async
from valor_gpu.judge.statistics import Prices


@dataclass(frozen=True, repr=False)
class JudgedTexts(JudgeRun):
    """Results of a run of judged text metrics.

    Attributes:
        prompts: metric name to name, version and hash of its prompts.
    """

    prompts: Mapping[str, tuple[str, ...]]


def evaluate_texts(
    rows: Iterable[TextRow],
    metrics: Sequence[str | PromptedMetric],
    judge: Any,
    *,
    prompts: OwnPrompts = None,
    compat: str | None = None,
    raise_on_empty: bool | None = None,
    limits: Limits | None = None,
    cache: JudgeCache | str | os.PathLike[str] | None = None,
    repeats: int = 1,
    clusters: Sequence[Hashable] | None = None,
    prices: Prices | None = None,
    progress: Callable[[Progress], object] | bool = False,
) -> JudgedTexts:
    """Computes every judged metric of every row of texts.

    A judgement that failed is NaN with a status and the last reply.

    Args:
        rows: texts. A list is checked before anything is asked: a row that lacks an input that a metric needs raises
            an error. Of an iterator, which is pulled as results come, such a row gets the status ``metric_error``.
        metrics: names of :data:`METRICS`, or metrics with choices of their own.
        judge: a :class:`valor_gpu.judge.Judge`, or a callable from messages to text.
        prompts: the user's own prompts for metrics given by name, see :func:`load_prompts`.
        compat: for metrics given by name: None, or the release of Valor whose rules apply: ``valor-api``,
            ``valor-core``, ``valor-lite``.
        raise_on_empty: for metrics given by name: an empty input is an error before anything is asked; None: as
            ``compat`` has it.
        limits: how the judge may be asked. None: the usual limits; under a preset nothing is sent back for repair.
        cache: keeps replies; a run that was killed goes on where it was. A path, or an open one.
        repeats: times that every question is asked; with two or more the judge's own variance is known.
        clusters: one id per row, for standard errors of rows that are not independent.
        prices: of tokens, for the cost.
        progress: called in this thread after every row; True shows a bar on stderr.

    Raises:
        InputError: an unknown metric, or a row of a list that lacks an input.
        JudgeAborted: the rows' iterator or ``progress`` raised an error; ``error.run`` has what was judged before.
        JudgeInterrupted: Ctrl-C, also within a running event loop; ``error.run`` has what was judged.

    Example:
        >>> rows = [TextRow(response="Rain, then sun."), TextRow(response="Sun turnip of.")]
        >>> judge = lambda messages: "4" if "Rain" in messages[1]["content"] else "?"
        >>> run = evaluate_texts(rows, ["Coherence"], judge)
        >>> run.scores("Coherence"), run.summaries["Coherence"].n_failed, run.summaries["Coherence"].lower
        ([4.0, nan], {'parse_error': 1}, 2.5)
    """
    asked = _metrics(rows, metrics, prompts, compat, raise_on_empty)
    how: dict[str, Any] = {"cache": cache, "repeats": repeats, "clusters": clusters, "prices": prices}
    with _prompts_kept(asked):
        run = run_judge(rows, asked, judge, limits=limits or _limits(compat), progress=progress, **how)
    return _with_prompts(run, asked)


async def evaluate_texts_async(
    rows: Iterable[TextRow] | AsyncIterable[TextRow],
    metrics: Sequence[str | PromptedMetric],
    judge: Any,
    *,
    prompts: OwnPrompts = None,
    compat: str | None = None,
    raise_on_empty: bool | None = None,
    limits: Limits | None = None,
    cache: JudgeCache | str | os.PathLike[str] | None = None,
    repeats: int = 1,
    clusters: Sequence[Hashable] | None = None,
    prices: Prices | None = None,
    progress: Callable[[Progress], object] | bool = False,
) -> JudgedTexts:
    """:func:`evaluate_texts` in the running event loop, which goes on meanwhile.

    Args:
        rows: texts, as a list or a synchronous or asynchronous iterator.
        metrics: names of :data:`METRICS`, or metrics with choices of their own.
        judge: a :class:`valor_gpu.judge.Judge`, or a callable from messages to text.
        prompts: the user's own prompts for metrics given by name.
        compat: for metrics given by name: None, or the release of Valor whose rules apply.
        raise_on_empty: for metrics given by name: an empty input is an error; None: as ``compat`` has it.
        limits: how the judge may be asked. None: the usual limits; under a preset nothing is sent back for repair.
        cache: keeps replies. A path, or an open one.
        repeats: times that every question is asked.
        clusters: one id per row, for standard errors of rows that are not independent.
        prices: of tokens, for the cost.
        progress: called after every row; True shows a bar on stderr.

    Raises:
        InputError: an unknown metric, or a row of a list that lacks an input.
        JudgeAborted: the rows' iterator or ``progress`` raised an error; ``error.run`` has what was judged before.
        asyncio.CancelledError: the task was cancelled. Its ``__cause__`` is a :class:`valor_gpu.judge.JudgeCancelled`,
            whose ``run`` has what was judged.

    Example:
        >>> import asyncio
        >>> rows = [TextRow(response="Rain, then sun.")]
        >>> asyncio.run(evaluate_texts_async(rows, ["Coherence"], lambda messages: "4")).scores("Coherence")
        [4.0]
    """
    asked = _metrics(rows, metrics, prompts, compat, raise_on_empty)
    how: dict[str, Any] = {"cache": cache, "repeats": repeats, "clusters": clusters, "prices": prices}
    with _prompts_kept(asked):
        run = await run_judge_async(rows, asked, judge, limits=limits or _limits(compat), progress=progress, **how)
    return _with_prompts(run, asked)


def _limits(compat: str | None) -> Limits:
    return Limits(repairs=text_rules(compat).repairs)


def _metrics(
    rows: Any,
    metrics: Sequence[str | PromptedMetric],
    prompts: OwnPrompts,
    compat: str | None,
    raise_on_empty: bool | None,
) -> list[PromptedMetric]:
    """Returns the metrics, those given by name made with these choices.

    Raises:
        InputError: an unknown metric, or a row of a list that lacks an input.
    """
    for metric in metrics:
        if not isinstance(metric, PromptedMetric) and metric not in METRICS:
            raise InputError(f"metrics must be of {', '.join(METRICS)} but got {metric!r}")
    asked = [
        metric if isinstance(metric, PromptedMetric) else METRICS[metric](prompts, compat, raise_on_empty)
        for metric in metrics
    ]
    check_type("rows", rows, (Iterable, AsyncIterable))
    for index, row in enumerate(rows if isinstance(rows, Sequence) else ()):
        check_type("rows", row, TextRow)
        for metric in asked:
            metric.check(row, f"row {index}")
    return asked


@contextmanager
def _prompts_kept(metrics: Sequence[PromptedMetric]) -> Iterator[None]:
    """Adds the names of the prompts to what was judged when an error or a cancellation ended the run."""
    try:
        yield
    except JudgeInterrupted as interrupt:
        raise JudgeInterrupted(_with_prompts(interrupt.run, metrics)) from None
    except asyncio.CancelledError as cancelled:
        if not isinstance(cancelled.__cause__, JudgeCancelled):
            raise
        raise cancelled from JudgeCancelled(_with_prompts(cancelled.__cause__.run, metrics))
    except JudgeAborted as aborted:
        aborted.run = _with_prompts(aborted.run, metrics)
        raise


def _with_prompts(run: JudgeRun, metrics: Sequence[PromptedMetric]) -> JudgedTexts:
    used = {metric.name: tuple(prompt.id for prompt in metric.prompts.values()) for metric in metrics}
    return JudgedTexts(**vars(run), prompts=used)
