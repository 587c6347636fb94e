"""The picture of precision, recall and F over score thresholds, with the chosen ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu.analysis.rows import Floats
from valor_gpu.analysis.score_rankings import Ranking
from valor_gpu.analysis.thresholds import f_beta
from valor_gpu.drawing import GRID, Texts, axes_to_draw, count, legend, line_style, say_empty, titled
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.result_data import ResultData

_NAMES = ("precision", "recall")


def plot_points(
    points: ResultData,
    f_name: str,
    pooled: Ranking,
    rankings: Mapping[str, Ranking],
    ax: Any = None,
    label: str | None = None,
    classes: Sequence[str] | None = None,
    source: str | None = None,
    resize: bool = False,
) -> Any:
    """Draws lines over all scores, and the chosen thresholds; returns the axes.

    Args:
        points: the numbers.
        f_name: name of the F.
        pooled: the ranking of all detections.
        rankings: that of each class.
        ax: see :meth:`OperatingPoints.plot <valor_gpu.analysis.points_result.OperatingPoints.plot>`, likewise the rest.
        label: the class of the lines.
        classes: classes whose F is drawn.
        source: what was evaluated.
        resize: fit the size of the figure.
    """
    for name in [*([] if label is None else [label]), *(classes or ())]:
        if name not in rankings:
            raise InputError(f"label and classes must be of the {len(rankings)} classes of the result but got {name!r}")
    axes = axes_to_draw(ax, (8.4, 4.6), resize)
    drawn: list[str | None] = [*classes] if classes else [label]
    chosen = [(name, pooled if name is None else rankings[name]) for name in drawn]
    handles: list[Any] = []
    texts: list[str] = []
    for of, ranking in chosen:
        scores, lines = _lines(ranking, f_name)
        for number, values in lines.items() if not classes else [(f_name, lines[f_name])]:
            style = line_style(len(handles))
            handles += axes.plot(scores, values, drawstyle="steps-pre", linewidth=1.7, **style)
            threshold, there = (_value(points, each, of) for each in ("score_threshold", number))
            texts.append(f"{of if classes else number} {'none' if math.isnan(there) else f'{there:.3f}'}")
            axes.plot([threshold], [there], "o", color=style["color"], markersize=5)
        if not classes and not math.isnan(threshold):
            axes.axvline(threshold, color="0.6", linewidth=0.8)
    axes.set(xlabel="score threshold", ylabel=f_name if classes else "ratio", ylim=(0, 1.02))
    axes.grid(**GRID)
    axes.set_axisbelow(True)
    legend(axes, handles, Texts.of(texts), "at the threshold", "best")
    if not any(len(ranking.scores) for _, ranking in chosen):
        say_empty(axes, "no detections")
    titled(axes, _headline(points, f_name, label, classes), _details(points), source)
    return axes


def _lines(ranking: Ranking, f_name: str) -> tuple[Floats, dict[str, Floats]]:
    """Scores, ascending, and precision, recall and F where detections of at least each are kept."""
    scores = ranking.scores
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True)[: len(scores)])[::-1]
    tp, positives = ranking.hits.cumsum()[last], len(ranking.gt_images)
    kept = last + 1
    recall = tp / positives if positives else np.full(len(tp), np.nan)
    f = f_beta(float(f_name[1:]), tp, kept - tp, positives) if positives else recall
    return scores[last], {"precision": tp / kept, "recall": recall, f_name: f}


def _value(points: ResultData, name: str, of: str | None) -> float:
    return float(points.values[name] if of is None else points.values[f"{name}_per_class"][of])


def _headline(points: ResultData, f_name: str, label: str | None, classes: Sequence[str] | None) -> str:
    if classes:
        return f"{f_name.upper()} over scores of {count(len(classes), 'class')}".replace("classs", "classes")
    threshold, there = (_value(points, name, label) for name in ("score_threshold", f_name))
    of = "all classes" if label is None else str(label)
    if math.isnan(threshold):
        return f"Precision, recall and {f_name.upper()} of {of}, no threshold"
    return f"Precision, recall and {f_name.upper()} of {of}, {f_name.upper()} {there:.3f} at {threshold:g}"


def _details(points: ResultData) -> list[str]:
    purpose = {"precision": "precision of at least {}", "recall": "recall of at least {}", "cost": "least cost {}"}
    name = next((each for each in purpose if each in points.signature), "")
    aim = purpose[name].format(points.signature[name]) if name else "largest F"
    split = [f"chosen on {points.counts['images_chosen_on']} images"] if "split" in points.signature else []
    return [f"IoU {points.signature['iou_threshold']:g}", aim, *split, count(points.counts["images"], "image")]
