"""The best that a choice of threshold reaches: one rate where another must not fall below a limit."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from valor_gpu.classification.curves import ROC, Curve, CurveMetric, PrecisionRecallCurve, after
from valor_gpu.errors import InputError
from valor_gpu.reduce.curve_points import CurveCounts, roc_points
from valor_gpu.result import Result

_ABOVE_ALL = 1e6  # threshold that torchmetrics gives where no point of a ROC curve will do


class OperatingPoint(CurveMetric):
    """Base of the metrics that choose one threshold of a curve.

    Args:
        num_classes: C, in the multiclass task.
        num_labels: L, in the multilabel task. With neither, the task is binary.
        limit: what the other coordinate must reach.
        kwargs: keyword arguments of :class:`~valor_gpu.classification.curves.CurveMetric`.
    """

    _value: ClassVar[str]  # the coordinate that is maximised
    _floor: ClassVar[str]  # the coordinate that must reach the limit
    _unreached: ClassVar[float] = math.nan  # threshold that compute gives where none will do

    def __init__(self, num_classes: int | None, num_labels: int | None, limit: float, **kwargs: Any) -> None:
        number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
        if not number or not 0 <= limit <= 1:
            raise InputError(f"min_{self._floor} must be a number from 0 to 1 but got {limit!r}")
        if "average" in kwargs:
            raise InputError("average must be left out: every class has a threshold of its own")
        self.limit = float(limit)
        super().__init__(num_classes, num_labels, **kwargs)

    def compute(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Returns the value, float32, and its threshold, in ``score_dtype``: ``[]`` each, or ``[C]``.

        Where no threshold reaches the limit, the value is 0, as in torchmetrics; where the curve does not exist, NaN.
        """
        state = self.state()
        rows = [self._chosen(curve) for curve in self._curves(state)]
        points = torch.tensor([[row[0], row[2]] for row in rows], dtype=torch.float64)
        missing = torch.tensor([row[3] for row in rows])
        value, threshold = points.unbind(1)
        value = torch.where(missing, 0.0, value)
        threshold = torch.where(missing | self._hollow(value), self._unreached, self._shown(threshold))
        found = value.float().to(self.device), threshold.to(self.score_dtype).to(self.device)
        return (found[0][0], found[1][0]) if self._single else found

    def result(self) -> Result:
        """Returns the value, the threshold, and what the limited rate is there; arrays ``[C]`` of several classes."""
        with self.synced_state() as state:
            rows = [self._chosen(curve) for curve in self._curves(state)]
            arrays = np.array([row[:3] for row in rows], np.float64).reshape(-1, 3).T
            names = (self._value, self._floor, "threshold")
            values = {name: float(part[0]) if self._single else part for name, part in zip(names, arrays)}
            values = {type(self).__name__: values.pop(self._value), **values}
            reasons: dict[str, str] = {}
            if np.isnan(arrays).any():
                lack = f"no threshold reaches min_{self._floor}={self.limit:g}"
                reason = lack if all(row[3] for row in rows if math.isnan(row[0])) else f"{lack}, or there is no curve"
                reasons = {name: reason for name, part in values.items() if np.isnan(part).any()}
            signature = self._signature(**{f"min_{self._floor}": self.limit})
            return Result(values, signature, self._counts(state), reasons)

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Raises :class:`InputError`: a point of a curve has no picture; ROC and PrecisionRecallCurve draw the curve.

        Args:
            val: must be left out.
            ax: matplotlib axes.
        """
        return self._draw(val, ax)

    def _chosen(self, curve: Curve) -> tuple[float, float, float, bool]:
        """Value, limited rate and threshold, NaN where there is none; whether the curve exists but falls short."""
        exists = self._exists(Curve(*(torch.as_tensor(np.ascontiguousarray(as_array(part))) for part in curve)))
        thresholds = as_array(curve.thresholds)
        sides = {name: as_array(part)[: len(thresholds)] for name, part in zip(self._axes, curve)}
        value, floor = sides[self._value], sides[self._floor]
        enough = (floor >= self.limit) & ~np.isnan(value)
        if not (exists and enough.any()):
            return math.nan, math.nan, math.nan, exists and len(thresholds) > 0
        best = self._best(np.where(enough, value, -math.inf), floor, thresholds)
        return float(value[best]), float(floor[best]), float(thresholds[best]), False

    def _hollow(self, value: Tensor) -> Tensor:
        """Whether the threshold of a value says nothing, bool ``[C]``."""
        return torch.zeros_like(value, dtype=torch.bool)

    def _best(self, value: NDArray[Any], floor: NDArray[Any], thresholds: NDArray[Any]) -> int:
        """Index of the point with the largest value, the first of equal ones."""
        return int(value.argmax())


class _PrecisionRecallPoint(OperatingPoint, PrecisionRecallCurve):
    """A point of the precision-recall curve; of equal ones that with the largest limited rate, then threshold."""

    def _hollow(self, value: Tensor) -> Tensor:
        return value == 0  # as in torchmetrics

    def _best(self, value: NDArray[Any], floor: NDArray[Any], thresholds: NDArray[Any]) -> int:
        return int(np.lexsort((thresholds, floor, value))[-1])


class _ROCPoint(OperatingPoint, ROC):
    """A point of the ROC curve; of equal ones that with the largest threshold."""

    _axes, _unreached = ("specificity", "sensitivity"), _ABOVE_ALL

    def _curve(self, thresholds: Any, counts: CurveCounts) -> Curve:
        tp, fp, *totals = counts
        points = self._coordinates(CurveCounts(after(0, tp), after(0, fp), *totals))
        return Curve(*points, after(math.inf, thresholds))

    def _coordinates(self, counts: CurveCounts) -> tuple[Any, Any]:
        tp, fp, positives, negatives = counts
        return roc_points(tp, negatives[..., None] - fp, positives, negatives)  # 1 - fpr would round


class PrecisionAtFixedRecall(_PrecisionRecallPoint):
    """Computes the highest precision among the thresholds that reach a recall, and that threshold.

    Of thresholds of equal precision it is the one with the highest recall, then the highest threshold.
    Where none does, ``compute`` gives 0 and a threshold of NaN as torchmetrics does, and :meth:`result` NaN with a
    reason. A class without positives has neither: NaN. It shares its ``update`` with the curves in a
    ``MetricCollection``.

    Source: scikit-learn, ``precision_recall_curve``; torchmetrics, ``PrecisionAtFixedRecall``.

    Args:
        num_classes: C, in the multiclass task: scores ``[N, C, ...]`` with class indices as target, each class against
            the rest.
        num_labels: L, in the multilabel task: scores and target ``[N, L, ...]``, each label by itself. With neither,
            the task is binary.
        min_recall: the recall that must be reached, from 0 to 1.
        thresholds: None takes every distinct score and keeps every score: at most 4 C + 4 bytes per sample (5 in the
            binary task, 5 L with labels; 8 more with weights). An int of at least 2 (thresholds evenly spaced from 0 to
            1), or ascending numbers, keep a histogram of constant size.
        ignore_index: target value that leaves out a row (multiclass) or one element.
        activation: ``auto`` takes scores for logits if any that counts lies outside [0, 1] (with thresholds: any of the
            batch); ``none``, ``sigmoid`` and ``softmax`` do not guess.
        score_dtype: scores are kept and compared in it. Exact numbers of float64 scores need ``torch.float64``: with a
            smaller dtype, scores that it changes are rejected with an error. With thresholds, scores and thresholds are
            rounded to it.
        kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> metric = PrecisionAtFixedRecall(min_recall=0.75)
        >>> metric.update(torch.tensor([0.25, 0.5, 0.5, 0.75]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        (tensor(0.6667), tensor(0.5000))
    """

    _value, _floor = "precision", "recall"

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        min_recall: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> None:
        choices = dict(ignore_index=ignore_index, activation=activation, score_dtype=score_dtype, **kwargs)
        super().__init__(num_classes, num_labels, min_recall, thresholds=thresholds, **choices)


class RecallAtFixedPrecision(_PrecisionRecallPoint):
    """Computes the highest recall among the thresholds that reach a precision, and that threshold.

    Of thresholds of equal recall it is the one with the highest precision, then the highest threshold.
    Where none does, ``compute`` gives 0 and a threshold of NaN as torchmetrics does, and :meth:`result` NaN with a
    reason. A class without positives has neither: NaN. It shares its ``update`` with the curves in a
    ``MetricCollection``.

    Source: scikit-learn, ``precision_recall_curve``; torchmetrics, ``RecallAtFixedPrecision``.

    Args:
        num_classes: C, in the multiclass task: scores ``[N, C, ...]`` with class indices as target, each class against
            the rest.
        num_labels: L, in the multilabel task: scores and target ``[N, L, ...]``, each label by itself. With neither,
            the task is binary.
        min_precision: the precision that must be reached, from 0 to 1.
        thresholds: None takes every distinct score and keeps every score: at most 4 C + 4 bytes per sample (5 in the
            binary task, 5 L with labels; 8 more with weights). An int of at least 2 (thresholds evenly spaced from 0 to
            1), or ascending numbers, keep a histogram of constant size.
        ignore_index: target value that leaves out a row (multiclass) or one element.
        activation: ``auto`` takes scores for logits if any that counts lies outside [0, 1] (with thresholds: any of the
            batch); ``none``, ``sigmoid`` and ``softmax`` do not guess.
        score_dtype: scores are kept and compared in it. Exact numbers of float64 scores need ``torch.float64``: with a
            smaller dtype, scores that it changes are rejected with an error. With thresholds, scores and thresholds are
            rounded to it.
        kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> metric = RecallAtFixedPrecision(min_precision=0.75)
        >>> metric.update(torch.tensor([0.25, 0.5, 0.5, 0.75]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        (tensor(0.5000), tensor(0.7500))
    """

    _value, _floor = "recall", "precision"

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        min_precision: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> None:
        choices = dict(ignore_index=ignore_index, activation=activation, score_dtype=score_dtype, **kwargs)
        super().__init__(num_classes, num_labels, min_precision, thresholds=thresholds, **choices)


class SensitivityAtSpecificity(_ROCPoint):
    """Computes the highest sensitivity among the thresholds that reach a specificity, and that threshold.

    Sensitivity is tp / (tp + fn), specificity tn / (tn + fp). Of thresholds of equal sensitivity it is the highest.
    Where none does, ``compute`` gives 0 and a threshold of 1e6 as torchmetrics does, and :meth:`result` NaN with a
    reason. A class without positives or without negatives has neither: NaN. It shares its ``update`` with the curves in
    a ``MetricCollection``.

    Source: Fawcett, An introduction to ROC analysis (2006); torchmetrics, ``SensitivityAtSpecificity``.

    Args:
        num_classes: C, in the multiclass task: scores ``[N, C, ...]`` with class indices as target, each class against
            the rest.
        num_labels: L, in the multilabel task: scores and target ``[N, L, ...]``, each label by itself. With neither,
            the task is binary.
        min_specificity: the specificity that must be reached, from 0 to 1.
        thresholds: None takes every distinct score and keeps every score: at most 4 C + 4 bytes per sample (5 in the
            binary task, 5 L with labels; 8 more with weights). An int of at least 2 (thresholds evenly spaced from 0 to
            1), or ascending numbers, keep a histogram of constant size.
        ignore_index: target value that leaves out a row (multiclass) or one element.
        activation: ``auto`` takes scores for logits if any that counts lies outside [0, 1] (with thresholds: any of the
            batch); ``none``, ``sigmoid`` and ``softmax`` do not guess.
        score_dtype: scores are kept and compared in it. Exact numbers of float64 scores need ``torch.float64``: with a
            smaller dtype, scores that it changes are rejected with an error. With thresholds, scores and thresholds are
            rounded to it.
        kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> metric = SensitivityAtSpecificity(min_specificity=0.75)
        >>> metric.update(torch.tensor([0.25, 0.5, 0.5, 0.75]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        (tensor(0.5000), tensor(0.7500))
    """

    _value, _floor = "sensitivity", "specificity"

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        min_specificity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> None:
        choices = dict(ignore_index=ignore_index, activation=activation, score_dtype=score_dtype, **kwargs)
        super().__init__(num_classes, num_labels, min_specificity, thresholds=thresholds, **choices)


class SpecificityAtSensitivity(_ROCPoint):
    """Computes the highest specificity among the thresholds that reach a sensitivity, and that threshold.

    Sensitivity is tp / (tp + fn), specificity tn / (tn + fp). Of thresholds of equal specificity it is the highest.
    Where none does, ``compute`` gives 0 and a threshold of 1e6 as torchmetrics does, and :meth:`result` NaN with a
    reason. A class without positives or without negatives has neither: NaN. It shares its ``update`` with the curves in
    a ``MetricCollection``.

    Source: Fawcett, An introduction to ROC analysis (2006); torchmetrics, ``SpecificityAtSensitivity``.

    Args:
        num_classes: C, in the multiclass task: scores ``[N, C, ...]`` with class indices as target, each class against
            the rest.
        num_labels: L, in the multilabel task: scores and target ``[N, L, ...]``, each label by itself. With neither,
            the task is binary.
        min_sensitivity: the sensitivity that must be reached, from 0 to 1.
        thresholds: None takes every distinct score and keeps every score: at most 4 C + 4 bytes per sample (5 in the
            binary task, 5 L with labels; 8 more with weights). An int of at least 2 (thresholds evenly spaced from 0 to
            1), or ascending numbers, keep a histogram of constant size.
        ignore_index: target value that leaves out a row (multiclass) or one element.
        activation: ``auto`` takes scores for logits if any that counts lies outside [0, 1] (with thresholds: any of the
            batch); ``none``, ``sigmoid`` and ``softmax`` do not guess.
        score_dtype: scores are kept and compared in it. Exact numbers of float64 scores need ``torch.float64``: with a
            smaller dtype, scores that it changes are rejected with an error. With thresholds, scores and thresholds are
            rounded to it.
        kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> metric = SpecificityAtSensitivity(min_sensitivity=0.75)
        >>> metric.update(torch.tensor([0.25, 0.5, 0.5, 0.75]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        (tensor(0.5000), tensor(0.5000))
    """

    _value, _floor = "specificity", "sensitivity"

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        min_sensitivity: float,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> None:
        choices = dict(ignore_index=ignore_index, activation=activation, score_dtype=score_dtype, **kwargs)
        super().__init__(num_classes, num_labels, min_sensitivity, thresholds=thresholds, **choices)


def as_array(part: Any) -> NDArray[np.float64]:
    """A tensor or array as a float64 array."""
    array: NDArray[np.float64] = np.asarray(part.cpu() if isinstance(part, Tensor) else part, np.float64)
    return array
