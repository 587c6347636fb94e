"""The best that a choice of threshold reaches: one rate where another must not fall below a limit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from valor_gpu.classification.curves import ROC, CurveMetric, PrecisionRecallCurve
from valor_gpu.classification.resampled_ranks import resampled_points
from valor_gpu.errors import InputError
from valor_gpu.reduce.curve_points import CurveCounts, after, as_array
from valor_gpu.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import CurveOptions, TaskOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled

_Array = NDArray[np.float64]
_Row = tuple[float, float, float, bool]
"""Value, limited rate and threshold, NaN where there is none; whether for the limit alone."""

_ABOVE_ALL = 1e6  # threshold that torchmetrics gives where no point of a ROC curve will do


class RateAtLimit(CurveMetric):
    """Base of the metrics that choose one threshold of a curve.

    Args:
        limit: what the other coordinate must reach.
    """

    _value: ClassVar[str]  # the coordinate that is maximised
    _floor: ClassVar[str]  # the coordinate that must reach the limit
    _unreached: ClassVar[float] = math.nan  # threshold that compute gives where none will do

    def __init__(
        self, num_classes: int | None, num_labels: int | None, limit: float, **kwargs: Unpack[CurveOptions]
    ) -> None:
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
        rows = self._rows(self.state())
        values = [0.0 if short else value for value, _, _, short in rows]
        levels = [
            self._unreached if short or self._hollow(value) else self._level(threshold)
            for value, _, threshold, short in rows
        ]
        value = torch.tensor(values, dtype=torch.float32)
        threshold = torch.tensor(levels, dtype=torch.float64).to(self.score_dtype)
        value, threshold = value.to(self.device), threshold.to(self.device)
        return (value[0], threshold[0]) if self._single else (value, threshold)

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the value, the threshold, and what the limited rate is there; arrays ``[C]`` of several classes.

        Args:
            intervals: replicates, or all choices of a bootstrap: also give the interval of the value; on the CPU.

        Raises:
            InputError: ``intervals`` is given, and scores are not kept, since there are thresholds.
        """
        with self.synced_state() as state:
            *rows, missing = np.array(self._rows(state), np.float64).reshape(-1, 4).T.copy()
            named = zip((type(self).__name__, self._floor, "threshold"), rows)
            values = {name: float(part[0]) if self._single else part for name, part in named}
            lack = f"no threshold reaches min_{self._floor}={self.limit:g}"
            reason = lack if (missing[np.isnan(rows[0])] == 1).all() else f"{lack}, or there is nothing to divide by"
            reasons = {name: reason for name, part in values.items() if np.isnan(part).any()}
            signature, counts = self._signature(**{f"min_{self._floor}": self.limit}), self._counts(state)
            made = Result(values, signature, counts, reasons, state=lambda: self._resampled(state))
        return made if intervals is None else made.with_intervals(intervals)

    def _resampled(self, state: Any) -> Resampled:
        return resampled_points(self, type(self).__name__, state, self._single, lambda s: [r[0] for r in self._rows(s)])

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Raises :class:`InputError`: a point of a curve has no picture; ROC and PrecisionRecallCurve draw the curve.

        Args:
            val: must be left out.
            ax: matplotlib axes.
        """
        return self._draw(val, ax)

    def _rows(self, state: Any) -> list[_Row]:
        return [self._chosen(*found) for found in self._counts_by_class(state)]

    def _level(self, threshold: float) -> float:
        return threshold if math.isfinite(threshold) else float(self._shown(np.asarray(threshold)))

    def _chosen(self, thresholds: Any, counts: CurveCounts) -> _Row:
        tp, fp, levels = (as_array(part) for part in (counts.tp, counts.fp, thresholds))
        positives, negatives = float(counts.positives), float(counts.negatives)
        if not self._possible(positives, negatives):
            return math.nan, math.nan, math.nan, False
        value, floor, levels = self._rates(tp, fp, levels, positives, negatives)
        enough = floor >= self.limit
        known = enough & (value == value)
        if not known.any():
            return math.nan, math.nan, math.nan, not enough.any()
        best = self._best(np.where(known, value, -math.inf), floor)
        return float(value[best]), float(floor[best]), float(levels[best]), False

    def _possible(self, positives: float, negatives: float) -> bool:
        """Returns whether a class of so many positives and negatives has the curve."""
        raise NotImplementedError

    def _rates(
        self, tp: _Array, fp: _Array, levels: _Array, positives: float, negatives: float
    ) -> tuple[_Array, _Array, _Array]:
        """Value, limited rate and threshold of each point; thresholds descend."""
        raise NotImplementedError

    def _hollow(self, value: float) -> bool:
        """Returns whether the threshold of a value says nothing."""
        return False

    def _best(self, value: _Array, floor: _Array) -> int:
        """Index of the point with the largest value, the first of equal ones."""
        return int(value.argmax())


class _PrecisionRecallPoint(RateAtLimit, PrecisionRecallCurve):
    """A point of the precision-recall curve; of equal ones that with the largest limited rate, then threshold."""

    def _hollow(self, value: float) -> bool:
        return value == 0  # as in torchmetrics

    def _possible(self, positives: float, negatives: float) -> bool:
        return positives > 0

    def _rates(
        self, tp: _Array, fp: _Array, levels: _Array, positives: float, negatives: float
    ) -> tuple[_Array, _Array, _Array]:
        with np.errstate(invalid="ignore"):
            precision, recall = tp / (tp + fp), tp / positives
        return (precision, recall, levels) if self._value == "precision" else (recall, precision, levels)

    def _best(self, value: _Array, floor: _Array) -> int:
        return int(np.where(value == value.max(), floor, -math.inf).argmax())


class _ROCPoint(RateAtLimit, ROC):
    """A point of the ROC curve; of equal ones that with the largest threshold."""

    _unreached = _ABOVE_ALL

    def _possible(self, positives: float, negatives: float) -> bool:
        return positives > 0 and negatives > 0

    def _rates(
        self, tp: _Array, fp: _Array, levels: _Array, positives: float, negatives: float
    ) -> tuple[_Array, _Array, _Array]:
        sensitivity, specificity = tp / positives, (negatives - fp) / negatives  # 1 - fpr would round
        if self.exact:
            sensitivity, specificity, levels = after(0, sensitivity), after(1, specificity), after(math.inf, levels)
        if self._value == "sensitivity":
            return sensitivity, specificity, levels
        return specificity, sensitivity, levels


class PrecisionAtFixedRecall(_PrecisionRecallPoint):
    """Computes the highest precision among the thresholds that reach a recall, and that threshold.

    Of thresholds of equal precision it is the one with the highest recall, then the highest threshold.
    Where none does, ``compute`` gives 0 and a threshold of NaN as torchmetrics does, and :meth:`result` NaN with a
    reason. A class without positives has neither: NaN. It shares its ``update`` with the curves in a
    ``MetricCollection``.

    Source: scikit-learn, ``precision_recall_curve``; torchmetrics, ``PrecisionAtFixedRecall``.

    Args:
        min_recall: the recall that must be reached, from 0 to 1.

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
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        super().__init__(num_classes, num_labels, min_recall, thresholds=thresholds, ignore_index=ignore_index,
                         activation=activation, score_dtype=score_dtype, **kwargs)  # fmt: skip


class RecallAtFixedPrecision(_PrecisionRecallPoint):
    """Computes the highest recall among the thresholds that reach a precision, and that threshold.

    Of thresholds of equal recall it is the one with the highest precision, then the highest threshold.
    Where none does, ``compute`` gives 0 and a threshold of NaN as torchmetrics does, and :meth:`result` NaN with a
    reason. A class without positives has neither: NaN. It shares its ``update`` with the curves in a
    ``MetricCollection``.

    Source: scikit-learn, ``precision_recall_curve``; torchmetrics, ``RecallAtFixedPrecision``.

    Args:
        min_precision: the precision that must be reached, from 0 to 1.

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
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        super().__init__(num_classes, num_labels, min_precision, thresholds=thresholds, ignore_index=ignore_index,
                         activation=activation, score_dtype=score_dtype, **kwargs)  # fmt: skip


class SensitivityAtSpecificity(_ROCPoint):
    """Computes the highest sensitivity among the thresholds that reach a specificity, and that threshold.

    Sensitivity is tp / (tp + fn), specificity tn / (tn + fp): torchmetrics takes 1 - fpr in float32, which can fall
    short of a limit of one third. Of thresholds of equal sensitivity it is the highest. Where none does, ``compute``
    gives 0 and a threshold of 1e6 as torchmetrics does, and :meth:`result` NaN with a reason. A class without positives
    or without negatives has neither: NaN. It shares its ``update`` with the curves in a ``MetricCollection``.

    Source: Fawcett, An introduction to ROC analysis (2006); torchmetrics, ``SensitivityAtSpecificity``.

    Args:
        min_specificity: the specificity that must be reached, from 0 to 1.

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
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        super().__init__(num_classes, num_labels, min_specificity, thresholds=thresholds, ignore_index=ignore_index,
                         activation=activation, score_dtype=score_dtype, **kwargs)  # fmt: skip


class SpecificityAtSensitivity(_ROCPoint):
    """Computes the highest specificity among the thresholds that reach a sensitivity, and that threshold.

    Sensitivity is tp / (tp + fn), specificity tn / (tn + fp). Of thresholds of equal specificity it is the highest.
    Where none does, ``compute`` gives 0 and a threshold of 1e6 as torchmetrics does, and :meth:`result` NaN with a
    reason. A class without positives or without negatives has neither: NaN. It shares its ``update`` with the curves in
    a ``MetricCollection``.

    Source: Fawcett, An introduction to ROC analysis (2006); torchmetrics, ``SpecificityAtSensitivity``.

    Args:
        min_sensitivity: the sensitivity that must be reached, from 0 to 1.

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
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        super().__init__(num_classes, num_labels, min_sensitivity, thresholds=thresholds, ignore_index=ignore_index,
                         activation=activation, score_dtype=score_dtype, **kwargs)  # fmt: skip
