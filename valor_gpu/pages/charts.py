"""Charts as inline SVG: each is an image whose label says its numbers in words.

Colours come from the classes of ``charts.css``; texts have 12 px, so the width of a chart is that of its place. Charts
that stand side by side are given one scale by their caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from valor_gpu.pages.numbers import count
from valor_gpu.pages.texts import Html, escape

ICONS = {
    "finished": "M2 6.5 5 9.5 10 3",
    "failed": "M3 3l6 6M9 3l-6 6",
    "damaged": "M6 1.5 11 10.5H1zM6 5v2.5M6 9v.1",
    "running": "M6 1a5 5 0 1 1-5 5",
    "stopped": "M4 2.5v7M8 2.5v7",
    "draft": "M2 10l.5-2.5L8.5 1.5l2 2-6 6z",
    "warn": "M6 1.5 11 10.5H1zM6 5v2.5M6 9v.1",
    "open": "M2 4l4 4 4-4",
    "shut": "M4 2l4 4-4 4",
    "info": "M6 1a5 5 0 1 0 .01 0M6 5.5V9M6 3.2v.1",
}
LEVELS = ("Very low", "Low", "Medium", "High")


class Estimate(NamedTuple):
    """A number with its interval; an end that is None is not drawn."""

    value: float
    low: float | None = None
    high: float | None = None


class BarLink(NamedTuple):
    """An address behind a bar, and words that say where it leads; without an address the bar is no link."""

    address: str
    words: str


def icon(name: str) -> Html:
    """A small picture beside a word; screen readers pass over it."""
    return Html(f'<svg class="icon" viewBox="0 0 12 12" aria-hidden="true"><path d="{ICONS[name]}"/></svg>')


def pips(value: float, low: float = 1.0, high: float = 5.0) -> Html:
    """Up to five small squares beside a score that is printed: how far it lies on its scale."""
    full = 5 * min(max((value - low + 1) / (high - low + 1), 0), 1)
    marks = "".join(
        f'<rect class="{kind}" x="{6 * i}" y="0" width="{width:g}" height="6"/>'
        for i in range(5)
        for kind, width in (("off", 5.0), ("on", 5 * min(max(full - i, 0), 1)))
        if width
    )
    return Html(f'<svg class="pips" viewBox="0 0 30 6" aria-hidden="true">{marks}</svg>')


def bars(
    names: Sequence[str],
    counts: Sequence[int],
    label: str,
    mean: Estimate | None = None,
    width: int = 340,
    links: Sequence[BarLink] = (),
) -> Html:
    """Counts of whole scores, one bar for each; under the axis their mean with its interval, on the same scale.

    Args:
        names: of the bars, from left to right.
        counts: of the bars.
        label: what the chart says, in words.
        mean: in positions of bars: 0 is the first one, 1 the second.
        width: in px.
        links: of the bars; none: bars are no links.

    Example:
        >>> chart = bars("12345", [44, 77, 138, 336, 596], "mean 4.14", Estimate(3.14, 3.08, 3.21))
        >>> chart.startswith('<svg class="chart"'), chart.count("<rect")
        (True, 5)
    """
    base, top, slot = 104.0, 18.0, width / len(counts)
    tallest, parts, drawn = max(*counts, 1), [_line(0, base, width, base, "axis")], []
    for i, (name, n) in enumerate(zip(names, counts)):
        height, middle = (base - top) * n / tallest, i * slot + slot / 2
        bar = _rect(i * slot + slot * 0.14, base - height, slot * 0.72, height, "bar-mark")
        drawn.append(bar + _text(middle, base - height - 5, count(n)))
        parts.append(_text(middle, base + 34, name, kind="strong"))
    parts += _linked(drawn, links, [(i * slot, slot) for i in range(len(drawn))])
    whisker = _mean(mean, lambda at: slot / 2 + at * slot, base + 12)
    return _svg(width, 142, label, *parts, *whisker, links=links)


def severity_bars(
    counts: Sequence[int],
    threshold: int,
    scale: int,
    label: str,
    width: int = 262,
    links: Sequence[BarLink] = (),
) -> Html:
    """Counts of the four levels of severity; right of the dashed line are defects.

    Args:
        counts: of very low, low, medium and high.
        threshold: index of the first level that is a defect.
        scale: count of the tallest bar. Taken above very low, over all charts of a row, it keeps rare levels visible;
            a bar that is taller is broken, and every count is printed.
        label: what the chart says, in words.
        width: in px.
        links: of the bars; none: bars are no links.
    """
    base, top, slot = 118.0, 38.0, width / 4  # the word above the line has a line of its own, over all numbers
    parts, drawn = [_line(0, base, width, base, "axis")], []
    for i, n in enumerate(counts):
        left, height = i * slot, max((base - top) * min(n / max(scale, 1), 1), 2 if n else 0)
        bar = _rect(left + slot * 0.14, base - height, slot * 0.72, height, f"sev-fill-{i} edge")
        if n > max(scale, 1):
            y = base - height + 27
            x, wide = left + slot * 0.1, slot * 0.8
            bar += f'<path class="gap" d="M{x:.1f} {y:.1f}l{wide:.1f} -7v6l-{wide:.1f} 7z"/>'
        middle = left + slot / 2
        drawn.append(bar + _text(middle, base - height - 5, count(n)))
        parts.append(_text(middle, base + 18, LEVELS[i], kind="strong" if i >= threshold else ""))
    parts += _linked(drawn, links, [(i * slot, slot) for i in range(len(drawn))], base)
    x = threshold * slot
    parts += [_line(x, 2, x, base + 24, "limit"), _text(x + 6, 13, "defect", "start", "strong")]
    return _svg(width, 144, label, *parts, links=links)


def histogram(
    counts: Sequence[int],
    ticks: Sequence[tuple[float, str]],
    label: str,
    mean: Estimate | None = None,
    width: int = 340,
    links: Sequence[BarLink] = (),
) -> Html:
    """Counts of equally wide bins; under the axis the mean with its interval, on the same scale.

    Args:
        counts: of the bins.
        ticks: names at places of the axis, from 0 (its left end) to 1.
        label: what the chart says, in words.
        mean: in places of the axis.
        width: in px.
        links: of the bins; none: bins are no links.
    """
    base, slot, tallest = 104.0, width / len(counts), max(*counts, 1)
    parts, drawn = [_line(0, base, width, base, "axis")], []
    for i, n in enumerate(counts):
        height = 84 * n / tallest
        drawn.append(_rect(i * slot + 0.75, base - height, slot - 1.5, height, "bar-mark"))
    parts += _linked(drawn, links, [(i * slot, slot) for i in range(len(drawn))])
    if any(counts):
        at = list(counts).index(max(counts)) * slot + slot / 2
        parts.append(_text(min(max(at, 16), width - 16), 15, count(max(counts))))
    for place, name in ticks:
        anchor = "start" if place <= 0.02 else "end" if place >= 0.98 else "middle"
        parts.append(_text(place * width, base + 34, name, anchor, "strong"))
    return _svg(width, 142, label, *parts, *_mean(mean, lambda at: at * width, base + 12), links=links)


def rate_bar(rate: Estimate, label: str, width: int = 340, links: Sequence[BarLink] = ()) -> Html:
    """A rate from 0 to 1 as the filled part of a bar, with its interval.

    Args:
        rate: and its interval.
        label: what the chart says, in words.
        width: in px.
        links: of the filled part and of the rest; none: they are no links.
    """
    filled = width * min(max(rate.value, 0.0), 1.0)
    drawn = [_rect(0, 5, filled, 10, "bar-mark"), ""]
    parts = [_rect(0, 5, width, 10, "track"), *_linked(drawn, links, [(0, filled), (filled, width - filled)], 20, 0)]
    if rate.low is not None and rate.high is not None:
        parts.append(_whisker(rate.low * width, rate.value * width, rate.high * width, 10, radius=0))
    return _svg(width, 20, label, *parts, links=links)


def interval(
    estimate: Estimate,
    scale: tuple[float, float],
    label: str,
    kind: str = "",
    zero: float | None = 0.0,
    width: int = 140,
) -> Html:
    """An interval for one cell of a table: dot, line and end ticks on the scale of its column.

    Args:
        estimate: the number and its ends.
        scale: left and right end of the axis, which is never turned round.
        label: what the chart says, in words.
        kind: ``better``, ``worse`` or ``unclear``; their colours, beside which the word stands.
        zero: where the line of no difference is; None for none.
        width: in px.
    """
    start, stop = scale

    def at(value: float) -> float:
        return 6 + (width - 12) * (min(max(value, start), stop) - start) / ((stop - start) or 1)

    parts = [_line(6, 10, width - 6, 10, "grid")]
    if zero is not None:
        parts.append(_line(at(zero), 0, at(zero), 20, "axis"))
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    parts.append(_whisker(at(low), at(estimate.value), at(high), 10, kind or "whisk", kind or "dot"))
    return _svg(width, 20, label, *parts)


def curve(lines: Sequence[Sequence[tuple[float, float]]], label: str, size: int = 168) -> Html:
    """Precision over recall, both from 0 to 1: the first line solid over a filled area, the second dashed.

    Args:
        lines: one or two, each with its points of recall and precision by recall; one without points is not drawn.
        label: what the chart says, in words.
        size: width and height in px.

    Example:
        >>> chart = curve([[(0, 1), (0.5, 0.8)], [(0, 0.5), (0.25, 0.5)]], "AP 0.55")
        >>> chart.count("<path"), 'class="curve-2"' in chart
        (3, True)
    """
    base, wide = size - 18.0, size - 18.0
    drawn = [
        "L".join(f"{12 + recall * wide:.1f} {6 + (1 - precision) * (base - 6):.1f}" for recall, precision in line)
        for line in lines
    ]
    parts = []
    if drawn and drawn[0]:
        end = 12 + lines[0][-1][0] * wide
        parts.append(f'<path class="area" d="M{drawn[0]}L{end:.1f} {base:.1f}L12 {base:.1f}z"/>')
    parts += [_line(12, base, size - 6, base, "axis"), _line(12, 6, 12, base, "axis")]
    parts += [f'<path class="{kind}" d="M{path}"/>' for kind, path in zip(("curve", "curve-2"), drawn) if path][::-1]
    words = [_text(8, 15, "1", "end"), _text(8, base, "0", "end"), _text(size - 6, size - 3, "recall 1", "end")]
    return _svg(size, size, label, *parts, *words)


def matrix(
    truths: Sequence[str],
    predictions: Sequence[str],
    counts: Sequence[Sequence[float]],
    totals: Sequence[float],
    label: str,
    cell: int = 80,
    left: int = 120,
) -> Html:
    """Counts of truth by prediction. Shade is the share of the row, at most 58%, so that its number stays readable.

    Args:
        truths: names of the rows.
        predictions: names of the columns.
        counts: ``[rows, columns]``; 0 is an empty cell.
        totals: of each row, which may count more than the columns that are shown.
        label: what the chart says, in words.
        cell: width of a column in px.
        left: width of the names of rows in px.
    """
    parts = []
    for j, name in enumerate(predictions):
        parts.append(_text(left + j * cell + cell / 2, 16, _fitting(name, cell), kind="ink"))
    for i, (name, row) in enumerate(zip(truths, counts)):
        y = 26 + i * 30
        parts.append(_text(left - 8, y + 19, _fitting(name, left - 8), "end", "ink"))
        for j, n in enumerate(row):
            shade = f' fill-opacity="{0.03 + 0.55 * min(n / (totals[i] or 1), 1):.2f}"'
            x = left + j * cell
            parts.append(f'<rect x="{x}" y="{y}" width="{cell - 2}" height="28" class="cell"{shade}/>')
            if n:
                shown = count(int(n)) if n == int(n) else f"{n:,.1f}"
                kind = "strong" if name == predictions[j] else "ink"
                parts.append(_text(x + cell / 2 - 1, y + 19, shown, kind=kind))
    return _svg(left + len(predictions) * cell, 28 + len(truths) * 30, label, *parts)


def _fitting(name: str, width: float) -> str:
    """A name cut to a width in px; the label of the chart and the table beside it have it whole."""
    most = max(int(width / 7), 3)
    return name if len(name) <= most else name[: most - 1] + "…"


def _mean(mean: Estimate | None, at: Callable[[float], float], y: float) -> list[str]:
    if mean is None:
        return []
    low = mean.value if mean.low is None else mean.low
    high = mean.value if mean.high is None else mean.high
    return [_whisker(at(low), at(mean.value), at(high), y)]


def _whisker(
    left: float, x: float, right: float, y: float, line: str = "whisk", dot: str = "dot", radius: float | None = None
) -> str:
    """The one way to draw an interval; the dot of a narrow one is smaller, so that its ticks are seen."""
    size = min(3.5, max(1.8, (right - left) / 5)) if radius is None else radius
    ticks = _line(left, y - 4, left, y + 4, line) + _line(right, y - 4, right, y + 4, line)
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" class="{dot}"/>' if size else ""
    return _line(left, y, right, y, line) + ticks + circle


def _linked(
    drawn: Sequence[str],
    links: Sequence[BarLink],
    places: Sequence[tuple[float, float]],
    base: float = 104.0,
    top: float = 18.0,
) -> list[str]:
    """Bars as links over their whole place, of which the tab key reaches the first; arrow keys reach the others.

    Args:
        drawn: markup of each bar.
        links: of the bars; none: the bars alone.
        places: left end and width of each bar's place in px.
        base: lower end of the places in px.
        top: upper end of the places in px.
    """
    if not links:
        return list(drawn)
    found, stop = [], "0"
    for bar, link, (left, width) in zip(drawn, links, places):
        if not link.address:
            found.append(bar)
            continue
        place = _rect(left, top, width, base - top, "place")
        at = f'href="{escape(link.address)}" tabindex="{stop}" aria-label="{escape(link.words)}"'
        found.append(f"<a {at}>{place}{bar}<title>{escape(link.words)}</title></a>")
        stop = "-1"
    return found


def without_script(chart: Html, links: Sequence[BarLink]) -> Html:
    """A chart and, for pages without scripts, the links of its bars as a list that the tab key goes through."""
    found = "".join(f'<li><a href="{escape(to)}">{escape(words)}</a></li>' for to, words in links if to)
    listed = f'<details class="small"><summary>Rows behind the bars</summary><ul>{found}</ul></details>'
    return Html(f"{chart}<noscript>{listed}</noscript>") if found else chart


def _svg(width: int, height: int, label: str, *parts: str, links: Sequence[BarLink] = ()) -> Html:
    box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    # Screen readers pass over what an image holds, so a chart with links is a group.
    role = 'role="group" data-roving="bars"' if any(link.address for link in links) else 'role="img"'
    return Html(f'<svg class="chart" {box} {role} aria-label="{escape(label)}">{"".join(parts)}</svg>')


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    cls = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{cls}>{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    sizes = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect {sizes} class="{kind}"/>'
