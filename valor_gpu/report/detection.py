"""The report of ``valor-gpu detect``."""

from __future__ import annotations

import math
from typing import Any

from valor_gpu.report.text import plural, table
from valor_gpu.result import Result

_NUMBERS = {
    "AP": "map_per_class",
    "AP50": "map_50_per_class",
    "AP75": "map_75_per_class",
}
_COUNTS = {"ground truths": "ground_truths_per_class", "detections": "detections_per_class"}


def class_table(result: Result) -> str:
    """A line for each class: AP over all IoU thresholds, at 0.50 and 0.75, AR, and what they were counted on.

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
    """What the numbers were counted on, in words."""
    counts, limit = result.counts, result.signature["max_detection_thresholds"][-1]
    text = f"{plural(counts['images'], 'image')}, {plural(counts['ground_truths'], 'ground truth')}"
    crowds = "crowds" if result.signature["convention"] == "strict" else "crowds or ignored"
    text += f" ({counts['ignored_ground_truths']:,} of them {crowds})"
    if counts["ground_truths_left_out"]:
        text += f", {counts['ground_truths_left_out']:,} more of unknown images or categories"
    text += f", {plural(counts['detections'], 'detection')}"
    text += f" ({counts['detections_beyond_limit']:,} beyond the {limit} of an image and class)"
    if counts["detections_of_unknown_categories"]:
        text += f", {counts['detections_of_unknown_categories']:,} more of unknown categories"
    return text


def document(result: Result, files: dict[str, str], device: str) -> dict[str, Any]:
    """What ``--json`` writes: files, device, values, signature, counts and reasons; no NaN, null with a reason."""
    return {"files": files, "device": device, **result.to_dict()}
