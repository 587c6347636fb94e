"""Metrics of the multilabel task of one batch.

Made by tools/make_names.py: change its table, then run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu.classification import (
    MultilabelAccuracy,
    MultilabelAUROC,
    MultilabelAveragePrecision,
    MultilabelConfusionMatrix,
    MultilabelCoverageError,
    MultilabelEER,
    MultilabelExactMatch,
    MultilabelF1Score,
    MultilabelFBetaScore,
    MultilabelHammingDistance,
    MultilabelJaccardIndex,
    MultilabelMatthewsCorrCoef,
    MultilabelNegativePredictiveValue,
    MultilabelPrecision,
    MultilabelPrecisionAtFixedRecall,
    MultilabelPrecisionRecallCurve,
    MultilabelRankingAveragePrecision,
    MultilabelRankingLoss,
    MultilabelRecall,
    MultilabelRecallAtFixedPrecision,
    MultilabelROC,
    MultilabelSensitivityAtSpecificity,
    MultilabelSpecificity,
    MultilabelSpecificityAtSensitivity,
    MultilabelStatScores,
)
from valor_gpu.functional.once import once

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor


def multilabel_auroc(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    average: str | None = "macro",
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelAUROC`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelAUROC,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        average=average,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_accuracy(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelAccuracy`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelAccuracy,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_average_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    average: str | None = "macro",
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelAveragePrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelAveragePrecision,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        average=average,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_confusion_matrix(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    normalize: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelConfusionMatrix`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelConfusionMatrix,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        normalize=normalize,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_coverage_error(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelCoverageError`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelCoverageError,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_eer(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelEER`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelEER,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_exact_match(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelExactMatch`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelExactMatch,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_f1_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelF1Score`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelF1Score,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multilabel_fbeta_score(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    beta: float | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelFBetaScore`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelFBetaScore,
        (preds, target, y_true, y_pred),
        beta=beta,
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multilabel_hamming_distance(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelHammingDistance`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelHammingDistance,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_jaccard_index(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelJaccardIndex`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelJaccardIndex,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multilabel_matthews_corrcoef(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelMatthewsCorrCoef`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelMatthewsCorrCoef,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_negative_predictive_value(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelNegativePredictiveValue`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelNegativePredictiveValue,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multilabel_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelPrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelPrecision,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multilabel_precision_at_fixed_recall(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    min_recall: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MultilabelPrecisionAtFixedRecall`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelPrecisionAtFixedRecall,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        min_recall=min_recall,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_precision_recall_curve(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MultilabelPrecisionRecallCurve`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelPrecisionRecallCurve,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_roc(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MultilabelROC`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelROC,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_ranking_average_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelRankingAveragePrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelRankingAveragePrecision,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_ranking_loss(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelRankingLoss`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelRankingLoss,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_recall(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelRecall`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelRecall,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
        zero_division=zero_division,
    )


def multilabel_recall_at_fixed_precision(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    min_precision: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MultilabelRecallAtFixedPrecision`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelRecallAtFixedPrecision,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        min_precision=min_precision,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_sensitivity_at_specificity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    min_specificity: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MultilabelSensitivityAtSpecificity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelSensitivityAtSpecificity,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        min_specificity=min_specificity,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_specificity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelSpecificity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelSpecificity,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_specificity_at_sensitivity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    min_sensitivity: float | None = None,
    thresholds: int | ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Any:
    """Returns what ``MultilabelSpecificityAtSensitivity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelSpecificityAtSensitivity,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        min_sensitivity=min_sensitivity,
        thresholds=thresholds,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )


def multilabel_stat_scores(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    num_labels: int | None = None,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``MultilabelStatScores`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return once(
        MultilabelStatScores,
        (preds, target, y_true, y_pred),
        num_labels=num_labels,
        threshold=threshold,
        average=average,
        multidim_average=multidim_average,
        ignore_index=ignore_index,
        validate_args=validate_args,
    )
