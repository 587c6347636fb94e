"""Metrics of the binary task of one batch.

Made by tools/make_names.py: change its table, then run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu.classification import (
    BinaryAccuracy,
    BinaryAUROC,
    BinaryAveragePrecision,
    BinaryCalibrationError,
    BinaryCohenKappa,
    BinaryConfusionMatrix,
    BinaryEER,
    BinaryF1Score,
    BinaryFBetaScore,
    BinaryHammingDistance,
    BinaryJaccardIndex,
    BinaryMatthewsCorrCoef,
    BinaryNegativePredictiveValue,
    BinaryPrecision,
    BinaryPrecisionAtFixedRecall,
    BinaryPrecisionRecallCurve,
    BinaryRecall,
    BinaryRecallAtFixedPrecision,
    BinaryROC,
    BinarySensitivityAtSpecificity,
    BinarySpecificity,
    BinarySpecificityAtSensitivity,
    BinaryStatScores,
)
from valor_gpu.functional.once import once

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor


def binary_auroc(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    max_fpr: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryAUROC`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryAUROC,
        (preds, target, y_true, y_pred),
        max_fpr=max_fpr,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_accuracy(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryAccuracy`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryAccuracy,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_average_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryAveragePrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryAveragePrecision,
        (preds, target, y_true, y_pred),
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_calibration_error(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    n_bins: int = 15,
    norm: str = "l1",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
    separate_ones: bool = False,
) -> Tensor:
    """Returns what ``BinaryCalibrationError`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryCalibrationError,
        (preds, target, y_true, y_pred),
        n_bins=n_bins,
        norm=norm,
        ignore_index=ignore_index,
        validate_args=validate_args,
        separate_ones=separate_ones,
    )


def binary_cohen_kappa(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    weights: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryCohenKappa`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryCohenKappa,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        weights=weights,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_confusion_matrix(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    normalize: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryConfusionMatrix`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryConfusionMatrix,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        normalize=normalize,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_eer(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryEER`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryEER,
        (preds, target, y_true, y_pred),
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_f1_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryF1Score`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryF1Score,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def binary_fbeta_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    beta: float | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryFBetaScore`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryFBetaScore,
        (preds, target, y_true, y_pred),
        beta=beta,
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def binary_hamming_distance(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryHammingDistance`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryHammingDistance,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_jaccard_index(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryJaccardIndex`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryJaccardIndex,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def binary_matthews_corrcoef(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryMatthewsCorrCoef`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryMatthewsCorrCoef,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_negative_predictive_value(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryNegativePredictiveValue`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryNegativePredictiveValue,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def binary_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryPrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryPrecision,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def binary_precision_at_fixed_recall(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    min_recall: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``BinaryPrecisionAtFixedRecall`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryPrecisionAtFixedRecall,
        (preds, target, y_true, y_pred),
        min_recall=min_recall,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_precision_recall_curve(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``BinaryPrecisionRecallCurve`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryPrecisionRecallCurve,
        (preds, target, y_true, y_pred),
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_roc(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``BinaryROC`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryROC,
        (preds, target, y_true, y_pred),
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_recall(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryRecall`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryRecall,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def binary_recall_at_fixed_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    min_precision: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``BinaryRecallAtFixedPrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryRecallAtFixedPrecision,
        (preds, target, y_true, y_pred),
        min_precision=min_precision,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_sensitivity_at_specificity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    min_specificity: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``BinarySensitivityAtSpecificity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinarySensitivityAtSpecificity,
        (preds, target, y_true, y_pred),
        min_specificity=min_specificity,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_specificity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinarySpecificity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinarySpecificity,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_specificity_at_sensitivity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    min_sensitivity: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``BinarySpecificityAtSensitivity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinarySpecificityAtSensitivity,
        (preds, target, y_true, y_pred),
        min_sensitivity=min_sensitivity,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def binary_stat_scores(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``BinaryStatScores`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        BinaryStatScores,
        (preds, target, y_true, y_pred),
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )
