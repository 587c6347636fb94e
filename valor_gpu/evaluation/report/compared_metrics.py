"""Metrics of two runs as rows of the table of comparisons, which reports and Studio share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from valor_gpu.evaluation.report.bounds import CLIP, short, short_name
from valor_gpu.evaluation.results.metric_comparison import MetricComparison
from valor_gpu.pages import numbers
from valor_gpu.pages.comparison_table import ComparedNumber
from valor_gpu.stats.power import detectable_difference

Scale = tuple[Any, Any]


def compared_metrics(
    metrics: Sequence[MetricComparison],
    name: Callable[[MetricComparison], str],
    scale: Callable[[str], Scale],
    confidence: float = 0.95,
) -> list[ComparedNumber]:
    """Returns the rows of metrics; those of one scale have one axis.

    Args:
        metrics: of a comparison of two runs.
        name: of a metric, in words.
        scale: lowest and highest value of an evaluator's scores; None: unknown.
        confidence: of the intervals.
    """
    reach: dict[Scale, float] = {}
    for each in metrics:
        reach[scale(each.name)] = max(reach.get(scale(each.name), 0.0), *_sizes(each))
    return [_row(each, name(each), scale(each.name), reach[scale(each.name)], confidence) for each in metrics]


def scales_of(infos: Mapping[str, Mapping[str, Any]]) -> Callable[[str], Scale]:
    """The lowest and highest score by name of an evaluator."""
    return lambda name: (infos.get(name, {}).get("low"), infos.get(name, {}).get("high"))


def _sizes(each: MetricComparison) -> Iterator[float]:
    yield 0.0
    yield from (abs(end) for end in (*(each.interval or ()), each.difference or 0.0) if math.isfinite(end))


def _row(each: MetricComparison, name: str, scale: Scale, reach: float, confidence: float) -> ComparedNumber:
    low, high = (math.nan, math.nan) if each.interval is None else each.interval
    return ComparedNumber(
        short_name(name),
        _float(each.baseline),
        _float(each.run),
        _float(each.difference),
        low,
        high,
        _float(each.p_adjusted),
        _reading(each),
        detectable=detectable_difference(each.standard_error or math.nan, confidence),
        rows=_rows(each),
        note="; ".join(_notes(each)),
        decimals=_decimals(each, scale),
        reach=reach,
    )


def _decimals(each: MetricComparison, scale: Scale) -> int:
    """Those of the scale; where it is unknown, three of numbers up to 1."""
    if None in scale and max(abs(each.run or 0), abs(each.baseline or 0)) <= 1:
        return 3
    return numbers.decimals_of(*scale)


def _float(value: float | None) -> float:
    return math.nan if value is None else value


def _reading(each: MetricComparison) -> str:
    if each.n and not each.n_higher + each.n_lower and each.verdict == "not shown":
        return "equal"
    return each.verdict


def _rows(each: MetricComparison) -> str:
    text = f"{each.n:,}: {each.n_higher:,} higher, {each.n_equal:,} equal, {each.n_lower:,} lower"
    return f"{text}; {each.n_missing:,} lack one" if each.n_missing else text


def _notes(each: MetricComparison) -> Iterator[str]:
    yield from (short(text, CLIP) for text in (each.warning, each.reason) if text)
    if each.run_rate is not None:
        rates = f"{numbers.percent(each.baseline_rate)} to {numbers.percent(each.run_rate)}"
        yield f"pass {rates}: {numbers.rows(each.broken)} broken, {each.fixed:,} fixed"
