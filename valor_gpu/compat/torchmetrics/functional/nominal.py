"""Agreement about the categories of one batch. See the class of each for its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu.argument_docs import arguments_of
from valor_gpu.compat.torchmetrics.functional.names import MODULES
from valor_gpu.compat.torchmetrics.functional.once import alone
from valor_gpu.default_device import device_free
from valor_gpu.graphs import outside_graphs
from valor_gpu.inputs.values import as_values
from valor_gpu.nominal import FleissKappa

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor

__all__ = MODULES["nominal"]


@arguments_of(FleissKappa)
def fleiss_kappa(ratings: ArrayLike | Tensor, mode: str = "counts", *, ignore_index: int | None = None) -> Tensor:
    """Returns Fleiss' kappa, float32 ``[]``; see :class:`valor_gpu.nominal.FleissKappa`.

    Args:
        ratings: with ``counts`` integers ``[N, C]``, how many raters chose each of C categories; with ``probs`` floats
            ``[N, C, R]``, the scores that each of R raters gave each category.

    Raises:
        InputError: an argument or a value is out of range.

    Example:
        >>> fleiss_kappa([[3, 0], [1, 2], [2, 1], [1, 2]])
        tensor(-0.0286)
    """
    value: Tensor = _kappa(ratings, mode, ignore_index)
    return value


@outside_graphs  # torch.compile cannot trace the constructor of a metric
@device_free
def _kappa(ratings: Any, mode: str, ignore_index: int | None) -> Any:
    ratings = as_values("ratings", ratings)
    metric = alone(FleissKappa(mode, ignore_index=ignore_index)).to(ratings.device)
    metric.update(ratings)
    return metric.compute()
