"""The equal error rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.classification.curves import ROC
from valor_gpu.classification.resampled_ranks import resampled_points
from valor_gpu.reduce.curve_points import CurveCounts, after, as_array
from valor_gpu.result import Result
from valor_gpu.state import on_host

if TYPE_CHECKING:
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled


class EER(ROC):
    """Computes the equal error rate: where the false positive rate meets the false negative rate.

    It is the mean of both at the point of the ROC curve where they differ least, of equal ones the highest threshold
    (torchmetrics takes one or the other, as float32 rounds them). A class without positives or without negatives has
    none: NaN. It shares its ``update`` with the curves in a ``MetricCollection``.

    Source: torchmetrics, ``EER``; Jain, Flynn and Ross, Handbook of Biometrics (2008), section 1.4.

    Args:
        average: ``none`` or None gives one number per class, ``micro`` that of all elements, ``macro`` that of the mean
            curve of the classes that have one.

    Example:
        >>> metric = EER()
        >>> metric.update(torch.tensor([0.25, 0.5, 0.75, 0.9]), torch.tensor([0, 1, 0, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    higher_is_better = False

    def compute(self) -> Tensor:  # type: ignore[override]
        """Returns float32 ``[]``, or ``[C]`` for several classes."""
        rates = torch.from_numpy(self._rates(self.state())).float().to(self.device)
        return rates[0] if self._single else rates

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the rate in float64, an array ``[C]`` of several classes.

        Args:
            intervals: also give the interval of each rate, from so many replicates, or by all choices of a bootstrap.
                Replicates are computed on the CPU, one after another.

        Raises:
            InputError: ``intervals`` is given, and scores are not kept, since there are thresholds.
        """
        with self.synced_state() as state:
            rates = self._rates(state)
            reasons = {"EER": "there are no positives or no negatives"} if np.isnan(rates).any() else {}
            values = {"EER": float(rates[0]) if self._single else rates}
            signature, counts = self._signature(average=self.average), self._counts(state)
            result = Result(values, signature, counts, reasons, state=lambda: self._resampled(state))
        return result if intervals is None else result.with_intervals(intervals)

    def _resampled(self, state: Any) -> Resampled:
        return resampled_points(self, "EER", state, self._single, lambda copies: self._rates(copies).tolist())

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draws the value, or the values ``val``, as torchmetrics does; returns figure and axes.

        Args:
            val: a value of ``compute`` or ``forward``, or a list of them; None computes it.
            ax: matplotlib axes, or None for new ones.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        return self._plot(val, ax)

    def _rates(self, state: Any) -> NDArray[np.float64]:
        if not self.exact:
            state = on_host(state)
        if self._mean:
            fpr, tpr, _ = map(as_array, self._macro(state))
            rates = [_mean_where_nearest(fpr, 1 - tpr, np.abs(fpr - (1 - tpr)))]
        else:
            rates = [self._equal_error(counts) for _, counts in self._counts_by_class(state)]
        return np.array(rates, np.float64)

    def _equal_error(self, counts: CurveCounts) -> float:
        tp, fp = as_array(counts.tp), as_array(counts.fp)
        positives, negatives = float(counts.positives), float(counts.negatives)
        if not (positives > 0 and negatives > 0):
            return math.nan
        if self.exact:
            tp, fp = after(0, tp), after(0, fp)
        fn = positives - tp
        # Products of counts are exact, so that points that are equally near are found to be so.
        return _mean_where_nearest(fp / negatives, fn / positives, np.abs(fp * positives - fn * negatives))


def _mean_where_nearest(fpr: NDArray[np.float64], fnr: NDArray[np.float64], gap: NDArray[np.float64]) -> float:
    """The mean of both rates at the first of the smallest gaps; NaN where there are none."""
    nearest = int(gap.argmin())
    return float(fpr[nearest] + fnr[nearest]) / 2
