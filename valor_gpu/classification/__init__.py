"""Metrics of classification; the task follows from ``num_classes``, ``num_labels``, or neither (binary)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names
from valor_gpu.classification import task_names

if TYPE_CHECKING:
    from valor_gpu.classification.accuracy import BalancedAccuracy
    from valor_gpu.classification.label_ranking import (
        MultilabelCoverageError,
        MultilabelRankingAveragePrecision,
        MultilabelRankingLoss,
    )
    from valor_gpu.classification.ranking_metrics import ROCAUC, mROCAUC
    from valor_gpu.classification.signatures import (
        AUROC,
        EER,
        ROC,
        Accuracy,
        AveragePrecision,
        CalibrationError,
        CohenKappa,
        ConfusionMatrix,
        ExactMatch,
        F1Score,
        FBetaScore,
        HammingDistance,
        JaccardIndex,
        MatthewsCorrCoef,
        NegativePredictiveValue,
        Precision,
        PrecisionAtFixedRecall,
        PrecisionRecallCurve,
        Recall,
        RecallAtFixedPrecision,
        SensitivityAtSpecificity,
        Specificity,
        SpecificityAtSensitivity,
        StatScores,
    )
    from valor_gpu.classification.task_names import *  # noqa: F403
    from valor_gpu.classification.threshold_counts import DetailedPrecisionRecallCurve, ThresholdCounts

__all__ = [
    "AUROC",
    "EER",
    "ROC",
    "ROCAUC",
    "Accuracy",
    "AveragePrecision",
    "BalancedAccuracy",
    "CalibrationError",
    "CohenKappa",
    "ConfusionMatrix",
    "DetailedPrecisionRecallCurve",
    "ExactMatch",
    "F1Score",
    "FBetaScore",
    "HammingDistance",
    "JaccardIndex",
    "MatthewsCorrCoef",
    "MultilabelCoverageError",
    "MultilabelRankingAveragePrecision",
    "MultilabelRankingLoss",
    "NegativePredictiveValue",
    "Precision",
    "PrecisionAtFixedRecall",
    "PrecisionRecallCurve",
    "Recall",
    "RecallAtFixedPrecision",
    "SensitivityAtSpecificity",
    "Specificity",
    "SpecificityAtSensitivity",
    "StatScores",
    "ThresholdCounts",
    "mROCAUC",
]
__all__ += task_names.__all__

_RATIOS = ("F1Score", "FBetaScore", "JaccardIndex", "NegativePredictiveValue", "Precision", "Recall", "Specificity")
_POINTS = (
    "EER",
    "PrecisionAtFixedRecall",
    "RecallAtFixedPrecision",
    "SensitivityAtSpecificity",
    "SpecificityAtSensitivity",
)
_RANKINGS = ("MultilabelCoverageError", "MultilabelRankingAveragePrecision", "MultilabelRankingLoss")
_HOMES = {
    **dict.fromkeys(_RANKINGS, "valor_gpu.classification.label_ranking"),
    **dict.fromkeys(("Accuracy", "BalancedAccuracy", "HammingDistance"), "valor_gpu.classification.accuracy"),
    **dict.fromkeys(("AUROC", "AveragePrecision", "ROCAUC", "mROCAUC"), "valor_gpu.classification.ranking_metrics"),
    **dict.fromkeys(_RATIOS, "valor_gpu.classification.ratio_metrics"),
    **dict.fromkeys(("CohenKappa", "ConfusionMatrix", "MatthewsCorrCoef"), "valor_gpu.classification.confusion"),
    **dict.fromkeys(("PrecisionRecallCurve", "ROC"), "valor_gpu.classification.curves"),
    **dict.fromkeys(("DetailedPrecisionRecallCurve", "ThresholdCounts"), "valor_gpu.classification.threshold_counts"),
    **dict.fromkeys(_POINTS, "valor_gpu.classification.operating_points"),
    "CalibrationError": "valor_gpu.classification.calibration",
    "EER": "valor_gpu.classification.equal_error",
    "ExactMatch": "valor_gpu.classification.exact_match",
    "StatScores": "valor_gpu.classification.stat_scores",
    **task_names.HOMES,
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
