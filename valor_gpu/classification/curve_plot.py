"""Pictures of ROC and precision-recall curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.drawing import GREY, GRID, Texts, axes_to_draw, count, has_room, legend, line_style, say_empty, titled
from valor_gpu.result import Result

NAMED = 10
"""Classes that a legend names: all of up to so many, else the worst."""

_GRID = np.linspace(0.0, 1.0, 1001)  # where curves are averaged
_ZOOMS = (0.05, 0.1, 0.2)  # parts of the axes that an inset may show

Points = NDArray[np.float64]


@dataclass(frozen=True)
class _Line:
    """A curve: its index among the classes, its name, its points and the area under it."""

    index: int
    name: str
    x: Points
    y: Points
    area: float


def plot_curves(
    result: Result,
    ax: Any = None,
    names: Sequence[str] | None = None,
    source: str | None = None,
    resize: bool = False,
) -> Any:
    """Draws the curves of a result of :class:`ROC` or :class:`PrecisionRecallCurve`; returns the axes.

    The legend has the area under each curve: ROC AUC or average precision. Of more than ten classes it names the ten
    with the smallest area; the others are thin and grey. A black line is the mean of the curves of all classes. Curves
    that fill a corner are shown larger in an inset.

    Args:
        result: of the metric.
        ax: matplotlib axes, or None for new ones.
        names: names of the classes, else their indices.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.
    """
    roc = "fpr" in result.values
    lines, absent = _lines(result, roc, names)
    several = isinstance(result.values["recall" if not roc else "fpr"], Mapping)
    named = lines if len(lines) <= NAMED else sorted(lines, key=lambda line: line.area)[:NAMED]
    texts = Texts.of([line.name for line in named], numbers=[line.index for line in named])
    axes = axes_to_draw(ax, (6.9 + 0.08 * max(texts.columns, 20 if lines else 0), 4.8), resize)
    handles = _draw_lines(axes, lines, named, roc)
    if several:
        _name_classes(axes, handles, [line.area for line in named], texts, lines, roc)
    elif lines:
        _name_single(axes, handles, lines[0], roc)
    if roc and lines:
        axes.plot([0, 1], [0, 1], color="0.5", linestyle=":", linewidth=1)
    _inset(axes, lines, roc)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
    across, up = ("false positive rate", "true positive rate") if roc else ("recall", "precision")
    lack = f"no {'positives or negatives' if roc else 'positives'}, hence no curve"
    absent_note = [f"({absent} {'class has' if absent == 1 else 'classes have'} {lack})"] if absent and several else []
    axes.set(xlabel="\n".join([texts.with_notes(across), *absent_note]), ylabel=up)
    axes.grid(**GRID)
    axes.set_axisbelow(True)
    if not lines:
        say_empty(axes, lack if result.counts["samples"] > result.counts["ignored"] else "no data")
    titled(axes, *_title(result, lines, roc, names), source=source)
    return axes


def _lines(result: Result, roc: bool, names: Sequence[str] | None) -> tuple[list[_Line], int]:
    """Curves that exist, and how many do not."""
    across, up = (result.values[name] for name in (("fpr", "tpr") if roc else ("recall", "precision")))
    if not isinstance(across, Mapping):
        across, up = {"": across}, {"": up}
    labels = list(across) if names is None else names
    lines = []
    for index, key in enumerate(across):
        x, y = np.asarray(across[key]), np.asarray(up[key])
        area = _roc_auc(x, y) if roc else _average_precision(x, y)
        lines.append(_Line(index, labels[index], x, y, area))
    found = [line for line in lines if not math.isnan(line.area)]
    return found, len(lines) - len(found)


def _roc_auc(fpr: Points, tpr: Points) -> float:
    """The area by trapezoids; NaN without positives or negatives."""
    return math.nan if np.isnan(fpr).any() or np.isnan(tpr).any() else float(np.diff(fpr) @ (tpr[1:] + tpr[:-1]) / 2)


def _average_precision(recall: Points, precision: Points) -> float:
    """Sum of precision times the gain in recall; NaN without positives. Where nothing is found there is no gain."""
    if len(recall) < 2 or np.isnan(recall).any():
        return math.nan
    return float(-np.diff(recall) @ np.nan_to_num(precision[:-1]))


def _draw_lines(axes: Any, lines: list[_Line], named: list[_Line], roc: bool) -> list[Any]:
    """The lines of ``named``, drawn above the others."""
    drawstyle = "default" if roc else "steps-post"
    chosen = {line.index for line in named}
    for line in lines:
        if line.index not in chosen:
            axes.plot(line.x, line.y, drawstyle=drawstyle, color=GREY, linewidth=0.5)
    return [
        axes.plot(line.x, line.y, drawstyle=drawstyle, linewidth=1.5, zorder=3, **line_style(place))[0]
        for place, line in enumerate(named)
    ]


def _name_classes(
    axes: Any, handles: list[Any], areas: list[float], texts: Texts, lines: list[_Line], roc: bool
) -> None:
    """Draws the mean curve, and names the lines with their areas."""
    if not lines:
        return
    rows = [f"{_three(area)}  {text}" for area, text in zip(areas, texts.texts)]
    if len(lines) > 1:
        handles += axes.plot(_GRID, _mean_curve(lines, roc), color="black", linewidth=2, zorder=4)
        rows.append(f"{_three(_mean_area(lines))}  mean of {len(lines)} classes")
    which = f": the {NAMED} worst of {len(lines)}" if len(lines) > NAMED else ""
    title = f"{'AUC' if roc else 'AP'} and class{which}"
    legend(axes, handles, replace(texts, texts=rows), title, _corner(roc))


def _name_single(axes: Any, handles: list[Any], line: _Line, roc: bool) -> None:
    """Name the only curve, and what scores without information would give."""
    rows = [f"{_three(line.area)}  {'AUC' if roc else 'AP'}"]
    if not roc:
        handles.append(axes.axhline(line.y[0], color="0.5", linestyle=":", linewidth=1))
        rows.append(f"{_three(line.y[0])}  fraction of positives")
    legend(axes, handles, Texts(rows, {}, [], 0), "", _corner(roc))


def _corner(roc: bool) -> str:
    """Where good curves leave room."""
    return "lower right" if roc else "lower left"


def _mean_area(lines: list[_Line]) -> float:
    return float(np.mean([line.area for line in lines]))


def _three(area: float) -> str:
    """Three digits, never 1.000 for less than 1."""
    return f"{area:.3f}" if area in (0.0, 1.0) else f"{min(max(area, 0.001), 0.999):.3f}"


def _mean_curve(lines: list[_Line], roc: bool) -> Points:
    total = np.zeros_like(_GRID)
    for line in lines:
        if roc:
            total += np.interp(_GRID, np.append(0.0, line.x), np.append(0.0, line.y))
        else:
            ascending, precision = line.x[::-1], line.y[::-1]
            total += np.nan_to_num(precision[np.searchsorted(ascending, _GRID).clip(max=len(precision) - 1)])
    return total / len(lines)


def _inset(axes: Any, lines: list[_Line], roc: bool) -> None:
    """Shows the upper corner larger, left of ROC and right of precision-recall curves, where all curves are in it."""
    if not lines or not has_room(axes):  # else the legend is there
        return
    knee = 1.3 * math.sqrt(max(0.0, 1.0 - min(line.area for line in lines)))
    zoom = next((zoom for zoom in _ZOOMS if zoom >= knee), None)
    if zoom is None:
        return
    inset = axes.inset_axes((0.36 if roc else 0.11, 0.12, 0.58, 0.58))
    for line in axes.lines:
        style = {"color": line.get_color(), "linestyle": line.get_linestyle(), "linewidth": line.get_linewidth()}
        order = {"zorder": line.get_zorder(), "drawstyle": line.get_drawstyle()}
        inset.plot(line.get_xdata(), line.get_ydata(), **style, **order)
    inset.set(xlim=(-zoom / 50, zoom) if roc else (1 - zoom, 1 + zoom / 50), ylim=(1 - zoom, 1 + zoom / 50))
    inset.tick_params(labelsize="small")
    inset.grid(**GRID)
    inset.set_axisbelow(True)
    axes.indicate_inset_zoom(inset, edgecolor="0.4", alpha=1.0)


def _title(result: Result, lines: list[_Line], roc: bool, names: Sequence[str] | None) -> tuple[str, list[str]]:
    kind, area = ("ROC curves", "AUC") if roc else ("Precision-recall curves", "AP")
    if not isinstance(result.values["recall" if not roc else "fpr"], Mapping):
        kind = kind[:-1]
    if lines:
        mean = "mean " if len(lines) > 1 else ""
        kind += f", {mean}{area} {_three(_mean_area(lines))}"
    thresholds = result.signature["thresholds"]
    how = "exact" if thresholds in (None, "none") else f"at thresholds {thresholds}"
    task = ["each class against the rest"] if len(lines) > 1 else []
    if result.signature["task"] == "binary" and names is not None:
        task = [f"positives: {names[1]}"]
    return kind, [count(result.counts["samples"] - result.counts["ignored"], "sample"), how, *task]
