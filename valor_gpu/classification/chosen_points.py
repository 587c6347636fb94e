"""The threshold that is best for a purpose: for a rate where others must reach limits, or for costs of errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.classification.curves import ROC
from valor_gpu.classification.resampled_ranks import ResampledPoints
from valor_gpu.classification.score_metric import Histogram
from valor_gpu.errors import InputError
from valor_gpu.reduce.chosen_points import best_point, objective_of, rates_of
from valor_gpu.reduce.curve_points import CurveCounts, after, as_array
from valor_gpu.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import CurveOptions, TaskOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled

_Array = NDArray[np.float64]

OBJECTIVES = ("precision", "recall", "specificity", "fbeta", "youden")
_BESIDE = ("precision", "recall", "specificity", "threshold")
"""What a result tells of the point that is chosen."""
_NO_COST = "there are no samples, or with prior no positives or no negatives"


class ChosenPoint(ROC):
    """Base of the metrics that choose one threshold of each class; above all scores lies a threshold of infinity."""

    def __init__(
        self, num_classes: int | None, num_labels: int | None, choices: dict[str, Any], **kwargs: Unpack[CurveOptions]
    ) -> None:
        if "average" in kwargs:
            raise InputError("average must be left out: every class has a threshold of its own")
        self._choices = choices
        super().__init__(num_classes, num_labels, **kwargs)

    def compute(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Returns the value, float32, and its threshold, in ``score_dtype``: ``[]`` each, or ``[C]``; NaN of none."""
        rows = self._rows(self.state())
        name, dtypes = type(self).__name__, (torch.float32, self.score_dtype)
        value, threshold = (
            torch.tensor([row[key] for row in rows], dtype=torch.float64).to(self.device, dtype)
            for key, dtype in zip((name, "threshold"), dtypes)
        )
        return (value[0], threshold[0]) if self._single else (value, threshold)

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the value, the threshold, and the rates that it has; arrays ``[C]`` of several classes.

        Args:
            intervals: replicates, or all choices of a bootstrap: also give the interval of what is no rate of the
                point; on the CPU.

        Raises:
            InputError: ``intervals`` is given, and scores are not kept, since there are thresholds.
        """
        with self.synced_state() as state:
            rows = self._rows(state)
            values: dict[str, Any] = {
                name: rows[0][name] if self._single else np.array([row[name] for row in rows]) for name in rows[0]
            }
            reasons = {name: self._reason(name) for name, part in values.items() if np.isnan(part).any()}
            signature, counts = self._signature(**self._choices), self._counts(state)
            made = Result(values, signature, counts, reasons, state=lambda: self._resampled(state))
        return made if intervals is None else made.with_intervals(intervals)

    def _resampled(self, state: Any) -> Resampled:
        if isinstance(state, Histogram):
            raise InputError(f"intervals of {type(self).__name__} need the scores: thresholds=None keeps them")

        def named(copies: Any) -> dict[str, float]:
            rows = self._rows(copies)
            return {
                name if self._single else f"{name}/{c}": value
                for c, row in enumerate(rows)
                for name, value in row.items()
                if name not in _BESIDE
            }

        return ResampledPoints(self, state, named)

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Raises :class:`InputError`: a point of a curve has no picture; ROC and PrecisionRecallCurve draw the curve.

        Args:
            val: must be left out.
            ax: matplotlib axes.
        """
        return self._draw(val, ax)

    def _rows(self, state: Any) -> list[dict[str, float]]:
        return [self._row(*found) for found in self._counts_by_class(state)]

    def _row(self, thresholds: Any, counts: CurveCounts) -> dict[str, float]:
        tp, fp = (after(0, as_array(part)) for part in (counts.tp, counts.fp))
        levels, totals = after(math.inf, as_array(thresholds)), (float(counts.positives), float(counts.negatives))
        place, values = self._best(tp, fp, *totals)
        rates = {name: rate[place] for name, rate in rates_of(tp, fp, *totals)._asdict().items()}
        found = {**values, **rates, "threshold": levels[place]}
        return {name: float(value) if place >= 0 else math.nan for name, value in found.items()}

    def _best(self, tp: _Array, fp: _Array, positives: float, negatives: float) -> tuple[int, dict[str, float]]:
        """The place of the point, -1 where there is none; its numbers by name, that of the class first."""
        raise NotImplementedError

    def _reason(self, name: str) -> str:
        """Why a number does not exist."""
        raise NotImplementedError


class OperatingPoint(ChosenPoint):
    """Computes the largest rate that a threshold reaches where others must not fall below limits, and that threshold.

    The objective is precision, recall, specificity, F-beta, or Youden's index (recall + specificity - 1). Of thresholds
    of equal value it is the one with the largest recall, then the highest; infinity is the threshold above all scores.
    Where no threshold reaches the limits, or the objective does not exist, both are NaN. It shares its ``update`` with
    the curves in a ``MetricCollection``. A threshold that is chosen and judged on the same data looks better than it
    is: choose it on others.

    Source: Youden, Index for rating diagnostic tests (1950); Fawcett, An introduction to ROC analysis (2006).

    Args:
        objective: ``precision``, ``recall``, ``specificity``, ``fbeta`` or ``youden``.
        beta: weight of recall in ``fbeta``, above 0.
        min_precision: what precision must reach, from 0 to 1; None: anything. A threshold that nothing reaches has no
            precision.
        min_recall: what recall must reach.
        min_specificity: what specificity must reach, for a false positive rate f ``1 - f``.

    Example:
        >>> metric = OperatingPoint(objective="recall", min_precision=0.6, min_specificity=0.5)
        >>> metric.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        (tensor(1.), tensor(0.3500))
    """

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        objective: str = "fbeta",
        beta: float = 1.0,
        min_precision: float | None = None,
        min_recall: float | None = None,
        min_specificity: float | None = None,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_choice("objective", objective, OBJECTIVES)
        if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < math.inf:
            raise InputError(f"beta must be a finite number above 0 but got {beta!r}")
        given = {"precision": min_precision, "recall": min_recall, "specificity": min_specificity}
        for name, limit in given.items():
            number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
            if limit is not None and not (number and 0 <= limit <= 1):
                raise InputError(f"min_{name} must be a number from 0 to 1 or None but got {limit!r}")
        self.objective, self.beta = objective, float(beta)
        self.limits = {name: float(limit) for name, limit in given.items() if limit is not None}
        choices = {"objective": objective, **({"beta": self.beta} if objective == "fbeta" else {})}
        choices |= {f"min_{name}": limit for name, limit in self.limits.items()}
        super().__init__(num_classes, num_labels, choices, thresholds=thresholds, ignore_index=ignore_index,
                         activation=activation, score_dtype=score_dtype, **kwargs)  # fmt: skip

    def _best(self, tp: _Array, fp: _Array, positives: float, negatives: float) -> tuple[int, dict[str, float]]:
        rates = rates_of(tp, fp, positives, negatives)
        values = objective_of(self.objective, tp, fp, positives, negatives, self.beta)
        place = best_point(values, rates.recall, rates._asdict(), self.limits)
        return place, {"OperatingPoint": values[place]}

    def _reason(self, name: str) -> str:
        if name == "precision":
            return "no score reaches the threshold, or no threshold reaches the limits"
        limits = ", ".join(f"min_{name}={limit:g}" for name, limit in self.limits.items())
        lack = f"{self.objective} does not exist" if self.objective in ("fbeta", "youden") else "a rate does not exist"
        return f"no threshold reaches {limits}, or {lack}" if limits else lack


class ExpectedCost(ChosenPoint):
    """Computes the least expected cost of errors that a threshold reaches, and that threshold.

    It is ``(cost_fp fp + cost_fn fn) / n``, or with the prior p of class 1
    ``cost_fn p fn / positives + cost_fp (1 - p) fp / negatives``. :meth:`result` also gives it normalised, divided by
    the cost of who is always wrong, and the cost of who gives all the same class, the better one, as ``default``. Of
    thresholds of equal cost it is the one with the largest recall, then the highest; infinity is the threshold above
    all scores. It shares its ``update`` with the curves in a ``MetricCollection``. A threshold that is chosen and
    judged on the same data looks better than it is: choose it on others.

    Source: Elkan, The foundations of cost-sensitive learning (2001); Drummond and Holte, Cost curves (2006).

    Args:
        cost_fp: cost of a negative that is taken for a positive, at least 0.
        cost_fn: cost of a positive that is taken for a negative, at least 0; not both are 0.
        prior: fraction of class 1 where the classifier is used, above 0, below 1; None: that of the data.

    Example:
        >>> metric = ExpectedCost(cost_fp=1.0, cost_fn=5.0)
        >>> metric.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        (tensor(0.2500), tensor(0.3500))
    """

    higher_is_better = False
    plot_upper_bound = None  # type: ignore[assignment]

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        cost_fp: float = 1.0,
        cost_fn: float = 1.0,
        prior: float | None = None,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        for name, cost in (("cost_fp", cost_fp), ("cost_fn", cost_fn)):
            if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost <= 1e60:
                raise InputError(f"{name} must be a number from 0 to 1e60 but got {cost!r}")
        if cost_fp == cost_fn == 0:
            raise InputError("cost_fp and cost_fn must not both be 0")
        number = isinstance(prior, (int, float)) and not isinstance(prior, bool)
        if prior is not None and not (number and 0 < prior < 1):
            raise InputError(f"prior must be a number above 0 and below 1, or None, but got {prior!r}")
        self.cost_fp, self.cost_fn = float(cost_fp), float(cost_fn)
        self.prior = None if prior is None else float(prior)
        choices = {"cost_fp": self.cost_fp, "cost_fn": self.cost_fn, "prior": self.prior}
        super().__init__(num_classes, num_labels, choices, thresholds=thresholds, ignore_index=ignore_index,
                         activation=activation, score_dtype=score_dtype, **kwargs)  # fmt: skip

    def _best(self, tp: _Array, fp: _Array, positives: float, negatives: float) -> tuple[int, dict[str, float]]:
        samples = positives + negatives
        names = ("ExpectedCost", "normalized", "default")
        if not (samples > 0 if self.prior is None else positives > 0 and negatives > 0):
            return -1, dict.fromkeys(names, math.nan)
        missed, alarms = self.cost_fn * (positives - tp), self.cost_fp * fp
        worst = self.cost_fn * positives, self.cost_fp * negatives
        if self.prior is None:
            costs, sides = (missed + alarms) / samples, [side / samples for side in worst]
        else:
            costs = missed / positives * self.prior + alarms / negatives * (1 - self.prior)
            sides = [self.cost_fn * self.prior, self.cost_fp * (1 - self.prior)]
        place = best_point(-costs, tp, {}, {})
        most = sum(sides)
        normalized = costs[place] / most if most > 0 else math.nan
        return place, dict(zip(names, (costs[place], normalized, min(sides))))

    def _reason(self, name: str) -> str:
        if name in ("recall", "specificity", "precision"):
            return "there is nothing to divide by"
        return "nothing can cost anything" if name == "normalized" else _NO_COST
