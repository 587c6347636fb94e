"""Cosine similarity of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from valor_gpu.inputs.values import Values
from valor_gpu.plans import Planner
from valor_gpu.regression.row_kernels import COSINE, Scoring
from valor_gpu.regression.row_means import RowMeans
from valor_gpu.regression.vectors import row_sums, tables

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import CorpusOptions


class CosineSimilarity(RowMeans):
    """Computes the cosine of the angle between the predicted and the target vector of each row.

    A vector of zeros has no direction: its row is NaN, and so is the sum and the mean; :meth:`result` counts such rows.

    Source: Salton and McGill, "Introduction to modern information retrieval" (1983).

    Example:
        >>> import torch
        >>> metric = CosineSimilarity(reduction="mean")
        >>> metric.update(torch.tensor([[0, 1], [0, 1]]), torch.tensor([[0, 1], [1, 1]]))
        >>> metric.compute()
        tensor(0.8536)
    """

    higher_is_better = True
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0
    _unscored = "rows with NaN, or a vector without a direction"

    def __init__(self, reduction: str | None = "sum", **kwargs: Unpack[CorpusOptions]) -> None:
        super().__init__(["CosineSimilarity"], {}, reduction, **kwargs)

    def update(self, preds: Values, target: Values) -> None:
        """Adds a batch.

        Args:
            preds: vectors ``[N, D]`` of any real dtype.
            target: vectors likewise, of the shape of ``preds``.

        Raises:
            InputError: naming the argument, for another shape or dtype.
        """
        first, second, wide = tables(("preds", "target"), (preds, target))
        if not self._kept(first, second, wide):
            self._keep(cosines(first.double(), second.double())[:, None], wide)

    def _planner(self) -> Planner:
        return self._planner_by("reduction", "keep_rows")

    def _scoring(self) -> Scoring:
        return Scoring(COSINE)

    def _describe_error(self, code: int) -> str:
        return f"an update failed with code {code}"


def cosines(preds: Tensor, target: Tensor) -> Tensor:
    """Returns the cosine of each row, float64 ``[N]``; NaN where a vector has no direction.

    Args:
        preds: float64 ``[N, D]``, contiguous.
        target: likewise.
    """
    lengths = row_sums(preds * preds).sqrt() * row_sums(target * target).sqrt()
    return (row_sums(preds * target) / lengths).clamp(-1, 1)
