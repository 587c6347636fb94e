"""Plots with axes as inline SVG: a trend over runs, two scores against each other as points or as counted cells.

As charts do, each says its numbers in words and takes its colours from ``charts.css``. Where marks lead somewhere, the
plot is a group of links of which the tab key reaches the first; a table beside it has all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from valor_gpu.pages.charts import Estimate
from valor_gpu.pages.numbers import MINUS
from valor_gpu.pages.texts import Html, escape

LINKED = 200
"""Points of a trend up to which each is a mark of its own, with its link."""
SHAPES = ("circle", "square", "diamond", "triangle")
SHADES = 5
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 16.0, 34.0, 40.0
_LETTER = 6.8  # px of a character of 12 px text, on average


class TrendPoint(NamedTuple):
    """A run of a trend.

    Attributes:
        estimate: its number with its interval.
        series: which of the lines it belongs to, from 0.
        words: what it says, for readers of its mark.
        tick: what stands below the axis.
        href: where it leads; empty for nowhere.
        is_partial: whether it has no part in a line: the run stopped before its end.
    """

    estimate: Estimate
    series: int
    words: str
    tick: str
    href: str = ""
    is_partial: bool = False


class Spot(NamedTuple):
    """Rows of equal scores: where they lie, how many they are, what the mark says, where it leads."""

    x: float
    y: float
    n: int
    words: str
    href: str = ""


class Cell(NamedTuple):
    """A counted cell of a grid: its column and row from the lower left, its rows, what it says, where it leads."""

    column: int
    row: int
    n: int
    words: str
    href: str = ""


_LARGEST = 8e307
"""Ends of an axis lie within, so that its length is a number."""


class Axis:
    """An axis between two numbers, with ticks at round ones.

    Args:
        low: its left or lower end.
        high: its other end; an axis without width gets one.
        start: px of the lower end.
        stop: px of the upper end.

    Example:
        >>> axis = Axis(0.62, 0.87, 0, 100)
        >>> axis.names()
        ['0.65', '0.70', '0.75', '0.80', '0.85']
    """

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        half = 0.0 if high > low else max(abs(low) * 0.05, 0.5)
        self.low, self.high = max(low - half, -_LARGEST), min(high + half, _LARGEST)
        self._start, self._stop = start, stop

    def at(self, value: float) -> float:
        """Returns the px of a number; one beyond the axis lies at its end."""
        share = (value - self.low) / (self.high - self.low)
        return self._start + (self._stop - self._start) * min(max(share, 0.0), 1.0)

    def ticks(self, most: int = 6) -> list[float]:
        """Returns round numbers between the ends, at most ``most``."""
        step = round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        return [step * k for k in range(first, math.floor(self.high / step + 1e-9) + 1)][: most + 1]

    def names(self, most: int = 6) -> list[str]:
        """Returns the ticks as texts of equal decimals."""
        step = round_step((self.high - self.low) / most)
        return [tick_name(value, step) for value in self.ticks(most)]


def round_step(least: float) -> float:
    """Returns the smallest of 1, 2, 2.5 and 5 times a power of ten that is not below ``least``.

    Example:
        >>> round_step(0.03), round_step(1), round_step(7)
        (0.05, 1.0, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= least * (1 - 1e-9))


def tick_name(value: float, step: float) -> str:
    """Returns a tick as text: large and tiny ones by their powers, others with the decimals of the step."""
    if value and not 1e-4 <= step < 1e7:
        return f"{value:.3g}".replace("-", MINUS)
    decimals = next((n for n in range(7) if abs(round(step, n) - step) < step * 1e-6), 6)
    return f"{value + 0.0:,.{decimals}f}".replace("-", MINUS)


def trend(points: Sequence[TrendPoint], starts: Sequence[str], label: str, width: int = 900, height: int = 270) -> Html:
    """A metric over runs at equal distances; lines join the runs of one series.

    Args:
        points: at least one, from left to right.
        starts: what stands where each series begins: its letter, and why it is not comparable with another.
        label: what the chart says, in words.
        width: in px.
        height: in px.

    Example:
        >>> points = [TrendPoint(Estimate(0.5 + k / 10, 0.4, 0.9), 0, f"run {k}", f"{k} May") for k in range(3)]
        >>> chart = trend(points, ["A"], "f1_score of 3 runs")
        >>> chart.count('class="spot'), chart.count('class="line series-0"')
        (3, 1)
    """
    ends = [end for each in points for end in each.estimate if end is not None]
    least, most = min(ends), max(ends)
    room = (most - least) * 0.06
    up = Axis(least - room, most + room, height - _BOTTOM, _TOP)
    slot = (width - _LEFT - _RIGHT) / len(points)
    xs = [_LEFT + slot * (k + 0.5) for k in range(len(points))]
    parts = _grid(up, width, height)
    parts += _starts(points, xs, slot, starts, width, up)
    for series in range(max(each.series for each in points) + 1):
        own = [(x, each) for x, each in zip(xs, points) if each.series == series]
        parts += _series(own, series, up)
    is_linked = len(points) <= LINKED
    parts += _marks(xs, points, up) if is_linked else [_dots(xs, points, up)]
    parts += _names_below([each.tick for each in points], xs, height - _BOTTOM + 18, slot, width)
    return _plot(width, height, label, is_linked and any(each.href for each in points), parts)


def _series(own: Sequence[tuple[float, TrendPoint]], series: int, up: Axis) -> list[str]:
    """The line of a series and the intervals of its points, each as one path."""
    joined = [(x, up.at(each.estimate.value)) for x, each in own if not each.is_partial]
    bars = [
        f"M{x:.1f} {up.at(each.estimate.low):.1f}V{up.at(each.estimate.high):.1f}"
        for x, each in own
        if each.estimate.low is not None and each.estimate.high is not None
    ]
    found = []
    if bars:
        found.append(f'<path class="ends" d="{"".join(bars)}"/>')
    if len(joined) > 1:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in joined)
        found.append(f'<path class="line series-{series % 4}" d="M{path}"/>')
    return found


def _marks(xs: Sequence[float], points: Sequence[TrendPoint], up: Axis) -> list[str]:
    found = []
    for k, (x, each) in enumerate(zip(xs, points)):
        kind = "spot hollow" if each.is_partial else "spot"
        mark = _shape(SHAPES[each.series % 4], x, up.at(each.estimate.value), kind, each.words)
        found.append(_linked(mark, each.href, each.words, is_first=k == 0))
    return found


def _dots(xs: Sequence[float], points: Sequence[TrendPoint], up: Axis) -> str:
    """All points as one path of round ends: a thousand marks of their own would be a large page."""
    path = "".join(f"M{x:.1f} {up.at(each.estimate.value):.1f}h0" for x, each in zip(xs, points))
    return f'<path class="dots" d="{path}"/>'


def _starts(
    points: Sequence[TrendPoint], xs: Sequence[float], slot: float, starts: Sequence[str], width: int, up: Axis
) -> list[str]:
    """The letter of each series at its first point; where all others have ended, a dashed line and why it is apart."""
    of = [each.series for each in points]
    firsts = sorted((of.index(s), s) for s in set(of))
    breaks = [(k, s) for k, s in firsts if k and not set(of[:k]) & set(of[k:])]
    found = [
        _text(xs[k], max(up.at(_top(points[k])) - 8, 30), starts[s].partition(":")[0], kind="strong")
        for k, s in (firsts if len(firsts) > 1 else [])
    ]
    for n, (k, s) in enumerate(breaks):
        x = xs[k] - slot / 2
        end = xs[breaks[n + 1][0]] - slot / 2 if n + 1 < len(breaks) else width
        found.append(_line(x, 6, x, up.at(up.low), "limit"))
        if len(starts[s]) * _LETTER < end - x - 8:
            found.append(_text(x + 5, 15, starts[s], "start", "strong"))
    return found


def _top(point: TrendPoint) -> float:
    return point.estimate.value if point.estimate.high is None else point.estimate.high


def scatter(
    spots: Sequence[Spot], x_axis: tuple[float, float], y_axis: tuple[float, float], names: tuple[str, str], label: str,
    width: int = 640, height: int = 420,
) -> Html:  # fmt: skip
    """Two scores against each other: a disc for each position, its area by the count of rows.

    Args:
        spots: positions with their counts.
        x_axis: ends of the horizontal axis.
        y_axis: ends of the vertical axis.
        names: of the horizontal and of the vertical score.
        label: what the chart says, in words.
        width: in px.
        height: in px.

    Example:
        >>> scatter([Spot(1, 2, 4, "4 rows")], (1, 5), (1, 5), ("a", "b"), "a and b").count("<circle")
        1
    """
    across = Axis(*x_axis, _LEFT + 12, width - _RIGHT - 12)
    up = Axis(*y_axis, height - _BOTTOM - 12, _TOP + 12)
    most = max((each.n for each in spots), default=1)
    parts = [*_grid(up, width, height), *_across(across, height), *_axis_names(names, width, height)]
    for k, each in enumerate(sorted(spots, key=lambda each: -each.n)):
        radius = 4 if most == 1 else max(3.0, 13 * math.sqrt(each.n / most))
        mark = (
            f'<circle class="spot see" cx="{across.at(each.x):.1f}" cy="{up.at(each.y):.1f}" r="{radius:.1f}">'
            f"<title>{escape(each.words)}</title></circle>"
        )
        parts.append(_linked(mark, each.href, each.words, is_first=k == 0))
    return _plot(width, height, label, any(each.href for each in spots), parts)


def cells(
    found: Sequence[Cell], size: tuple[int, int], x_axis: tuple[float, float], y_axis: tuple[float, float],
    names: tuple[str, str], label: str, width: int = 640, height: int = 420,
) -> Html:  # fmt: skip
    """Two scores against each other as a grid of counted cells; the shade is the count, see :func:`shade_limits`.

    Args:
        found: cells with rows; the others stay empty.
        size: columns and rows of the grid.
        x_axis: ends of the horizontal axis.
        y_axis: ends of the vertical axis.
        names: of the horizontal and of the vertical score.
        label: what the chart says, in words.
        width: in px.
        height: in px.
    """
    left, right, base, top = _LEFT, width - _RIGHT, height - _BOTTOM, _TOP
    across, up = Axis(*x_axis, left, right), Axis(*y_axis, base, top)
    limits = shade_limits([each.n for each in found])
    wide, high = (right - left) / size[0], (base - top) / size[1]
    parts = [*_grid(up, width, height), *_across(across, height), *_axis_names(names, width, height)]
    for k, each in enumerate(found):
        x, y = left + wide * each.column, base - high * (each.row + 1)
        mark = (
            f'<rect class="heat-{shade_of(each.n, limits)}" x="{x:.1f}" y="{y:.1f}" width="{wide - 1:.1f}" '
            f'height="{high - 1:.1f}"><title>{escape(each.words)}</title></rect>'
        )
        parts.append(_linked(mark, each.href, each.words, is_first=k == 0))
    return _plot(width, height, label, any(each.href for each in found), parts)


def shade_limits(counts: Sequence[int]) -> list[int]:
    """Returns the largest count of each shade, the palest first; equal steps of the square root, at most five shades.

    Example:
        >>> shade_limits([1, 3, 90, 1000]), shade_limits([1, 2])
        ([40, 160, 360, 640, 1000], [1, 2])
    """
    most = max(counts, default=0)
    if most <= SHADES:
        return list(range(1, most + 1))
    return sorted({*(max(most * k * k // SHADES**2, k) for k in range(1, SHADES)), most})


def shade_of(n: int, limits: Sequence[int]) -> int:
    """Returns the shade of a count, from 1, the palest, to 5."""
    place = next(k for k, limit in enumerate(limits, 1) if n <= limit)
    return place + SHADES - len(limits)


def _linked(mark: str, href: str, words: str, is_first: bool) -> str:
    if not href:
        return mark
    return f'<a href="{escape(href)}" tabindex="{0 if is_first else -1}" aria-label="{escape(words)}">{mark}</a>'


def _shape(shape: str, x: float, y: float, kind: str, words: str) -> str:
    paths = {
        "circle": "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
        "square": "m-4 -4h8v8h-8z",
        "diamond": "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        "triangle": "m0 -5.5l5.3 9.5h-10.6z",
    }
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f}{paths[shape]}"><title>{escape(words)}</title></path>'


def _grid(up: Axis, width: int, height: int) -> list[str]:
    """Horizontal lines with their numbers, and the base."""
    found = []
    for value, name in zip(up.ticks(), up.names()):
        y = up.at(value)
        found += [_line(_LEFT, y, width - _RIGHT, y, "grid"), _text(_LEFT - 8, y + 4, name, "end")]
    found.append(_line(_LEFT, height - _BOTTOM, width - _RIGHT, height - _BOTTOM, "axis"))
    return found


def _across(across: Axis, height: int) -> list[str]:
    found = []
    for value, name in zip(across.ticks(8), across.names(8)):
        x = across.at(value)
        found.append(_line(x, height - _BOTTOM, x, height - _BOTTOM + 5, "axis"))
        found.append(_text(x, height - _BOTTOM + 18, name))
    return found


def _axis_names(names: tuple[str, str], width: int, height: int) -> list[str]:
    most = int((width - 40) / _LETTER)
    across, up = (name if len(name) <= most else name[: most - 1] + "…" for name in names)
    return [
        _text(width - _RIGHT, height - 5, f"{across} →", "end", "strong"),
        _text(8, 16, f"↑ {up}", "start", "strong"),
    ]


def _names_below(names: Sequence[str], xs: Sequence[float], y: float, slot: float, width: int) -> list[str]:
    """Names at marks, as many as have room: every second, third and so on, from the last one backwards."""
    room = max(map(len, names)) * _LETTER + 12
    step = max(math.ceil(room / slot), 1)
    kept = range(len(names) - 1, -1, -step)
    return [_text(min(max(xs[k], room / 2), width - room / 2), y, names[k]) for k in reversed(kept)]


def _plot(width: int, height: int, label: str, is_linked: bool, parts: Sequence[str]) -> Html:
    box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    role = 'role="group" data-roving=""' if is_linked else 'role="img"'
    return Html(f'<svg class="chart plot" {box} {role} aria-label="{escape(label)}">{"".join(parts)}</svg>')


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    cls = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{cls}>{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'
