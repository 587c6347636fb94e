"""Values that can be evaluated but are mostly mistakes: how many there are, and what to say about them. No torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.layout import Layout

_PIXELS = 2.0  # what boxes in fractions of an image do not reach, even if they stick out of it


def count_doubtful_values(layout: Layout) -> dict[str, int]:
    """Counts NaN scores, negative sizes, and boxes that seem to be in fractions of the image.

    Boxes of one side seem to be in fractions when none of its coordinates is beyond 1 while those of the other side
    reach more than 2; then all boxes of that side are counted.
    """
    detections, ground_truths = layout.detections.take("bbox"), layout.ground_truths.take("bbox")
    reach = _reach(detections), _reach(ground_truths)
    return {
        "detections_with_nan_score": int(np.isnan(layout.detections.take("score")).sum()),
        "detections_of_negative_size": _negative_sizes(detections),
        "ground_truths_of_negative_size": _negative_sizes(ground_truths),
        "detections_in_fractions": len(detections) if 0 < reach[0] <= 1 and reach[1] > _PIXELS else 0,
        "ground_truths_in_fractions": len(ground_truths) if 0 < reach[1] <= 1 and reach[0] > _PIXELS else 0,
    }


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
_SENTENCES = {
    "detections_with_nan_score": ("has", "have", "a NaN score: ranked last"),
    "detections_of_negative_size": _NEGATIVE,
    "ground_truths_of_negative_size": _NEGATIVE,
    "detections_in_fractions": _FRACTION,
    "ground_truths_in_fractions": _FRACTION,
}


def _negative_sizes(boxes: NDArray[np.float64]) -> int:
    return int(((boxes[:, 2] < 0) | (boxes[:, 3] < 0)).sum())


def _reach(boxes: NDArray[np.float64]) -> float:
    """The largest coordinate, as a size; 0 without boxes."""
    return float(max(boxes.max(initial=0), -boxes.min(initial=0)))
