"""Accuracy, balanced accuracy and the Hamming distance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from valor_gpu.classification.ratio_base import RatioMetric
from valor_gpu.errors import InputError
from valor_gpu.reduce import ratios
from valor_gpu.reduce.ratios import Outcomes, Ratio, plain_mean

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RatioOptions


class Accuracy(RatioMetric):
    """Computes accuracy, the fraction of predictions that are correct; ``top_k`` accepts any of the k largest scores.

    Multiclass: the accuracy of a class is the fraction of its samples that were recognised, which is its recall;
    ``micro`` is the fraction of all samples. Binary and multilabel: (tp + tn) / (tp + fp + fn + tn). Of equal largest
    scores the lowest class is predicted. Without data :meth:`result` has NaN with a reason and ``compute`` gives 0, as
    in torchmetrics. A class that was predicted but is never true counts as 0 in ``macro`` (with ``top_k`` above 1 it is
    left out); its own number in :meth:`result` is NaN.

    Source: scikit-learn, ``accuracy_score`` (``micro``), ``top_k_accuracy_score`` and, by class, ``recall_score``.

    Example:
        >>> import torch
        >>> metric = Accuracy(num_classes=3, top_k=2)
        >>> metric.update(torch.tensor([[0.5, 0.4, 0.1], [0.2, 0.1, 0.7], [0.6, 0.3, 0.1]]), torch.tensor([1, 2, 2]))
        >>> metric.compute()
        tensor(0.6667)
    """

    _top_k_by_support = True
    _of_truths = True

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.recall(o) if self.task.kind == "multiclass" else ratios.agreement(o)


class HammingDistance(RatioMetric):
    """Computes the Hamming distance, the fraction of predictions that are wrong: 1 - accuracy.

    Source: Hamming, Bell System Technical Journal 29 (2), 1950.

    Args:
        zero_division: value of a class whose denominator is 0: 0, 1 (default, as in torchmetrics) or NaN,
            which leaves it out of means.

    Example:
        >>> import torch
        >>> metric = HammingDistance(num_labels=2)
        >>> metric.update(torch.tensor([[0, 1], [1, 1]]), torch.tensor([[0, 1], [0, 1]]))
        >>> metric.compute()
        tensor(0.2500)
    """

    higher_is_better = False
    _zero_division = 1.0
    _of_truths = True

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.miss_rate(o) if self.task.kind == "multiclass" else ratios.disagreement(o)


class BalancedAccuracy(RatioMetric):
    """Computes balanced accuracy, the mean recall of the classes that occur, as if all were equally frequent.

    In the binary task it is the mean of recall and specificity; multilabel: the mean of these over the labels. A class,
    or one side of a label, without samples is left out, as in scikit-learn.
    Source: Brodersen et al., ICPR 2010; ``sklearn.metrics.balanced_accuracy_score``.

    Example:
        >>> import torch
        >>> metric = BalancedAccuracy(num_classes=2)
        >>> metric.update(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    _of_rows = False
    _of_truths = True

    def __init__(
        self, num_classes: int | None = None, num_labels: int | None = None, **kwargs: Unpack[RatioOptions]
    ) -> None:
        for name in ("average", "zero_division"):
            if name in kwargs:
                raise InputError(f"{name} must be left out: balanced accuracy is the mean over what occurs")
        super().__init__(num_classes, num_labels, average="macro", zero_division=math.nan, **kwargs)

    def _ratio(self, o: Outcomes) -> Ratio:
        return ratios.recall(o)  # of a class, in the multiclass task

    def _per_class(self, o: Outcomes) -> Any:
        return ratios.balanced(o, sides=self.task.kind != "multiclass")

    def _value(self, o: Outcomes, empty: float | None) -> Any:
        return plain_mean(self._per_class(o))
