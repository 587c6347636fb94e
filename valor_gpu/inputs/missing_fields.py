"""Fields that COCO ground truths lack and that metrics do without: what stands for them, and how many. No torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from valor_gpu.inputs._coco_values import read_keypoints
from valor_gpu.inputs.coco import Annotations

_USUAL_POINTS = 17  # of COCO, for a file in which nobody has keypoints

Rows = NDArray[np.int64]


def count_missing(rows: Annotations, keypoints: bool = False) -> dict[str, int]:
    """Counts ground truths without ``iscrowd``, which is 0 then, and without ``area`` that something reads.

    Args:
        rows: the ground truths.
        keypoints: whether keypoints are compared, which reads areas of crowds too.

    Example:
        >>> from valor_gpu.inputs.coco import columns_from_dataset
        >>> count_missing(columns_from_dataset({"annotations": [{"id": 1, "image_id": 1, "iscrowd": 0}]}).annotations)
        {'ground_truths_without_area': 1}
    """
    found = {"iscrowd": ~rows.has("iscrowd"), "area": ~rows.has("area") & (keypoints | ~rows.iscrowd)}
    return {f"ground_truths_without_{name}": int(bad.sum()) for name, bad in found.items() if bad.any()}


def describe_missing(counts: Mapping[str, int], area_text: str) -> list[str]:
    """One sentence for each field that ground truths lack and that something was taken for.

    Args:
        counts: ``ground_truths_without_`` and the name of a field, and others.
        area_text: what was taken for areas.
    """
    used = {"iscrowd": "0", "area": area_text, "num_keypoints": "the number of visible keypoints"}
    return [
        f"{number:,} {'ground truth has' if number == 1 else 'ground truths have'} no {name}: {text} is used"
        for name, text in used.items()
        if (number := counts.get(f"ground_truths_without_{name}", 0))
    ]


def areas_of(rows: Annotations, chosen: Rows, keypoints: bool) -> NDArray[np.float64]:
    """float64 ``[n]`` areas of ground truths; where one has none 0, which metrics take for that of its box or mask.

    Args:
        rows: the ground truths.
        chosen: int64 ``[n]`` which of them.
        keypoints: whether keypoints are compared, of which no metric knows an area: then it is width x height.

    Raises:
        InputError: keypoints are compared, and a ground truth has neither area nor box.
    """
    lacking = ~rows.has("area")[chosen]
    areas = rows.area[chosen]
    if not lacking.any():
        return areas
    if not keypoints:
        return np.where(lacking, 0.0, areas)
    boxes = rows.bbox[chosen]
    bare = lacking & ~rows.has("bbox")[chosen]
    if bare.any():
        row = int(chosen[bare.argmax()])
        raise rows.lacking(row, "area", int(rows.present[row]))
    return np.where(lacking, boxes[:, 2] * boxes[:, 3], areas)


def keypoints_of(rows: Annotations, chosen: Rows) -> NDArray[np.float64]:
    """float64 ``[n, K, 3]`` keypoints of ground truths: zeros of one whose ``num_keypoints`` is 0 and that has none.

    Args:
        rows: the ground truths.
        chosen: int64 ``[n]`` which of them.
    """
    values = rows.values
    if values is None:
        return read_keypoints(values, chosen, rows.where)
    unlabelled = values.column("num_keypoints") == 0
    if not unlabelled[chosen].any():
        return read_keypoints(values, chosen, rows.where)
    given = np.flatnonzero(rows.has("keypoints") & ~unlabelled)[:1]
    count = len(read_keypoints(values, given, rows.where)[0]) if len(given) else _USUAL_POINTS
    return read_keypoints(values, chosen, rows.where, count, unlabelled[chosen])
