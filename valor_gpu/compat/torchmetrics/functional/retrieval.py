"""Metrics of the ranked documents of one query. See the class of each for its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from valor_gpu.argument_docs import arguments_of
from valor_gpu.compat.torchmetrics.functional.names import MODULES
from valor_gpu.compat.torchmetrics.functional.once import alone, chosen_pair
from valor_gpu.default_device import device_free
from valor_gpu.errors import InputError
from valor_gpu.graphs import outside_graphs
from valor_gpu.inputs.values import as_values
from valor_gpu.retrieval import (
    RetrievalAUROC,
    RetrievalFallOut,
    RetrievalHitRate,
    RetrievalMAP,
    RetrievalMRR,
    RetrievalNormalizedDCG,
    RetrievalPrecision,
    RetrievalPrecisionRecallCurve,
    RetrievalRecall,
    RetrievalRPrecision,
)
from valor_gpu.retrieval.curves import adapted

if TYPE_CHECKING:
    from torch import Tensor

    from valor_gpu.inputs.values import Values

__all__ = MODULES["retrieval"]


@outside_graphs
@device_free
def _numbers(kind: Any, given: tuple[Any, Any, Any, Any], arguments: dict[str, Any]) -> Any:
    """``compute`` of a metric of documents of one query.

    Raises:
        InputError: there is no document, or the class rejects an argument or a value.
    """
    preds, target = chosen_pair(given)
    preds, target = as_values("preds", preds), as_values("target", target)
    metric = alone(kind(**arguments))
    if preds.shape != target.shape:
        raise InputError(f"preds and target must have one shape but got {list(preds.shape)} and {list(target.shape)}")
    if preds.numel() == 0:
        raise InputError("preds must hold at least one document but is empty")
    indexes = torch.zeros(preds.shape, dtype=torch.int64, device=preds.device)
    metric.to(preds.device).update(preds, target, indexes)
    return metric.compute()


def _of_query(kind: Any, *given: Values | None, **arguments: Any) -> Tensor:
    """The number of one query, of ``preds, target, y_true, y_pred`` in this order."""
    value: Tensor = _numbers(kind, given, arguments)
    return value


@arguments_of(RetrievalAUROC)
def retrieval_auroc(
    preds: Values | None = None,
    target: Values | None = None,
    top_k: int | None = None,
    max_fpr: float | None = None,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``RetrievalAUROC`` of one query, float32 ``[]``; 0 where all targets are the same.

    Args:
        preds: scores of any floating dtype and shape.
        target: 0 and 1 in the shape of ``preds``, of ``retrieval_normalized_dcg`` grades of at least 0.
        y_true, y_pred: targets and scores by the names that scikit-learn gives them."""
    return _of_query(RetrievalAUROC, preds, target, y_true, y_pred, top_k=top_k, max_fpr=max_fpr)


@arguments_of(RetrievalMAP, retrieval_auroc)
def retrieval_average_precision(
    preds: Values | None = None,
    target: Values | None = None,
    top_k: int | None = None,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``RetrievalMAP`` of one query, float32 ``[]``; 0 without a relevant document.

    Example:
        >>> retrieval_average_precision(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]))
        tensor(0.8333)
    """
    return _of_query(RetrievalMAP, preds, target, y_true, y_pred, top_k=top_k)


@arguments_of(RetrievalFallOut, retrieval_auroc)
def retrieval_fall_out(
    preds: Values | None = None,
    target: Values | None = None,
    top_k: int | None = None,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``RetrievalFallOut`` of one query, float32 ``[]``; 0 without an irrelevant document."""
    return _of_query(RetrievalFallOut, preds, target, y_true, y_pred, empty_target_action="neg", top_k=top_k)


@arguments_of(RetrievalHitRate, retrieval_auroc)
def retrieval_hit_rate(
    preds: Values | None = None,
    target: Values | None = None,
    top_k: int | None = None,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``RetrievalHitRate`` of one query, float32 ``[]``; 0 without a relevant document."""
    return _of_query(RetrievalHitRate, preds, target, y_true, y_pred, top_k=top_k)


@arguments_of(RetrievalNormalizedDCG, retrieval_auroc)
def retrieval_normalized_dcg(
    preds: Values | None = None,
    target: Values | None = None,
    top_k: int | None = None,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``RetrievalNormalizedDCG`` of one query, float32 ``[]``; 0 without a relevant document."""
    return _of_query(RetrievalNormalizedDCG, preds, target, y_true, y_pred, top_k=top_k)


@arguments_of(RetrievalPrecision, retrieval_auroc)
def retrieval_precision(
    preds: Values | None = None,
    target: Values | None = None,
    top_k: int | None = None,
    adaptive_k: bool = False,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``RetrievalPrecision`` of one query, float32 ``[]``; 0 without a relevant document."""
    return _of_query(RetrievalPrecision, preds, target, y_true, y_pred, top_k=top_k, adaptive_k=adaptive_k)


@arguments_of(RetrievalPrecisionRecallCurve, retrieval_auroc)
def retrieval_precision_recall_curve(
    preds: Values | None = None,
    target: Values | None = None,
    max_k: int | None = None,
    adaptive_k: bool = False,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``RetrievalPrecisionRecallCurve`` of one query: precision and recall at k, float32 ``[K]``, and k, int64.

    With ``adaptive_k``, k is at most the number of documents.
    """
    given = (preds, target, y_true, y_pred)
    arguments = {"max_k": max_k, "adaptive_k": adaptive_k}
    precision, recall, k = _numbers(RetrievalPrecisionRecallCurve, given, arguments)
    if adaptive_k:
        k = adapted(k, as_values("preds", chosen_pair(given)[0]))
    return tuple(part.reshape(-1) for part in (precision, recall, k))  # type: ignore[return-value]


@arguments_of(RetrievalRPrecision, retrieval_auroc)
def retrieval_r_precision(
    preds: Values | None = None,
    target: Values | None = None,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``RetrievalRPrecision`` of one query, float32 ``[]``; 0 without a relevant document."""
    return _of_query(RetrievalRPrecision, preds, target, y_true, y_pred)


@arguments_of(RetrievalRecall, retrieval_auroc)
def retrieval_recall(
    preds: Values | None = None,
    target: Values | None = None,
    top_k: int | None = None,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``RetrievalRecall`` of one query, float32 ``[]``; 0 without a relevant document."""
    return _of_query(RetrievalRecall, preds, target, y_true, y_pred, top_k=top_k)


@arguments_of(RetrievalMRR, retrieval_auroc)
def retrieval_reciprocal_rank(
    preds: Values | None = None,
    target: Values | None = None,
    top_k: int | None = None,
    *,
    y_true: Values | None = None,
    y_pred: Values | None = None,
) -> Tensor:
    """Returns ``RetrievalMRR`` of one query, float32 ``[]``; 0 without a relevant document."""
    return _of_query(RetrievalMRR, preds, target, y_true, y_pred, top_k=top_k)
