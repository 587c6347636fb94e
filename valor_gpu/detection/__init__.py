"""Metrics of object detection."""

# Type checkers read __init__.pyi: PanopticQuality is of another room.

from __future__ import annotations

from valor_gpu._lazy import lazy_names

__all__ = [
    "AP",
    "AR",
    "APAveragedOverIOUs",
    "BinnedMeanAveragePrecision",
    "CompleteIntersectionOverUnion",
    "DetectionConfusionMatrix",
    "DetectionCounts",
    "DetectionDetailedPrecisionRecallCurve",
    "DetectionExamples",
    "DetectionF1",
    "DetectionPrecision",
    "DetectionPrecisionRecallCurve",
    "DetectionRecall",
    "DistanceIntersectionOverUnion",
    "GeneralizedIntersectionOverUnion",
    "IntersectionOverUnion",
    "MeanAveragePrecision",
    "ModifiedPanopticQuality",
    "OpenImagesAveragePrecision",
    "PanopticQuality",
    "coco_targets",
    "mAP",
    "mAPAveragedOverIOUs",
    "mAR",
]

_DISTANCES = ("CompleteIntersectionOverUnion", "DistanceIntersectionOverUnion", "GeneralizedIntersectionOverUnion")
_HOMES = {
    **dict.fromkeys(("AP", "APAveragedOverIOUs", "mAP", "mAPAveragedOverIOUs"), "average_precision"),
    **dict.fromkeys(("AR", "mAR"), "average_recall"),
    **dict.fromkeys(("DetectionConfusionMatrix", "DetectionExamples"), "confusion_matrix"),
    **dict.fromkeys(("DetectionCounts", "DetectionF1", "DetectionPrecision", "DetectionRecall"), "outcome_metrics"),
    **dict.fromkeys(("DetectionDetailedPrecisionRecallCurve", "DetectionPrecisionRecallCurve"), "score_curves"),
    "BinnedMeanAveragePrecision": "binned_mean_ap",
    **dict.fromkeys(_DISTANCES, "box_distances"),
    "IntersectionOverUnion": "box_overlaps",
    "coco_targets": "coco_files",
    "MeanAveragePrecision": "mean_ap",
    "OpenImagesAveragePrecision": "open_images",
}

# torchmetrics has these in its package of detection.
_ELSEWHERE = dict.fromkeys(("ModifiedPanopticQuality", "PanopticQuality"), "valor_gpu.segmentation.panoptic")

__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()} | _ELSEWHERE)
