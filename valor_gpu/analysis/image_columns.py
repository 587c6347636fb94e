"""Columns about images that a result knows by itself: how crowded and how large they are. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from valor_gpu.analysis.images import ImageNumbers
from valor_gpu.analysis.rows import Rows
from valor_gpu.errors import InputError

IMAGE_COLUMNS: dict[str, tuple[float, ...]] = {"crowding": (1, 6, 11, 26), "image_size": (256, 512, 1024)}
"""Columns of images, and the edges of their bins unless others are given: ground truths that count in an image; square
root of its width times its height, in pixels."""
OBJECT_COLUMNS: dict[str, tuple[float, ...]] = {"size": (32**2, 96**2), "aspect_ratio": (0.5, 2)}
"""Columns of objects likewise: area in pixels, by COCO's limits; width by height of the box."""
LARGEST = 1e10
"""Upper end of the last bin of objects, that of COCO's area ranges."""
BUILT_IN = (*IMAGE_COLUMNS, *OBJECT_COLUMNS)


def known_column(analysis: ImageNumbers, name: str) -> Sequence[Any]:
    """Returns a column of :data:`IMAGE_COLUMNS`, the value of each image.

    Raises:
        InputError: the result does not know it.
    """
    rows = getattr(analysis, "rows", None)
    if not isinstance(rows, Rows):
        raise InputError(
            f"columns must be those of a table, since results of {analysis.metric} do not know {name!r} of images"
        )
    if name == "crowding":
        counts: list[int] = np.bincount(rows.gt_images[rows.gt_counts], minlength=analysis.images).tolist()
        return counts
    return [_size(analysis, rows, image) for image in range(analysis.images)]


def _size(analysis: ImageNumbers, rows: Rows, image: int) -> float:
    fields = {} if rows.image_fields is None else rows.image_fields(image)
    sides = fields.get("width"), fields.get("height")
    if not all(isinstance(side, (int, float)) for side in sides):
        raise InputError(
            f"image_size needs width and height of every image but image {rows.image_ids[image]!r} of"
            f" {analysis.metric} has none: give a table with a column of your own"
        )
    return math.sqrt(float(sides[0]) * float(sides[1]))  # type: ignore[arg-type]
