"""Metrics that need only true positives, predicted and true counts of each class: a ratio and two lines each."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from valor_gpu.classification.ratio_base import ClassCounts, RatioMetric
from valor_gpu.errors import InputError
from valor_gpu.reduce import ratios
from valor_gpu.reduce.ratios import Outcomes, Ratio, mean


class Accuracy(RatioMetric):
    """Share of predictions that are right; ``top_k`` counts a target among the k largest scores.

    Multiclass: of each class the share of its samples that were recognised, which is its recall; ``micro`` is the share
    of all samples. Binary and multilabel: (tp + tn) / (tp + fp + fn + tn). Of equal largest scores the lowest class is
    predicted. Without data :meth:`result` has NaN with a reason, ``compute`` 0 as torchmetrics has. A class that was
    predicted but is never true counts as 0 in ``macro`` (with ``top_k`` above 1 it is left out); in :meth:`result` its
    own number is NaN. Arguments: those of :class:`RatioMetric`.

    Source: scikit-learn, ``accuracy_score`` (``micro``), ``top_k_accuracy_score`` and, by class, ``recall_score``.

    Example:
        >>> metric = Accuracy(num_classes=3, top_k=2)
        >>> metric.update(torch.tensor([[0.5, 0.4, 0.1], [0.2, 0.1, 0.7], [0.6, 0.3, 0.1]]), torch.tensor([1, 2, 2]))
        >>> metric.compute()
        tensor(0.6667)
    """

    _top_k_by_support = True

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.recall(o) if self.task.kind == "multiclass" else ratios.agreement(o)


class Precision(RatioMetric):
    """tp / (tp + fp): share of predictions of a class that are right. Arguments: those of :class:`RatioMetric`.

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
    """tp / (tp + fn): share of a class that was found. Arguments: those of :class:`RatioMetric`.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.

    Example:
        >>> metric = Recall(num_classes=3, average="macro")
        >>> metric.update(torch.tensor([2, 1, 0, 1]), torch.tensor([2, 1, 0, 0]))
        >>> metric.compute()
        tensor(0.8333)
    """

    _top_k_by_support = True

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.recall(o)


class FBetaScore(RatioMetric):
    """(1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp): recall counts beta times as much as precision.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.

    Args:
        num_classes: see :class:`RatioMetric`; likewise ``num_labels`` and ``choices``.
        num_labels: see there.
        beta: above 0; 1 is the harmonic mean of precision and recall.
        choices: the other arguments of :class:`RatioMetric`.

    Raises:
        InputError: an argument is out of range.

    Example:
        >>> metric = FBetaScore(beta=0.5)
        >>> metric.update(torch.tensor([0.9, 0.8, 0.2, 0.7]), torch.tensor([1, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.6667)
    """

    def __init__(
        self, num_classes: int | None = None, num_labels: int | None = None, *, beta: float = 1.0, **choices: Any
    ) -> None:
        if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < math.inf:
            raise InputError(f"beta must be a finite number above 0 but got {beta!r}")
        self.beta = float(beta)
        super().__init__(num_classes, num_labels, **choices)

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.f_beta(o, self.beta)

    def _choices(self) -> dict[str, Any]:
        return {"beta": self.beta}


class F1Score(RatioMetric):
    """2 tp / (2 tp + fp + fn): harmonic mean of precision and recall. Arguments: those of :class:`RatioMetric`.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7, with beta 1; Dice, Ecology 26 (3), 1945.

    Example:
        >>> metric = F1Score(num_labels=2, average="none")
        >>> metric.update(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 0], [0, 1]]))
        >>> metric.compute()
        tensor([0.6667, 1.0000])
    """

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.f_beta(o)


class Specificity(RatioMetric):
    """tn / (tn + fp): share of the negatives of a class that were not predicted as it; the true negative rate.

    Arguments: those of :class:`RatioMetric`. Source: Yerushalmy, Public Health Reports 62 (40), 1947.

    Example:
        >>> metric = Specificity()
        >>> metric.update(torch.tensor([0.9, 0.8, 0.2, 0.3]), torch.tensor([1, 0, 0, 0]))
        >>> metric.compute()
        tensor(0.6667)
    """

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.specificity(o)


class NegativePredictiveValue(RatioMetric):
    """tn / (tn + fn): share of what was not predicted as a class that is indeed none of it.

    Arguments: those of :class:`RatioMetric`. Source: Altman and Bland, BMJ 309, 1994.

    Example:
        >>> metric = NegativePredictiveValue()
        >>> metric.update(torch.tensor([0.9, 0.1, 0.2, 0.3]), torch.tensor([1, 0, 0, 1]))
        >>> metric.compute()
        tensor(0.6667)
    """

    _top_k_by_support = True

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.negative_predictive_value(o)


class HammingDistance(RatioMetric):
    """Share of predictions that are wrong: 1 - accuracy. Arguments: those of :class:`RatioMetric`.

    Where the denominator is 0 the distance is 1 unless ``zero_division`` is given, as in torchmetrics.
    Source: Hamming, Bell System Technical Journal 29 (2), 1950.

    Example:
        >>> metric = HammingDistance(num_labels=2)
        >>> metric.update(torch.tensor([[0, 1], [1, 1]]), torch.tensor([[0, 1], [0, 1]]))
        >>> metric.compute()
        tensor(0.2500)
    """

    higher_is_better = False
    _zero_division = 1.0

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.miss_rate(o) if self.task.kind == "multiclass" else ratios.disagreement(o)


class JaccardIndex(RatioMetric):
    """tp / (tp + fp + fn): intersection over union of what was predicted and what is true.

    A class that is ``ignore_index`` is left out of every average, as in torchmetrics.
    Source: Jaccard, New Phytologist 11 (2), 1912.

    Args:
        num_classes: see :class:`RatioMetric`; likewise ``num_labels`` and ``choices``.
        num_labels: see there.
        average: as there, but ``macro`` unless given.
        choices: the other arguments of :class:`RatioMetric`.

    Example:
        >>> metric = JaccardIndex(num_classes=3)
        >>> metric.update(torch.tensor([2, 1, 0, 1]), torch.tensor([2, 1, 0, 0]))
        >>> metric.compute()
        tensor(0.6667)
    """

    def __init__(
        self, num_classes: int | None = None, num_labels: int | None = None, *,
        average: str | None = "macro", **choices: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_classes, num_labels, average=average, **choices)

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.jaccard(o)

    def _outcomes(self, state: ClassCounts) -> Outcomes:
        o, ignored = super()._outcomes(state), self.task.ignore_index
        if self.task.kind != "multiclass" or ignored is None or not 0 <= ignored < self.task.classes:
            return o
        kept = torch.arange(self.task.classes, device=o.tp.device) != ignored
        return Outcomes(*(torch.where(kept, counts, 0.0) for counts in o))


class BalancedAccuracy(RatioMetric):
    """Mean recall of the classes that occur: accuracy as if all classes were equally frequent.

    In the binary task the mean of recall and specificity; multilabel: the mean of that over the labels. A class, or a
    side of a label, without samples is left out, as in scikit-learn.
    Source: Brodersen et al., ICPR 2010; ``sklearn.metrics.balanced_accuracy_score``.

    Args:
        num_classes: see :class:`RatioMetric`; likewise ``num_labels`` and ``choices``.
        num_labels: see there.
        choices: ``top_k``, ``threshold``, ``ignore_index``, ``activation`` and ``kwargs`` of :class:`RatioMetric`.

    Raises:
        InputError: an argument is out of range, or is ``average`` or ``zero_division``.

    Example:
        >>> metric = BalancedAccuracy(num_classes=2)
        >>> metric.update(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def __init__(self, num_classes: int | None = None, num_labels: int | None = None, **choices: Any) -> None:
        for name in ("average", "zero_division"):
            if name in choices:
                raise InputError(f"{name} must be left out: balanced accuracy is the mean over what occurs")
        super().__init__(num_classes, num_labels, average="macro", zero_division=math.nan, **choices)

    def _per_class(self, o: Outcomes) -> Tensor:
        recalls = ratios.recall(o).value()
        if self.task.kind == "multiclass":
            return recalls
        sides = torch.stack((recalls, ratios.specificity(o).value()))
        return torch.nanmean(sides, dim=0)

    def _value(self, o: Outcomes, empty: float | None) -> Tensor:
        scores = self._per_class(o)
        return mean(scores, torch.ones_like(scores))
