"""Metrics of the multilabel task by the names and arguments of torchmetrics.

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


class MultilabelAUROC(AUROC):
    """``AUROC`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        average: str | None = "macro",
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                average=average,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelAccuracy(Accuracy):
    """``Accuracy`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelAveragePrecision(AveragePrecision):
    """``AveragePrecision`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        average: str | None = "macro",
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                average=average,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelConfusionMatrix(ConfusionMatrix):
    """``ConfusionMatrix`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        normalize: str | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                ignore_index=ignore_index,
                normalize=normalize,
                validate_args=validate_args,
            )
        )


class MultilabelEER(EER):
    """``EER`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelExactMatch(ExactMatch):
    """``ExactMatch`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelF1Score(F1Score):
    """``F1Score`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
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
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
                zero_division=zero_division,
            )
        )


class MultilabelFBetaScore(FBetaScore):
    """``FBetaScore`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        beta: float,
        num_labels: int,
        threshold: float = 0.5,
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
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
                zero_division=zero_division,
            )
        )


class MultilabelHammingDistance(HammingDistance):
    """``HammingDistance`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelJaccardIndex(JaccardIndex):
    """``JaccardIndex`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                ignore_index=ignore_index,
                validate_args=validate_args,
                zero_division=zero_division,
            )
        )


class MultilabelMatthewsCorrCoef(MatthewsCorrCoef):
    """``MatthewsCorrCoef`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelNegativePredictiveValue(NegativePredictiveValue):
    """``NegativePredictiveValue`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelPrecision(Precision):
    """``Precision`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelPrecisionAtFixedRecall(PrecisionAtFixedRecall):
    """``PrecisionAtFixedRecall`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        min_recall: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                min_recall=min_recall,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelPrecisionRecallCurve(PrecisionRecallCurve):
    """``PrecisionRecallCurve`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelROC(ROC):
    """``ROC`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelRecall(Recall):
    """``Recall`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelRecallAtFixedPrecision(RecallAtFixedPrecision):
    """``RecallAtFixedPrecision`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        min_precision: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                min_precision=min_precision,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelSensitivityAtSpecificity(SensitivityAtSpecificity):
    """``SensitivityAtSpecificity`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        min_specificity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                min_specificity=min_specificity,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelSpecificity(Specificity):
    """``Specificity`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelSpecificityAtSensitivity(SpecificityAtSensitivity):
    """``SpecificityAtSensitivity`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        min_sensitivity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                min_sensitivity=min_sensitivity,
                thresholds=thresholds,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )


class MultilabelStatScores(StatScores):
    """``StatScores`` of the multilabel task, with the arguments of torchmetrics' class."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        super().__init__(
            **native(
                kwargs,
                num_labels=num_labels,
                threshold=threshold,
                average=average,
                multidim_average=multidim_average,
                ignore_index=ignore_index,
                validate_args=validate_args,
            )
        )
