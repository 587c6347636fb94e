"""Metrics of the multiclass task of one batch.

Made by tools/make_names.py: change its table, then run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu.classification import (
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassAveragePrecision,
    MulticlassCalibrationError,
    MulticlassCohenKappa,
    MulticlassConfusionMatrix,
    MulticlassEER,
    MulticlassExactMatch,
    MulticlassF1Score,
    MulticlassFBetaScore,
    MulticlassHammingDistance,
    MulticlassJaccardIndex,
    MulticlassMatthewsCorrCoef,
    MulticlassNegativePredictiveValue,
    MulticlassPrecision,
    MulticlassPrecisionAtFixedRecall,
    MulticlassPrecisionRecallCurve,
    MulticlassRecall,
    MulticlassRecallAtFixedPrecision,
    MulticlassROC,
    MulticlassSensitivityAtSpecificity,
    MulticlassSpecificity,
    MulticlassSpecificityAtSensitivity,
    MulticlassStatScores,
)
from valor_gpu.functional.once import once

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor


def multiclass_auroc(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassAUROC`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassAUROC,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_accuracy(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassAccuracy`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassAccuracy,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        top_k=top_k,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_average_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassAveragePrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassAveragePrecision,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_calibration_error(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    n_bins: int = 15,
    norm: str = "l1",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
    separate_ones: bool = False,
) -> Tensor:
    """Returns what ``MulticlassCalibrationError`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassCalibrationError,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        n_bins=n_bins,
        norm=norm,
        ignore_index=ignore_index,
        validate_args=validate_args,
        separate_ones=separate_ones,
    )


def multiclass_cohen_kappa(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    weights: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassCohenKappa`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassCohenKappa,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        weights=weights,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_confusion_matrix(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    normalize: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassConfusionMatrix`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassConfusionMatrix,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        normalize=normalize,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_eer(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    average: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassEER`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassEER,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        thresholds=thresholds,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_exact_match(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassExactMatch`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassExactMatch,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_f1_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassF1Score`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassF1Score,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        top_k=top_k,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multiclass_fbeta_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    beta: float | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassFBetaScore`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassFBetaScore,
        (preds, target, y_true, y_pred),
        beta=beta,
        num_classes=num_classes,
        average=average,
        top_k=top_k,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multiclass_hamming_distance(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassHammingDistance`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassHammingDistance,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        top_k=top_k,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_jaccard_index(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassJaccardIndex`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassJaccardIndex,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multiclass_matthews_corrcoef(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassMatthewsCorrCoef`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassMatthewsCorrCoef,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_negative_predictive_value(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassNegativePredictiveValue`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassNegativePredictiveValue,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        top_k=top_k,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multiclass_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassPrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassPrecision,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        top_k=top_k,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multiclass_precision_at_fixed_recall(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    min_recall: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MulticlassPrecisionAtFixedRecall`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassPrecisionAtFixedRecall,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        min_recall=min_recall,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_precision_recall_curve(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    average: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MulticlassPrecisionRecallCurve`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassPrecisionRecallCurve,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        thresholds=thresholds,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_roc(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    average: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MulticlassROC`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassROC,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        thresholds=thresholds,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_recall(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassRecall`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassRecall,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        top_k=top_k,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multiclass_recall_at_fixed_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    min_precision: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MulticlassRecallAtFixedPrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassRecallAtFixedPrecision,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        min_precision=min_precision,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_sensitivity_at_specificity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    min_specificity: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MulticlassSensitivityAtSpecificity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassSensitivityAtSpecificity,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        min_specificity=min_specificity,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_specificity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassSpecificity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassSpecificity,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        top_k=top_k,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_specificity_at_sensitivity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    min_sensitivity: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MulticlassSpecificityAtSensitivity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassSpecificityAtSensitivity,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        min_sensitivity=min_sensitivity,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multiclass_stat_scores(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MulticlassStatScores`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MulticlassStatScores,
        (preds, target, y_true, y_pred),
        num_classes=num_classes,
        average=average,
        top_k=top_k,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )
