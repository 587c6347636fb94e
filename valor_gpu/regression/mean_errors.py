"""Means of errors over rows: absolute, squared, logarithmic and relative ones, distances and deviances."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from valor_gpu.checks import check_number, check_type
from valor_gpu.errors import InputError
from valor_gpu.ops.moments.kinds import Kind
from valor_gpu.reduce.regression import EPSILON, Number, distance, mean, root_mean, weighted_error
from valor_gpu.regression.resampled_rows import Columns, Recipe
from valor_gpu.regression.row_terms import row_terms
from valor_gpu.regression.sums_base import SumsMetric
from valor_gpu.regression.sums_state import Output

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.inputs.values import Values
    from valor_gpu.options import RegressionOptions
    from valor_gpu.plans import Planner


class MeanOfTerms(SumsMetric):
    """Base of the means of one term of each row."""

    update_family: ClassVar[str | None] = "means of terms"

    def _takes_mean(self) -> bool:
        return True

    def _number(self, output: Output) -> Number:
        return mean(output.sums)

    def _of_infinite(self, output: Output) -> float:
        if output.negative:
            return -math.inf if output.negative == output.infinite else math.nan
        return math.inf

    def _recipe(self) -> Recipe:
        kind, parameter = self.kind, self.parameter
        return Recipe(type(self).__name__, lambda p, t: row_terms(p, t, kind, parameter), least=0.0)


class MeanAbsoluteError(MeanOfTerms):
    """Computes the mean absolute error, ``mean |p - t|``.

    Source: Willmott and Matsuura, Advantages of the mean absolute error (MAE) over the root mean square error (RMSE) in
    assessing average model performance, 2005.

    Example:
        >>> import torch
        >>> metric = MeanAbsoluteError()
        >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
        >>> metric.compute()
        tensor(0.5000)
    """

    kind = Kind.ABSOLUTE
    _any_shape = True

    def __init__(self, num_outputs: int = 1, **kwargs: Unpack[RegressionOptions]) -> None:
        self.num_outputs = num_outputs
        super().__init__({"num_outputs": num_outputs}, num_outputs, **kwargs)


class MeanSquaredError(MeanOfTerms):
    """Computes the mean squared error, ``mean (p - t)^2``, or its square root.

    Source: Gauss, Theoria combinationis observationum erroribus minimis obnoxiae, 1823.

    Args:
        squared: False gives the root of the mean squared error.

    Example:
        >>> import torch
        >>> metric = MeanSquaredError()
        >>> metric.update(torch.tensor([3.0, 5.0, 2.5, 7.0]), torch.tensor([2.5, 5.0, 4.0, 8.0]))
        >>> metric.compute()
        tensor(0.8750)
    """

    kind = Kind.SQUARED
    _any_shape = True

    def __init__(self, squared: bool = True, num_outputs: int = 1, **kwargs: Unpack[RegressionOptions]) -> None:
        check_type("squared", squared, bool)
        self.squared, self.num_outputs = squared, num_outputs
        super().__init__({"squared": squared, "num_outputs": num_outputs}, num_outputs, **kwargs)

    def _takes_mean(self) -> bool:
        return self.squared

    def _number(self, output: Output) -> Number:
        return mean(output.sums) if self.squared else root_mean(output.sums)

    def _recipe(self) -> Recipe:
        recipe = super()._recipe()
        return recipe if self.squared else recipe._replace(numbers=_root_of_mean)


def _root_of_mean(means: Columns, rows: Columns) -> Columns:
    return np.sqrt(means[:, 0])


class MeanSquaredLogError(MeanOfTerms):
    """Computes the mean squared logarithmic error, ``mean (log(1 + p) - log(1 + t))^2``.

    A number below -1 has no logarithm and is an error.

    Source: scikit-learn, ``mean_squared_log_error``.

    Example:
        >>> import torch
        >>> metric = MeanSquaredLogError()
        >>> metric.update(torch.tensor([0.5, 1.0, 2.0, 8.0]), torch.tensor([0.5, 1.0, 2.0, 7.0]))
        >>> metric.compute()
        tensor(0.0035)
    """

    kind = Kind.SQUARED_LOG
    _any_shape = True

    def __init__(self, **kwargs: Unpack[RegressionOptions]) -> None:
        super().__init__({}, **kwargs)


class MeanAbsolutePercentageError(MeanOfTerms):
    """Computes the mean absolute percentage error, ``mean |p - t| / max(|t|, 1.17e-06)``, as a fraction.

    Source: de Myttenaere et al., Mean absolute percentage error for regression models, 2016.

    Example:
        >>> import torch
        >>> metric = MeanAbsolutePercentageError()
        >>> metric.update(torch.tensor([0.9, 15.0, 1.2e6]), torch.tensor([1.0, 10.0, 1e6]))
        >>> metric.compute()
        tensor(0.2667)
    """

    kind = Kind.PERCENTAGE
    _any_shape = True

    def __init__(self, **kwargs: Unpack[RegressionOptions]) -> None:
        super().__init__({}, **kwargs)


class SymmetricMeanAbsolutePercentageError(MeanOfTerms):
    """Computes the symmetric mean absolute percentage error, ``mean 2 |p - t| / max(|p| + |t|, 1.17e-06)``: at most 2.

    Source: Armstrong, Long-range forecasting, 1985.

    Example:
        >>> import torch
        >>> metric = SymmetricMeanAbsolutePercentageError()
        >>> metric.update(torch.tensor([0.9, 15.0, 1.2e6]), torch.tensor([1.0, 10.0, 1e6]))
        >>> metric.compute()
        tensor(0.2290)
    """

    kind = Kind.SYMMETRIC
    _any_shape = True
    plot_upper_bound = 2.0

    def __init__(self, **kwargs: Unpack[RegressionOptions]) -> None:
        super().__init__({}, **kwargs)

    def _recipe(self) -> Recipe:
        return super()._recipe()._replace(largest=2.0)


class WeightedMeanAbsolutePercentageError(SumsMetric):
    """Computes the weighted mean absolute percentage error, ``sum |p - t| / max(sum |t|, 1.17e-06)``, as a fraction.

    Source: Kolassa and Schuetz, Advantages of the MAD/mean ratio over the MAPE, 2007.

    Example:
        >>> import torch
        >>> metric = WeightedMeanAbsolutePercentageError()
        >>> metric.update(torch.tensor([1.5, 4.0]), torch.tensor([1.0, 4.0]))
        >>> metric.compute()
        tensor(0.1000)
    """

    kind = Kind.WEIGHTED
    update_family = "weighted errors"
    _any_shape = True

    def __init__(self, **kwargs: Unpack[RegressionOptions]) -> None:
        super().__init__({}, **kwargs)

    def _number(self, output: Output) -> Number:
        return weighted_error(output.sums)

    def _of_infinite(self, output: Output) -> float:
        return math.inf

    def _recipe(self) -> Recipe:
        return Recipe(type(self).__name__, _weighted_terms, _weighted_ratio, least=0.0)


def _weighted_terms(preds: Columns, target: Columns) -> Columns:
    return np.stack((np.abs(preds - target), np.abs(target)), 1)


def _weighted_ratio(means: Columns, rows: Columns) -> Columns:
    sums = means * rows
    return np.asarray(sums[:, 0] / np.maximum(sums[:, 1], EPSILON))


class LogCoshError(MeanOfTerms):
    """Computes the mean log-cosh error, ``mean log(cosh(p - t))``; of several outputs each has its own.

    It is computed without overflow: an error of 1000 counts 1000 - log 2.

    Source: Chen et al., Log hyperbolic cosine loss improves variational auto-encoder, 2019.

    Args:
        num_outputs: D: rows are ``[N]`` or ``[N, 1]`` if it is 1, else ``[N, D]``.

    Example:
        >>> import torch
        >>> metric = LogCoshError()
        >>> metric.update(torch.tensor([3.0, 5.0, 2.5, 7.0]), torch.tensor([2.5, 5.0, 4.0, 8.0]))
        >>> metric.compute()
        tensor(0.3523)
    """

    kind = Kind.LOG_COSH

    def __init__(self, num_outputs: int = 1, **kwargs: Unpack[RegressionOptions]) -> None:
        self.num_outputs = num_outputs
        super().__init__({"num_outputs": num_outputs}, num_outputs, **kwargs)


class OfTargets(SumsMetric):
    """Base of metrics whose ``update`` names its second argument ``targets``, as torchmetrics does."""

    def update(self, preds: Values, targets: Values) -> None:  # type: ignore[override]
        """Adds a batch.

        Args:
            preds: predictions of any shape, numbers of any floating or integer dtype.
            targets: likewise, of the same shape.

        Raises:
            InputError: naming the argument. On CUDA, bad values are raised by ``compute`` instead, since ``update``
                does not synchronise with the device.
        """
        self._add_rows(preds, targets, "targets")

    def _planner(self) -> Planner | None:
        return super()._planner()


class MinkowskiDistance(OfTargets):
    """Computes the Minkowski distance, ``(sum |p - t|^p)^(1 / p)`` over all numbers.

    It grows with the rows: it is a sum, not a mean.

    Source: Minkowski, Geometrie der Zahlen, 1910.

    Args:
        p: the power, at least 1: 1 gives the Manhattan distance, 2 the Euclidean one.

    Example:
        >>> import torch
        >>> metric = MinkowskiDistance(p=3)
        >>> metric.update(torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.tensor([0.0, 2.0, 3.0, 1.0]))
        >>> metric.compute()
        tensor(2.1544)
    """

    kind = Kind.MINKOWSKI
    update_family = "distances"
    _any_shape = True

    def __init__(self, p: float, **kwargs: Unpack[RegressionOptions]) -> None:
        check_number("p", p, 1)
        self.p = p
        super().__init__({"p": p}, 1, float(p), **kwargs)

    def _number(self, output: Output) -> Number:
        return distance(output.sums, self.parameter)

    def _of_infinite(self, output: Output) -> float:
        return math.inf

    def _recipe(self) -> Recipe:
        def numbers(means: Columns, rows: Columns) -> Columns:
            return np.asarray((means[:, 0] * rows) ** (1 / self.parameter))

        kind, parameter = self.kind, self.parameter
        return Recipe(type(self).__name__, lambda p, t: row_terms(p, t, kind, parameter), numbers, least=0.0)


class TweedieDevianceScore(OfTargets, MeanOfTerms):
    """Computes the mean deviance of a Tweedie distribution.

    ====== ==================== ========================================================================
    power  distribution         deviance of a row
    ====== ==================== ========================================================================
    0      normal               ``(t - p)^2``
    1      Poisson              ``2 (t log(t / p) + p - t)``
    2      gamma                ``2 (log(p / t) + t / p - 1)``
    other  Tweedie              ``2 (max(t, 0)^(2-k) / ((1-k) (2-k)) - t p^(1-k) / (1-k) + p^(2-k) / (2-k))``
    ====== ==================== ========================================================================

    Source: Jorgensen, The theory of dispersion models, 1997; scikit-learn, ``mean_tweedie_deviance``.

    Args:
        power: k: at most 0, or at least 1. Predictions must be above 0 unless it is 0; targets at least 0 from 1 on,
            and above 0 from 2 on.

    Example:
        >>> import torch
        >>> metric = TweedieDevianceScore(power=2)
        >>> metric.update(torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1.0, 2.0, 3.0, 4.0]))
        >>> metric.compute()
        tensor(1.2083)
    """

    kind = Kind.TWEEDIE
    update_family = "deviances"
    higher_is_better = None  # type: ignore[assignment]
    _any_shape = True

    def __init__(self, power: float = 0.0, **kwargs: Unpack[RegressionOptions]) -> None:
        check_number("power", power, -1e3, 1e3)
        if 0 < power < 1:
            raise InputError(f"power must be at most 0, or at least 1, but got {power}: no distribution has it")
        self.power: Any = power
        super().__init__({"power": power}, 1, float(power), **kwargs)
