"""Annotation objects of rows of a layout, for exports: geometry as the file has it. No torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.layout import Side
from valor_gpu.inputs._coco_values import FileValues, Values
from valor_gpu.inputs.coco_ids import row_ids

_SHAPES = {"segmentation": "segmentation", "keypoints": "keypoints", "rotated": "bbox"}
"""Fields of values to keys of annotation objects."""


def objects_of_side(side: Side, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Returns a COCO annotation object per row, with the geometry that its record has.

    Args:
        side: ground truths or detections of a layout.
        rows: int64 ``[n]``, places in ``side``.

    Returns:
        Dicts of ``id``, ``image_id``, ``category_id``, of detections ``score``, of ground truths ``iscrowd``, ``area``
        where it is known, and those of ``bbox``, ``segmentation`` and ``keypoints`` that the record has.

    Raises:
        InputError: the file of the geometry has changed since it was read.
    """
    columns = side.columns
    places = np.asarray(rows, np.int64) if side.rows is None else side.rows[rows]
    ids = zip(
        columns.id[places].tolist(), row_ids(columns, "image_id", places), row_ids(columns, "category_id", places)
    )
    made: list[dict[str, Any]] = [
        {"id": number, "image_id": image, "category_id": category} for number, image, category in ids
    ]
    optional = {
        "bbox": ~np.isnan(columns.bbox[places]).all(1) if len(columns.bbox) else np.zeros(len(places), np.bool_),
        "area": ~np.isnan(columns.area[places]),
        "score": ~np.isnan(columns.score[places]),
    }
    for name, known in optional.items():
        for row, value in zip(np.flatnonzero(known).tolist(), getattr(columns, name)[places[known]].tolist()):
            made[row][name] = value
    for annotation, crowd in zip(made, columns.iscrowd[places].tolist()):
        if "score" not in annotation:
            annotation["iscrowd"] = int(crowd)
    for name, key in _SHAPES.items() if columns.values is not None else ():
        for annotation, shape in zip(made, _values_of(columns.values, name, places)):
            if shape is not None:
                annotation[key] = shape
    return made


def _values_of(values: Values | None, name: str, places: NDArray[np.int64]) -> Sequence[Any]:
    """The values of a field, None where a record lacks it."""
    if values is None:
        return ()
    if not isinstance(values, FileValues):
        return [values.value(name, place) for place in places.tolist()]
    with values.texts(name, places) as (text, found):  # one look at the file for all of them
        return [json.loads(bytes(text[b : b + size])) if size else None for b, size in found.tolist()]
