"""Correlations of predictions and targets from exact sums: Pearson's, and Lin's of concordance."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from valor_gpu.ops.moments.kinds import Kind
from valor_gpu.reduce.regression import Number, concordance, pearson
from valor_gpu.regression.resampled_rows import Columns, Recipe, centre_of
from valor_gpu.regression.sums_base import SumsMetric
from valor_gpu.regression.sums_state import Output

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RegressionOptions


def _terms(preds: Columns, target: Columns) -> Columns:
    """Both less the mean of the target, their squares and product, and the error."""
    centre = centre_of(target)
    p, t = preds - centre, target - centre
    return np.stack((p, t, p * p, t * t, p * t, preds - target), 1)


class CorrelationMetric(SumsMetric):
    """Base of the correlations of predictions and targets.

    Args:
        num_outputs: D: rows ``[N]`` or ``[N, 1]`` with 1, else ``[N, D]``, and a number for each output.
    """

    kind = Kind.PRODUCTS
    update_family: ClassVar[str | None] = "products of rows"
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0

    def __init__(self, num_outputs: int = 1, **kwargs: Unpack[RegressionOptions]) -> None:
        self.num_outputs = num_outputs
        super().__init__({"num_outputs": num_outputs}, num_outputs, **kwargs)


class PearsonCorrCoef(CorrelationMetric):
    """Computes Pearson's correlation coefficient, ``Cov(p, t) / sqrt(Var(p) Var(t))``.

    It is NaN where predictions or targets are constant, and exact otherwise, however small their spread is beside their
    mean.

    Source: Pearson, Notes on regression and inheritance in the case of two parents, 1895.

    Example:
        >>> import torch
        >>> metric = PearsonCorrCoef()
        >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
        >>> metric.compute()
        tensor(0.9849)
    """

    higher_is_better = None  # type: ignore[assignment]  # -1 and 1 are both best

    def _number(self, output: Output) -> Number:
        return pearson(output.sums)

    def _recipe(self) -> Recipe:
        def numbers(means: Columns, rows: Columns) -> Columns:
            p, t, pp, tt, pt, _ = means.swapaxes(0, 1)
            return np.asarray((pt - p * t) / np.sqrt((pp - p * p) * (tt - t * t)))

        return Recipe(type(self).__name__, _terms, numbers, least=-1.0, largest=1.0)


class ConcordanceCorrCoef(CorrelationMetric):
    """Computes Lin's concordance, ``2 Cov(p, t) / (Var(p) + Var(t) + (mean p - mean t)^2)``: 1 only where both agree.

    Variances and the covariance are by n - 1, as in torchmetrics. It is 0 where one side alone is constant.

    Source: Lin, A concordance correlation coefficient to evaluate reproducibility, Biometrics 45, 1989.

    Example:
        >>> import torch
        >>> metric = ConcordanceCorrCoef()
        >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
        >>> metric.compute()
        tensor(0.9777)
    """

    higher_is_better = True

    def _number(self, output: Output) -> Number:
        return concordance(output.sums)

    def _recipe(self) -> Recipe:
        def numbers(means: Columns, rows: Columns) -> Columns:
            p, t, pp, tt, pt, e = means.swapaxes(0, 1)
            unbiased = rows / (rows - 1)
            return np.asarray(2 * unbiased * (pt - p * t) / (unbiased * (pp - p * p + tt - t * t) + e * e))

        return Recipe(type(self).__name__, _terms, numbers, least=-1.0, largest=1.0)
