"""The chart of an evaluator's scores: which one fits its scale, and what it says in words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.evaluation.report.bounds import short_name
from valor_gpu.evaluation.results.chart_edges import BINS, edges_around, even_edges, whole_scores
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.charts import BarLink, Estimate
from valor_gpu.pages.texts import Html
from valor_gpu.store import Histogram, Run

_PREFERENCES = ("loss", "tie", "win")


LEVEL_ENDS = (0.0, 2.0, 4.0, 6.0, 7.0)
"""Severities between which the bars of the levels lie."""
Link = Callable[[str, float, float], str]


@dataclass(frozen=True)
class Drawing:
    """Where charts read their counts, and where their bars lead.

    Attributes:
        counts: of the scores of an evaluator between edges.
        link: address of the rows whose score of an evaluator lies between two ends; None: bars are no links.
    """

    counts: Callable[[str, Sequence[float]], Histogram]
    link: Link | None = None

    @classmethod
    def of(cls, run: Run) -> Drawing:
        """Reads a run, for a page of its own."""
        return cls(run.histogram)

    def links(
        self, name: str, edges: Sequence[float], counts: Sequence[int], names: Sequence[str], of_scores: bool = False
    ) -> list[BarLink]:
        """Links of bars between edges; an empty bar has no address.

        Args:
            name: of the evaluator.
            edges: of the bars, one more than there are.
            counts: of the bars.
            names: of the bars.
            of_scores: whether the bars count every repeat of a row, while their links lead to rows by their means.
        """
        return [] if self.link is None else bar_links(self.link, name, edges, counts, names, of_scores)


def bar_links(
    link: Link, name: str, edges: Sequence[float], counts: Sequence[int], names: Sequence[str], of_scores: bool = False
) -> list[BarLink]:
    """Links of bars between edges, as of :meth:`Drawing.links`.

    Args:
        link: address of the rows whose score of an evaluator lies between two ends.
        name: of the evaluator.
        edges: of the bars, one more than there are.
        counts: of the bars.
        names: of the bars.
        of_scores: whether the bars count every repeat of a row.
    """
    what, end = ("scores", "; opens rows by the mean of their repeats") if of_scores else ("rows", "")
    return [
        BarLink(link(name, low, high) if n else "", f"{what} of {short_name(name)} with {words}: {n:,}{end}")
        for (low, high), n, words in zip(itertools.pairwise(edges), counts, names)
    ]


def distribution(drawing: Drawing, name: str, facts: Mapping[str, Any], scale: int = 0) -> tuple[Html | None, int]:
    """The chart of an evaluator.

    Args:
        drawing: where its counts are read.
        name: of the evaluator.
        facts: its summary.
        scale: for severities, count of the tallest bar; see :func:`valor_gpu.pages.charts.severity_bars`.

    Returns:
        The chart, None where no row has a value or counts are pooled; and how many scores lie beyond the scale.
    """
    if facts["pooled"] or not facts["n"]:
        return None, 0
    if facts["kind"] == "safety":
        return _severities(drawing, name, facts, scale), 0
    values = whole_scores(facts)
    if values is not None:
        names = _PREFERENCES if facts["kind"] == "pairwise" else [f"{value:g}" for value in values]
        return _whole(drawing, name, facts, values, names)
    if (facts["low"], facts["high"]) == (0, 1) and (rate := _rate(drawing, name, facts)) is not None:
        return rate, 0
    return _histogram(drawing, name, facts)


def _severities(drawing: Drawing, name: str, facts: Mapping[str, Any], scale: int) -> Html:
    counts = [int(n) for n in facts["levels"].values()]
    threshold = str(facts.get("threshold", "Medium"))
    first = charts.LEVELS.index(threshold) if threshold in charts.LEVELS else _level_of(threshold)
    defects = f"{facts.get('n_defects', 0)} of {facts['n']} rows are defects"
    label = f"{short_name(name)}: {_counts(charts.LEVELS, counts)}; {defects}"
    links = drawing.links(name, LEVEL_ENDS, counts, charts.LEVELS)
    chart = charts.severity_bars(counts, first, scale or max(counts[1:]) or max(counts), label, links=links)
    return charts.without_script(chart, links)


def _is_repeated(facts: Mapping[str, Any]) -> bool:
    """Whether any row has several scores, so that bars of scores do not count rows."""
    return bool(facts["n_scores"] != facts["n"])


def _level_of(threshold: str) -> int:
    """The level that a number lies in."""
    return min(max(int(float(threshold) // 2), 0), 3)


def _counts(names: Sequence[str], counts: Sequence[int]) -> str:
    return ", ".join(f"{count:,} of {name}" for name, count in zip(names, counts))


def _mean(facts: Mapping[str, Any], start: float, step: float) -> Estimate | None:
    """The mean and its interval in steps of the axis, within it."""
    if facts["mean"] is None:
        return None

    def at(value: float) -> float:
        return (value - start) / step

    low, high = facts.get("interval") or (facts["mean"], facts["mean"])
    return Estimate(at(facts["mean"]), at(low), at(high))


def _clamped(estimate: Estimate | None, least: float, most: float) -> Estimate | None:
    if estimate is None:
        return None
    return Estimate(*(min(max(value, least), most) for value in estimate if value is not None))


def _label(name: str, facts: Mapping[str, Any], rest: str) -> str:
    decimals = numbers.decimals_of(facts["low"], facts["high"])
    between = facts.get("interval")
    said = f", 95% interval {numbers.span(between[0], between[1], decimals)}" if between else ""
    return f"{short_name(name)}: mean {numbers.number(facts['mean'], decimals)}{said}; {rest}"


def _whole(
    drawing: Drawing, name: str, facts: Mapping[str, Any], values: Sequence[float], names: Sequence[str]
) -> tuple[Html, int]:
    """A bar for every value; what lies between, such as the mean of turns, counts for the nearest one."""
    edges = edges_around(values)
    found = drawing.counts(name, edges)
    mean = _clamped(_mean(facts, values[0], values[1] - values[0]), 0, len(values) - 1)
    label = _label(name, facts, _counts(names, found.counts))
    links = drawing.links(name, edges, found.counts, names, _is_repeated(facts))
    chart = charts.bars(names, found.counts, label, mean, links=links)
    return charts.without_script(chart, links), found.below + found.above


def _rate(drawing: Drawing, name: str, facts: Mapping[str, Any]) -> Html | None:
    """A bar, where every score is 0 or 1."""
    zeros, between, ones = drawing.counts(name, [0.0, math.ulp(0.0), 1.0, math.nextafter(1.0, 2.0)]).counts
    if between or zeros + ones != facts["n_scores"]:
        return None
    mean = _clamped(_mean(facts, 0.0, 1.0), 0, 1) or Estimate(0.0)
    of_scores = _is_repeated(facts)
    links = [
        *drawing.links(name, [1.0, 1.0], [ones], ["1"], of_scores),
        *drawing.links(name, [0.0, math.ulp(0.0)], [zeros], ["0"], of_scores),
    ]
    chart = charts.rate_bar(mean, _label(name, facts, f"{ones:,} scores are 1, {zeros:,} are 0"), links=links)
    return charts.without_script(chart, links)


def spans_of(edges: Sequence[float]) -> list[str]:
    """Names of bins: from where to where each goes.

    Example:
        >>> spans_of([-1.0, 0.0, 0.5])
        ['−1 to 0', '0 to 0.5']
    """
    return [f"{low:.3g} to {high:.3g}".replace("-", numbers.MINUS) for low, high in itertools.pairwise(edges)]


def _histogram(drawing: Drawing, name: str, facts: Mapping[str, Any]) -> tuple[Html, int]:
    least, most = float(facts["least"]), float(facts["most"])
    start = (
        float(facts["low"]) if facts["low"] is not None and (facts["high"] is not None or facts["low"] == 0) else least
    )
    stop = float(facts["high"]) if facts["high"] is not None else most
    edges, width = even_edges(start, stop), stop - start
    if edges is None:
        return charts.bars([f"{start:.4g}"], [facts["n_scores"]], _label(name, facts, "no spread that can be drawn")), 0
    found = drawing.counts(name, edges)
    ticks = [(place, f"{start + width * place:.3g}".replace("-", numbers.MINUS)) for place in (0, 0.25, 0.5, 0.75, 1)]
    mean = _clamped(_mean(facts, start, width), 0, 1)
    label = _label(
        name, facts, f"counts of {BINS} bins from {start:g} to {stop:g}: {', '.join(map(str, found.counts))}"
    )
    links = drawing.links(name, edges, found.counts, spans_of(edges), _is_repeated(facts))
    chart = charts.histogram(found.counts, ticks, label, mean, links=links)
    return charts.without_script(chart, links), found.below + found.above
