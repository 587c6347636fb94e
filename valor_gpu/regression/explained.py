"""Errors beside the spread of the target: R2, explained variance, relative squared error and normalised RMSE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from valor_gpu.checks import check_choice, check_int, check_type
from valor_gpu.ops.moments.kinds import Kind
from valor_gpu.reduce.regression import (
    Number,
    adjustment,
    explained,
    normalized_error,
    r2,
    relative_error,
    spread_of_errors,
    squared_errors,
    weighted_by_spread,
)
from valor_gpu.regression.resampled_rows import Columns, Recipe, centre_of
from valor_gpu.regression.sums_base import InferredOutputs, SumsMetric
from valor_gpu.regression.sums_state import Output

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RegressionOptions

MULTIOUTPUT = ("raw_values", "uniform_average", "variance_weighted")
NORMALIZATIONS = ("mean", "range", "std", "l2")


def _terms(preds: Columns, target: Columns) -> Columns:
    """Error, its square, centred target, its square, target and its square."""
    e, t = preds - target, target - centre_of(target)
    return np.stack((e, e * e, t, t * t, target, target * target), 1)


def _spread(means: Columns, place: int) -> Columns:
    return np.asarray(means[:, place + 1] - means[:, place] ** 2)


class OutputsTogether(InferredOutputs):
    """Base of metrics with one number over all outputs, or one for each.

    Args:
        multioutput: ``uniform_average`` gives the mean over outputs, ``variance_weighted`` the mean with the variances
            of the targets as weights, ``raw_values`` the number of every output.
    """

    kind = Kind.VARIANCE
    update_family: ClassVar[str | None] = "errors and spread of inferred outputs"
    higher_is_better = True
    plot_lower_bound = None
    plot_upper_bound = 1.0

    def __init__(self, multioutput: str, choices: dict[str, int], **kwargs: Unpack[RegressionOptions]) -> None:
        check_choice("multioutput", multioutput, MULTIOUTPUT)
        self.multioutput = multioutput
        super().__init__({**choices, "multioutput": multioutput}, None, **kwargs)

    @property
    def _averages(self) -> bool:  # type: ignore[override]
        return self.multioutput != "raw_values"

    @property
    def _learns_outputs(self) -> bool:  # type: ignore[override]
        return not self._averages

    def _combined(self, scores: Columns, means: Columns) -> Columns:
        """Scores ``[D, L]`` of replicates over outputs."""
        if self.multioutput != "variance_weighted":
            return scores
        weights = _spread(means, 2)
        return np.asarray((scores * weights).sum(0) / weights.sum(0))


class R2Score(OutputsTogether):
    """Computes the coefficient of determination, ``1 - sum (p - t)^2 / sum (t - mean t)^2``.

    Rows are ``[N]``, or ``[N, D]`` of D outputs; at least two of them. Where the target is constant, ``compute`` gives
    1 if all is right, else 0, as scikit-learn does; :meth:`result` gives NaN.

    Source: Wright, Correlation and causation, 1921; scikit-learn, ``r2_score``.

    Args:
        adjusted: k, how many regressors the model has: ``1 - (1 - R2) (n - 1) / (n - k - 1)``. With too few rows
            ``compute`` gives R2 without it, and :meth:`result` NaN.

    Example:
        >>> import torch
        >>> metric = R2Score()
        >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
        >>> metric.compute()
        tensor(0.9486)
    """

    def __init__(
        self, adjusted: int = 0, multioutput: str = "uniform_average", **kwargs: Unpack[RegressionOptions]
    ) -> None:
        check_int("adjusted", adjusted)
        self.adjusted = adjusted
        super().__init__(multioutput, {"adjusted": adjusted}, **kwargs)

    def _number(self, output: Output) -> Number:
        return r2(output.sums, self.adjusted)

    def _number_of_all(self, outputs: Sequence[Output]) -> Number | None:
        if self.multioutput != "variance_weighted" or outputs[0].rows < 2:
            return None
        return weighted_by_spread([output.sums for output in outputs], squared_errors, self.adjusted)

    def _of_infinite(self, output: Output) -> float:
        return -math.inf

    def _recipe(self) -> Recipe:
        def numbers(means: Columns, rows: Columns) -> Columns:
            scale = np.array([up / down for up, down in (adjustment(int(n), self.adjusted) for n in rows)])
            return self._combined(1 - scale * means[:, 1] / _spread(means, 2), means)

        return Recipe(type(self).__name__, _terms, numbers, self._averages, largest=1.0)


class ExplainedVariance(OutputsTogether):
    """Computes the explained variance, ``1 - Var(p - t) / Var(t)``; an offset of all predictions costs nothing.

    Rows are ``[N]``, or ``[N, D]`` of D outputs. Where the target is constant, ``compute`` gives 1 if the error is,
    else 0, as scikit-learn does; :meth:`result` gives NaN.

    Source: scikit-learn, ``explained_variance_score``.

    Example:
        >>> import torch
        >>> metric = ExplainedVariance()
        >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
        >>> metric.compute()
        tensor(0.9572)
    """

    def __init__(self, multioutput: str = "uniform_average", **kwargs: Unpack[RegressionOptions]) -> None:
        super().__init__(multioutput, {}, **kwargs)

    def _number(self, output: Output) -> Number:
        return explained(output.sums)

    def _number_of_all(self, outputs: Sequence[Output]) -> Number | None:
        if self.multioutput != "variance_weighted" or not outputs[0].rows:
            return None
        return weighted_by_spread([output.sums for output in outputs], spread_of_errors)

    def _recipe(self) -> Recipe:
        def numbers(means: Columns, rows: Columns) -> Columns:
            return self._combined(1 - _spread(means, 0) / _spread(means, 2), means)

        return Recipe(type(self).__name__, _terms, numbers, self._averages, largest=1.0)


class ErrorsBySpread(SumsMetric):
    """Base of errors in units of the target."""

    kind = Kind.VARIANCE
    update_family: ClassVar[str | None] = "errors and spread"

    def _of_infinite(self, output: Output) -> float:
        return math.inf


class RelativeSquaredError(ErrorsBySpread):
    """Computes the relative squared error, ``sum (p - t)^2 / sum (t - mean t)^2``, or its root; a mean over outputs.

    Where the target is constant, ``compute`` gives what torchmetrics does, the squared error by 1.2e-07; :meth:`result`
    gives NaN.

    Source: Botchkarev, A new typology design of performance metrics to measure errors in machine learning regression
    algorithms, 2019.

    Args:
        num_outputs: D: rows ``[N]`` or ``[N, 1]`` with 1, else ``[N, D]``.
        squared: False gives the root.

    Example:
        >>> import torch
        >>> metric = RelativeSquaredError()
        >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
        >>> metric.compute()
        tensor(0.0514)
    """

    _averages = True

    def __init__(self, num_outputs: int = 1, squared: bool = True, **kwargs: Unpack[RegressionOptions]) -> None:
        check_type("squared", squared, bool)
        self.num_outputs, self.squared = num_outputs, squared
        super().__init__({"num_outputs": num_outputs, "squared": squared}, num_outputs, **kwargs)

    def _number(self, output: Output) -> Number:
        return relative_error(output.sums, self.squared)

    def _recipe(self) -> Recipe:
        def numbers(means: Columns, rows: Columns) -> Columns:
            ratios = means[:, 1] / _spread(means, 2)
            return np.asarray(ratios if self.squared else np.sqrt(ratios))

        return Recipe(type(self).__name__, _terms, numbers, averages=True, least=0.0)


class NormalizedRootMeanSquaredError(ErrorsBySpread):
    """Computes the root of the mean squared error by a size of the target: its mean, range, deviation or norm.

    Where that is 0, the number is infinite. A negative mean gives a negative number, as in torchmetrics.

    Source: Shcherbakov et al., A survey of forecast error measures, 2013.

    Args:
        normalization: ``mean``; ``range``, the largest less the least; ``std``, by n; ``l2``, the root of the sum of
            squares.

    Example:
        >>> import torch
        >>> metric = NormalizedRootMeanSquaredError("mean")
        >>> metric.update(torch.tensor([3.0, 5.0, 2.5, 7.0]), torch.tensor([2.5, 5.0, 4.0, 8.0]))
        >>> metric.compute()
        tensor(0.1919)
    """

    _any_shape = True

    def __init__(self, normalization: str = "mean", num_outputs: int = 1, **kwargs: Unpack[RegressionOptions]) -> None:
        check_choice("normalization", normalization, NORMALIZATIONS)
        self.normalization, self.num_outputs = normalization, num_outputs
        super().__init__({"normalization": normalization, "num_outputs": num_outputs}, num_outputs, **kwargs)

    def _number(self, output: Output) -> Number:
        return normalized_error(output.sums, self.normalization)

    def _recipe(self) -> Recipe:
        def numbers(means: Columns, rows: Columns) -> Columns:
            below = {"mean": means[:, 4], "std": np.sqrt(_spread(means, 2)), "l2": np.sqrt(means[:, 5] * rows)}
            return np.asarray(np.sqrt(means[:, 1]) / below.get(self.normalization, math.nan))

        extremes = "the range is of two rows alone, and most replicates lack one of them: take normalization='std'"
        refused = extremes if self.normalization == "range" else ""
        least = -math.inf if self.normalization == "mean" else 0.0
        return Recipe(type(self).__name__, _terms, numbers, least=least, refused=refused)
