"""The negative log-likelihood of the true classes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.classification.loss_plans import LossRule
from valor_gpu.classification.row_losses import NO_SAMPLE, LossSums, RowLoss
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.result import Result, Signature
from valor_gpu.stats.counts import ResampledCounts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled
    from valor_gpu.stats.row_samples import Arrivals

_INFINITE = "the loss of a sample is infinite: eps bounds it"


class NegativeLogLikelihood(RowLoss):
    """Computes the negative log-likelihood, or log loss: the mean over samples of ``-log p`` of the true class.

    Logits are not turned into probabilities first (``log_softmax``; binary ``softplus``), so that none is lost where
    the softmax would round to 0 or 1. Probabilities are taken as they are: those of a sample are not divided by their
    sum. A sample whose true class has probability 0 makes the number infinite, which ``eps`` avoids; :meth:`result`
    counts them. Multilabel, it is the binary number of each label, and their average. With
    ``eps=torch.finfo(preds.dtype).eps`` it equals scikit-learn's ``log_loss``, and unweighted it has the same bits for
    any order and split of the samples.

    Source: Good, Rational decisions (1952); scikit-learn, ``log_loss``.

    Args:
        eps: probabilities are taken as at least ``eps`` and at most ``1 - eps``; from 0, which takes them as they are,
            to below 0.5.

    Example:
        >>> metric = NegativeLogLikelihood(num_classes=2)
        >>> metric.update(torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.4904)
    """

    update_family = "log loss"
    _loss_choices = ("eps",)

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        num_labels: int | None = None,
        average: str | None = "macro",
        eps: float = 0.0,
        ignore_index: int | None = None,
        activation: str = "auto",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        if isinstance(eps, bool) or not isinstance(eps, (int, float)) or not 0 <= eps < 0.5:
            raise InputError(f"eps must be a number from 0 to below 0.5 but got {eps!r}")
        self.eps = float(eps)
        labels: Any = {"num_labels": num_labels, "average": average}
        super().__init__(num_classes, ignore_index, activation, keep_rows, {"eps": self.eps}, **labels, **kwargs)

    def _rule(self) -> LossRule:
        lowest, highest = (-math.log1p(-self.eps), -math.log(self.eps)) if self.eps else (0.0, math.inf)
        return LossRule(0, lowest, highest, self.keep_rows)

    def _losses(self, scores: Tensor, target: Tensor, logits: bool) -> Tensor:
        wide, columns = scores.double(), target if target.ndim == 2 else target[:, None]
        if self.task.kind == "multiclass":
            columns = columns.clamp(0, scores.shape[1] - 1)
            found = wide.log_softmax(1).gather(1, columns) if logits else wide.gather(1, columns).log()
        else:
            right = columns == 1
            if logits:
                margin = torch.where(right, wide, -wide)
                found = -((-margin).clamp(min=0) + (-margin.abs()).exp().log1p())
            else:
                found = torch.where(right, wide.log(), (-wide).log1p())
        losses = (-found if target.ndim == 2 else -found[:, 0]).clamp(min=0)
        return losses.clamp(-math.log1p(-self.eps), -math.log(self.eps)) if self.eps else losses

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the number, float32 ``[]``, or ``[L]`` with average ``none``; NaN without data."""
        return self._number(self.state()).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the number in float64 and counts, among them that of samples whose loss is infinite.

        Args:
            intervals: replicates or choices of a bootstrap of the samples: also give the interval of the number. The
                metric must have been made with ``keep_rows=True``.

        Raises:
            InputError: ``intervals`` is given to a metric that keeps no rows.
        """
        with self.synced_state() as state:
            values = self._by_label(self._number(state), self._value(state.sums))
            infinite, (samples, ignored) = int(state.sums[..., 3].sum()), state.seen.tolist()[:2]
        missing = [name for name, value in values.items() if np.isnan(value).any()]
        signature = Signature({"metric": type(self).__name__, **self._shown})
        counts = {"samples": samples, "ignored": ignored, "infinite": infinite}
        reasons = dict.fromkeys(missing, NO_SAMPLE)
        result = Result(values, signature, counts, reasons, state=lambda: self._sample(state))
        return result if intervals is None else result.with_intervals(intervals)

    def _label_sample(self, state: LossSums, losses: Any, target: Any) -> Resampled:
        sample = super()._label_sample(state, losses, target)
        if not np.isinf(losses).any():
            return sample
        names = [type(self).__name__, *(f"per_class/{place}" for place in range(losses.shape[1]))]
        return ResampledCounts(np.array([[len(losses)]]), None, refused=dict.fromkeys(names, _INFINITE))

    def _row_sample(self, losses: Any, target: Any, arrivals: Arrivals) -> Resampled:
        if np.isinf(losses).any():
            name = type(self).__name__
            return ResampledCounts(np.array([[len(losses)]]), None, refused={name: _INFINITE})
        return super()._row_sample(losses, target, arrivals)
