"""Metrics that are ratios of true positives, predicted, true and total counts: a function and a few lines each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.classification.ratio_base import RatioMetric
from valor_gpu.errors import InputError
from valor_gpu.reduce import ratios
from valor_gpu.reduce.ratios import Outcomes, Ratio

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RatioOptions


class Precision(RatioMetric):
    """Computes precision, tp / (tp + fp): the fraction of the predictions of a class that are correct.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.

    Example:
        >>> metric = Precision()
        >>> metric.update(torch.tensor([0.9, 0.8, 0.2, 0.7]), torch.tensor([1, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.6667)
    """

    _top_k_by_support = True

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.precision(o)


class Recall(RatioMetric):
    """Computes recall, tp / (tp + fn): the fraction of the samples of a class that were predicted as it.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.

    Example:
        >>> metric = Recall(num_classes=3, average="macro")
        >>> metric.update(torch.tensor([2, 1, 0, 1]), torch.tensor([2, 1, 0, 0]))
        >>> metric.compute()
        tensor(0.8333)
    """

    _top_k_by_support = True
    _of_truths = True

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.recall(o)


class FBetaScore(RatioMetric):
    """Computes F-beta, (1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp).

    It is the weighted harmonic mean of precision and recall in which recall counts beta times as much as precision.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.

    Args:
        beta: weight of recall against precision, above 0; 1 is the harmonic mean of both.

    Example:
        >>> metric = FBetaScore(beta=0.5)
        >>> metric.update(torch.tensor([0.9, 0.8, 0.2, 0.7]), torch.tensor([1, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.6667)
    """

    _of_rows = False

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        beta: float = 1.0,
        average: str | None = "micro",
        zero_division: float | None = None,
        **kwargs: Unpack[RatioOptions],
    ) -> None:
        if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < math.inf:
            raise InputError(f"beta must be a finite number above 0 but got {beta!r}")
        self.beta = float(beta)
        super().__init__(num_classes, num_labels, average=average, zero_division=zero_division, **kwargs)

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.f_beta(o, self.beta)

    def _choices(self) -> dict[str, Any]:
        return {"beta": self.beta}


class F1Score(RatioMetric):
    """Computes F1, 2 tp / (2 tp + fp + fn): the harmonic mean of precision and recall.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7, with beta 1; Dice, Ecology 26 (3), 1945.

    Example:
        >>> metric = F1Score(num_labels=2, average="none")
        >>> metric.update(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 0], [0, 1]]))
        >>> metric.compute()
        tensor([0.6667, 1.0000])
    """

    _of_rows = False
    beta = 1.0

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.f_beta(o)


class Specificity(RatioMetric):
    """Computes specificity, tn / (tn + fp): the fraction of the negatives of a class that were not predicted as it.

    It is also called true negative rate. Source: Yerushalmy, Public Health Reports 62 (40), 1947.

    Example:
        >>> metric = Specificity()
        >>> metric.update(torch.tensor([0.9, 0.8, 0.2, 0.3]), torch.tensor([1, 0, 0, 0]))
        >>> metric.compute()
        tensor(0.6667)
    """

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.specificity(o)


class NegativePredictiveValue(RatioMetric):
    """Computes the negative predictive value, tn / (tn + fn): the fraction of negative predictions that are correct.

    Source: Altman and Bland, BMJ 309, 1994.

    Example:
        >>> metric = NegativePredictiveValue()
        >>> metric.update(torch.tensor([0.9, 0.1, 0.2, 0.3]), torch.tensor([1, 0, 0, 1]))
        >>> metric.compute()
        tensor(0.6667)
    """

    _top_k_by_support = True

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.negative_predictive_value(o)


class JaccardIndex(RatioMetric):
    """Computes the Jaccard index, tp / (tp + fp + fn): intersection over union of predicted and true samples.

    A class that is ``ignore_index`` is left out of every average, as in torchmetrics. Its own number is 0 where it was
    predicted for samples of other classes.
    Source: Jaccard, New Phytologist 11 (2), 1912.

    Args:
        average: by default ``macro``, which averages over classes that were predicted or are true (multilabel: over all
            labels); ``micro`` pools the counts of all classes, ``weighted`` averages by support, ``none`` or None gives
            every class.

    Example:
        >>> metric = JaccardIndex(num_classes=3)
        >>> metric.update(torch.tensor([2, 1, 0, 1]), torch.tensor([2, 1, 0, 0]))
        >>> metric.compute()
        tensor(0.6667)
    """

    def __init__(
        self, num_classes: int | None = None, num_labels: int | None = None, *,
        average: str | None = "macro", zero_division: float | None = None, **kwargs: Unpack[RatioOptions],
    ) -> None:  # fmt: skip
        super().__init__(num_classes, num_labels, average=average, zero_division=zero_division, **kwargs)

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.jaccard(o)

    def _value(self, o: Outcomes, empty: float | None) -> Any:
        ignored, left_out = self.task.ignore_index, self.average not in ("none", None)
        if left_out and self.task.kind == "multiclass" and ignored is not None and 0 <= ignored < self.task.classes:
            on_device = isinstance(o.tp, Tensor)
            classes = torch.arange(o.tp.shape[-1], device=o.tp.device) if on_device else np.arange(o.tp.shape[-1])
            o = Outcomes(*(ratios.where(classes != ignored, counts, 0.0) for counts in o))
        return super()._value(o, empty)
