"""Boxes that can be evaluated but are mostly mistakes."""

from __future__ import annotations

from typing import NamedTuple

_PIXELS = 2.0  # what boxes in fractions of an image do not reach, even if they stick out of it


class BoxSide(NamedTuple):
    """The detections, or the ground truths, of an evaluation.

    Attributes:
        boxes: number of boxes.
        negative: boxes whose width or height is negative.
        reach: largest absolute x, y, width or height; 0 without boxes.
    """

    boxes: int
    negative: int
    reach: float


def count_doubtful_boxes(detections: BoxSide, ground_truths: BoxSide) -> dict[str, int]:
    """Counts boxes of negative size, and boxes that seem to be in fractions of the image.

    Boxes of one side seem to be in fractions when none of its coordinates is beyond 1 while those of the other side
    reach more than 2; then all boxes of that side are counted.

    Example:
        >>> count_doubtful_boxes(BoxSide(5, 0, 0.9), BoxSide(3, 1, 640.0))["detections_in_fractions"]
        5
    """
    return {
        "detections_of_negative_size": detections.negative,
        "ground_truths_of_negative_size": ground_truths.negative,
        "detections_in_fractions": _in_fractions(detections, ground_truths),
        "ground_truths_in_fractions": _in_fractions(ground_truths, detections),
    }


def _in_fractions(side: BoxSide, other: BoxSide) -> int:
    return side.boxes if 0 < side.reach <= 1 and other.reach > _PIXELS else 0
