"""Precision and recall of queries at every number of documents, and the recall that a precision allows."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_int, check_number, check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.drawing import axes_to_draw
from valor_gpu.result import require_matplotlib
from valor_gpu.retrieval.curve_plot import draw_points
from valor_gpu.retrieval.curve_result import CurveSample, curve_result, recall_result
from valor_gpu.retrieval.query_metric import QueryMetric
from valor_gpu.retrieval.query_scores import Aggregation, QueryScores, aggregate_columns, as_number
from valor_gpu.retrieval.ranking import Ranking

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RetrievalOptions

Curves = tuple[NDArray[np.float64], NDArray[np.float64]]


class RetrievalPrecisionRecallCurve(QueryMetric):
    """Computes precision and recall at k for every k, each an aggregate over queries.

    At k it is ``found / k`` and ``found / relevant``, found being the relevant documents among the first k of a query.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval, 8.4 (2008).

    Args:
        max_k: the largest k; None: the documents of the query that has most.
        adaptive_k: precision divides by the number of documents where a query has fewer than k.

    Example:
        >>> metric = RetrievalPrecisionRecallCurve(max_k=2)
        >>> preds, target = torch.tensor([0.4, 0.01, 0.5, 0.6, 0.2, 0.3, 0.5]), torch.tensor([1, 0, 0, 1, 1, 0, 1])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        (tensor([1.0000, 0.5000]), tensor([0.5000, 0.5000]), tensor([1, 2]))
    """

    plot_upper_bound = 1.0

    def __init__(
        self,
        max_k: int | None = None,
        adaptive_k: bool = False,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[RetrievalOptions],
    ) -> None:
        if max_k is not None:
            check_int("max_k", max_k, 1)
        check_type("adaptive_k", adaptive_k, bool)
        self.max_k, self.adaptive_k = max_k, adaptive_k
        super().__init__(empty_target_action, ignore_index, aggregation, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {"max_k": self.max_k, "adaptive_k": self.adaptive_k}

    def _scores(self, ranking: Ranking) -> Tensor:
        """float64 ``[Q, 2, K]``: precision and recall at every k."""
        lengths = ranking.lengths
        largest = self.max_k or (int(lengths.max()) if len(lengths) else 0)
        if not largest:
            return torch.zeros((0, 2, 0), dtype=torch.float64)
        found = ranking.hits(largest).double()
        ranks = torch.arange(1, largest + 1, device=found.device).expand(found.shape)
        ranks = torch.minimum(ranks, lengths[:, None]) if self.adaptive_k else ranks
        return torch.stack((found / ranks, found / ranking.relevant[:, None]), 1)

    def _curves(self, kept: NDArray[np.float64]) -> Curves:
        """Aggregates float64 ``[K]`` of precision and of recall, of ``[Q, 2, K]``; zeros without a query."""
        largest = kept.shape[2]
        if not len(kept):
            return (np.zeros(largest), np.zeros(largest))
        values = aggregate_columns(kept.reshape(len(kept), -1), self.aggregation)
        return values[:largest], values[largest:]

    @gives_own_memory
    def compute(self) -> Any:
        """Returns precision and recall, float32 ``[K]``, and k, int64 ``[K]``; empty without a query."""
        precision, recall = self._curves(self._query_scores().kept)
        device = self.error.device
        curves = [torch.from_numpy(part).float().to(device) for part in (precision, recall)]
        return (*curves, torch.arange(1, len(precision) + 1, device=device))

    def _result(self, found: QueryScores) -> Any:
        return curve_result(found, self._curves(found.kept), self._signature())

    def plot(self, curve: Any = None, ax: Any = None) -> Any:
        """Draws the curve of :meth:`result` and returns figure and axes, as in torchmetrics; collective like it.

        Args:
            curve: what ``compute`` or ``forward`` gave, which is drawn in its place.
            ax: matplotlib axes, or None for new ones.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        require_matplotlib("Metric.plot")
        if curve is None:
            axes = self.result().plot(ax=ax)
        else:
            axes = axes_to_draw(ax, (5.6, 4.8))
            draw_points(axes, *(part.cpu().numpy() for part in curve[:2]))
        return axes.figure, axes


class RetrievalRecallAtFixedPrecision(RetrievalPrecisionRecallCurve):
    """Computes the largest recall at any k whose precision is at least as asked for, and that k.

    Recall and precision are the means over queries of :class:`RetrievalPrecisionRecallCurve`. Of equal recalls the
    largest k is taken; where the recall is 0, k is the largest of all.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval, 8.4 (2008).

    Args:
        min_precision: the least precision, from 0 to 1.

    Example:
        >>> metric = RetrievalRecallAtFixedPrecision(min_precision=0.8)
        >>> preds, target = torch.tensor([0.4, 0.01, 0.5, 0.6, 0.2, 0.3, 0.5]), torch.tensor([1, 0, 0, 1, 1, 0, 1])
        >>> metric.update(preds, target, torch.tensor([0, 0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        (tensor(0.5000), tensor(1))
    """

    def __init__(
        self,
        min_precision: float = 0.0,
        max_k: int | None = None,
        adaptive_k: bool = False,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[RetrievalOptions],
    ) -> None:
        check_number("min_precision", min_precision, 0, 1)
        self.min_precision = float(min_precision)
        super().__init__(max_k, adaptive_k, empty_target_action, ignore_index, aggregation, **kwargs)

    def _choices(self) -> dict[str, Any]:
        return {"min_precision": self.min_precision, **super()._choices()}

    def _point(self, curves: Curves) -> tuple[float, int]:
        """Recall and k; of no query NaN and 0."""
        precision, recall = curves
        if not len(precision):
            return math.nan, 0
        allowed = precision >= self.min_precision
        best = float(recall[allowed].max(initial=0.0))
        found = np.flatnonzero(allowed & (recall == best)) if best else np.array([len(precision) - 1])
        return best, int(found[-1]) + 1

    @gives_own_memory
    def compute(self) -> Any:
        """Returns the recall, float32 ``[]``, and k, int64 ``[]``; NaN and 0 without a query."""
        recall, k = self._point(self._curves(self._query_scores().kept))
        device = self.error.device
        return as_number(recall, device), torch.tensor(k, device=device)

    def _result(self, found: QueryScores) -> Any:
        name, curves = type(self).__name__, self._curves(found.kept)
        sample = partial(CurveSample, name, found, self._recall_of)
        return recall_result(name, found, self._point(curves), curves, self._signature(), sample)

    def _recall_of(self, kept: NDArray[np.float64]) -> float:
        """The number of curves of queries, ``[Q, 2, K]``."""
        return self._point(self._curves(kept))[0]

    def plot(self, val: Any = None, ax: Any = None) -> Any:  # type: ignore[override]
        """Plots the recall, or ``val``, as torchmetrics does; :meth:`result` has the picture of the curve."""
        return QueryMetric.plot(self, self.compute()[0] if val is None else val, ax)


def adapted(k: Tensor, documents: Tensor) -> Tensor:
    """Returns each k, at most the number of documents of a query."""
    return k.clamp(max=documents.numel())
