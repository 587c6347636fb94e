# ruff: noqa: E501, I001
# fmt: off
"""Metrics of classification; the task follows from ``num_classes``, ``num_labels``, or neither (binary).

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from numpy.typing import ArrayLike
from torch import Tensor
from typing import Literal
from typing import overload
from typing_extensions import Unpack
from valor_gpu.classification.accuracy import Accuracy as _Accuracy
from valor_gpu.classification.accuracy import BalancedAccuracy as BalancedAccuracy
from valor_gpu.classification.accuracy import HammingDistance as _HammingDistance
from valor_gpu.classification.brier import BrierScore as BrierScore
from valor_gpu.classification.brier import BrierSkillScore as BrierSkillScore
from valor_gpu.classification.calibration import CalibrationError as _CalibrationError
from valor_gpu.classification.chosen_points import ExpectedCost as ExpectedCost
from valor_gpu.classification.chosen_points import OperatingPoint as OperatingPoint
from valor_gpu.classification.conformal import ConformalCoverage as ConformalCoverage
from valor_gpu.classification.confusion import CohenKappa as _CohenKappa
from valor_gpu.classification.confusion import ConfusionMatrix as _ConfusionMatrix
from valor_gpu.classification.confusion import MatthewsCorrCoef as _MatthewsCorrCoef
from valor_gpu.classification.cost_curve import CostCurve as CostCurve
from valor_gpu.classification.curves import PrecisionRecallCurve as _PrecisionRecallCurve
from valor_gpu.classification.curves import ROC as _ROC
from valor_gpu.classification.equal_error import EER as _EER
from valor_gpu.classification.exact_match import ExactMatch as _ExactMatch
from valor_gpu.classification.group_fairness import BinaryFairness as BinaryFairness
from valor_gpu.classification.group_fairness import BinaryGroupStatRates as BinaryGroupStatRates
from valor_gpu.classification.hinge_loss import HingeLoss as _HingeLoss
from valor_gpu.classification.label_ranking import MultilabelCoverageError as MultilabelCoverageError
from valor_gpu.classification.label_ranking import MultilabelRankingAveragePrecision as MultilabelRankingAveragePrecision
from valor_gpu.classification.label_ranking import MultilabelRankingLoss as MultilabelRankingLoss
from valor_gpu.classification.log_auc import LogAUC as _LogAUC
from valor_gpu.classification.log_loss import NegativeLogLikelihood as NegativeLogLikelihood
from valor_gpu.classification.operating_points import PrecisionAtFixedRecall as _PrecisionAtFixedRecall
from valor_gpu.classification.operating_points import RecallAtFixedPrecision as _RecallAtFixedPrecision
from valor_gpu.classification.operating_points import SensitivityAtSpecificity as _SensitivityAtSpecificity
from valor_gpu.classification.operating_points import SpecificityAtSensitivity as _SpecificityAtSensitivity
from valor_gpu.classification.ranking_metrics import AUROC as _AUROC
from valor_gpu.classification.ranking_metrics import AveragePrecision as _AveragePrecision
from valor_gpu.classification.ranking_metrics import ROCAUC as ROCAUC
from valor_gpu.classification.ranking_metrics import mROCAUC as mROCAUC
from valor_gpu.classification.ratio_metrics import F1Score as _F1Score
from valor_gpu.classification.ratio_metrics import FBetaScore as _FBetaScore
from valor_gpu.classification.ratio_metrics import JaccardIndex as _JaccardIndex
from valor_gpu.classification.ratio_metrics import NegativePredictiveValue as _NegativePredictiveValue
from valor_gpu.classification.ratio_metrics import Precision as _Precision
from valor_gpu.classification.ratio_metrics import Recall as _Recall
from valor_gpu.classification.ratio_metrics import Specificity as _Specificity
from valor_gpu.classification.selective import AURC as AURC
from valor_gpu.classification.selective import CoverageAtRisk as CoverageAtRisk
from valor_gpu.classification.selective import EAURC as EAURC
from valor_gpu.classification.selective import RiskAtCoverage as RiskAtCoverage
from valor_gpu.classification.stat_scores import StatScores as _StatScores
from valor_gpu.classification.threshold_counts import DetailedPrecisionRecallCurve as DetailedPrecisionRecallCurve
from valor_gpu.classification.threshold_counts import ThresholdCounts as ThresholdCounts
from valor_gpu.options import NamedOptions
from valor_gpu.options import PairOptions
from valor_gpu.options import RankingOptions
from valor_gpu.options import RatioOptions
from valor_gpu.options import TaskOptions
import torch

__all__: list[str]

class AUROC(_AUROC):
    """Computes the area under the ROC curve: :class:`ROCAUC` by the name that it has in torchmetrics."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'macro', thresholds: int | ArrayLike | Tensor | None = None, *, max_fpr: float | None = None, **kwargs: Unpack[RankingOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], thresholds: int | ArrayLike | Tensor | None = None, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'macro', max_fpr: float | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class Accuracy(_Accuracy):
    """Computes accuracy, the fraction of predictions that are correct; ``top_k`` accepts any of the k largest scores."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, average: str | None = 'micro', top_k: int = 1, threshold: float = 0.5, ignore_index: int | None = None, zero_division: float | None = None, activation: str = 'auto', multidim_average: str = 'global', keep_rows: bool = False, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'micro', multidim_average: str = 'global', top_k: int = 1, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class AveragePrecision(_AveragePrecision):
    """Computes average precision: the mean over positives of the precision among all that score at least as high."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'macro', thresholds: int | ArrayLike | Tensor | None = None, bins: int | None = None, ignore_index: int | None = None, activation: str = 'auto', score_dtype: torch.dtype = ..., **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], thresholds: int | ArrayLike | Tensor | None = None, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'macro', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class CalibrationError(_CalibrationError):
    """Computes the calibration error, the distance of accuracy from confidence: ECE (l1), MCE (max) or RMS (l2)."""
    @overload
    def __init__(self, num_classes: int | None = None, *, n_bins: int = 15, norm: str = 'l1', ignore_index: int | None = None, activation: str = 'auto', separate_ones: bool = False, top_k: int = 1, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass'], n_bins: int = 15, norm: str = 'l1', num_classes: int | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class CohenKappa(_CohenKappa):
    """Computes Cohen's kappa, the agreement of target and prediction beyond chance: 1 is full agreement, 0 is chance."""
    @overload
    def __init__(self, num_classes: int | None = None, *, weights: str | None = None, **kwargs: Unpack[PairOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass'], threshold: float = 0.5, num_classes: int | None = None, weights: str | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class ConfusionMatrix(_ConfusionMatrix):
    """Counts how often each true class was predicted as each class; rows are true classes."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, normalize: str | None = None, **kwargs: Unpack[PairOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, normalize: str | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class EER(_EER):
    """Computes the equal error rate: where the false positive rate meets the false negative rate."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, thresholds: int | ArrayLike | Tensor | None = None, average: str | None = None, ignore_index: int | None = None, activation: str = 'auto', score_dtype: torch.dtype = ..., **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], thresholds: int | ArrayLike | Tensor | None = None, num_classes: int | None = None, num_labels: int | None = None, average: str | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class ExactMatch(_ExactMatch):
    """Computes exact match (subset accuracy), the fraction of samples all of whose elements are right."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, threshold: float = 0.5, ignore_index: int | None = None, activation: str = 'auto', multidim_average: str = 'global', **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class F1Score(_F1Score):
    """Computes F1, 2 tp / (2 tp + fp + fn): the harmonic mean of precision and recall."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, average: str | None = 'micro', top_k: int = 1, threshold: float = 0.5, ignore_index: int | None = None, zero_division: float | None = None, activation: str = 'auto', multidim_average: str = 'global', keep_rows: bool = False, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'micro', multidim_average: str = 'global', top_k: int = 1, ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class FBetaScore(_FBetaScore):
    """Computes F-beta, (1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp)."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, beta: float = 1.0, average: str | None = 'micro', zero_division: float | None = None, **kwargs: Unpack[RatioOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], beta: float = 1.0, threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'micro', multidim_average: str = 'global', top_k: int = 1, ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class HammingDistance(_HammingDistance):
    """Computes the Hamming distance, the fraction of predictions that are wrong: 1 - accuracy."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, average: str | None = 'micro', top_k: int = 1, threshold: float = 0.5, ignore_index: int | None = None, zero_division: float | None = None, activation: str = 'auto', multidim_average: str = 'global', keep_rows: bool = False, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'micro', multidim_average: str = 'global', top_k: int = 1, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class HingeLoss(_HingeLoss):
    """Computes the hinge loss: the mean of ``max(0, 1 - margin)``, of which ``squared`` takes the square."""
    @overload
    def __init__(self, num_classes: int | None = None, *, squared: bool = False, multiclass_mode: str = 'crammer-singer', ignore_index: int | None = None, activation: str = 'auto', keep_rows: bool = False, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass'], num_classes: int | None = None, squared: bool = False, multiclass_mode: str = 'crammer-singer', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class JaccardIndex(_JaccardIndex):
    """Computes the Jaccard index, tp / (tp + fp + fn): intersection over union of predicted and true samples."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, average: str | None = 'macro', zero_division: float | None = None, **kwargs: Unpack[RatioOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'macro', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class LogAUC(_LogAUC):
    """Computes the log AUC: the mean true positive rate over the logarithm of the false positive rate."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, average: str | None = None, thresholds: int | ArrayLike | Tensor | None = None, *, fpr_range: tuple[float, float] = ..., **kwargs: Unpack[RankingOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], thresholds: int | ArrayLike | Tensor | None = None, fpr_range: tuple[float, float] = ..., num_classes: int | None = None, num_labels: int | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MatthewsCorrCoef(_MatthewsCorrCoef):
    """Computes the Matthews correlation of true and predicted classes, from -1 to 1; multilabel pools the labels."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, threshold: float = 0.5, ignore_index: int | None = None, activation: str = 'auto', max_examples: int = 0, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class NegativePredictiveValue(_NegativePredictiveValue):
    """Computes the negative predictive value, tn / (tn + fn): the fraction of negative predictions that are correct."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, average: str | None = 'micro', top_k: int = 1, threshold: float = 0.5, ignore_index: int | None = None, zero_division: float | None = None, activation: str = 'auto', multidim_average: str = 'global', keep_rows: bool = False, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'micro', multidim_average: str = 'global', top_k: int = 1, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class Precision(_Precision):
    """Computes precision, tp / (tp + fp): the fraction of the predictions of a class that are correct."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, average: str | None = 'micro', top_k: int = 1, threshold: float = 0.5, ignore_index: int | None = None, zero_division: float | None = None, activation: str = 'auto', multidim_average: str = 'global', keep_rows: bool = False, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'micro', multidim_average: str = 'global', top_k: int = 1, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class PrecisionAtFixedRecall(_PrecisionAtFixedRecall):
    """Computes the highest precision among the thresholds that reach a recall, and that threshold."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, min_recall: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, activation: str = 'auto', score_dtype: torch.dtype = ..., **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], min_recall: float, thresholds: int | ArrayLike | Tensor | None = None, num_classes: int | None = None, num_labels: int | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class PrecisionRecallCurve(_PrecisionRecallCurve):
    """Computes precision and recall at each threshold, thresholds ascending; the last point is (precision 1, recall 0)."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, thresholds: int | ArrayLike | Tensor | None = None, average: str | None = None, ignore_index: int | None = None, activation: str = 'auto', score_dtype: torch.dtype = ..., **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], thresholds: int | ArrayLike | Tensor | None = None, num_classes: int | None = None, num_labels: int | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class ROC(_ROC):
    """Computes the ROC curve: true positive rate over false positive rate at each threshold, thresholds descending."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, thresholds: int | ArrayLike | Tensor | None = None, average: str | None = None, ignore_index: int | None = None, activation: str = 'auto', score_dtype: torch.dtype = ..., **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], thresholds: int | ArrayLike | Tensor | None = None, num_classes: int | None = None, num_labels: int | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class Recall(_Recall):
    """Computes recall, tp / (tp + fn): the fraction of the samples of a class that were predicted as it."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, average: str | None = 'micro', top_k: int = 1, threshold: float = 0.5, ignore_index: int | None = None, zero_division: float | None = None, activation: str = 'auto', multidim_average: str = 'global', keep_rows: bool = False, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'micro', multidim_average: str = 'global', top_k: int = 1, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class RecallAtFixedPrecision(_RecallAtFixedPrecision):
    """Computes the highest recall among the thresholds that reach a precision, and that threshold."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, min_precision: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, activation: str = 'auto', score_dtype: torch.dtype = ..., **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], min_precision: float, thresholds: int | ArrayLike | Tensor | None = None, num_classes: int | None = None, num_labels: int | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class SensitivityAtSpecificity(_SensitivityAtSpecificity):
    """Computes the highest sensitivity among the thresholds that reach a specificity, and that threshold."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, min_specificity: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, activation: str = 'auto', score_dtype: torch.dtype = ..., **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], min_specificity: float, thresholds: int | ArrayLike | Tensor | None = None, num_classes: int | None = None, num_labels: int | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class Specificity(_Specificity):
    """Computes specificity, tn / (tn + fp): the fraction of the negatives of a class that were not predicted as it."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, average: str | None = 'micro', top_k: int = 1, threshold: float = 0.5, ignore_index: int | None = None, zero_division: float | None = None, activation: str = 'auto', multidim_average: str = 'global', keep_rows: bool = False, **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'micro', multidim_average: str = 'global', top_k: int = 1, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class SpecificityAtSensitivity(_SpecificityAtSensitivity):
    """Computes the highest specificity among the thresholds that reach a sensitivity, and that threshold."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, min_sensitivity: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, activation: str = 'auto', score_dtype: torch.dtype = ..., **kwargs: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], min_sensitivity: float, thresholds: int | ArrayLike | Tensor | None = None, num_classes: int | None = None, num_labels: int | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class StatScores(_StatScores):
    """Counts true positives, false positives, true negatives, false negatives and the support (tp + fn)."""
    @overload
    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, *, average: str | None = 'micro', **kwargs: Unpack[RatioOptions]) -> None: ...
    @overload
    def __init__(self, task: Literal['binary', 'multiclass', 'multilabel'], threshold: float = 0.5, num_classes: int | None = None, num_labels: int | None = None, average: str | None = 'micro', multidim_average: str = 'global', top_k: int = 1, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryAUROC(_AUROC):
    """Computes ``AUROC`` of the binary task."""
    def __init__(self, max_fpr: float | None = None, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassAUROC(_AUROC):
    """Computes ``AUROC`` of the multiclass task."""
    def __init__(self, num_classes: int, average: str | None = 'macro', thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelAUROC(_AUROC):
    """Computes ``AUROC`` of the multilabel task."""
    def __init__(self, num_labels: int, average: str | None = 'macro', thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryAccuracy(_Accuracy):
    """Computes ``Accuracy`` of the binary task."""
    def __init__(self, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassAccuracy(_Accuracy):
    """Computes ``Accuracy`` of the multiclass task."""
    def __init__(self, num_classes: int | None = None, top_k: int = 1, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelAccuracy(_Accuracy):
    """Computes ``Accuracy`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryAveragePrecision(_AveragePrecision):
    """Computes ``AveragePrecision`` of the binary task."""
    def __init__(self, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, normalization: str | None = 'sigmoid', **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassAveragePrecision(_AveragePrecision):
    """Computes ``AveragePrecision`` of the multiclass task."""
    def __init__(self, num_classes: int, average: str | None = 'macro', thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelAveragePrecision(_AveragePrecision):
    """Computes ``AveragePrecision`` of the multilabel task."""
    def __init__(self, num_labels: int, average: str | None = 'macro', thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryCalibrationError(_CalibrationError):
    """Computes ``CalibrationError`` of the binary task."""
    def __init__(self, n_bins: int = 15, norm: str = 'l1', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassCalibrationError(_CalibrationError):
    """Computes ``CalibrationError`` of the multiclass task."""
    def __init__(self, num_classes: int, n_bins: int = 15, norm: str = 'l1', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryCohenKappa(_CohenKappa):
    """Computes ``CohenKappa`` of the binary task."""
    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None, weights: str | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassCohenKappa(_CohenKappa):
    """Computes ``CohenKappa`` of the multiclass task."""
    def __init__(self, num_classes: int, ignore_index: int | None = None, weights: str | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryConfusionMatrix(_ConfusionMatrix):
    """Computes ``ConfusionMatrix`` of the binary task."""
    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None, normalize: str | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassConfusionMatrix(_ConfusionMatrix):
    """Computes ``ConfusionMatrix`` of the multiclass task."""
    def __init__(self, num_classes: int, ignore_index: int | None = None, normalize: str | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelConfusionMatrix(_ConfusionMatrix):
    """Computes ``ConfusionMatrix`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, ignore_index: int | None = None, normalize: str | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryEER(_EER):
    """Computes ``EER`` of the binary task."""
    def __init__(self, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, normalization: str | None = 'sigmoid', **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassEER(_EER):
    """Computes ``EER`` of the multiclass task."""
    def __init__(self, num_classes: int, thresholds: int | ArrayLike | Tensor | None = None, average: str | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelEER(_EER):
    """Computes ``EER`` of the multilabel task."""
    def __init__(self, num_labels: int, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassExactMatch(_ExactMatch):
    """Computes ``ExactMatch`` of the multiclass task."""
    def __init__(self, num_classes: int, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelExactMatch(_ExactMatch):
    """Computes ``ExactMatch`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryF1Score(_F1Score):
    """Computes ``F1Score`` of the binary task."""
    def __init__(self, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassF1Score(_F1Score):
    """Computes ``F1Score`` of the multiclass task."""
    def __init__(self, num_classes: int, top_k: int = 1, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelF1Score(_F1Score):
    """Computes ``F1Score`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryFBetaScore(_FBetaScore):
    """Computes ``FBetaScore`` of the binary task."""
    def __init__(self, beta: float, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassFBetaScore(_FBetaScore):
    """Computes ``FBetaScore`` of the multiclass task."""
    def __init__(self, beta: float, num_classes: int, top_k: int = 1, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelFBetaScore(_FBetaScore):
    """Computes ``FBetaScore`` of the multilabel task."""
    def __init__(self, beta: float, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryHammingDistance(_HammingDistance):
    """Computes ``HammingDistance`` of the binary task."""
    def __init__(self, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassHammingDistance(_HammingDistance):
    """Computes ``HammingDistance`` of the multiclass task."""
    def __init__(self, num_classes: int | None = None, top_k: int = 1, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelHammingDistance(_HammingDistance):
    """Computes ``HammingDistance`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryHingeLoss(_HingeLoss):
    """Computes ``HingeLoss`` of the binary task."""
    def __init__(self, squared: bool = False, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassHingeLoss(_HingeLoss):
    """Computes ``HingeLoss`` of the multiclass task."""
    def __init__(self, num_classes: int, squared: bool = False, multiclass_mode: str = 'crammer-singer', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryJaccardIndex(_JaccardIndex):
    """Computes ``JaccardIndex`` of the binary task."""
    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassJaccardIndex(_JaccardIndex):
    """Computes ``JaccardIndex`` of the multiclass task."""
    def __init__(self, num_classes: int, average: str | None = 'macro', ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelJaccardIndex(_JaccardIndex):
    """Computes ``JaccardIndex`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', ignore_index: int | None = None, validate_args: bool = True, zero_division: float = 0, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryLogAUC(_LogAUC):
    """Computes ``LogAUC`` of the binary task."""
    def __init__(self, fpr_range: tuple[float, float] = ..., thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = False, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassLogAUC(_LogAUC):
    """Computes ``LogAUC`` of the multiclass task."""
    def __init__(self, num_classes: int, fpr_range: tuple[float, float] = ..., average: str | None = None, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelLogAUC(_LogAUC):
    """Computes ``LogAUC`` of the multilabel task."""
    def __init__(self, num_labels: int, fpr_range: tuple[float, float] = ..., average: str | None = None, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryMatthewsCorrCoef(_MatthewsCorrCoef):
    """Computes ``MatthewsCorrCoef`` of the binary task."""
    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassMatthewsCorrCoef(_MatthewsCorrCoef):
    """Computes ``MatthewsCorrCoef`` of the multiclass task."""
    def __init__(self, num_classes: int, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelMatthewsCorrCoef(_MatthewsCorrCoef):
    """Computes ``MatthewsCorrCoef`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryNegativePredictiveValue(_NegativePredictiveValue):
    """Computes ``NegativePredictiveValue`` of the binary task."""
    def __init__(self, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassNegativePredictiveValue(_NegativePredictiveValue):
    """Computes ``NegativePredictiveValue`` of the multiclass task."""
    def __init__(self, num_classes: int | None = None, top_k: int = 1, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelNegativePredictiveValue(_NegativePredictiveValue):
    """Computes ``NegativePredictiveValue`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryPrecision(_Precision):
    """Computes ``Precision`` of the binary task."""
    def __init__(self, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassPrecision(_Precision):
    """Computes ``Precision`` of the multiclass task."""
    def __init__(self, num_classes: int | None = None, top_k: int = 1, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelPrecision(_Precision):
    """Computes ``Precision`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryPrecisionAtFixedRecall(_PrecisionAtFixedRecall):
    """Computes ``PrecisionAtFixedRecall`` of the binary task."""
    def __init__(self, min_recall: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassPrecisionAtFixedRecall(_PrecisionAtFixedRecall):
    """Computes ``PrecisionAtFixedRecall`` of the multiclass task."""
    def __init__(self, num_classes: int, min_recall: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelPrecisionAtFixedRecall(_PrecisionAtFixedRecall):
    """Computes ``PrecisionAtFixedRecall`` of the multilabel task."""
    def __init__(self, num_labels: int, min_recall: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryPrecisionRecallCurve(_PrecisionRecallCurve):
    """Computes ``PrecisionRecallCurve`` of the binary task."""
    def __init__(self, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, normalization: str | None = 'sigmoid', **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassPrecisionRecallCurve(_PrecisionRecallCurve):
    """Computes ``PrecisionRecallCurve`` of the multiclass task."""
    def __init__(self, num_classes: int, thresholds: int | ArrayLike | Tensor | None = None, average: str | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelPrecisionRecallCurve(_PrecisionRecallCurve):
    """Computes ``PrecisionRecallCurve`` of the multilabel task."""
    def __init__(self, num_labels: int, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryROC(_ROC):
    """Computes ``ROC`` of the binary task."""
    def __init__(self, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, normalization: str | None = 'sigmoid', **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassROC(_ROC):
    """Computes ``ROC`` of the multiclass task."""
    def __init__(self, num_classes: int, thresholds: int | ArrayLike | Tensor | None = None, average: str | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelROC(_ROC):
    """Computes ``ROC`` of the multilabel task."""
    def __init__(self, num_labels: int, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryRecall(_Recall):
    """Computes ``Recall`` of the binary task."""
    def __init__(self, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassRecall(_Recall):
    """Computes ``Recall`` of the multiclass task."""
    def __init__(self, num_classes: int | None = None, top_k: int = 1, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelRecall(_Recall):
    """Computes ``Recall`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryRecallAtFixedPrecision(_RecallAtFixedPrecision):
    """Computes ``RecallAtFixedPrecision`` of the binary task."""
    def __init__(self, min_precision: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassRecallAtFixedPrecision(_RecallAtFixedPrecision):
    """Computes ``RecallAtFixedPrecision`` of the multiclass task."""
    def __init__(self, num_classes: int, min_precision: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelRecallAtFixedPrecision(_RecallAtFixedPrecision):
    """Computes ``RecallAtFixedPrecision`` of the multilabel task."""
    def __init__(self, num_labels: int, min_precision: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinarySensitivityAtSpecificity(_SensitivityAtSpecificity):
    """Computes ``SensitivityAtSpecificity`` of the binary task."""
    def __init__(self, min_specificity: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassSensitivityAtSpecificity(_SensitivityAtSpecificity):
    """Computes ``SensitivityAtSpecificity`` of the multiclass task."""
    def __init__(self, num_classes: int, min_specificity: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelSensitivityAtSpecificity(_SensitivityAtSpecificity):
    """Computes ``SensitivityAtSpecificity`` of the multilabel task."""
    def __init__(self, num_labels: int, min_specificity: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinarySpecificity(_Specificity):
    """Computes ``Specificity`` of the binary task."""
    def __init__(self, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassSpecificity(_Specificity):
    """Computes ``Specificity`` of the multiclass task."""
    def __init__(self, num_classes: int | None = None, top_k: int = 1, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelSpecificity(_Specificity):
    """Computes ``Specificity`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinarySpecificityAtSensitivity(_SpecificityAtSensitivity):
    """Computes ``SpecificityAtSensitivity`` of the binary task."""
    def __init__(self, min_sensitivity: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassSpecificityAtSensitivity(_SpecificityAtSensitivity):
    """Computes ``SpecificityAtSensitivity`` of the multiclass task."""
    def __init__(self, num_classes: int, min_sensitivity: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelSpecificityAtSensitivity(_SpecificityAtSensitivity):
    """Computes ``SpecificityAtSensitivity`` of the multilabel task."""
    def __init__(self, num_labels: int, min_sensitivity: float, thresholds: int | ArrayLike | Tensor | None = None, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class BinaryStatScores(_StatScores):
    """Computes ``StatScores`` of the binary task."""
    def __init__(self, threshold: float = 0.5, multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MulticlassStatScores(_StatScores):
    """Computes ``StatScores`` of the multiclass task."""
    def __init__(self, num_classes: int | None = None, top_k: int = 1, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
class MultilabelStatScores(_StatScores):
    """Computes ``StatScores`` of the multilabel task."""
    def __init__(self, num_labels: int, threshold: float = 0.5, average: str | None = 'macro', multidim_average: str = 'global', ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[NamedOptions]) -> None: ...
