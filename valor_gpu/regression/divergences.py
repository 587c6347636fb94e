"""Divergences of discrete distributions: Kullback and Leibler's, Jensen and Shannon's."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.inputs.values import Values
from valor_gpu.ops.error_codes import first_error, value_kind, value_place, value_row
from valor_gpu.plans import Planner
from valor_gpu.regression.row_kernels import JS, JS_OF_LOGS, KL, KL_OF_LOGS, Scoring
from valor_gpu.regression.row_means import RowMeans
from valor_gpu.regression.vectors import row_sums, tables

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import CorpusOptions


class Divergence(RowMeans):
    """Base of the divergences of two distributions of each row; a subclass gives ``_divergences``.

    Args:
        log_prob: whether inputs are logarithms of probabilities, which are taken as they are; else each row is divided
            by its sum.

    Raises:
        InputError: ``log_prob`` is no bool.
    """

    higher_is_better = False
    _unscored = "rows with NaN, or without a probability above 0"
    _kernels: ClassVar[tuple[int, int]]
    """Codes of the native scores, of probabilities and of logarithms."""

    def __init__(self, log_prob: bool = False, reduction: str | None = "mean", **kwargs: Unpack[CorpusOptions]) -> None:
        check_type("log_prob", log_prob, bool)
        self.log_prob = log_prob
        super().__init__([type(self).__name__], {"log_prob": log_prob}, reduction, **kwargs)

    @abstractmethod
    def _divergences(self, p: Tensor, q: Tensor) -> Tensor:
        """float64 ``[N]`` of normalised probabilities, or of logarithms, float64 ``[N, D]``."""

    def update(self, p: Values, q: Values) -> None:
        """Adds a batch.

        Args:
            p: distributions ``[N, D]`` of any real dtype: numbers of at least 0, or with ``log_prob`` logarithms.
            q: other distributions of the same outcomes, of the shape of ``p``.

        Raises:
            InputError: naming the argument and position. On CUDA, negative numbers are raised by ``compute`` instead,
                since ``update`` does not synchronise with the device.
        """
        first, second, wide = tables(("p", "q"), (p, q))
        if self._kept(first, second, wide):
            return
        sides = enumerate((first, second), 1)
        error = None if self.log_prob else first_error([(side < 0, kind) for kind, side in sides])
        self._keep(self._defined(first.double(), second.double())[:, None], wide, error)

    def _planner(self) -> Planner:
        return self._planner_by("reduction", "log_prob")

    def _scoring(self) -> Scoring:
        return Scoring(self._kernels[self.log_prob])

    def _defined(self, p: Tensor, q: Tensor) -> Tensor:
        """The scores in torch, of float64."""
        if not self.log_prob:
            p, q = (side / row_sums(side)[:, None] for side in (p, q))
        return self._divergences(p, q)

    def _describe_error(self, code: int) -> str:
        name = "pq"[value_kind(code) - 1]
        place = f"{name}[{value_row(code)}, {value_place(code)}]"
        return f"{name} must hold numbers of at least 0 but {place} is negative; log_prob=True takes logarithms"


class KLDivergence(Divergence):
    """Computes the divergence of Kullback and Leibler of ``q`` from ``p``, in nats: the mean over rows.

    ``sum p log(p / q)``, where outcomes of probability 0 in ``p`` count 0; infinite where ``q`` is 0 and ``p`` is not.

    Source: Kullback and Leibler, "On information and sufficiency" (1951).

    Example:
        >>> metric = KLDivergence()
        >>> metric.update(torch.tensor([[0.36, 0.48, 0.16]]), torch.tensor([[1 / 3, 1 / 3, 1 / 3]]))
        >>> metric.compute()
        tensor(0.0853)
    """

    _kernels = (KL, KL_OF_LOGS)

    def _divergences(self, p: Tensor, q: Tensor) -> Tensor:
        return log_divergences(p, q) if self.log_prob else divergences(p, q)


class JensenShannonDivergence(Divergence):
    """Computes the divergence of Jensen and Shannon of ``p`` and ``q``, in nats: the mean over rows.

    Half the sum of the divergences of Kullback and Leibler of both from their mean: symmetric, and at most log 2. Its
    square root is a distance, that of ``scipy.spatial.distance.jensenshannon``.

    Source: Lin, "Divergence measures based on the Shannon entropy" (1991).

    Example:
        >>> metric = JensenShannonDivergence()
        >>> metric.update(torch.tensor([[0.36, 0.48, 0.16]]), torch.tensor([[1 / 3, 1 / 3, 1 / 3]]))
        >>> metric.compute()
        tensor(0.0225)
    """

    plot_upper_bound = math.log(2)
    _kernels = (JS, JS_OF_LOGS)

    def _divergences(self, p: Tensor, q: Tensor) -> Tensor:
        if self.log_prob:
            middle = torch.logaddexp(p, q) - math.log(2)
            return (log_divergences(p, middle) + log_divergences(q, middle)) / 2
        middle = (p + q) / 2
        return (divergences(p, middle) + divergences(q, middle)) / 2


def divergences(p: Tensor, q: Tensor) -> Tensor:
    """Returns the divergence of Kullback and Leibler of each row of normalised probabilities.

    Args:
        p: float64 ``[N, D]``.
        q: likewise.
    """
    terms = torch.where(p == 0, 0.0, p * (p / q).log())
    return row_sums(terms).clamp(min=0)  # rounding leaves sums below 0


def log_divergences(p: Tensor, q: Tensor) -> Tensor:
    """Returns the divergence of Kullback and Leibler of each row of logarithms of probabilities.

    Args:
        p: float64 ``[N, D]``.
        q: likewise.
    """
    return row_sums(torch.where(p == -math.inf, 0.0, p.exp() * (p - q)))
