"""The area under the ROC curve over the logarithm of the false positive rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike
from torch import Tensor

from valor_gpu.classification.ranking_metrics import RankingMetric
from valor_gpu.classification.ranking_values import RankingValues, areas_of, falling_sums, partial_values
from valor_gpu.classification.resampled_ranks import ResampledPoints
from valor_gpu.classification.score_metric import Histogram, ScoreRecords
from valor_gpu.errors import InputError
from valor_gpu.reduce.log_area import log_roc_auc
from valor_gpu.reduce.partial_area import PartialArea
from valor_gpu.reduce.ranking import ROC_NEEDS

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RankingOptions
    from valor_gpu.stats.resample import Resampled


class LogAUC(RankingMetric):
    """Computes the log AUC: the mean true positive rate over the logarithm of the false positive rate.

    It weighs each power of ten of false positive rates alike, so that it shows what a screening of few positives among
    many negatives finds first. It is ``∫ TPR d(log FPR) / log(high / low)`` from ``low`` to ``high`` of ``fpr_range``.
    Between points of the curve the integral is that of a line over the logarithm (trapezoids, as in torchmetrics). A
    class without positives or without negatives has none; means leave it out, where torchmetrics gives it a number.
    From a histogram, scores of one bin are tied, the ends (0, 0) and (1, 1) always belong to the curve, and
    :meth:`result` gives bounds on the exact number.

    Source: Mysinger and Shoichet, Rapid context-dependent ligand desolvation in molecular docking (2010); torchmetrics,
    ``LogAUC``.

    Args:
        average: ``none`` or None gives one number per class, ``macro`` is the mean over the classes whose number
            exists, ``weighted`` the mean by their positives, ``micro`` takes every element as a sample of one class.
        fpr_range: the least and the largest false positive rate, two numbers above 0 and at most 1 that ascend.

    Example:
        >>> import torch
        >>> metric = LogAUC(fpr_range=(0.1, 1.0))
        >>> metric.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.6505)
    """

    _row, _needs = 0, ROC_NEEDS

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = None,
        thresholds: int | ArrayLike | Tensor | None = None,
        *,
        fpr_range: tuple[float, float] = (0.001, 0.1),
        **kwargs: Unpack[RankingOptions],
    ) -> None:
        self.fpr_range = _checked_range(fpr_range)
        super().__init__(num_classes, num_labels, average, thresholds, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {"fpr_range": list(self.fpr_range)}

    def _area(self, tp: Tensor, fp: Tensor) -> PartialArea:
        return log_roc_auc(tp, fp, self.fpr_range)

    def _resampled(self, state: ScoreRecords | Histogram) -> Resampled:
        if isinstance(state, Histogram):
            return super()._resampled(state)
        return ResampledPoints(self, state, lambda copies: areas_of(self._result(copies).values))

    def _ranking_values(self, state: ScoreRecords | Histogram) -> RankingValues:
        if isinstance(state, Histogram):
            return super()._ranking_values(state)
        return partial_values(self._ranked(state, self.average == "micro"), self._area, self._pooled)

    def _binned_value(self, counts: Tensor) -> Tensor:
        return self._of_histogram(counts).value

    def _binned(self, counts: Tensor, lightest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self._of_histogram(counts)

    def _of_histogram(self, counts: Tensor) -> PartialArea:
        return self._area(*falling_sums(counts))


def _checked_range(fpr_range: object) -> tuple[float, float]:
    """Returns two rates.

    Raises:
        InputError: they are none.
    """
    pair = tuple(fpr_range) if isinstance(fpr_range, Sequence) and not isinstance(fpr_range, str) else ()
    numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in pair)
    if len(pair) != 2 or not numbers or not 0 < pair[0] < pair[1] <= 1:
        raise InputError(
            f"fpr_range must be two numbers above 0 and at most 1 that ascend, whose logarithms exist, but got"
            f" {fpr_range!r}"
        )
    return float(pair[0]), float(pair[1])
