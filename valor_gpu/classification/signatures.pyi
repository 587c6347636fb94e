# ruff: noqa: E501
"""Both forms of the constructors of classes of any task.

Made by tools/make_names.py: change its table, then run it.
"""

from typing import Literal, overload

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from typing_extensions import Unpack

from valor_gpu.classification.accuracy import Accuracy as _Accuracy
from valor_gpu.classification.accuracy import HammingDistance as _HammingDistance
from valor_gpu.classification.calibration import CalibrationError as _CalibrationError
from valor_gpu.classification.confusion import CohenKappa as _CohenKappa
from valor_gpu.classification.confusion import ConfusionMatrix as _ConfusionMatrix
from valor_gpu.classification.confusion import MatthewsCorrCoef as _MatthewsCorrCoef
from valor_gpu.classification.curves import ROC as _ROC
from valor_gpu.classification.curves import PrecisionRecallCurve as _PrecisionRecallCurve
from valor_gpu.classification.equal_error import EER as _EER
from valor_gpu.classification.exact_match import ExactMatch as _ExactMatch
from valor_gpu.classification.operating_points import PrecisionAtFixedRecall as _PrecisionAtFixedRecall
from valor_gpu.classification.operating_points import RecallAtFixedPrecision as _RecallAtFixedPrecision
from valor_gpu.classification.operating_points import SensitivityAtSpecificity as _SensitivityAtSpecificity
from valor_gpu.classification.operating_points import SpecificityAtSensitivity as _SpecificityAtSensitivity
from valor_gpu.classification.ranking_metrics import AUROC as _AUROC
from valor_gpu.classification.ranking_metrics import AveragePrecision as _AveragePrecision
from valor_gpu.classification.ratio_metrics import F1Score as _F1Score
from valor_gpu.classification.ratio_metrics import FBetaScore as _FBetaScore
from valor_gpu.classification.ratio_metrics import JaccardIndex as _JaccardIndex
from valor_gpu.classification.ratio_metrics import NegativePredictiveValue as _NegativePredictiveValue
from valor_gpu.classification.ratio_metrics import Precision as _Precision
from valor_gpu.classification.ratio_metrics import Recall as _Recall
from valor_gpu.classification.ratio_metrics import Specificity as _Specificity
from valor_gpu.classification.stat_scores import StatScores as _StatScores
from valor_gpu.options import (
    NamedOptions,
    PairOptions,
    RankingOptions,
    RatioOptions,
    TaskOptions,
)

class AUROC(_AUROC):
    """Computes the area under the ROC curve: :class:`ROCAUC` by the name that it has in torchmetrics."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        thresholds: int | ArrayLike | Tensor | None = None,
        *,
        max_fpr: float | None = None,
        **kwargs: Unpack[RankingOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        thresholds: int | ArrayLike | Tensor | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        max_fpr: float | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class Accuracy(_Accuracy):
    """Computes accuracy, the fraction of predictions that are correct; ``top_k`` accepts any of the k largest scores."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        top_k: int = 1,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        zero_division: float | None = None,
        activation: str = "auto",
        multidim_average: str = "global",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class AveragePrecision(_AveragePrecision):
    """Computes average precision: the mean over positives of the precision among all that score at least as high."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        thresholds: int | ArrayLike | Tensor | None = None,
        bins: int | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = ...,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        thresholds: int | ArrayLike | Tensor | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class CalibrationError(_CalibrationError):
    """Computes the calibration error, the distance of accuracy from confidence: ECE (l1), MCE (max) or RMS (l2)."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        *,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: int | None = None,
        activation: str = "auto",
        separate_ones: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass"],
        n_bins: int = 15,
        norm: str = "l1",
        num_classes: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class CohenKappa(_CohenKappa):
    """Computes Cohen's kappa, the agreement of target and prediction beyond chance: 1 is full agreement, 0 is chance."""

    @overload
    def __init__(
        self, num_classes: int | None = None, *, weights: str | None = None, **kwargs: Unpack[PairOptions]
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        weights: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class ConfusionMatrix(_ConfusionMatrix):
    """Counts how often each true class was predicted as each class; rows are true classes."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        normalize: str | None = None,
        **kwargs: Unpack[PairOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        normalize: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class EER(_EER):
    """Computes the equal error rate: where the false positive rate meets the false negative rate."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        thresholds: int | ArrayLike | Tensor | None = None,
        average: str | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = ...,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        thresholds: int | ArrayLike | Tensor | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class ExactMatch(_ExactMatch):
    """Computes exact match (subset accuracy), the fraction of samples all of whose elements are right."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        activation: str = "auto",
        multidim_average: str = "global",
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class F1Score(_F1Score):
    """Computes F1, 2 tp / (2 tp + fp + fn): the harmonic mean of precision and recall."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        top_k: int = 1,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        zero_division: float | None = None,
        activation: str = "auto",
        multidim_average: str = "global",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class FBetaScore(_FBetaScore):
    """Computes F-beta, (1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp)."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        beta: float = 1.0,
        average: str | None = "micro",
        zero_division: float | None = None,
        **kwargs: Unpack[RatioOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
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
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class HammingDistance(_HammingDistance):
    """Computes the Hamming distance, the fraction of predictions that are wrong: 1 - accuracy."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        top_k: int = 1,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        zero_division: float | None = None,
        activation: str = "auto",
        multidim_average: str = "global",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class JaccardIndex(_JaccardIndex):
    """Computes the Jaccard index, tp / (tp + fp + fn): intersection over union of predicted and true samples."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "macro",
        zero_division: float | None = None,
        **kwargs: Unpack[RatioOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class MatthewsCorrCoef(_MatthewsCorrCoef):
    """Computes the Matthews correlation of true and predicted classes, from -1 to 1; multilabel pools the labels."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        activation: str = "auto",
        max_examples: int = 0,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class NegativePredictiveValue(_NegativePredictiveValue):
    """Computes the negative predictive value, tn / (tn + fn): the fraction of negative predictions that are correct."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        top_k: int = 1,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        zero_division: float | None = None,
        activation: str = "auto",
        multidim_average: str = "global",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class Precision(_Precision):
    """Computes precision, tp / (tp + fp): the fraction of the predictions of a class that are correct."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        top_k: int = 1,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        zero_division: float | None = None,
        activation: str = "auto",
        multidim_average: str = "global",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class PrecisionAtFixedRecall(_PrecisionAtFixedRecall):
    """Computes the highest precision among the thresholds that reach a recall, and that threshold."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        min_recall: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = ...,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        min_recall: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class PrecisionRecallCurve(_PrecisionRecallCurve):
    """Computes precision and recall at each threshold, thresholds ascending; the last point is (precision 1, recall 0)."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        thresholds: int | ArrayLike | Tensor | None = None,
        average: str | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = ...,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        thresholds: int | ArrayLike | Tensor | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class ROC(_ROC):
    """Computes the ROC curve: true positive rate over false positive rate at each threshold, thresholds descending."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        thresholds: int | ArrayLike | Tensor | None = None,
        average: str | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = ...,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        thresholds: int | ArrayLike | Tensor | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class Recall(_Recall):
    """Computes recall, tp / (tp + fn): the fraction of the samples of a class that were predicted as it."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        top_k: int = 1,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        zero_division: float | None = None,
        activation: str = "auto",
        multidim_average: str = "global",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class RecallAtFixedPrecision(_RecallAtFixedPrecision):
    """Computes the highest recall among the thresholds that reach a precision, and that threshold."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        min_precision: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = ...,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        min_precision: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class SensitivityAtSpecificity(_SensitivityAtSpecificity):
    """Computes the highest sensitivity among the thresholds that reach a specificity, and that threshold."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        min_specificity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = ...,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        min_specificity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class Specificity(_Specificity):
    """Computes specificity, tn / (tn + fp): the fraction of the negatives of a class that were not predicted as it."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        top_k: int = 1,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        zero_division: float | None = None,
        activation: str = "auto",
        multidim_average: str = "global",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class SpecificityAtSensitivity(_SpecificityAtSensitivity):
    """Computes the highest specificity among the thresholds that reach a sensitivity, and that threshold."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        min_sensitivity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = ...,
        **kwargs: Unpack[TaskOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        min_sensitivity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...

class StatScores(_StatScores):
    """Counts true positives, false positives, true negatives, false negatives and the support (tp + fn)."""

    @overload
    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        **kwargs: Unpack[RatioOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        task: Literal["binary", "multiclass", "multilabel"],
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None: ...
