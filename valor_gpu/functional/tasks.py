"""Metrics of one batch, by task.

Made by tools/make_names.py: change its table, then run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu.classification import (
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
from valor_gpu.functional.once import once

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor


def auroc(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "macro",
    max_fpr: float | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``AUROC`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        AUROC,
        (preds, target, y_true, y_pred),
        task=task,
        thresholds=thresholds,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        max_fpr=max_fpr,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def accuracy(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "micro",
    multidim_average: str = "global",
    top_k: int = 1,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``Accuracy`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        Accuracy,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        multidim_average=multidim_average,
        top_k=top_k,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def average_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "macro",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``AveragePrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        AveragePrecision,
        (preds, target, y_true, y_pred),
        task=task,
        thresholds=thresholds,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def calibration_error(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    n_bins: int = 15,
    norm: str = "l1",
    num_classes: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
    separate_ones: bool = False,
) -> Tensor:
    """Returns what ``CalibrationError`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        CalibrationError,
        (preds, target, y_true, y_pred),
        task=task,
        n_bins=n_bins,
        norm=norm,
        num_classes=num_classes,
        ignore_index=ignore_index,
        validate_args=validate_args,
        separate_ones=separate_ones,
    )


def cohen_kappa(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    weights: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``CohenKappa`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        CohenKappa,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        weights=weights,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def confusion_matrix(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    normalize: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``ConfusionMatrix`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        ConfusionMatrix,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        normalize=normalize,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def eer(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``EER`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        EER,
        (preds, target, y_true, y_pred),
        task=task,
        thresholds=thresholds,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def exact_match(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``ExactMatch`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        ExactMatch,
        (preds, target, y_true, y_pred),
        task=task,
        num_classes=num_classes,
        num_labels=num_labels,
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def f1_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "micro",
    multidim_average: str = "global",
    top_k: int = 1,
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``F1Score`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        F1Score,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        multidim_average=multidim_average,
        top_k=top_k,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def fbeta_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    beta: float = 1.0,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "micro",
    multidim_average: str = "global",
    top_k: int = 1,
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``FBetaScore`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        FBetaScore,
        (preds, target, y_true, y_pred),
        task=task,
        beta=beta,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        multidim_average=multidim_average,
        top_k=top_k,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def hamming_distance(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "micro",
    multidim_average: str = "global",
    top_k: int = 1,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``HammingDistance`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        HammingDistance,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        multidim_average=multidim_average,
        top_k=top_k,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def jaccard_index(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "macro",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``JaccardIndex`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        JaccardIndex,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def matthews_corrcoef(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MatthewsCorrCoef`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MatthewsCorrCoef,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def negative_predictive_value(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "micro",
    multidim_average: str = "global",
    top_k: int = 1,
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``NegativePredictiveValue`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        NegativePredictiveValue,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        multidim_average=multidim_average,
        top_k=top_k,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "micro",
    multidim_average: str = "global",
    top_k: int = 1,
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``Precision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        Precision,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        multidim_average=multidim_average,
        top_k=top_k,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def precision_at_fixed_recall(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    min_recall: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``PrecisionAtFixedRecall`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        PrecisionAtFixedRecall,
        (preds, target, y_true, y_pred),
        task=task,
        min_recall=min_recall,
        thresholds=thresholds,
        num_classes=num_classes,
        num_labels=num_labels,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def precision_recall_curve(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``PrecisionRecallCurve`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        PrecisionRecallCurve,
        (preds, target, y_true, y_pred),
        task=task,
        thresholds=thresholds,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def roc(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``ROC`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        ROC,
        (preds, target, y_true, y_pred),
        task=task,
        thresholds=thresholds,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def recall(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "micro",
    multidim_average: str = "global",
    top_k: int = 1,
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``Recall`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        Recall,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        multidim_average=multidim_average,
        top_k=top_k,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def recall_at_fixed_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    min_precision: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``RecallAtFixedPrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        RecallAtFixedPrecision,
        (preds, target, y_true, y_pred),
        task=task,
        min_precision=min_precision,
        thresholds=thresholds,
        num_classes=num_classes,
        num_labels=num_labels,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def sensitivity_at_specificity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    min_specificity: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``SensitivityAtSpecificity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        SensitivityAtSpecificity,
        (preds, target, y_true, y_pred),
        task=task,
        min_specificity=min_specificity,
        thresholds=thresholds,
        num_classes=num_classes,
        num_labels=num_labels,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def specificity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "micro",
    multidim_average: str = "global",
    top_k: int = 1,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``Specificity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        Specificity,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        multidim_average=multidim_average,
        top_k=top_k,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def specificity_at_sensitivity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    min_sensitivity: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``SpecificityAtSensitivity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        SpecificityAtSensitivity,
        (preds, target, y_true, y_pred),
        task=task,
        min_sensitivity=min_sensitivity,
        thresholds=thresholds,
        num_classes=num_classes,
        num_labels=num_labels,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def stat_scores(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    task: str | None = None,
    threshold: float = 0.5,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "micro",
    multidim_average: str = "global",
    top_k: int = 1,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``StatScores`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        StatScores,
        (preds, target, y_true, y_pred),
        task=task,
        threshold=threshold,
        num_classes=num_classes,
        num_labels=num_labels,
        average=average,
        multidim_average=multidim_average,
        top_k=top_k,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )
