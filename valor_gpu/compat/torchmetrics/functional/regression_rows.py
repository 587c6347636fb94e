"""Correlations of ranks, similarities of vectors and distributions, and scores of forecasts, of one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu.argument_docs import arguments_of
from valor_gpu.compat.torchmetrics.functional.once import chosen_pair, once
from valor_gpu.inputs.values import as_values
from valor_gpu.regression import (
    ContinuousRankedProbabilityScore,
    CosineSimilarity,
    IntervalCoverage,
    JensenShannonDivergence,
    KendallRankCorrCoef,
    KLDivergence,
    PinballLoss,
    QuantileCRPS,
    SpearmanCorrCoef,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from valor_gpu.inputs.values import Values

__all__ = [
    "continuous_ranked_probability_score",
    "cosine_similarity",
    "interval_coverage",
    "jensen_shannon_divergence",
    "kendall_rank_corrcoef",
    "kl_divergence",
    "pinball_loss",
    "quantile_crps",
    "spearman_corrcoef",
]


def _by_columns(kind: Any, given: tuple[Any, Any, Any, Any], **arguments: Any) -> Any:
    """What a metric has of each column of one batch; errors as in :func:`once`."""
    preds, target = chosen_pair(given)
    preds = as_values("preds", preds)
    columns = preds.shape[1] if preds.ndim == 2 else 1
    return once(kind, (preds, target, None, None), num_outputs=max(columns, 1), **arguments)


@arguments_of(SpearmanCorrCoef, SpearmanCorrCoef.update)
def spearman_corrcoef(
    preds: Values | None = None,
    target: Values | None = None,
    *,
    nan_policy: str = "propagate",
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``SpearmanCorrCoef`` of one batch, ``[]``, or ``[D]`` of tables ``[N, D]``.

    Args:
        preds: ``[N]`` or ``[N, D]``.
        y_true, y_pred: the pair, by name.

    Example:
        >>> spearman_corrcoef([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 4.0, 7.0])
        tensor(0.8000)
    """
    value: Tensor = _by_columns(SpearmanCorrCoef, (preds, target, y_true, y_pred), nan_policy=nan_policy)
    return value


@arguments_of(KendallRankCorrCoef, KendallRankCorrCoef.update, spearman_corrcoef)
def kendall_rank_corrcoef(
    preds: Values | None = None,
    target: Values | None = None,
    variant: str = "b",
    t_test: bool = False,
    alternative: str | None = "two-sided",
    *,
    nan_policy: str = "propagate",
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Returns ``KendallRankCorrCoef`` of one batch, ``[]`` or ``[D]``, with ``t_test`` a tuple of it and the p-value.

    Example:
        >>> kendall_rank_corrcoef([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 1.0], t_test=True)
        (tensor(0.3333), tensor(0.4969))
    """
    value: Tensor | tuple[Tensor, Tensor] = _by_columns(
        KendallRankCorrCoef,
        (preds, target, y_true, y_pred),
        variant=variant,
        t_test=t_test,
        alternative=alternative,
        nan_policy=nan_policy,
    )
    return value


@arguments_of(CosineSimilarity, CosineSimilarity.update, spearman_corrcoef)
def cosine_similarity(
    preds: Values | None = None,
    target: Values | None = None,
    reduction: str | None = "sum",
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``CosineSimilarity`` of one batch, ``[]``, without reduction ``[N]``.

    Args:
        preds: vectors ``[N, D]`` of any real dtype.

    Example:
        >>> cosine_similarity([[1.0, 2.0], [1.0, 0.0]], [[1.0, 2.0], [-1.0, 0.0]], reduction="none")
        tensor([ 1., -1.])
    """
    return once(CosineSimilarity, (preds, target, y_true, y_pred), reduction=reduction)


@arguments_of(KLDivergence, KLDivergence.update)
def kl_divergence(p: Values, q: Values, log_prob: bool = False, reduction: str | None = "mean") -> Tensor:
    """Returns ``KLDivergence`` of one batch, ``[]``, without reduction ``[N]``.

    Example:
        >>> kl_divergence([[0.36, 0.48, 0.16]], [[1 / 3, 1 / 3, 1 / 3]])
        tensor(0.0853)
    """
    return once(KLDivergence, (p, q, None, None), log_prob=log_prob, reduction=reduction)


@arguments_of(JensenShannonDivergence, JensenShannonDivergence.update)
def jensen_shannon_divergence(p: Values, q: Values, log_prob: bool = False, reduction: str | None = "mean") -> Tensor:
    """Returns ``JensenShannonDivergence`` of one batch, ``[]``, without reduction ``[N]``.

    Example:
        >>> jensen_shannon_divergence([[0.36, 0.48, 0.16]], [[1 / 3, 1 / 3, 1 / 3]])
        tensor(0.0225)
    """
    return once(JensenShannonDivergence, (p, q, None, None), log_prob=log_prob, reduction=reduction)


@arguments_of(ContinuousRankedProbabilityScore, ContinuousRankedProbabilityScore.update, spearman_corrcoef)
def continuous_ranked_probability_score(
    preds: Values | None = None,
    target: Values | None = None,
    *,
    fair: bool = False,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``ContinuousRankedProbabilityScore`` of one batch, ``[]``.

    Args:
        preds: members of ensembles ``[N, M]``, M from 2 on, in any order; any real dtype.

    Example:
        >>> continuous_ranked_probability_score([[1.0, 2.0, 4.0]], [2.0])
        tensor(0.3333)
    """
    return once(ContinuousRankedProbabilityScore, (preds, target, y_true, y_pred), fair=fair)


@arguments_of(PinballLoss, PinballLoss.update, spearman_corrcoef)
def pinball_loss(
    preds: Values | None = None,
    target: Values | None = None,
    quantiles: float | Sequence[float] = 0.5,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``PinballLoss`` of one batch, ``[]``, or ``[Q]`` of several levels.

    Args:
        preds: predicted quantiles ``[N, Q]``, of a single level also ``[N]``; any real dtype.

    Example:
        >>> pinball_loss([1.0, 2.0], [2.0, 1.5], 0.9)
        tensor(0.4750)
    """
    return once(PinballLoss, (preds, target, y_true, y_pred), quantiles=quantiles)


@arguments_of(QuantileCRPS, QuantileCRPS.update, spearman_corrcoef)
def quantile_crps(
    preds: Values | None = None,
    target: Values | None = None,
    quantiles: Sequence[float] = (),
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``QuantileCRPS`` of one batch, ``[]``.

    Args:
        preds: predicted quantiles ``[N, Q]``, in the order of ``quantiles``; any real dtype.

    Example:
        >>> quantile_crps([[1.0, 2.0, 3.0]], [2.5], [0.25, 0.5, 0.75])
        tensor(0.5000)
    """
    return once(QuantileCRPS, (preds, target, y_true, y_pred), quantiles=quantiles)


@arguments_of(IntervalCoverage, IntervalCoverage.update, spearman_corrcoef)
def interval_coverage(
    preds: Values | None = None,
    target: Values | None = None,
    confidence: float = 0.9,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> dict[str, Tensor]:
    """Returns what ``IntervalCoverage`` computes of one batch: ``coverage``, ``mean_width`` and ``interval_score``.

    Args:
        preds: ends of intervals ``[N, 2]``, the lower one first; any real dtype.

    Example:
        >>> interval_coverage([[1.0, 3.0], [2.0, 5.0]], [2.0, 6.0], 0.8)["coverage"]
        tensor(0.5000)
    """
    value: Any = once(IntervalCoverage, (preds, target, y_true, y_pred), confidence=confidence)
    found: dict[str, Tensor] = value
    return found
