"""What an evaluation of detections answers about its errors, from the pairs that it has kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.detection.overlap_analysis import OverlapAnalysis
from valor_gpu.errors import InputError
from valor_gpu.result import grid_choice
from valor_gpu.valor.detection.scene import DETECTIONS, GROUND_TRUTHS, DetectionScene, EvaluatedData

_BY_COCO = (
    "errors() and its like are not defined with compat 'coco', which keeps no pairs with crowds: MeanAveragePrecision"
    " with errors=True, or COCOeval, answers by COCO's rules"
)


def evaluation_analysis(data: EvaluatedData) -> OverlapAnalysis:
    """Returns the analysis of the rows that the filter of an evaluation kept.

    Args:
        data: of the evaluation.

    Raises:
        InputError: the evaluation was made by the rules of COCO.
    """
    request, scene = data.request, data.scene
    if request.compat == "coco":
        raise InputError(_BY_COCO)
    kept = scene if all(mask.all() for mask in data.masks) else scene.keep(*data.masks)
    overlaps, labels = kept.overlaps, kept.columns.labels
    there = np.unique(np.concatenate([overlaps.labels.cpu().numpy(), overlaps.gt_labels.cpu().numpy()])).tolist()
    one_key = len({labels[place][0] for place in there}) <= 1
    names = {place: labels[place][1] if one_key else ": ".join(labels[place]) for place in there}
    choices = {
        "metric": "evaluate_detection", "iou_thresholds": grid_choice(request.ious), "matching": request.matching,
        **({} if request.compat is None else {"compat": request.compat}),
    }  # fmt: skip
    uids = [uid for uid, chosen in zip(kept.columns.datums, data.masks[0].tolist()) if chosen]
    return OverlapAnalysis(
        overlaps, uids, names, request.matching, choices, None, request.rules.positive_only, partial(_objects, kept)
    )


def _objects(scene: DetectionScene, side: str, rows: NDArray[np.int64]) -> Sequence[Mapping[str, Any]]:
    """COCO annotation objects: the box around each annotation that has one, in pixels."""
    number = DETECTIONS if side == "detections" else GROUND_TRUTHS
    annotations = scene.rows(number).annotation[rows]
    boxes = scene.shapes(number).boxes[annotations]
    boxes = np.concatenate((boxes[:, :2], boxes[:, 2:] - boxes[:, :2]), axis=1)
    return [{} if box[0] != box[0] else {"bbox": box} for box in boxes.tolist()]
