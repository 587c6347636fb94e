"""Outcomes of detections and ground truths by plain loops over what pycocotools matched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tests.coco.comparison import OURS, THEIRS, Objects, evaluator, run
from valor_gpu.result import Result


class Row(NamedTuple):
    """A detection, or a missed ground truth, with its partner where it is right."""

    image: Any
    outcome: str
    detection: int | None
    ground_truth: int | None


def results_of(objects: Objects, kind: str = "bbox", **params: Any) -> tuple[Any, Result]:
    """pycocotools' evaluator after ``accumulate()``, and our result."""
    theirs, ours = (run_kind(side, objects, kind, params) for side in (THEIRS, OURS))
    return theirs, ours.result()


def run_kind(side: Any, objects: Objects, kind: str, params: dict[str, Any]) -> Any:
    """An evaluator after ``accumulate()``."""
    made = evaluator(side, objects)
    made.params = type(made.params)(iouType=kind)
    made.params.imgIds, made.params.catIds = sorted(made.cocoGt.getImgIds()), sorted(made.cocoGt.getCatIds())
    return run(made, summarize=False, **params).e


def rows_of(theirs: Any, iou: float, score: float | None = None) -> Iterator[Row]:
    """What became of detections and ground truths that count, in the first area range and the last limit."""
    level = int(np.argmin(np.abs(theirs.params.iouThrs - iou)))
    for cell in theirs.evalImgs:
        if cell is None or cell["aRng"] != theirs.params.areaRng[0]:
            continue
        found = set()
        for d, number in enumerate(cell["dtIds"]):
            if score is not None and cell["dtScores"][d] < score:
                continue
            partner = int(cell["dtMatches"][level, d])
            if cell["dtIgnore"][level, d]:
                yield Row(cell["image_id"], "ignored", number, None)
            elif partner:
                found.add(partner)
                yield Row(cell["image_id"], "true positive", number, partner)
            else:
                yield Row(cell["image_id"], "false positive", number, None)
        for number, ignored in zip(cell["gtIds"], cell["gtIgnore"]):
            if not ignored and number not in found:
                yield Row(cell["image_id"], "false negative", None, number)


def iou_of(a: list[float], b: list[float], crowd: bool = False) -> float:
    """Intersection over union of two boxes x, y, width, height; over the first alone with a crowd."""
    wide = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    high = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    if wide <= 0 or high <= 0:
        return 0.0
    both = wide * high
    return both / (a[2] * a[3] if crowd else a[2] * a[3] + b[2] * b[3] - both)
