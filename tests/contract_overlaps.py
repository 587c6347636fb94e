"""Rows of the metrics over pairs that overlap for the table of tests/contract.py."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.contract_boxes import Batch, bad_boxes, boxes_batch
from valor_gpu import detection

LISTS_ROWS = ("DetectionDetailedPrecisionRecallCurve", "DetectionExamples")
"""Metrics that show the first images, hence depend on their order."""

_CHOICES: dict[str, dict[str, Any]] = {
    "AP": {},
    "APAveragedOverIOUs": {},
    "mAP": dict(iou_thresholds=[0.3, 0.75], include_prediction_only_labels=True),
    "mAPAveragedOverIOUs": dict(matching="doc"),
    "AR": dict(recall_score_threshold=0.25),
    "mAR": dict(score_thresholds=[0.2, 0.5]),
    "DetectionCounts": dict(score_thresholds=[0.0, 0.5]),
    "DetectionPrecision": {},
    "DetectionRecall": {},
    "DetectionF1": {},
    "DetectionPrecisionRecallCurve": {},
    "DetectionDetailedPrecisionRecallCurve": dict(duplicates=True),
    "DetectionConfusionMatrix": dict(iou_thresholds=[0.1, 0.5]),
    "DetectionExamples": {},
}


def overlap_batch(seed: int, images: int = 4) -> Batch:
    """Images without crowds, with tied scores."""
    preds, target = boxes_batch(seed, images, ids=True)
    return preds, [{key: item[key] for key in ("boxes", "labels", "image_id")} for item in target]


def bad_scores() -> Batch:
    """A batch with scores that are NaN."""
    preds, target = bad_boxes()
    return preds, [{key: item[key] for key in ("boxes", "labels")} for item in target]


def overlap_rows() -> Iterator[dict[str, Any]]:
    """Arguments of the cases of the table."""
    for name, choices in _CHOICES.items():
        metric = getattr(detection, name)
        yield dict(
            name=name, make=partial(metric, "xywh", **choices), other=partial(metric, "cxcywh", **choices),
            batch=overlap_batch, empty=lambda: ([], []), single=partial(overlap_batch, 4, images=1), bad=bad_scores,
            order_free=name not in LISTS_ROWS,
        )  # fmt: skip
