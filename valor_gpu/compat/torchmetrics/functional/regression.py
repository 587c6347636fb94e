"""Metrics of the numbers of one batch. See the class of each for its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu import regression
from valor_gpu.argument_docs import arguments_of
from valor_gpu.compat.torchmetrics.functional.names import MODULES
from valor_gpu.compat.torchmetrics.functional.once import once
from valor_gpu.inputs.values import as_values

if TYPE_CHECKING:
    from torch import Tensor

    from valor_gpu.inputs.values import Values
from valor_gpu.compat.torchmetrics.functional.regression_rows import (
    continuous_ranked_probability_score as continuous_ranked_probability_score,
)
from valor_gpu.compat.torchmetrics.functional.regression_rows import cosine_similarity as cosine_similarity
from valor_gpu.compat.torchmetrics.functional.regression_rows import interval_coverage as interval_coverage
from valor_gpu.compat.torchmetrics.functional.regression_rows import (
    jensen_shannon_divergence as jensen_shannon_divergence,
)
from valor_gpu.compat.torchmetrics.functional.regression_rows import kendall_rank_corrcoef as kendall_rank_corrcoef
from valor_gpu.compat.torchmetrics.functional.regression_rows import kl_divergence as kl_divergence
from valor_gpu.compat.torchmetrics.functional.regression_rows import pinball_loss as pinball_loss
from valor_gpu.compat.torchmetrics.functional.regression_rows import quantile_crps as quantile_crps
from valor_gpu.compat.torchmetrics.functional.regression_rows import spearman_corrcoef as spearman_corrcoef

__all__ = MODULES["regression"]


def _of(kind: Any, preds: Values, target: Values, **arguments: Any) -> Tensor:
    return once(kind, (preds, target, None, None), **arguments)


def _outputs(kind: Any, preds: Values, target: Values) -> Tensor:
    """The number of each output of ``[N, D]``, or of all rows ``[N]``."""
    values = as_values("preds", preds)
    return _of(kind, values, target, num_outputs=values.shape[1] if values.ndim == 2 else 1)


def _of_each(kind: Any, preds: Values, target: Values, multioutput: str, **arguments: Any) -> Tensor:
    """A number over outputs, or of each; that of ``[N, 1]`` keeps its dimension."""
    values = as_values("preds", preds)
    found = _of(kind, values, target, multioutput=multioutput, **arguments)
    return found.reshape(-1) if multioutput == "raw_values" and values.ndim == 2 else found


@arguments_of(regression.MeanAbsoluteError.update)
def mean_absolute_error(preds: Values, target: Values, num_outputs: int = 1) -> Tensor:
    """Returns what :class:`valor_gpu.regression.MeanAbsoluteError` computes of one batch.

    Args:
        num_outputs: D: with 1, numbers of any shape are rows; else ``[N, D]``, and a number for each output.

    Example:
        >>> import torch
        >>> mean_absolute_error(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
        tensor(0.5000)
    """
    return _of(regression.MeanAbsoluteError, preds, target, num_outputs=num_outputs)


@arguments_of(mean_absolute_error, regression.MeanSquaredError)
def mean_squared_error(preds: Values, target: Values, squared: bool = True, num_outputs: int = 1) -> Tensor:
    """Returns what :class:`valor_gpu.regression.MeanSquaredError` computes of one batch."""
    return _of(regression.MeanSquaredError, preds, target, squared=squared, num_outputs=num_outputs)


@arguments_of(mean_absolute_error)
def mean_squared_log_error(preds: Values, target: Values) -> Tensor:
    """Returns what :class:`valor_gpu.regression.MeanSquaredLogError` computes of one batch."""
    return _of(regression.MeanSquaredLogError, preds, target)


@arguments_of(mean_absolute_error)
def mean_absolute_percentage_error(preds: Values, target: Values) -> Tensor:
    """Returns what :class:`valor_gpu.regression.MeanAbsolutePercentageError` computes of one batch."""
    return _of(regression.MeanAbsolutePercentageError, preds, target)


@arguments_of(mean_absolute_error)
def symmetric_mean_absolute_percentage_error(preds: Values, target: Values) -> Tensor:
    """Returns what :class:`valor_gpu.regression.SymmetricMeanAbsolutePercentageError` computes of one batch."""
    return _of(regression.SymmetricMeanAbsolutePercentageError, preds, target)


@arguments_of(mean_absolute_error)
def weighted_mean_absolute_percentage_error(preds: Values, target: Values) -> Tensor:
    """Returns what :class:`valor_gpu.regression.WeightedMeanAbsolutePercentageError` computes of one batch."""
    return _of(regression.WeightedMeanAbsolutePercentageError, preds, target)


@arguments_of(mean_absolute_error)
def log_cosh_error(preds: Values, target: Values) -> Tensor:
    """Returns what :class:`valor_gpu.regression.LogCoshError` computes of one batch, of each output of ``[N, D]``."""
    return _outputs(regression.LogCoshError, preds, target)


@arguments_of(regression.MinkowskiDistance.update, regression.MinkowskiDistance)
def minkowski_distance(preds: Values, targets: Values, p: float) -> Tensor:
    """Returns what :class:`valor_gpu.regression.MinkowskiDistance` computes of one batch."""
    return _of(regression.MinkowskiDistance, preds, targets, p=p)


@arguments_of(regression.MinkowskiDistance.update, regression.TweedieDevianceScore)
def tweedie_deviance_score(preds: Values, targets: Values, power: float = 0.0) -> Tensor:
    """Returns what :class:`valor_gpu.regression.TweedieDevianceScore` computes of one batch."""
    return _of(regression.TweedieDevianceScore, preds, targets, power=power)


@arguments_of(mean_absolute_error, regression.NormalizedRootMeanSquaredError)
def normalized_root_mean_squared_error(
    preds: Values, target: Values, normalization: str = "mean", num_outputs: int = 1
) -> Tensor:
    """Returns what :class:`valor_gpu.regression.NormalizedRootMeanSquaredError` computes of one batch."""
    kind = regression.NormalizedRootMeanSquaredError
    return _of(kind, preds, target, normalization=normalization, num_outputs=num_outputs)


@arguments_of(mean_absolute_error, regression.RelativeSquaredError)
def relative_squared_error(preds: Values, target: Values, squared: bool = True) -> Tensor:
    """Returns what :class:`valor_gpu.regression.RelativeSquaredError` computes of one batch, of all outputs."""
    values = as_values("preds", preds)
    columns = values.shape[1] if values.ndim == 2 else 1
    return _of(regression.RelativeSquaredError, values, target, num_outputs=columns, squared=squared)


@arguments_of(mean_absolute_error, regression.R2Score)
def r2_score(preds: Values, target: Values, adjusted: int = 0, multioutput: str = "uniform_average") -> Tensor:
    """Returns what :class:`valor_gpu.regression.R2Score` computes of one batch.

    Predictions come first, as in torchmetrics; scikit-learn's function takes the target first.
    """
    return _of_each(regression.R2Score, preds, target, multioutput, adjusted=adjusted)


@arguments_of(mean_absolute_error, regression.ExplainedVariance)
def explained_variance(preds: Values, target: Values, multioutput: str = "uniform_average") -> Tensor:
    """Returns what :class:`valor_gpu.regression.ExplainedVariance` computes of one batch."""
    return _of_each(regression.ExplainedVariance, preds, target, multioutput)


@arguments_of(mean_absolute_error)
def pearson_corrcoef(preds: Values, target: Values) -> Tensor:
    """Returns what :class:`valor_gpu.regression.PearsonCorrCoef` computes of one batch, of each output."""
    return _outputs(regression.PearsonCorrCoef, preds, target)


@arguments_of(mean_absolute_error)
def concordance_corrcoef(preds: Values, target: Values) -> Tensor:
    """Returns what :class:`valor_gpu.regression.ConcordanceCorrCoef` computes of one batch, ``[D]``."""
    return _outputs(regression.ConcordanceCorrCoef, preds, target).reshape(-1)


@arguments_of(regression.CriticalSuccessIndex, regression.CriticalSuccessIndex.update)
def critical_success_index(
    preds: Values, target: Values, threshold: float, keep_sequence_dim: int | None = None
) -> Tensor:
    """Returns what :class:`valor_gpu.regression.CriticalSuccessIndex` computes of one batch."""
    kind = regression.CriticalSuccessIndex
    return _of(kind, preds, target, threshold=threshold, keep_sequence_dim=keep_sequence_dim)
