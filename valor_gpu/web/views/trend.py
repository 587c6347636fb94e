"""A metric over runs: the chart, and a table of the same numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from starlette.responses import Response

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.pages import numbers, plots
from valor_gpu.pages.charts import Estimate
from valor_gpu.pages.texts import Html
from valor_gpu.web.book import Entry
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get
from valor_gpu.web.runs.run_filters import filtered_runs, head_of, metrics_by_use, names_in_words
from valor_gpu.web.runs.trends import Measured, Series, metric_named, trend_of

DRAWN = 1000
"""Runs of a chart; the latest ones where there are more."""
PAGE = 100
_SERIES = 12
_TAGS = 100


def trend(ask: Ask) -> Response:
    """The page of a trend."""
    everything = [each for each in ask.studio.book.entries() if not each.is_lost]
    names = metrics_by_use(everything)
    metric = metric_named(ask.query.get("metric", ""), everything, names)
    words = names_in_words(everything, names if metric in names else [metric, *names])
    tags = _tags(everything)
    by = ask.query.get("by", "") if ask.query.get("by", "") in tags else ""
    matching = filtered_runs(everything, ask)
    ordered, untagged = _ordered(matching, by)
    found, series = trend_of(ordered, metric)
    drawn = found[-DRAWN:]
    start = _whole(ask.query.get("from", "0"))
    shown = found[::-1][start : start + PAGE]
    return page(
        ask,
        "trend.html",
        metric=metric,
        words=words[metric],
        title=head_of(metric, words[metric]),
        metrics=words,
        by=by,
        order=f"the tag {short(by)}" if by else "time",
        tags=[(name, short(name)) for name in tags],
        datasets=sorted({each.data for each in everything if each.data}),
        everything=len(everything),
        n_matching=len(matching),
        n_found=len(found),
        n_drawn=len(drawn),
        n_untagged=untagged,
        n_without=len(ordered) - len(found),
        n_partial=sum(each.is_partial for each in found),
        n_bare=sum(each.interval is None for each in found),
        chart=_chart(drawn, series, metric, by, words[metric]) if drawn else "",
        series=[_series(each) for each in series[:_SERIES]],
        n_series=len(series),
        confidence=_confidence(found),
        lines=[_line(each, series, metric, by) for each in shown],
        start=start,
        following=start + PAGE if start + PAGE < len(found) else None,
        this=ask.query.get("run", ""),
    )


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def _tags(entries: Sequence[Entry]) -> list[str]:
    """Names of tags, in the order of their first use among the newest runs."""
    return list(dict.fromkeys(str(name) for each in entries for name in each.tags))[:_TAGS]


def _ordered(entries: Sequence[Entry], by: str) -> tuple[list[Entry], int]:
    """Runs from the oldest, or by the value of a tag; and how many lack the tag."""
    oldest = list(entries)[::-1]
    if not by:
        return oldest, 0
    tagged = [each for each in oldest if by in each.tags]
    return sorted(tagged, key=lambda each: _place(each.tags[by])), len(oldest) - len(tagged)


def _place(value: Any) -> tuple[int, float, str]:
    """Numbers come first and by their size, texts after them."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    return (0, number, "") if math.isfinite(number) else (1, 0.0, str(value).casefold())


def _confidence(found: Sequence[Measured]) -> str:
    """The confidence of all intervals as text; empty where they differ, and each line has its own."""
    have = {each.confidence for each in found if each.interval is not None}
    return f"{100 * have.pop():g}%" if len(have) == 1 else ""


def _ticks(drawn: Sequence[Measured], by: str) -> list[str]:
    """What stands below the axis: tags, or as much of the times as tells them apart."""
    if by:
        return [short(each.entry.tags[by], 16) for each in drawn]
    times = [datetime.fromtimestamp(each.entry.head.created) for each in drawn]
    if len({time.date() for time in times}) == 1:
        return [f"{time:%H:%M}" for time in times]
    form = "%d %b" if len({time.year for time in times}) == 1 else "%d %b %Y"
    return [time.strftime(form) for time in times]


def _words(each: Measured, metric: str, series: Sequence[Series], by: str) -> str:
    decimals = each.entry.decimals(metric)
    between = f", {100 * each.confidence:g}% interval {numbers.span(*each.interval, decimals)}" if each.interval else ""
    state = f", {each.entry.head.state}" if each.is_partial else ""
    where = f", {short(by)} {short(each.entry.tags[by], 60)}" if by else f", {each.entry.started}"
    name = short(each.entry.head.name, 80) or each.entry.head.id
    letter = f", series {series[each.series].letter}" if len(series) > 1 else ""
    return f"{name}: {numbers.number(each.value, decimals)}{between}{where}{letter}{state}"


def _chart(drawn: Sequence[Measured], series: Sequence[Series], metric: str, by: str, words: str) -> Html:
    places = {old: new for new, old in enumerate(dict.fromkeys(each.series for each in drawn))}
    points = [
        plots.TrendPoint(
            Estimate(each.value, *(each.interval or (None, None))),
            places[each.series],
            _words(each, metric, series, by),
            tick,
            f"/runs/{each.entry.head.id}",
            each.is_partial,
        )
        for each, tick in zip(drawn, _ticks(drawn, by))
    ]
    starts = [_start(series[old]) for old in places]
    values = [each.value for each in drawn]
    decimals = drawn[-1].entry.decimals(metric)
    ends = numbers.span(min(values), max(values), decimals)
    first, last = (numbers.number(values[k], decimals) for k in (0, -1))
    lines = f"{len(places)} series that cannot be compared with each other" if len(places) > 1 else "one series"
    label = (
        f"{words} of {numbers.count(len(drawn))} runs, from {ends}: first {first}, last {last}; {lines}; "
        "the table below has all numbers"
    )
    return plots.trend(points, starts, label)


def _start(each: Series) -> str:
    return f"{each.letter}: not comparable, {', '.join(each.causes)}" if each.causes else each.letter


def _series(each: Series) -> dict[str, Any]:
    return {"letter": each.letter, "causes": ", ".join(each.causes), "other": each.other, "n": each.n}


def _line(each: Measured, series: Sequence[Series], metric: str, by: str) -> dict[str, Any]:
    decimals = each.entry.decimals(metric)
    own, before = series[each.series], each.before
    difference = None if before is None or each.is_partial else each.value - before.value
    return {
        "id": each.entry.head.id,
        "name": short(each.entry.head.name) or "without a name",
        "about": each.entry.about,
        "when": each.entry.started,
        "tag": short(each.entry.tags[by], 60) if by else "",
        "letter": own.letter,
        "value": numbers.number(each.value, decimals),
        "between": numbers.span(*each.interval, decimals) if each.interval else "",
        "confidence": f"{100 * each.confidence:g}%",
        "why_none": short(each.why_none, 200),
        "n": each.n,
        "difference": numbers.difference(difference, decimals) if difference is not None else "",
        "before": before.entry.head.id if before is not None else "",
        "state": each.entry.head.state if each.is_partial else "",
        "causes": ", ".join(own.causes) if before is None else "",
        "other": own.other,
    }


ROUTES = [get("/trend", trend)]
