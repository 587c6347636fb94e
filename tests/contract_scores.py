"""Rows of the contract table for the metrics of classification."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.contract_probabilistic import PROBABILISTIC_CHOICES

_MULTICLASS = dict(num_classes=4)
CLASS_CHOICES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    **dict.fromkeys(("Accuracy", "Precision", "Recall", "FBetaScore", "Specificity", "NegativePredictiveValue"),
                    (_MULTICLASS, dict(_MULTICLASS, top_k=2))),
    **dict.fromkeys(("mROCAUC", "AUROC"), (_MULTICLASS, dict(_MULTICLASS, ignore_index=1))),
    **dict.fromkeys(("F1Score", "HammingDistance", "JaccardIndex", "BalancedAccuracy"),
                    (dict(num_labels=4), dict(num_labels=4, threshold=0.75))),
    **dict.fromkeys(("MatthewsCorrCoef", "CohenKappa", "CalibrationError", "ROC", "ROCAUC"),
                    (_MULTICLASS, dict(_MULTICLASS, ignore_index=1))),
    "HingeLoss": (_MULTICLASS, dict(_MULTICLASS, squared=True)),
    "LogAUC": (dict(_MULTICLASS, fpr_range=(0.1, 1.0)), dict(_MULTICLASS, fpr_range=(0.1, 1.0), ignore_index=1)),
    "EER": (dict(num_labels=4), dict(num_labels=4, ignore_index=1)),
    "PrecisionAtFixedRecall": (dict(_MULTICLASS, min_recall=0.5), dict(_MULTICLASS, min_recall=0.5, ignore_index=1)),
    "RecallAtFixedPrecision": (dict(_MULTICLASS, min_precision=0.3, thresholds=9),
                               dict(_MULTICLASS, min_precision=0.3, thresholds=9, ignore_index=1)),
    "SensitivityAtSpecificity": (dict(min_specificity=0.5), dict(min_specificity=0.5, ignore_index=1)),
    "SpecificityAtSensitivity": (dict(_MULTICLASS, min_sensitivity=0.5),
                                 dict(_MULTICLASS, min_sensitivity=0.5, ignore_index=1)),
    **dict.fromkeys(("MultilabelCoverageError", "MultilabelRankingAveragePrecision", "MultilabelRankingLoss"),
                    (dict(num_labels=4), dict(num_labels=4, ignore_index=1))),
    "ExactMatch": (dict(num_labels=4), dict(num_labels=4, ignore_index=1)),
    "StatScores": (_MULTICLASS, dict(_MULTICLASS, top_k=2)),
    "AveragePrecision": (dict(num_labels=4, bins=4), dict(num_labels=4, bins=4, ignore_index=1)),
    "PrecisionRecallCurve": (dict(num_labels=4, thresholds=6), dict(num_labels=4, thresholds=6, ignore_index=1)),
    "ThresholdCounts": (dict(_MULTICLASS, hardmax=True), _MULTICLASS),
    "DetailedPrecisionRecallCurve": (dict(num_classes=4, max_examples=0),
                                     dict(num_classes=4, max_examples=0, ignore_index=1)),
    "ConfusionMatrix": (dict(max_examples=2), dict(max_examples=2, ignore_index=1)),
    **PROBABILISTIC_CHOICES,
}  # fmt: skip
"""Arguments of each metric of classification in two configurations; a name may end in a hyphen and words."""


def scores_batch(columns: str, seed: int, size: int = 9, pixels: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
    """Probabilities of four classes, of four labels, or of one (columns num_classes, num_labels or none)."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand((size, 4, *pixels), generator=generator)
    if columns == "num_classes":
        return scores.softmax(1), torch.randint(4, (size, *pixels), generator=generator)
    scores = scores if columns == "num_labels" else scores[:, 0]
    return scores, torch.randint(2, scores.shape, generator=generator)


def bad_scores(columns: str) -> tuple[Tensor, Tensor]:
    scores, target = scores_batch(columns, 3)
    return scores.index_fill(0, torch.tensor([2]), math.nan), target
