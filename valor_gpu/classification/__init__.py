"""Metrics of classification; the task follows from ``num_classes``, ``num_labels``, or neither (binary)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.classification.calibration import CalibrationError
    from valor_gpu.classification.confusion import CohenKappa, ConfusionMatrix, MatthewsCorrCoef
    from valor_gpu.classification.counts import (
        Accuracy,
        BalancedAccuracy,
        F1Score,
        FBetaScore,
        HammingDistance,
        JaccardIndex,
        NegativePredictiveValue,
        Precision,
        Recall,
        Specificity,
    )

__all__ = [
    "Accuracy",
    "BalancedAccuracy",
    "CalibrationError",
    "CohenKappa",
    "ConfusionMatrix",
    "F1Score",
    "FBetaScore",
    "HammingDistance",
    "JaccardIndex",
    "MatthewsCorrCoef",
    "NegativePredictiveValue",
    "Precision",
    "Recall",
    "Specificity",
]

_COUNTS = ("Accuracy", "BalancedAccuracy", "F1Score", "FBetaScore", "HammingDistance", "JaccardIndex",
           "NegativePredictiveValue", "Precision", "Recall", "Specificity")  # fmt: skip
_HOMES = {
    **dict.fromkeys(_COUNTS, "valor_gpu.classification.counts"),
    **dict.fromkeys(("CohenKappa", "ConfusionMatrix", "MatthewsCorrCoef"), "valor_gpu.classification.confusion"),
    "CalibrationError": "valor_gpu.classification.calibration",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
