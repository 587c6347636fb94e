"""Rotated boxes of COCO records, read when somebody asks for them. No torch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import shown
from valor_gpu.inputs.coco import Annotations

Rows = NDArray[np.int64]

_NEEDS = {
    5: "5 finite numbers [centre x, centre y, width, height, angle in degrees], sizes at least 0",
    8: "8 finite numbers, the four corners, in bbox or as the only polygon of segmentation",
}


def read_rotated(annotations: Annotations, rows: Rows) -> NDArray[np.float64]:
    """float64 ``[n, 5]`` centre x, centre y, width, height, angle, or ``[n, 8]`` corners, of ``rows``; no row: 5.

    A ``bbox`` of 5 or 8 numbers counts; of a record with another one, or none, the only polygon of ``segmentation``
    if it has four corners. All rows are of the kind of the first.

    Args:
        annotations: of which the rows are.
        rows: int64 ``[n]`` which records.

    Raises:
        InputError: a record has no such box, or its numbers are not finite, or its width or height is negative, or it
            is of another kind than the first; says where.

    Example:
        >>> from valor_gpu.inputs.coco import result_rows
        >>> rows = result_rows([{"image_id": 7, "category_id": 1, "bbox": [9, 8, 4, 5, 30], "score": 0.5}])
        >>> read_rotated(rows, np.arange(1)).tolist()
        [[9.0, 8.0, 4.0, 5.0, 30.0]]
    """
    values, lengths = np.full((len(rows), 8), np.nan), np.zeros(len(rows), np.int64)
    inline = annotations.has("rotated")[rows]
    polygons = annotations.has("segmentation")[rows] & ~inline
    for read, chosen in ((_lists, inline), (_polygons, polygons)):
        places = np.flatnonzero(chosen)
        if len(places):
            numbers, sizes = read(annotations, rows[places])
            first = np.repeat(sizes.cumsum() - sizes, sizes)
            values[np.repeat(places, sizes), np.arange(len(numbers)) - first] = numbers
            lengths[places] = sizes
    width = int(lengths[0]) if len(rows) and lengths[0] else 5
    boxes = np.ascontiguousarray(values[:, :width])
    bad = (lengths != width) | ~np.isfinite(boxes).all(1)
    if width == 5:
        bad |= (boxes[:, 2:4] < 0).any(1)
    if bad.any():
        raise _error(annotations, int(rows[bad.argmax()]), width, int(rows[0]))
    return boxes


def corners_of(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 ``[n, 4, 2]``: x and y of the corners of boxes as :func:`read_rotated` gives them.

    Example:
        >>> corners_of(np.array([[5.0, 4, 6, 2, 0]])).tolist()
        [[[2.0, 3.0], [8.0, 3.0], [8.0, 5.0], [2.0, 5.0]]]
    """
    if boxes.shape[1] == 8:
        return boxes.reshape(-1, 4, 2)
    angles = np.radians(boxes[:, 4])
    along = boxes[:, None, 2:4] * np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    cos, sin = np.cos(angles), np.sin(angles)
    turn = np.stack([np.stack([cos, -sin], 1), np.stack([sin, cos], 1)], 1)  # counterclockwise, as y points down
    corners: NDArray[np.float64] = boxes[:, None, :2] + along @ turn
    return corners


def rotated_areas(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 ``[n]``: width x height, or the area that the corners enclose.

    Args:
        boxes: ``[n, 5]`` or ``[n, 8]``.

    Example:
        >>> rotated_areas(np.array([[0.0, 0, 4, 0, 4, 3, 0, 3]])).tolist()
        [12.0]
    """
    if boxes.shape[1] == 5:
        return boxes[:, 2] * boxes[:, 3]
    across, down = boxes[:, 4:6] - boxes[:, 0:2], boxes[:, 6:8] - boxes[:, 2:4]
    area: NDArray[np.float64] = 0.5 * np.abs(across[:, 0] * down[:, 1] - across[:, 1] * down[:, 0])
    return area


def _lists(annotations: Annotations, rows: Rows) -> tuple[NDArray[np.float64], Rows]:
    """The numbers of ``bbox``, and how many each row has; 0 from the first on that is not one of numbers."""
    assert annotations.values is not None
    numbers, offsets, good = annotations.values.numbers("rotated", rows)
    sizes = np.diff(offsets)
    sizes[good:] = 0
    return numbers[: offsets[good]], sizes


def _polygons(annotations: Annotations, rows: Rows) -> tuple[NDArray[np.float64], Rows]:
    """The numbers of the only polygon of each row, and how many they are: 8, or 0 where there is no such."""
    assert annotations.values is not None
    numbers: list[Any] = []
    sizes = np.zeros(len(rows), np.int64)
    with annotations.values.texts("segmentation", rows) as (text, places):
        for row, (begin, size) in enumerate(places.tolist()):
            corners = _corners(bytes(text[begin : begin + size]))
            numbers += corners
            sizes[row] = len(corners)
    return np.array(numbers, np.float64), sizes


def _corners(text: bytes) -> list[float]:
    """8 numbers, or none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], list) or len(value[0]) != 8:
        return []
    try:
        return [float(part) for part in value[0]] if all(type(part) in (int, float) for part in value[0]) else []
    except OverflowError:
        return []


def _error(annotations: Annotations, row: int, width: int, first: int) -> InputError:
    """What is needed of ``row``, and what came."""
    values = annotations.values
    has = {name: bool(annotations.has(name)[row]) for name in ("rotated", "segmentation", "bbox")}
    if not any(has.values()):
        return annotations.lacking(row, "bbox", int(annotations.present[row]))
    got = shown(annotations.bbox[row].tolist())
    if values is not None and has["rotated"]:
        got = shown(values.value("rotated", row))
    elif values is not None and has["segmentation"]:
        polygon = shown(values.value("segmentation", row))
        got = f"bbox {got} and segmentation {polygon}" if has["bbox"] else f"segmentation {polygon}"
    need = f"{_NEEDS[5]}, or {_NEEDS[8]}" if row == first else f"{_NEEDS[width]}, like {annotations.place(first)},"
    return InputError(f"{annotations.place(row)}.bbox (id {annotations.id[row]}) must be {need} but got {got}")
