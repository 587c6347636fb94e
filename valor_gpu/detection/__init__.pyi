# ruff: noqa: I001
"""Metrics of object detection."""

from valor_gpu.detection.average_precision import (
    AP as AP,
    APAveragedOverIOUs as APAveragedOverIOUs,
    mAP as mAP,
    mAPAveragedOverIOUs as mAPAveragedOverIOUs,
)
from valor_gpu.detection.average_recall import AR as AR, mAR as mAR
from valor_gpu.detection.binned_mean_ap import BinnedMeanAveragePrecision as BinnedMeanAveragePrecision
from valor_gpu.detection.box_distances import (
    CompleteIntersectionOverUnion as CompleteIntersectionOverUnion,
    DistanceIntersectionOverUnion as DistanceIntersectionOverUnion,
    GeneralizedIntersectionOverUnion as GeneralizedIntersectionOverUnion,
)
from valor_gpu.detection.box_overlaps import IntersectionOverUnion as IntersectionOverUnion
from valor_gpu.detection.coco_files import coco_targets as coco_targets
from valor_gpu.detection.confusion_matrix import (
    DetectionConfusionMatrix as DetectionConfusionMatrix,
    DetectionExamples as DetectionExamples,
)
from valor_gpu.detection.mean_ap import MeanAveragePrecision as MeanAveragePrecision
from valor_gpu.detection.open_images import OpenImagesAveragePrecision as OpenImagesAveragePrecision
from valor_gpu.detection.outcome_metrics import (
    DetectionCounts as DetectionCounts,
    DetectionF1 as DetectionF1,
    DetectionPrecision as DetectionPrecision,
    DetectionRecall as DetectionRecall,
)
from valor_gpu.detection.score_curves import (
    DetectionDetailedPrecisionRecallCurve as DetectionDetailedPrecisionRecallCurve,
    DetectionPrecisionRecallCurve as DetectionPrecisionRecallCurve,
)
from valor_gpu.segmentation.panoptic import (
    ModifiedPanopticQuality as ModifiedPanopticQuality,
    PanopticQuality as PanopticQuality,
)
