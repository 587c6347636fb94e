"""The picture of a confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice
from valor_gpu.drawing import Texts, axes_to_draw, count, say_empty, titled
from valor_gpu.errors import InputError
from valor_gpu.result_data import ResultData

WRITTEN = 25
"""Up to so many classes the numbers are written into the cells."""

_PAIRED = ("confusion_matrix", "unmatched_predictions", "unmatched_ground_truths")
_LARGEST = 16.0  # inches of the matrix itself
_BY = {
    "true": "fraction of the true class",
    "pred": "fraction of the predicted class",
    "all": "fraction of all {unit}s",
    "iou": "intersection over union",
}


def plot_confusion(
    result: ResultData,
    ax: Any = None,
    label: int = 0,
    names: Sequence[str] | None = None,
    normalize: str | None = None,
    source: str | None = None,
    resize: bool = False,
) -> Any:
    """Draws the matrix of ``result``, of one ``label`` in the multilabel task; returns the axes.

    Args:
        result: of a confusion matrix, whose counts have ``samples`` or ``pixels``, and ``ignored``.
        ax: matplotlib axes, or None for new ones.
        label: which matrix of several.
        names: names of the classes, else their indices. Numbers other than 0 are written into the cells of up to 25
            classes.
        normalize: divide counts by the sum of the row (``true``), of the column (``pred``) or of everything (``all``).
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.
    """
    check_choice("normalize", normalize, ("true", "pred", "all", "none", None))
    unit = "pixel" if "pixels" in result.counts else "sample"
    matrix = result.values["confusion_matrix"]
    matrix = matrix[label] if matrix.ndim == 3 else matrix
    done = result.signature["normalize"]
    shown, by = (matrix, done) if done in _BY else (_normalized(matrix, normalize), normalize)
    size, texts = len(shown), Texts.of([str(n) for n in range(len(shown))] if names is None else names)
    cell, points = _cell(size, by in _BY or float(np.nanmax(shown, initial=0)) >= 1000)
    margin = texts.columns * points * 0.62 / 72 + 0.7
    axes = axes_to_draw(ax, (size * cell + margin + 1.2, size * cell + margin + 0.9), resize)
    scale = f"{unit}s" if by not in _BY else _BY[by].format(unit=unit)
    _color(axes, shown, 1.0 if by in ("true", "pred", "iou") else float(np.nanmax(shown, initial=0)) or 1.0, scale)
    axes.set(xlabel=texts.with_notes("predicted class"), ylabel="true class")
    _name_classes(axes, texts, size, points)
    if not np.nansum(shown):
        say_empty(axes, "no data")
    elif size <= WRITTEN:
        _write_cells(axes, shown, ".2f" if by in _BY else ".6g", points)
    samples = count(result.counts[f"{unit}s"] - result.counts["ignored"], unit)
    total = np.nansum(matrix)
    accuracy = f", accuracy {np.trace(matrix) / total:.4f}" if done not in _BY and total > 0 else ""
    titled(axes, f"Confusion matrix{accuracy}", [samples, f"{size} classes", *([scale] if by in _BY else [])], source)
    return axes


def plot_detection_confusion(
    result: ResultData,
    ax: Any = None,
    names: Mapping[int, str] | None = None,
    iou: int = 0,
    score: int = 0,
    source: str | None = None,
    resize: bool = False,
) -> Any:
    """Draws a confusion matrix of detections with a column of missed objects and a row of hallucinations; gives axes.

    Args:
        result: of :class:`valor_gpu.detection.DetectionConfusionMatrix`.
        ax: matplotlib axes, or None for new ones.
        names: label to its name, else the labels.
        iou: which of the IoU thresholds, by index.
        score: which of the score thresholds, by index.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.

    Raises:
        InputError: there is no threshold of that index.
    """
    values = result.values
    matrix, extra, missed = (values[name] for name in _PAIRED)
    for name, index, size in (("iou", iou, len(matrix)), ("score", score, matrix.shape[1])):
        if not 0 <= index < size:
            raise InputError(f"{name} must be the index of one of {size} thresholds but got {index}")
    shown = np.block([[matrix[iou, score], missed[iou, score][:, None]], [extra[iou, score], np.zeros(1)]])
    size = len(shown)
    labels = [str(label) if names is None else str(names.get(label, label)) for label in values["classes"].tolist()]
    texts = Texts.of([*labels, "none"])
    cell, points = _cell(size, float(shown.max(initial=0)) >= 1000)
    margin = texts.columns * points * 0.62 / 72 + 0.7
    axes = axes_to_draw(ax, (max(size * cell, 2.5) + margin + 1.2, max(size * cell, 2.0) + margin + 0.9), resize)
    _color(axes, shown, float(shown.max(initial=0)) or 1.0, "objects and detections")
    axes.set(xlabel=texts.with_notes("label of the detection (none: missed)"),
             ylabel="label of the object\n(none: hallucinated)")  # fmt: skip
    _name_classes(axes, texts, size, points)
    if not shown.sum():
        say_empty(axes, "no data")
    elif size <= WRITTEN:
        _write_cells(axes, shown, ".6g", points)
    at = f"IoU {values['iou_thresholds'][iou]:g}, score {values['score_thresholds'][score]:g}"
    images = count(result.counts["images"], "image")
    titled(axes, "Confusion matrix of detections", [at, count(size - 1, "label"), images], source)
    return axes


def _color(axes: Any, shown: NDArray[Any], largest: float, scale: str) -> None:
    """Paints the cells, and a bar as high as the matrix; square roots where no number tells small values from 0."""
    from matplotlib.colors import PowerNorm

    size = len(shown)
    bar = axes.inset_axes((1.02, 0.0, min(0.06, 0.8 / max(size, 1)), 1.0))
    norm = PowerNorm(1.0 if size <= WRITTEN else 0.5, vmin=0.0, vmax=largest)
    note = "" if size <= WRITTEN else " (colours by square root)"
    axes.figure.colorbar(axes.imshow(shown, cmap="Blues", norm=norm), cax=bar, label=f"{scale}{note}")


def _normalized(matrix: NDArray[Any], normalize: str | None) -> NDArray[Any]:
    """Fractions; NaN where there is nothing to divide by."""
    if normalize in ("none", None):
        return matrix
    axis = {"true": 1, "pred": 0, "all": None}[str(normalize)]
    sums = matrix.sum(axis=axis, keepdims=True)
    fractions: NDArray[Any] = np.divide(matrix, sums, out=np.full(matrix.shape, np.nan), where=sums > 0)
    return fractions


def _cell(size: int, wide: bool) -> tuple[float, float]:
    """Inches of a cell, and points of the names beside it."""
    if size <= WRITTEN:
        return max(0.52 if wide else 0.42, min(1.0, 3.0 / max(size, 1))), 9.0
    points = max(4.5, 8.0 - size / 40)
    return min(points * 1.25 / 72, _LARGEST / size), points


def _name_classes(axes: Any, texts: Texts, size: int, points: float) -> None:
    """All names, or as many as find room."""
    step = max(1, int(np.ceil(size * points * 1.1 / 72 / _LARGEST)))
    places, names = range(0, size, step), texts.texts[::step]
    turned: dict[str, Any] = {}
    if size > WRITTEN:
        turned = {"rotation": 90}
    elif texts.columns * points * 0.62 / 72 > _cell(size, False)[0]:
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(places, names, fontsize=points, **turned, **texts.font)
    axes.set_yticks(places, names, fontsize=points, **texts.font)
    if step > 1:
        axes.set_xlabel(f"{axes.get_xlabel()}\nevery {step}th class is named")
    if size > WRITTEN:
        axes.tick_params(length=1.5, width=0.4)


def _write_cells(axes: Any, shown: NDArray[Any], digits: str, points: float) -> None:
    middle = np.nanmax(shown, initial=0) / 2
    for row, column in np.argwhere(np.nan_to_num(shown) != 0):
        value = shown[row, column]
        color = "white" if value > middle else "black"
        axes.text(column, row, f"{value:{digits}}", ha="center", va="center", color=color, fontsize=points - 1)
