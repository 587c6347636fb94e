"""Cards of a run that goes on, from the running sums of its process: no score is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.report.bounds import short_name, words
from valor_gpu.evaluation.report.cards import Card, in_families
from valor_gpu.evaluation.report.distributions import LEVEL_ENDS, Link, bar_links, spans_of
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.charts import LEVELS, BarLink, Estimate
from valor_gpu.pages.texts import Html
from valor_gpu.store.progress import RunProgress

_PREFERENCES = ("loss", "tie", "win")
_MOST_BARS = 11  # whole scores that have a bar each


def families_so_far(
    infos: Sequence[Mapping[str, Any]],
    progress: RunProgress,
    limits: Mapping[str, Threshold],
    most: int,
    link: Link | None = None,
) -> tuple[list[tuple[str, str, list[Card]]], int]:
    """The cards of a run that goes on by family, without intervals; and how many evaluators are left out.

    Args:
        infos: of the evaluators, as of :func:`~valor_gpu.evaluation.results.summary.evaluator_infos`.
        progress: of the run.
        limits: thresholds of evaluators.
        most: evaluators that are shown.
        link: address of the rows so far whose score of an evaluator lies between two ends; None: bars are no links.
    """
    severities = [(progress.evaluators.get(each["name"]) or {}).get("levels") or {} for each in infos[:most]]
    scale = max((n for levels in severities for n in list(levels.values())[1:]), default=0)
    cards = [
        (str(info["kind"]), _card(info, progress.evaluators.get(info["name"]), progress, limits, scale, link))
        for info in infos[:most]
    ]
    return in_families(cards), max(len(infos) - most, 0)


def _card(
    info: Mapping[str, Any],
    sums: Mapping[str, Any] | None,
    progress: RunProgress,
    limits: Mapping[str, Threshold],
    scale: int,
    link: Link | None,
) -> Card:
    name, n = str(info["name"]), int((sums or {}).get("n") or 0)
    known = EVALUATORS.get(name)
    total = "" if progress.total_rows is None else f" of {progress.total_rows:,}"
    failed = [f"{count:,} {words(status)}" for status, count in ((sums or {}).get("failed") or {}).items() if count]
    what = known.summary if known else ""
    if not n or sums is None:
        return Card(short_name(name), what, numbers.NOTHING, "", "", None, f"0{total} rows", failed, whole_name=name)
    value, unit = _value(info, sums, limits.get(name))
    chart = _chart(info, sums, limits.get(name), scale, link)
    return Card(short_name(name), what, value, unit, "so far", chart, f"{n:,}{total} rows", failed, whole_name=name)


def _value(info: Mapping[str, Any], sums: Mapping[str, Any], limit: Threshold | None) -> tuple[str, str]:
    """The number so far, and what stands beside it."""
    n, passed = int(sums["n"]), sums.get("n_passed")
    if info["kind"] == "safety" and limit is not None and passed is not None:
        return numbers.percent((n - passed) / n), f"defects, {n - passed:,} of {n:,} rows"
    if info["pooled"]:
        return numbers.NOTHING, "from all rows together, at the end"
    decimals = numbers.decimals_of(info["low"], info["high"])
    return numbers.number(sums["sum"] / n, decimals), "" if info["high"] is None else f"of {info['high']:g}"


def _chart(
    info: Mapping[str, Any], sums: Mapping[str, Any], limit: Threshold | None, scale: int, link: Link | None
) -> Html | None:
    if info["pooled"]:
        return None
    name, levels, bins = short_name(str(info["name"])), sums.get("levels"), sums.get("bins")
    if info["kind"] == "safety":
        counts = [int((levels or {}).get(level, 0)) for level in LEVELS]
        if not any(counts):
            return None
        first = 2 if limit is None else min(max(int(limit.limit // 2), 0), 3)
        label = f"{name} so far: {_counts(LEVELS, counts)}"
        links = _links(link, info, sums, LEVEL_ENDS, counts, LEVELS)
        chart = charts.severity_bars(counts, first, scale or max(counts[1:]) or max(counts), label, links=links)
        return charts.without_script(chart, links)
    return None if not bins else _of_bins(info, name, sums, bins, link)


def _links(
    link: Link | None,
    info: Mapping[str, Any],
    sums: Mapping[str, Any],
    edges: Sequence[float],
    counts: Sequence[int],
    names: Sequence[str],
) -> list[BarLink]:
    if link is None:
        return []
    return bar_links(link, str(info["name"]), edges, counts, names, sums.get("n_scores", sums["n"]) != sums["n"])


def _counts(names: Sequence[str], counts: Sequence[int]) -> str:
    return ", ".join(f"{n:,} of {name}" for name, n in zip(names, counts))


def _of_bins(
    info: Mapping[str, Any], name: str, sums: Mapping[str, Any], bins: Mapping[str, Any], link: Link | None
) -> Html:
    edges, counts = [float(edge) for edge in bins["edges"]], [int(n) for n in bins["counts"]]
    low, high, mean = edges[0], edges[-1], sums["sum"] / sums["n"]
    names = _PREFERENCES if info["kind"] == "pairwise" else _whole_names(low, high, len(counts))
    if names:
        place = Estimate(min(max((mean - low) / (high - low), 0), 1) * (len(counts) - 1))
        links = _links(link, info, sums, edges, counts, names)
        label = f"{name} so far: {_counts(names, counts)}"
        return charts.without_script(charts.bars(names, counts, label, place, links=links), links)
    if "ones" in bins and bins["zeros"] + bins["ones"] == sums["n_scores"]:
        label = f"{name} so far: {bins['ones']:,} scores are 1, {bins['zeros']:,} are 0"
        links = [
            *_links(link, info, sums, [1.0, 1.0], [int(bins["ones"])], ["1"]),
            *_links(link, info, sums, [0.0, math.ulp(0.0)], [int(bins["zeros"])], ["0"]),
        ]
        return charts.without_script(charts.rate_bar(Estimate(min(max(mean, 0), 1)), label, links=links), links)
    ticks = [(place, f"{low + (high - low) * place:.3g}".replace("-", numbers.MINUS)) for place in (0, 0.5, 1)]
    label = f"{name} so far: counts of {len(counts)} bins from {low:g} to {high:g}: {', '.join(map(str, counts))}"
    place = Estimate(min(max((mean - low) / (high - low), 0), 1))
    links = _links(link, info, sums, edges, counts, spans_of(edges))
    return charts.without_script(charts.histogram(counts, ticks, label, place, links=links), links)


def _whole_names(low: float, high: float, n: int) -> Sequence[str]:
    """Names of bars of whole scores; none where bins are something else."""
    is_whole = low.is_integer() and high.is_integer() and 2 <= high - low < _MOST_BARS and n == high - low + 1
    return [f"{low + i:g}" for i in range(n)] if is_whole else ()
