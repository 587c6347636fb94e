"""Values that can be evaluated but are mostly mistakes: how many there are, and what to say about them. No torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.layout import Layout
from valor_gpu.reduce.doubtful_boxes import BoxSide, count_doubtful_boxes

WAY_OUT = 'convention="corrected"'
"""The argument that asks for numbers without pycocotools' quirks; the command has an option of that name."""


def count_doubtful_values(layout: Layout, boxes: bool = True) -> dict[str, int]:
    """Counts NaN scores, and the boxes that :func:`~valor_gpu.reduce.doubtful_boxes.count_doubtful_boxes` counts.

    Args:
        layout: the rows.
        boxes: whether boxes were evaluated.
    """
    nan_scores = {"detections_with_nan_score": int(np.isnan(layout.detections.take("score")).sum())}
    if not boxes:
        return nan_scores
    sides = map(_side, (layout.detections.take("bbox"), layout.ground_truths.take("bbox")))
    return {**nan_scores, **count_doubtful_boxes(*sides)}


def describe_doubtful_values(counts: Mapping[str, int]) -> list[str]:
    """One sentence for each kind of doubtful values that there are.

    Args:
        counts: those of :func:`count_doubtful_values`, and others.

    Example:
        >>> describe_doubtful_values({"images": 5, "detections_with_nan_score": 1})
        ['1 of the detections has a NaN score: ranked last']
    """
    return [
        f"{counts[name]:,} of the {'ground truths' if name.startswith('ground') else 'detections'} {does} {what}"
        for name, (one, many, what) in _SENTENCES.items()
        if counts.get(name)
        for does in [one if counts[name] == 1 else many]
    ]


_NEGATIVE = ("has", "have", "a negative width or height: COCO boxes are [x, y, width, height], not two corners")
_FRACTION = ("lies", "lie", "within 0 and 1 while the other boxes are in pixels: fractions of the image match nothing")
_OTHER_SIZE = ("has", "have", "a mask of another size than a ground truth of the image: they never match")
_SENTENCES = {
    "detections_with_nan_score": ("has", "have", "a NaN score: ranked last"),
    "detections_of_negative_size": _NEGATIVE,
    "ground_truths_of_negative_size": _NEGATIVE,
    "detections_in_fractions": _FRACTION,
    "ground_truths_in_fractions": _FRACTION,
    "detections_of_other_size": _OTHER_SIZE,
}


def _side(boxes: NDArray[np.float64]) -> BoxSide:
    negative = int(((boxes[:, 2] < 0) | (boxes[:, 3] < 0)).sum())
    return BoxSide(len(boxes), negative, float(max(boxes.max(initial=0), -boxes.min(initial=0))))
