"""Metrics of the multiclass task by the names and arguments of torchmetrics.

Made by tools/make_names.py: change its table, then run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from valor_gpu.classification.tasks import native

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor
    from typing_extensions import Unpack

    from valor_gpu.options import NamedOptions


class MulticlassAUROC(AUROC):
    """``AUROC`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        average: str | None = "macro",
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                average=average,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassAccuracy(Accuracy):
    """``Accuracy`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                top_k=top_k,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassAveragePrecision(AveragePrecision):
    """``AveragePrecision`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        average: str | None = "macro",
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                average=average,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassCalibrationError(CalibrationError):
    """``CalibrationError`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                n_bins=n_bins,
                norm=norm,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassCohenKappa(CohenKappa):
    """``CohenKappa`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        ignore_index: int | None = None,
        weights: str | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs, num_classes=num_classes, ignore_index=ignore_index, weights=weights, validate_args=validate_args
            )
        )


class MulticlassConfusionMatrix(ConfusionMatrix):
    """``ConfusionMatrix`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        ignore_index: int | None = None,
        normalize: str | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                ignore_index=ignore_index,
                normalize=normalize,
                validate_args=validate_args,
            )
        )


class MulticlassEER(EER):
    """``EER`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        thresholds: int | ArrayLike | Tensor | None = None,
        average: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                thresholds=thresholds,
                average=average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassExactMatch(ExactMatch):
    """``ExactMatch`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassF1Score(F1Score):
    """``F1Score`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                top_k=top_k,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
                zero_division=zero_division,
            )
        )


class MulticlassFBetaScore(FBetaScore):
    """``FBetaScore`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        beta: float,
        num_classes: int,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                beta=beta,
                num_classes=num_classes,
                top_k=top_k,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
                zero_division=zero_division,
            )
        )


class MulticlassHammingDistance(HammingDistance):
    """``HammingDistance`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                top_k=top_k,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassJaccardIndex(JaccardIndex):
    """``JaccardIndex`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                average=average,
                ignore_index=ignore_index,
                validate_args=validate_args,
                zero_division=zero_division,
            )
        )


class MulticlassMatthewsCorrCoef(MatthewsCorrCoef):
    """``MatthewsCorrCoef`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(kwargs, num_classes=num_classes, ignore_index=ignore_index, validate_args=validate_args)
        )


class MulticlassNegativePredictiveValue(NegativePredictiveValue):
    """``NegativePredictiveValue`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                top_k=top_k,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassPrecision(Precision):
    """``Precision`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                top_k=top_k,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassPrecisionAtFixedRecall(PrecisionAtFixedRecall):
    """``PrecisionAtFixedRecall`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        min_recall: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                min_recall=min_recall,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassPrecisionRecallCurve(PrecisionRecallCurve):
    """``PrecisionRecallCurve`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        thresholds: int | ArrayLike | Tensor | None = None,
        average: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                thresholds=thresholds,
                average=average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassROC(ROC):
    """``ROC`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        thresholds: int | ArrayLike | Tensor | None = None,
        average: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                thresholds=thresholds,
                average=average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassRecall(Recall):
    """``Recall`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                top_k=top_k,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassRecallAtFixedPrecision(RecallAtFixedPrecision):
    """``RecallAtFixedPrecision`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        min_precision: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                min_precision=min_precision,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassSensitivityAtSpecificity(SensitivityAtSpecificity):
    """``SensitivityAtSpecificity`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        min_specificity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                min_specificity=min_specificity,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassSpecificity(Specificity):
    """``Specificity`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                top_k=top_k,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassSpecificityAtSensitivity(SpecificityAtSensitivity):
    """``SpecificityAtSensitivity`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int,
        min_sensitivity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                min_sensitivity=min_sensitivity,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MulticlassStatScores(StatScores):
    """``StatScores`` of the multiclass task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_classes=num_classes,
                top_k=top_k,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )
