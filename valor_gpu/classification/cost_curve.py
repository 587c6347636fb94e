"""Cost curves: the least expected cost of errors for every mix of classes and costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from valor_gpu.classification.curves import ROC
from valor_gpu.classification.resampled_ranks import ResampledPoints
from valor_gpu.classification.score_metric import Histogram
from valor_gpu.drawing import GRID, axes_to_draw, count, say_empty, titled
from valor_gpu.errors import InputError
from valor_gpu.reduce.chosen_points import area_below, cost_curve
from valor_gpu.reduce.curve_points import after, as_array
from valor_gpu.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled

_Array = NDArray[np.float64]
_NO_CURVE = "there are no positives or no negatives"


class CostCurve(ROC):
    """Computes the cost curve: the normalised expected cost of the best threshold over the probability cost.

    The probability cost is ``p c_fn / (p c_fn + (1 - p) c_fp)``, of the prior p of class 1 and the costs of errors; the
    cost is ``fnr pc + fpr (1 - pc)`` of the threshold where it is least, from 0 to 0.5. Each threshold is a straight
    line, the curve their lower envelope, below ``min(pc, 1 - pc)``, which needs no classifier. :meth:`result` also
    gives the area below the curve, the mean cost over all probability costs. It shares its ``update`` with the curves
    in a ``MetricCollection``.

    Source: Drummond and Holte, Cost curves: an improved method for visualizing classifier performance (2006).

    Args:
        points: how many probability costs, evenly spaced from 0 to 1, at least 2.

    Example:
        >>> metric = CostCurve(points=5)
        >>> metric.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        (tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000]), tensor([0.0000, 0.1250, 0.2500, 0.1250, 0.0000]))
    """

    higher_is_better = None
    plot_upper_bound = 0.5

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        points: int = 101,
        thresholds: int | ArrayLike | Tensor | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        if isinstance(points, bool) or not isinstance(points, int) or points < 2:
            raise InputError(f"points must be an int of at least 2 but got {points!r}")
        self.points = points
        super().__init__(num_classes, num_labels, thresholds, None, ignore_index, activation, score_dtype, **kwargs)

    def compute(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Returns probability costs, float32 ``[points]``, and costs, float32 ``[points]`` or ``[C, points]``."""
        across, costs = self._costs(self.state())
        found = torch.from_numpy(costs[0] if self._single else costs)
        return torch.from_numpy(across).to(self.device).float(), found.to(self.device).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the curve in float64, the area below it, and counts; arrays ``[C, points]`` of several classes.

        Args:
            intervals: replicates, or all choices of a bootstrap: also give the interval of the area; on the CPU.

        Raises:
            InputError: ``intervals`` is given, and scores are not kept, since there are thresholds.
        """
        with self.synced_state() as state:
            across, costs = self._costs(state)
            areas = np.array([area_below(across, row) for row in costs])
            values: dict[str, Any] = {"probability_cost": across, "normalized_cost": costs, "area": areas}
            if self._single:
                values |= {"normalized_cost": costs[0], "area": float(areas[0])}
            reasons = dict.fromkeys(("normalized_cost", "area"), _NO_CURVE) if np.isnan(areas).any() else {}
            signature, counts = self._signature(points=self.points), self._counts(state)
            made = Result(values, signature, counts, reasons, plot_costs, state=lambda: self._resampled(state))
        return made if intervals is None else made.with_intervals(intervals)

    def _resampled(self, state: Any) -> Resampled:
        if isinstance(state, Histogram):
            raise InputError("intervals of CostCurve need the scores: thresholds=None keeps them")

        def named(copies: Any) -> dict[str, float]:
            areas = [area_below(self._across, row) for row in self._costs(copies)[1]]
            return {"area": areas[0]} if self._single else {f"area/{c}": area for c, area in enumerate(areas)}

        return ResampledPoints(self, state, named)

    @property
    def _across(self) -> _Array:
        return np.linspace(0.0, 1.0, self.points)

    def _costs(self, state: Any) -> tuple[_Array, _Array]:
        rows = []
        for _, counts in self._counts_by_class(state):
            totals = float(counts.positives), float(counts.negatives)
            sides = zip((counts.tp, counts.fp), totals)
            tp, fp = (np.append(after(0, as_array(part)), total) for part, total in sides)
            rows.append(cost_curve(tp, fp, *totals, self.points)[1])
        return self._across, np.array(rows)


def plot_costs(
    result: Result, ax: Any = None, names: list[str] | None = None, source: str | None = None, resize: bool = False
) -> Any:
    """Draws the costs of a result of :class:`CostCurve` over probability costs; returns the axes.

    Args:
        result: of the metric.
        ax: matplotlib axes, or None for new ones.
        names: names of the classes, else their indices.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.
    """
    axes = axes_to_draw(ax, (6.2, 4.8), resize)
    across, costs = result.values["probability_cost"], np.atleast_2d(result.values["normalized_cost"])
    for index, row in enumerate(costs):
        if not np.isnan(row).any():
            label = "best threshold" if len(costs) == 1 else str(index if names is None else names[index])
            axes.plot(across, row, label=label, linewidth=1.5 if len(costs) <= 10 else 0.7)
    axes.plot(across, np.minimum(across, 1 - across), color="0.5", linestyle=":", label="one class for all")
    axes.set(xlim=(0, 1), ylim=(0, 0.51), xlabel="probability cost", ylabel="normalised expected cost")
    axes.grid(**GRID)
    if np.isnan(costs).all():
        say_empty(axes, _NO_CURVE)
    elif len(costs) <= 10:
        axes.legend(fontsize="small")
    area = float(np.mean(result.values["area"]))
    headline = "Cost curve" if math.isnan(area) else f"Cost curve, area {area:.4f}"
    titled(axes, headline, [count(result.counts["samples"] - result.counts["ignored"], "sample")], source)
    return axes
