"""Places for labels in a picture, so that none hides another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def free_place(
    anchors: NDArray[Any], wide: float, high: float, frame: Any, taken: Sequence[Any]
) -> tuple[float, float] | None:
    """Lower left corner of a free place for a label: above, inside or below what it names, or else further inside.

    Args:
        anchors: two corners of its box, the middle of its top, and points inside it, ``[3 + P, 2]``; y goes up.
        wide: of the label, as ``high``.
        high: of the label.
        frame: where labels may lie: ``x0``, ``y0``, ``x1``, ``y1``.
        taken: where others lie already.

    Returns:
        None where there is no room.
    """
    for column, row in _candidates(anchors, wide, high):
        x, y = min(max(column, frame.x0), frame.x1 - wide), min(max(row, frame.y0), frame.y1 - high)
        if not any(x < t.x1 and t.x0 < x + wide and y < t.y1 and t.y0 < y + high for t in taken):
            return x, y
    return None


def _candidates(anchors: NDArray[Any], wide: float, high: float) -> Iterator[tuple[float, float]]:
    (x0, y1), (x1, y0), (middle, top) = anchors[:3]
    columns = (x0, x1 - wide, (x0 + x1 - wide) / 2)
    yield (x0 if middle == (x0 + x1) / 2 else middle - wide / 2), top
    inside = [(x, y) for y in (y1 - high, *np.arange(y1 - 2 * high, y0, -high)[:12]) for x in columns]
    outside = [(x, y) for y in (y1, y0 - high) for x in columns]
    outside += [(x, y1 - high) for x in (x1, x0 - wide)]
    within = [(x - wide / 2, y - high / 2) for x, y in anchors[3:]]
    small = x1 - x0 < wide + high or y1 - y0 < 3 * high  # a label inside would hide it
    if small:
        yield from outside + within + inside
    else:
        yield from within or inside[:3]
        yield from outside + inside
    yield from ((x, y) for y in (y1 + high, y0 - 2 * high, y0, top - high) for x in columns)
