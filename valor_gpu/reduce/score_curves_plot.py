"""Pictures over score thresholds: precision, recall and F1, and what detections and ground truths became."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.drawing import GRID, Texts, axes_to_draw, count, legend, line_style, say_empty, titled
from valor_gpu.errors import InputError
from valor_gpu.result_data import ResultData

_KINDS = ("tp/all", "fp/hallucinations", "fp/misclassifications", "fp/duplicates", "fn/no_predictions",
          "fn/misclassifications")  # fmt: skip


def plot_ratios(
    result: ResultData, ax: Any = None, label: int | None = None, source: str | None = None, resize: bool = False
) -> Any:
    """Draws precision, recall and F1 over score thresholds; returns the axes. The best F1 is in the title.

    Args:
        result: of :class:`valor_gpu.detection.DetectionPrecisionRecallCurve`.
        ax: matplotlib axes, or None for new ones.
        label: which label; None adds the counts of all labels.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.

    Raises:
        InputError: there is no such label.
    """
    tp, fp, fn = (_of_label(result, name, label).astype(np.float64) for name in ("tp", "fp", "fn"))
    lines = {"precision": _ratio(tp, tp + fp), "recall": _ratio(tp, tp + fn), "F1": _ratio(2 * tp, 2 * tp + fp + fn)}
    axes = _draw(result, ax, lines, "ratio", resize)
    axes.set_ylim(0, 1.02)
    best, thresholds = lines["F1"], result.values["score_thresholds"]
    headline = "Precision, recall and F1 over scores"
    if not np.isnan(best).all():
        headline += f", best F1 {np.nanmax(best):.3f} at {thresholds[np.nanargmax(best)]:g}"
    titled(axes, headline, _details(result, label), source)
    return axes


def plot_kinds(
    result: ResultData, ax: Any = None, label: int | None = None, source: str | None = None, resize: bool = False
) -> Any:
    """Draws how many detections and ground truths there are of each kind over score thresholds; returns the axes.

    Args:
        result: of :class:`valor_gpu.detection.DetectionDetailedPrecisionRecallCurve`.
        ax: matplotlib axes, or None for new ones.
        label: which label; None adds the counts of all labels.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.

    Raises:
        InputError: there is no such label.
    """
    lines = {kind: _of_label(result, kind, label).astype(np.float64) for kind in _KINDS if kind in result.values}
    axes = _draw(result, ax, lines, "count", resize)
    axes.set_ylim(bottom=0)
    titled(axes, "Hits and errors by kind over scores", _details(result, label), source)
    return axes


def _of_label(result: ResultData, name: str, label: int | None) -> NDArray[Any]:
    """``[S]``, of one label or of all."""
    classes = result.values["classes"].tolist()
    if label is not None and label not in classes:
        raise InputError(f"label must be one of the {len(classes)} labels of the result but got {label!r}")
    table: NDArray[Any] = result.values[name]
    row: NDArray[Any] = table.sum(axis=0) if label is None else table[classes.index(label)]
    return row


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    ratio: NDArray[np.float64] = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return ratio


def _draw(result: ResultData, ax: Any, lines: dict[str, NDArray[np.float64]], up: str, resize: bool) -> Any:
    """One line for each name, and the legend."""
    axes = axes_to_draw(ax, (8.4, 4.6), resize)
    thresholds = result.values["score_thresholds"]
    order = np.argsort(thresholds)
    marker = {"marker": "."} if len(thresholds) < 40 else {}  # a single threshold is no line
    handles = [
        axes.plot(thresholds[order], values[order], linewidth=1.7, **marker, **line_style(place))[0]
        for place, values in enumerate(lines.values())
    ]
    axes.set(xlabel="score threshold", ylabel=up)
    axes.grid(**GRID)
    axes.set_axisbelow(True)
    if len(result.values["classes"]):
        legend(axes, handles, Texts.of(list(lines)), "", "best")
    else:
        say_empty(axes, "no detections and no ground truths")
    return axes


def _details(result: ResultData, label: int | None) -> list[str]:
    labels = count(len(result.values["classes"]), "label") if label is None else f"label {label}"
    return [f"IoU {result.signature['iou_threshold']:g}", labels, count(result.counts["images"], "image")]
