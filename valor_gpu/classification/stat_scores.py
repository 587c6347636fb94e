"""The counts behind the metrics that are ratios: true and false positives and negatives, and the support."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.classification.class_counts import ClassCounts, whole_numbers
from valor_gpu.classification.ratio_base import RatioMetric
from valor_gpu.errors import InputError
from valor_gpu.plans import switched_on
from valor_gpu.reduce.ratios import Outcomes
from valor_gpu.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import RatioOptions

_FEW_CLASSES = 64  # for which plain numbers are faster than tensors
_EXACT = 1e12  # up to which counts differ by no rounding, see valor_gpu.reduce.ratios
NAMES = ("tp", "fp", "tn", "fn", "support")


class StatScores(RatioMetric):
    """Counts true positives, false positives, true negatives, false negatives and the support (tp + fn).

    Each class or label is taken against the rest. It shares its ``update`` in a ``MetricCollection`` with accuracy,
    precision, recall and all that are ratios of these counts. Values equal those of torchmetrics' class of this name.

    Source: Fawcett, An introduction to ROC analysis (2006), section 2.

    Args:
        average: ``micro`` sums the counts of all classes; ``macro`` is their mean over all classes; ``weighted`` their
            mean by support, NaN where there is no support; ``none`` or None gives every class.
        top_k: multiclass: every one of the ``top_k`` largest scores of a row is predicted.

    Example:
        >>> metric = StatScores(num_classes=3, average="none")
        >>> metric.update(torch.tensor([2, 1, 0, 1]), torch.tensor([2, 1, 0, 0]))
        >>> metric.compute()
        tensor([[1, 0, 2, 1, 2],
                [1, 1, 2, 0, 1],
                [1, 0, 3, 0, 1]])
    """

    counts: Tensor  # of ClassCounts
    higher_is_better = None  # type: ignore[assignment]
    plot_lower_bound = None  # type: ignore[assignment]
    plot_upper_bound = None  # type: ignore[assignment]
    _of_rows = False

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        **kwargs: Unpack[RatioOptions],
    ) -> None:
        if "zero_division" in kwargs:
            raise InputError("zero_division must be left out: counts are not divided")
        super().__init__(num_classes, num_labels, average=average, **kwargs)

    def compute(self) -> Tensor:
        """Returns tp, fp, tn, fn and support, ``[5]``, or ``[C, 5]`` without average; samplewise ``[N, ...]``.

        Counts are int64, means float32; sums of weights that are no whole numbers are float64.
        """
        state = self.state()
        if (numbers := self._pooled(state.counts)) is not None:
            return torch.from_numpy(np.array(numbers, np.int64))
        table = self._table(state.outcomes)
        if self.average in ("macro", "weighted"):
            return table.float()
        return whole_numbers(table)

    def _pooled(self, counts: Tensor) -> list[int] | None:
        """The counts of few classes as one, in whole numbers; None where those of other averages or weights are due."""
        if (
            self.average != "micro"
            or counts.ndim == 3
            or not counts.is_cpu
            or counts.numel() > 4 * _FEW_CLASSES
            or not switched_on()
        ):
            return None
        rows = counts.tolist()
        tp, predicted, true, total = map(sum, rows)
        if total > _EXACT or not all(map(float.is_integer, chain.from_iterable(rows))):
            return None
        return [int(part) for part in (tp, predicted - tp, total - predicted - true + tp, true - tp, true)]

    def _table(self, o: Outcomes) -> Tensor:
        """float64 ``[5]`` or ``[C, 5]``; samplewise one of each sample."""
        table = torch.stack([torch.as_tensor(part) for part in (o.tp, o.fp, o.tn, o.fn, o.true)], -1)
        if self.average == "micro":
            return table.sum(-2)
        if self.average == "macro":
            return table.mean(-2)
        if self.average == "weighted":
            weights = table[..., 4:]
            support = weights.sum(-2)
            return torch.where(support > 0, (table * weights).sum(-2) / support, math.nan)
        return table

    def _numbers(self, o: Outcomes) -> dict[str, float]:
        return {} if self.average in ("none", None) else dict(zip(NAMES, self._table(o).tolist()))

    def _arrays_by_class(self, o: Outcomes) -> dict[str, Any]:
        return dict(zip(NAMES, self._table(o).numpy().T)) if self.average in ("none", None) else {}

    def _result(self, state: ClassCounts) -> Result:
        """Each count as a number, or without average as an array ``[C]``."""
        columns = self._table(state.outcomes).cpu().unbind(-1)
        values = {name: float(part) if part.ndim == 0 else part.numpy() for name, part in zip(NAMES, columns)}
        missing = sorted(name for name, part in zip(NAMES, columns) if bool(part.isnan().any()))
        return self._result_of(state, values, missing, {"average": self.average})
