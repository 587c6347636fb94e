"""The picture of numbers by label as horizontal bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.drawing import GRID, Texts, axes_to_draw, count, legend, line_style, say_empty, titled
from valor_gpu.errors import InputError
from valor_gpu.result_data import ResultData

SHOWN = 40
"""Labels that have a bar: of more, those with the lowest numbers."""

_RATIOS = {"ar": "average recall", "precision": "precision", "recall": "recall", "f1": "F1"}
_COUNTS = ("tp", "fp", "fn")

_Numbers = NDArray[np.float64]


def plot_label_bars(
    result: ResultData,
    ax: Any = None,
    names: Mapping[int, str] | None = None,
    iou: int = 0,
    score: int = 0,
    source: str | None = None,
    resize: bool = False,
) -> Any:
    """Draws a bar for each label, the lowest number on top, of counts the most errors; returns the axes.

    Args:
        result: of AR, mAR, DetectionCounts, DetectionPrecision, DetectionRecall or DetectionF1.
        ax: matplotlib axes, or None for new ones.
        names: label to its name, else the labels.
        iou: which of the IoU thresholds, by index.
        score: which of the score thresholds, by index.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.

    Raises:
        InputError: there is no threshold of that index.
    """
    labels, series = _series(result, iou, score)
    key = next(iter(series.values())) if len(series) == 1 else -(series["fp"] + series["fn"])
    rows = np.argsort(key, kind="stable")[: int((~np.isnan(key)).sum())][:SHOWN]
    texts = Texts.of([_name(labels[row], names) for row in rows], numbers=rows.tolist())
    axes = axes_to_draw(ax, (6.4 + 0.07 * texts.columns, 1.6 + 0.26 * max(len(rows), 4)), resize)
    handles: list[Any] = []
    left = np.zeros(len(rows))
    for place, (_, values) in enumerate(series.items()):
        bars = axes.barh(np.arange(len(rows)), values[rows], left=left, color=line_style(place)["color"], zorder=3)
        handles, left = [*handles, bars], left + values[rows]
    axes.set_yticks(np.arange(len(rows)), texts.texts, fontsize="small", **texts.font)
    axes.invert_yaxis()
    name = next(iter(series)) if len(series) == 1 else "count"
    axes.set(xlabel=texts.with_notes(_RATIOS.get(name, name)), **({"xlim": (0, 1)} if len(series) == 1 else {}))
    axes.grid(axis="x", **GRID)
    axes.set_axisbelow(True)
    if not len(rows):
        say_empty(axes, "no label has this number")
    elif len(series) > 1:
        legend(axes, handles, Texts.of(list(series)), "", "lower right")
    titled(axes, _headline(name, key, len(series)), _details(result, iou, score, len(rows), len(labels)), source)
    return axes


def _series(result: ResultData, iou: int, score: int) -> tuple[list[int], dict[str, _Numbers]]:
    """Labels and one number of each, or three counts."""
    values = result.values
    if "ar_per_class" in values or "ar" in values:
        numbers = values.get("ar_per_class", values.get("ar"))
        return [int(label) for label in numbers], {"ar": np.array(list(numbers.values()), dtype=np.float64)}
    for name, place in (("iou", iou), ("score", score)):
        if not 0 <= place < (size := len(values[f"{name}_thresholds"])):
            raise InputError(f"{name} must be the index of one of {size} thresholds but got {place}")
    kinds = [kind for kind in (*_RATIOS, *_COUNTS) if kind in values]
    return values["classes"].tolist(), {kind: values[kind][:, iou, score].astype(np.float64) for kind in kinds}


def _name(label: int, names: Mapping[int, str] | None) -> str:
    return str(label) if names is None else str(names.get(label, label))


def _headline(name: str, key: _Numbers, series: int) -> str:
    if series > 1:
        return "True positives, false positives and false negatives of each label"
    known = key[~np.isnan(key)]
    mean = f", mean {known.mean():.3f}" if len(known) else ""
    return f"{_RATIOS[name][0].upper()}{_RATIOS[name][1:]} of each label{mean}"


def _details(result: ResultData, iou: int, score: int, shown: int, labels: int) -> Sequence[str]:
    """The thresholds, how many labels are shown, and how many images there were."""
    at = []
    if "iou_thresholds" in result.values:
        thresholds = result.values["iou_thresholds"][iou], result.values["score_thresholds"][score]
        at = [f"IoU {thresholds[0]:g}", f"score {thresholds[1]:g}"]
    left = [f"{shown} of {labels} labels"] if shown < labels else [count(labels, "label")]
    return [*at, *left, count(result.counts["images"], "image")]
