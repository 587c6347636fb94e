"""Metrics of the binary task by the names and arguments of torchmetrics.

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


class BinaryAUROC(AUROC):
    """``AUROC`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        max_fpr: float | None = None,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs, max_fpr=max_fpr, thresholds=thresholds, ignore_index=ignore_index, validate_args=validate_args
            )
        )


class BinaryAccuracy(Accuracy):
    """``Accuracy`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinaryAveragePrecision(AveragePrecision):
    """``AveragePrecision`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: str | None = "sigmoid",
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
                normalization=normalization,
            )
        )


class BinaryCalibrationError(CalibrationError):
    """``CalibrationError`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(kwargs, n_bins=n_bins, norm=norm, ignore_index=ignore_index, validate_args=validate_args)
        )


class BinaryCohenKappa(CohenKappa):
    """``CohenKappa`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        weights: str | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs, threshold=threshold, ignore_index=ignore_index, weights=weights, validate_args=validate_args
            )
        )


class BinaryConfusionMatrix(ConfusionMatrix):
    """``ConfusionMatrix`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        normalize: str | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs, threshold=threshold, ignore_index=ignore_index, normalize=normalize, validate_args=validate_args
            )
        )


class BinaryEER(EER):
    """``EER`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: str | None = "sigmoid",
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
                normalization=normalization,
            )
        )


class BinaryF1Score(F1Score):
    """``F1Score`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
                zero_division=zero_division,
            )
        )


class BinaryFBetaScore(FBetaScore):
    """``FBetaScore`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        beta: float,
        threshold: float = 0.5,
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
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
                zero_division=zero_division,
            )
        )


class BinaryHammingDistance(HammingDistance):
    """``HammingDistance`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinaryJaccardIndex(JaccardIndex):
    """``JaccardIndex`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                threshold=threshold,
                ignore_index=ignore_index,
                validate_args=validate_args,
                zero_division=zero_division,
            )
        )


class BinaryMatthewsCorrCoef(MatthewsCorrCoef):
    """``MatthewsCorrCoef`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(**native(kwargs, threshold=threshold, ignore_index=ignore_index, validate_args=validate_args))


class BinaryNegativePredictiveValue(NegativePredictiveValue):
    """``NegativePredictiveValue`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinaryPrecision(Precision):
    """``Precision`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinaryPrecisionAtFixedRecall(PrecisionAtFixedRecall):
    """``PrecisionAtFixedRecall`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        min_recall: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                min_recall=min_recall,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinaryPrecisionRecallCurve(PrecisionRecallCurve):
    """``PrecisionRecallCurve`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: str | None = "sigmoid",
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
                normalization=normalization,
            )
        )


class BinaryROC(ROC):
    """``ROC`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: str | None = "sigmoid",
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
                normalization=normalization,
            )
        )


class BinaryRecall(Recall):
    """``Recall`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinaryRecallAtFixedPrecision(RecallAtFixedPrecision):
    """``RecallAtFixedPrecision`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        min_precision: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                min_precision=min_precision,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinarySensitivityAtSpecificity(SensitivityAtSpecificity):
    """``SensitivityAtSpecificity`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        min_specificity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                min_specificity=min_specificity,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinarySpecificity(Specificity):
    """``Specificity`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinarySpecificityAtSensitivity(SpecificityAtSensitivity):
    """``SpecificityAtSensitivity`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        min_sensitivity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                min_sensitivity=min_sensitivity,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class BinaryStatScores(StatScores):
    """``StatScores`` of the binary task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )
