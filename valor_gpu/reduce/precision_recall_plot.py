"""The picture of precision over recall at several IoU thresholds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from valor_gpu.drawing import GRID, Texts, axes_to_draw, count, legend, say_empty, titled
from valor_gpu.result_data import ResultData

_DASHES = ("solid", (0, (4, 1.5)))
"""Neighbouring thresholds have almost the same line and colour, and differ in this."""


def plot_precision_recall(result: ResultData, ax: Any = None, source: str | None = None, resize: bool = False) -> Any:
    """Draws precision over recall, averaged over classes, one line per IoU threshold; returns the axes.

    Args:
        result: of :class:`valor_gpu.detection.MeanAveragePrecision`, :class:`valor_gpu.coco.COCOeval`, or one of the
            metrics of average precision by Valor's rules.
        ax: matplotlib axes, or None for new ones.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.
    """
    from matplotlib import colormaps

    axes = axes_to_draw(ax, (7.4, 4.8), resize)
    thresholds, precisions = result.values["iou_thresholds"], result.values["precision"]
    colors = colormaps["viridis_r"](np.linspace(0.15, 1.0, len(thresholds)))  # the palest yellow left out
    lines, texts = [], []
    for index, (threshold, precision) in enumerate(zip(thresholds, precisions)):
        lines += axes.plot(result.values["recall_thresholds"], precision, color=colors[index], linewidth=1.7,
                           linestyle=_DASHES[index % 2], clip_on=False)  # fmt: skip
        texts.append(f"{_number(precision.mean())} at {threshold:.2f}")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision, mean over classes")
    axes.grid(**GRID)
    axes.set_axisbelow(True)
    if np.isnan(precisions).all():
        say_empty(axes, "no ground truth counts, so there is no precision")
    elif not result.counts["detections"]:
        say_empty(axes, "no detections")
    else:
        legend(axes, lines, Texts.of(texts), f"AP at each {_similarity(result)} threshold", "upper right")
    mean = result.values.get("map", precisions.mean())
    titled(axes, f"{_KINDS.get(_kind(result), 'Box')} AP {_number(mean).strip()}", _details(result), source)
    return axes


_KINDS = {"segm": "Mask", "boundary": "Boundary", "keypoints": "Keypoint"}


def _kind(result: ResultData) -> str:
    return str(result.signature.get("iou_type"))


def _similarity(result: ResultData) -> str:
    return "OKS" if _kind(result) == "keypoints" else "IoU"


def _number(value: float) -> str:
    return "none " if math.isnan(value) else f"{value:.3f}"


def _details(result: ResultData) -> list[str]:
    """The choices behind the number, and how many images."""
    thresholds = result.values["iou_thresholds"]
    iou = f"{_similarity(result)} {thresholds[0]:.2f}" + (f" to {thresholds[-1]:.2f}" if len(thresholds) > 1 else "")
    average = "mean over classes" if result.signature.get("average", "macro") == "macro" else "classes pooled"
    protocol = {"lvis": ["LVIS"], "crowdpose": ["CrowdPose"]}.get(result.signature.get("protocol", ""), [])
    convention = [f"{result.signature['convention']} convention"] if "convention" in result.signature else []
    return [iou, average, *protocol, *convention, count(result.counts["images"], "image")]
