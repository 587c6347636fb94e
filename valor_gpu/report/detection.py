"""The report of ``valor-gpu detect``."""

from __future__ import annotations

import math

from valor_gpu.report.text import plural, table
from valor_gpu.result import Result

_NUMBERS = {
    "AP": "map_per_class",
    "AP50": "map_50_per_class",
    "AP75": "map_75_per_class",
}
_COUNTS = {"ground truths": "ground_truths_per_class", "detections": "detections_per_class"}


def class_table(result: Result) -> str:
    """One line per class: AP over all IoU thresholds, at 0.50 and 0.75, AR, and the counts behind them.

    Args:
        result: of :meth:`valor_gpu.coco.COCOeval.result`; a number that does not exist is shown as ``-``.
    """
    limit = result.signature["max_detection_thresholds"][-1]
    numbers = {**_NUMBERS, f"AR{limit}": "mar_per_class"}
    rows = [
        [
            name,
            *(_number(result.values[key][name]) for key in numbers.values()),
            *(f"{result.values[key][name]:,}" for key in _COUNTS.values()),
        ]
        for name in result.values["map_per_class"]
    ]
    return table(["class", *numbers, *_COUNTS], rows)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def count_line(result: Result) -> str:
    """How many images, ground truths and detections the numbers come from."""
    counts, limit = result.counts, result.signature["max_detection_thresholds"][-1]
    text = f"{plural(counts['images'], 'image')}, {plural(counts['ground_truths'], 'ground truth')}"
    crowds = "crowds" if result.signature["convention"] == "strict" else "crowds or ignored"
    text += f" ({counts['ignored_ground_truths']:,} of them {crowds})"
    if counts["ground_truths_left_out"]:
        text += f", {counts['ground_truths_left_out']:,} more left out, of unknown images or categories"
    text += f", {plural(counts['detections'], 'detection')}"
    text += f" ({counts['detections_beyond_limit']:,} dropped: more than {limit} of one image and class)"
    if counts["detections_of_unknown_categories"]:
        text += f", {counts['detections_of_unknown_categories']:,} more left out, of unknown categories"
    return text
