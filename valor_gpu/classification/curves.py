"""ROC and precision-recall curves of scores: exact, or at thresholds in constant memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.classification.curve_results import PRECISION_RECALL_AXES, ROC_AXES, curve_result
from valor_gpu.classification.score_metric import Histogram, ScoreMetric, ScoreRecords
from valor_gpu.classification.softmax_errors import check_ranked
from valor_gpu.computed import gives_own_memory
from valor_gpu.inputs.scores import Task
from valor_gpu.ops.ranks.op import rank_curves, small_rank_curves
from valor_gpu.plans import switched_on
from valor_gpu.reduce.curve_points import (
    CurveCounts,
    ascending_precision_recall,
    counts_at_thresholds,
    distinct_points,
    exact_roc,
    last_of,
    roc_points,
)
from valor_gpu.reduce.histogram_metrics import pooled, quick, reversed_last
from valor_gpu.reduce.macro_curves import macro_precision_recall, macro_roc
from valor_gpu.reduce.ratios import where
from valor_gpu.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap


class Curve(NamedTuple):
    """One curve, or all of a histogram: float64 ``first`` and ``second`` coordinates ``[..., T]``, in the order of the
    class's ``_axes``, and the ``thresholds``: tensors, or on the CPU NumPy arrays.
    """

    first: Any
    second: Any
    thresholds: Any


class CurveMetric(ScoreMetric):
    """Base of ROC and precision-recall curves.

    Args:
        average: ``none`` or None gives one curve per class, ``micro`` one curve of all elements, ``macro`` the mean
            curve of the classes that have one.
    """

    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    _axes: ClassVar[tuple[str, str]]
    _descending: ClassVar[bool]  # the order of thresholds of a histogram

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        thresholds: int | ArrayLike | Tensor | None = None,
        average: str | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_choice("average", average, ("micro", "macro", "none", None))
        self.average = average or "none"
        task = Task.of(num_classes, num_labels, ignore_index, activation)
        super().__init__(task, thresholds, None, score_dtype, False, **kwargs)

    @gives_own_memory
    def compute(self) -> tuple[Any, Any, Any]:
        """Returns both coordinates and the thresholds as torchmetrics gives them.

        One curve: float32 ``[T]`` each. Several: lists of them when exact, else ``[C, T]`` each and thresholds ``[T]``.
        """
        state = self.state()
        if self._mean:
            mean = self._macro(state)
            return _float32(mean.first), _float32(mean.second), self._shown(mean.thresholds).to(self.score_dtype)
        if isinstance(state, Histogram):
            first, second = self._at_thresholds(state)
            if self._single:
                first, second = first[0], second[0]
            return _float32(first), _float32(second), self._grid(state).to(self.score_dtype, copy=True)
        parts = [
            (_float32(first), _float32(second), _tensor(self._shown(thresholds)).to(self.score_dtype))
            for first, second, thresholds in self._at_scores(state)
        ]
        return parts[0] if self._single else tuple(map(list, zip(*parts)))  # type: ignore[return-value]

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the curves in float64 (arrays, or with several classes one array per class), with counts and plot.

        Args:
            intervals: as of other metrics; points of curves have none, the areas below them have.
        """
        with self.synced_state() as state:
            curves = [self._macro(state)] if self._mean else self._curves(state)
            arrays = [[_float64(part) for part in curve] for curve in curves]
            signature = self._signature(average=self.average)
            curve = curve_result(self._axes, arrays, self._single, signature, self._counts(state))
            return curve if intervals is None else curve.with_intervals(intervals)

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Draws the curves of :meth:`result` and returns figure and axes, as in torchmetrics; collective like it.

        Args:
            val: must be left out: only what the metric holds is drawn.
            ax: matplotlib axes, or None for new ones.

        Raises:
            InputError: ``val`` is given.
            MissingExtraError: matplotlib is not installed.
        """
        return self._draw(val, ax, "the curves of the metric")

    @property
    def _single(self) -> bool:
        return self.task.kind == "binary" or self.average in ("micro", "macro")

    @property
    def _mean(self) -> bool:
        return self.task.kind != "binary" and self.average == "macro"

    def _macro(self, state: ScoreRecords | Histogram) -> Curve:
        """The mean of the curves that exist, as tensors; NaN where none does."""
        curves = [Curve(*map(_tensor, curve)) for curve in self._curves(state)]
        exist = [curve for curve in curves if self._exists(curve)] or curves
        first, second, thresholds = map(list, zip(*exist))
        every = torch.cat(thresholds).sort(descending=self._descending).values
        return Curve(*self._average(first, second), every)

    def _exists(self, curve: Curve) -> bool:
        """Whether a class has the curve."""
        raise NotImplementedError

    def _average(self, first: list[Tensor], second: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Coordinates of the mean curve."""
        raise NotImplementedError

    def _curves(self, state: ScoreRecords | Histogram) -> list[Curve]:
        if not isinstance(state, Histogram):
            return self._at_scores(state)
        thresholds = self._grid(state)
        return [Curve(*pair, thresholds) for pair in zip(*self._at_thresholds(state))]

    def _at_thresholds(self, state: Histogram) -> tuple[Any, Any]:
        """Coordinates ``[C, T]`` of all curves at :meth:`_grid`."""
        return self._coordinates(self._histogram_counts(state))

    def _histogram_counts(self, state: Histogram) -> CurveCounts:
        counts = pooled(state.counts) if self.average == "micro" else state.counts
        return counts_at_thresholds(quick(counts))

    def _grid(self, state: Histogram) -> Tensor:
        """Thresholds ``[T]`` of the points of a histogram, float64, in the order of coordinates."""
        grid = self.thresholds.to(state.counts.device)
        return grid.flip(0) if self._descending else grid

    def _at_scores(self, state: ScoreRecords) -> list[Curve]:
        return [self._curve(*found) for found in self._exact_counts(state)]

    def _exact_counts(self, state: ScoreRecords) -> Iterator[tuple[Any, CurveCounts]]:
        for thresholds, tp, fp in self._points(state):
            yield thresholds, CurveCounts(tp, fp, last_of(tp), last_of(fp))

    def _counts_by_class(self, state: ScoreRecords | Histogram) -> Iterator[tuple[Any, CurveCounts]]:
        """Of each class thresholds, which descend, and the counts at them: tensors, or on the CPU NumPy arrays."""
        if not isinstance(state, Histogram):
            return self._exact_counts(state)
        thresholds = reversed_last(quick(self.thresholds.to(state.counts.device)))
        return ((thresholds, CurveCounts(*parts)) for parts in zip(*self._histogram_counts(state)))

    def _points(self, state: ScoreRecords) -> Iterator[tuple[Any, Any, Any]]:
        """Of each class thresholds, and the positives and negatives that reach them."""
        ranked = self._ranked(state, self.average == "micro")
        given: dict[str, Any] = {"ignore_index": ranked.ignore_index, "weight": ranked.weight}
        if switched_on() and (small := small_rank_curves(ranked.scores, ranked.target, **given)) is not None:
            rows = [row[:count] for row, count in zip(small.thresholds, small.counts)]
            flat = rows[0] if len(rows) == 1 else np.concatenate(rows)
            every = self._activated(state, torch.from_numpy(flat)).numpy()
            for tp, fp, count, end in zip(small.tp, small.fp, small.counts, accumulate(small.counts)):
                yield self._distinct(every[end - count : end], tp[:count], fp[:count])
            return
        result = rank_curves(ranked.scores, ranked.target, **given)
        check_ranked(result.error, self._pooled)
        whole = [quick(part) for part in (self._activated(state, result.thresholds), result.tp, result.fp)]
        for start, end in pairwise(result.offsets.tolist()):
            yield self._distinct(*(part[start:end] for part in whole))

    def _activated(self, state: ScoreRecords, thresholds: Tensor) -> Tensor:
        """Thresholds of any shape as the scores of users are after their activation."""
        if not self._monotone:
            return thresholds
        return self._probabilities(state, thresholds.reshape(-1, 1)).reshape(thresholds.shape).double()

    def _distinct(self, thresholds: Any, tp: Any, fp: Any) -> tuple[Any, Any, Any]:
        """One point for all logits of one probability, which no threshold tells apart."""
        if self.task.activation == "none" or not self._monotone:
            return thresholds, tp, fp
        return distinct_points(thresholds, tp, fp)

    def _curve(self, thresholds: Any, counts: CurveCounts) -> Curve:
        """The exact curve of a class, of distinct scores that descend."""
        raise NotImplementedError

    def _coordinates(self, counts: CurveCounts) -> tuple[Any, Any]:
        """Both coordinates, of counts at thresholds that descend."""
        raise NotImplementedError

    def _shown(self, thresholds: Any) -> Any:
        """Thresholds of an exact curve as torchmetrics shows them."""
        return thresholds


class ROC(CurveMetric):
    """Computes the ROC curve: true positive rate over false positive rate at each threshold, thresholds descending.

    An exact curve has a point for every distinct score and begins in (0, 0), whose threshold is infinite (in
    ``compute`` 1, as in torchmetrics); it equals scikit-learn's ``roc_curve(drop_intermediate=False)``. Rates that do
    not exist, for want of positives or negatives, are NaN; torchmetrics gives 0. ``average="macro"`` is vertical: the
    mean true positive rate at the false positive rates of all classes; its thresholds are those of all classes in
    order, so that none belongs to a point, as in torchmetrics, whose last points can lie below 1.

    Source: Fawcett, An introduction to ROC analysis (2006).

    Example:
        >>> metric = ROC()
        >>> metric.update(torch.tensor([0.25, 0.5, 0.5, 0.75]), torch.tensor([0, 0, 1, 1]))
        >>> fpr, tpr, thresholds = metric.compute()
        >>> fpr.tolist(), tpr.tolist(), thresholds.tolist()
        ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0], [1.0, 0.75, 0.5, 0.25])
    """

    _axes, _descending = ROC_AXES, True

    def _exists(self, curve: Curve) -> bool:
        return not bool((curve.first + curve.second).isnan().any())

    def _average(self, first: list[Tensor], second: list[Tensor]) -> tuple[Tensor, Tensor]:
        return macro_roc(first, second)

    def _curve(self, thresholds: Any, counts: CurveCounts) -> Curve:
        return Curve(*exact_roc(thresholds, counts))

    def _coordinates(self, counts: CurveCounts) -> tuple[Any, Any]:
        return roc_points(*counts)

    def _shown(self, thresholds: Any) -> Any:
        return where(abs(thresholds) == math.inf, 1.0, thresholds)


class PrecisionRecallCurve(CurveMetric):
    """Computes precision and recall at each threshold, thresholds ascending; the last point is (precision 1, recall 0).

    The exact curve has a point for every distinct score and equals scikit-learn's ``precision_recall_curve``. Precision
    is NaN where no score reaches the threshold, recall where there is no positive (there torchmetrics and scikit-learn
    give 1). :class:`~valor_gpu.classification.threshold_counts.ThresholdCounts` gives the counts, with Valor's
    defaults. ``average="macro"`` is the mean precision at the recalls of all classes, whose steps have the mean average
    precision as area (torchmetrics interpolates recall over precision, which does not ascend); its thresholds are those
    of all classes in order, so that none belongs to a point.

    Source: scikit-learn, ``precision_recall_curve``.

    Example:
        >>> metric = PrecisionRecallCurve()
        >>> metric.update(torch.tensor([0.25, 0.5, 0.5, 0.75]), torch.tensor([0, 0, 1, 1]))
        >>> precision, recall, thresholds = metric.compute()
        >>> precision, recall.tolist(), thresholds.tolist()
        (tensor([0.5000, 0.6667, 1.0000, 1.0000]), [1.0, 1.0, 0.5, 0.0], [0.25, 0.5, 0.75])
    """

    _axes, _descending = PRECISION_RECALL_AXES, False

    def _exists(self, curve: Curve) -> bool:
        return not bool(curve.second.isnan().any())

    def _average(self, first: list[Tensor], second: list[Tensor]) -> tuple[Tensor, Tensor]:
        return macro_precision_recall(first, second)

    def _curve(self, thresholds: Any, counts: CurveCounts) -> Curve:
        return Curve(*self._coordinates(counts), reversed_last(thresholds))

    def _coordinates(self, counts: CurveCounts) -> tuple[Any, Any]:
        return ascending_precision_recall(counts)


def _float32(part: Any) -> Tensor:
    return part.float() if isinstance(part, Tensor) else torch.from_numpy(part.astype(np.float32))


def _tensor(part: Any) -> Tensor:
    return part if isinstance(part, Tensor) else torch.from_numpy(part.copy())


def _float64(part: Any) -> NDArray[np.float64]:
    array: NDArray[np.float64] = part.cpu().double().numpy() if isinstance(part, Tensor) else part.astype(np.float64)
    return array
