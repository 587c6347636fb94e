"""Closed lines around masks, coarse enough for a small picture. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Point = tuple[float, float]
_CELLS = 120
"""Cells of the longer side of a mask; finer lines are not seen."""


def mask_lines(mask: NDArray[Any]) -> list[list[Point]]:
    """Returns closed lines around a mask, in pixels; holes have lines of their own.

    Args:
        mask: ``[H, W]``, 0 outside.

    Example:
        >>> mask_lines(np.ones((2, 4)))
        [[(0.5, 0.0), (3.5, 0.0), (4.0, 0.5), (4.0, 1.5), (3.5, 2.0), (0.5, 2.0), (0.0, 1.5), (0.0, 0.5)]]
    """
    step = -(-max(mask.shape) // _CELLS)
    cells = np.pad(np.asarray(mask)[step // 2 :: step, step // 2 :: step] != 0, 1)
    following: dict[tuple[int, int], list[tuple[int, int]]] = {}
    # The inside is on the right: from a corner of a cell to the next, by the neighbour that is missing.
    sides = (((-1, 0), (0, 0), (1, 0)), ((0, 1), (1, 0), (1, 1)), ((1, 0), (1, 1), (0, 1)), ((0, -1), (0, 1), (0, 0)))
    for (down, right), start, stop in sides:
        rows, columns = np.nonzero(cells & ~np.roll(cells, (-down, -right), (0, 1)))
        for y, x in zip((rows - 1).tolist(), (columns - 1).tolist()):
            following.setdefault((x + start[0], y + start[1]), []).append((x + stop[0], y + stop[1]))
    return [[(x * step, y * step) for x, y in _smoothed(line)] for line in _walks(following)]


def _walks(following: dict[tuple[int, int], list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
    """Closed walks that take every side once."""
    found = []
    for first in sorted(following, key=lambda point: point[::-1]):
        while following[first]:
            line, point = [first], following[first].pop()
            while point != first:
                line.append(point)
                point = following[point].pop()
            found.append(line)
    return found


def _smoothed(line: Sequence[tuple[int, int]]) -> list[Point]:
    """The middles of the sides, without those that lie between two on one line."""
    corners = np.array(line, np.float64)
    middles = (corners + np.roll(corners, -1, 0)) / 2
    before, after = middles - np.roll(middles, 1, 0), np.roll(middles, -1, 0) - middles
    turns = before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]
    return [(float(x), float(y)) for x, y in middles[turns]]


def decoded(segmentation: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Returns the mask ``[H, W]`` of a run-length encoding, compressed or as a list of counts."""
    from valor_gpu.coco import mask

    runs = segmentation if isinstance(segmentation["counts"], (str, bytes)) else mask.frPyObjects(
        dict(segmentation), *segmentation["size"]
    )  # fmt: skip
    return np.asarray(mask.decode(runs))
