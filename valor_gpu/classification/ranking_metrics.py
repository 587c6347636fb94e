"""ROC AUC and average precision, exact or from a histogram with bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.classification.ranking_values import (
    RankedScores,
    RankingValues,
    areas_of,
    falling_sums,
    partial_values,
)
from valor_gpu.classification.resampled_histogram import resampled_histogram
from valor_gpu.classification.resampled_ranks import ResampledPoints, ResampledRanks
from valor_gpu.classification.score_metric import Histogram, ScoreRecords
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import Task
from valor_gpu.reduce import histogram_metrics as binned
from valor_gpu.reduce.partial_area import PartialArea, partial_roc_auc
from valor_gpu.reduce.ranking import AP_NEEDS, ROC_NEEDS, no_ranking
from valor_gpu.reduce.ratios import AVERAGES
from valor_gpu.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import AreaOptions, RankingOptions, TaskOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled


class RankingMetric(RankedScores):
    """Base of ROC AUC and average precision.

    Args:
        average: ``macro`` is the mean over the classes whose number exists, ``weighted`` the mean by their positives,
            ``micro`` takes every element as a sample of one class, ``none`` or None gives one number per class.
    """

    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        thresholds: int | ArrayLike | Tensor | None = None,
        bins: int | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_choice("average", average, AVERAGES)
        self.average = average or "none"
        task = Task.of(num_classes, num_labels, ignore_index, activation)
        super().__init__(task, thresholds, bins, score_dtype, False, **kwargs)

    def compute(self) -> Tensor:
        """Returns float32 ``[]``, or ``[C]`` with average ``none``; NaN where the number does not exist."""
        state = self.state()
        if isinstance(state, Histogram):
            counts = self._binned_counts(state)
            return self._average(self._binned_value(counts), binned.totals(counts)[0]).float()
        ranking = self._ranking_values(state)
        return self._average(ranking.value, ranking.positives).float()

    def result(self, intervals: int | str | Bootstrap | None = None) -> Result:
        """Returns the number in float64, by class, with bounds where it comes from a histogram, and counts.

        Args:
            intervals: also give the interval of the number, from so many replicates, or by all choices of a bootstrap.
                Exact numbers of each replicate have the bits of those of rows that stand as often as they are drawn;
                they are computed on the CPU. With ``max_fpr`` one replicate is computed after another. ``delong``: the
                intervals of :func:`valor_gpu.stats.delong` of areas under exact ROC curves, without replicates.

        Raises:
            InputError: ``intervals`` is given, and a histogram holds sums of weights.
        """
        with self.synced_state() as state:
            result = self._result(state)
        return result if intervals is None else result.with_intervals(intervals)

    def _choices(self) -> dict[str, Any]:
        """Further choices of this metric, for its signature."""
        return {}

    def _result(self, state: ScoreRecords | Histogram) -> Result:
        ranking, name = self._ranking_values(state), type(self).__name__
        named = {"value": ranking.value}
        if isinstance(state, Histogram):
            named |= {"lowest": ranking.lowest, "highest": ranking.highest}
        values: dict[str, Any] = {}
        for part, numbers in named.items():
            average = self._average(numbers, ranking.positives)
            if average.ndim == 0:
                values[name if part == "value" else part] = float(average)
            if len(numbers) > 1:
                values["per_class" if part == "value" else f"{part}_per_class"] = numbers.cpu().numpy()
        missing = [key for key, value in values.items() if np.isnan(value).any()]
        single = len(ranking.value) == 1
        for side, sums in (("positives", ranking.positives), ("negatives", ranking.negatives)):
            values[side] = float(sums[0]) if single else sums.cpu().numpy()
        reason = no_ranking(self._needs, single)
        signature = self._signature(average=self.average, **self._choices())
        reasons = dict.fromkeys(missing, reason)
        return Result(values, signature, self._counts(state), reasons, state=lambda: self._resampled(state))

    def _resampled(self, state: ScoreRecords | Histogram) -> Resampled:
        return resampled_histogram(self, state) if isinstance(state, Histogram) else ResampledRanks(self, state)


class ROCAUC(RankingMetric):
    """Computes the area under the ROC curve: how often a positive scores above a negative, ties counting half.

    Exact, it equals scikit-learn's ``roc_auc_score``;
    unweighted, it has the same bits for any order and split of the samples. A class without positives or without
    negatives has no area; means leave it out, where torchmetrics counts it as 0. From a histogram, scores of one bin
    are tied, the ends (0, 0) and (1, 1) always belong to the curve (in torchmetrics only if thresholds enclose all
    scores), and :meth:`result` gives bounds on the exact area.

    Source: Hanley and McNeil, The meaning and use of the area under a ROC curve (1982).

    Args:
        max_fpr: above 0, at most 1: the standardised area up to this false positive rate, 0.5 for scores without
            information (McClish, 1989); None is the whole area.

    Example:
        >>> metric = ROCAUC()
        >>> metric.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
        >>> scores = torch.tensor([[0.75, 0.05, 0.05], [0.05, 0.75, 0.05], [0.05, 0.05, 0.75], [0.05, 0.75, 0.05]])
        >>> by_class = ROCAUC(num_classes=3, average="none")
        >>> by_class.update(scores, torch.tensor([0, 1, 1, 1]))
        >>> by_class.compute()
        tensor([1.0000, 0.8333,    nan])
    """

    _row, _needs = 0, ROC_NEEDS

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        thresholds: int | ArrayLike | Tensor | None = None,
        *,
        max_fpr: float | None = None,
        **kwargs: Unpack[RankingOptions],
    ) -> None:
        number = isinstance(max_fpr, (int, float)) and not isinstance(max_fpr, bool)
        if max_fpr is not None and not (number and 0 < max_fpr <= 1):
            raise InputError(f"max_fpr must be a number above 0 and at most 1, or None, but got {max_fpr!r}")
        self.max_fpr = max_fpr
        super().__init__(num_classes, num_labels, average, thresholds, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {} if self.max_fpr is None else {"max_fpr": self.max_fpr}

    def _resampled(self, state: ScoreRecords | Histogram) -> Resampled:
        if self.max_fpr is None or isinstance(state, Histogram):
            return super()._resampled(state)
        return ResampledPoints(self, state, lambda copies: areas_of(self._result(copies).values))

    def _ranking_values(self, state: ScoreRecords | Histogram) -> RankingValues:
        if self.max_fpr is None or isinstance(state, Histogram):
            return super()._ranking_values(state)
        return partial_values(self._ranked(state, self.average == "micro"), self._area, self._pooled)

    def _binned_value(self, counts: Tensor) -> Tensor:
        return binned.roc_auc(counts).value if self.max_fpr is None else self._partial(counts).value

    def _binned(self, counts: Tensor, lightest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.max_fpr is not None:
            return self._partial(counts)
        value, bound = binned.roc_auc(counts)
        return value, value - bound, value + bound

    def _partial(self, counts: Tensor) -> PartialArea:
        return self._area(*falling_sums(counts))

    def _area(self, tp: Tensor, fp: Tensor) -> PartialArea:
        return partial_roc_auc(tp, fp, self.max_fpr or 1.0)


class AUROC(ROCAUC):
    """Computes the area under the ROC curve: :class:`ROCAUC` by the name that it has in torchmetrics.

    Collections and results take the name of the class; arguments and numbers are those of :class:`ROCAUC`.

    Source: Hanley and McNeil, The meaning and use of the area under a ROC curve (1982).

    Example:
        >>> metric = AUROC()
        >>> metric.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """


class mROCAUC(ROCAUC):
    """Computes the mean of :class:`ROCAUC` over the classes that have one.

    It is ``sum AUC_k / n`` over the n classes k with at least one positive and one negative, each class against the
    rest, all of equal weight. The other classes are left out of it and are NaN in :meth:`result`; where no class is
    left, the mean itself is NaN, with a reason. In the binary task it is the area of the one class. Ties count half.

    Source: the metric of that name of valor-lite; curves of classes: Fawcett, An introduction to ROC analysis (2006).

    Example:
        >>> metric = mROCAUC(num_classes=3)
        >>> metric.update(torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.7, 0.2, 0.1]]), torch.tensor([0, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    def __init__(
        self, num_classes: int | None = None, num_labels: int | None = None, **kwargs: Unpack[AreaOptions]
    ) -> None:
        super().__init__(num_classes, num_labels, "macro", **kwargs)


class AveragePrecision(RankingMetric):
    """Computes average precision: the mean over positives of the precision among all that score at least as high.

    It is ``sum (R_n - R_{n-1}) P_n`` over distinct scores; exact, it equals scikit-learn's ``average_precision_score``
    (without interpolation), and unweighted it has the same bits for any order and split of the samples. A class without
    positives has none; means leave it out, where torchmetrics counts it as 0. Without negatives it is 1, and where all
    scores are equal it is the fraction of positives. From a histogram, scores of one bin are tied, and :meth:`result`
    gives bounds on the exact number.

    Source: scikit-learn, ``average_precision_score``.

    Example:
        >>> metric = AveragePrecision()
        >>> metric.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.8333)
    """

    _row, _needs = 1, AP_NEEDS

    def _binned_value(self, counts: Tensor) -> Tensor:
        value: Tensor = binned.average_precision_value(counts)
        return value

    def _binned(self, counts: Tensor, lightest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        bounded = binned.average_precision(counts, float(lightest))
        return bounded.value, bounded.lowest, bounded.highest
