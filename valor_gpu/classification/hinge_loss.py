"""Hinge loss: how far scores are from being right by a margin of 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.classification.class_counts import check_seen, samples_seen
from valor_gpu.classification.plans import hinge_plan
from valor_gpu.classification.task_metric import TaskMetric
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import Task, score_batch
from valor_gpu.inputs.values import Values
from valor_gpu.ops.error_codes import PREDICTION, value_kind, value_row
from valor_gpu.ops.labels.op import count_labels
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.reduce.hinge import STEPS, exact_parts, hinge_losses
from valor_gpu.result import Result, Signature
from valor_gpu.state import ROUNDING, State, check_elements, check_rows, check_sums, joined, summed
from valor_gpu.stats.row_samples import Arrivals, RowSample

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap

MODES = ("crammer-singer", "one-vs-all")
_NO_ROWS = "there are no samples"


@dataclass(frozen=True)
class HingeSums(State):
    """Sums over samples; K is 1, or C with a loss for each class.

    Attributes:
        sums: float64 ``[2, K]``, losses rounded to 2^-24, and what rounding left of them in steps of 2^-49: the sums of
            up to 2^27 losses of at most 4 have the same bits in any order.
        total: float64 ``[]``, samples, or the sum of their weights.
        seen: int64 ``[4]``, rows, targets equal to ``ignore_index``, and marks of :class:`TaskMetric`.
    """

    sums: Tensor = summed()
    total: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless losses are not negative, and rounding left at most half a step of each."""
        check_sums("sums", self.sums[0])
        check_sums("total", self.total)
        left = self.sums[1].abs() <= self.total * (1 + ROUNDING) / (2 * STEPS)
        check_elements("sums", self.sums[1], left, "be at most what rounding leaves of so many samples")
        check_seen(self.seen, rule)


@dataclass(frozen=True)
class HingeRows(HingeSums):
    """Sums over samples, and the losses of each.

    Attributes:
        rows: float64 ``[N, K]``, NaN where the target is ``ignore_index``.
    """

    rows: Tensor = joined()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the sums are sound, and there is a loss, or NaN, for each row."""
        super().check(rule)
        check_rows("rows", self.rows, int(self.seen[0]), "seen")
        sound = self.rows.isnan() | ((self.rows >= 0) & self.rows.isfinite())
        check_elements("rows", self.rows, sound, "be a loss or NaN")


class HingeLoss(TaskMetric[HingeSums]):
    """Computes the hinge loss: the mean of ``max(0, 1 - margin)``, of which ``squared`` takes the square.

    Binary: the margin is the score of a sample of class 1, and minus the score of one of class 0. Multiclass, by
    Crammer and Singer: the score of the right class minus the largest of the others; ``one-vs-all``: a binary loss for
    each class. Scores are those after the ``activation``: as in torchmetrics, logits become probabilities first. With
    ``activation="none"`` it is the loss of the values of a decision function, as in scikit-learn's ``hinge_loss``.

    Source: Crammer and Singer, On the algorithmic implementation of multiclass kernel-based vector machines (2001);
    scikit-learn, ``hinge_loss``.

    Args:
        num_classes: C, in the multiclass task, whose scores are ``[N, C, ...]``; None in the binary one.
        squared: take the square of each loss.
        multiclass_mode: ``crammer-singer`` or ``one-vs-all``, which gives a loss for each class; without effect in the
            binary task.
        activation: ``auto`` applies softmax or sigmoid to every batch with a counted score outside [0, 1]: another
            split of logits can give another number; ``softmax`` and ``sigmoid`` do not guess, ``none`` takes any
            finite scores as they are.
        keep_rows: keep the losses of every sample beside their sums, 8 bytes each, for intervals; weights are rejected.

    Example:
        >>> metric = HingeLoss()
        >>> metric.update(torch.tensor([0.25, 0.25, 0.55, 0.75, 0.75]), torch.tensor([0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.6900)
    """

    higher_is_better = False
    plot_lower_bound = 0.0

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        squared: bool = False,
        multiclass_mode: str = "crammer-singer",
        ignore_index: int | None = None,
        activation: str = "auto",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_type("squared", squared, bool)
        check_type("keep_rows", keep_rows, bool)
        check_choice("multiclass_mode", multiclass_mode, MODES)
        task = Task.of(num_classes, None, ignore_index, activation)
        self.squared, self.multiclass_mode, self.keep_rows = squared, multiclass_mode, keep_rows
        by_class = task.kind == "multiclass" and multiclass_mode == "one-vs-all"
        self._columns = task.classes if by_class else 1
        sums = torch.zeros((2, self._columns), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        seen = torch.zeros(4, dtype=torch.int64)
        rows = torch.zeros((0, self._columns), dtype=torch.float64)
        empty = HingeRows(*sums, seen, rows) if keep_rows else HingeSums(*sums, seen)
        mode = {"multiclass_mode": multiclass_mode} if task.kind == "multiclass" else {}
        self._choices = {**task.config(), "squared": squared, **mode}
        super().__init__(task, empty, {**self._choices, **({"keep_rows": True} if keep_rows else {})}, **kwargs)

    def _planner(self) -> Planner:
        return pair_planner(self.__dict__, ("task", "_columns", "squared", "keep_rows"), self._plan)

    def _plan(self, form: Form) -> Plan | None:
        return None if self.keep_rows else hinge_plan(form, self.task, self._columns, self.squared)

    def update(self, preds: Values, target: Values, sample_weight: Values | None = None) -> None:
        """Adds a batch.

        Args:
            preds: scores of any float dtype: multiclass ``[N, C, ...]``, binary ``[N, ...]``.
            target: multiclass: class indices ``[N, ...]``; binary: 0 and 1 ``[N, ...]``.
            sample_weight: ``[N]``, or one weight for each element of ``[N, ...]``; from 0 to 1e60.

        Raises:
            InputError: naming the argument and position; weights are given, and rows kept. On CUDA, bad values (NaN
                scores, infinite losses, targets out of range) are raised by ``compute`` instead, since ``update`` does
                not synchronise with the device.
        """
        if self.keep_rows and sample_weight is not None:
            raise InputError("sample_weight must be None with keep_rows=True, whose rows have equal weight")
        batch = score_batch(preds, target, self.task, sample_weight)
        scores, outside = batch.decided()
        target, classes = batch.target.reshape(-1), max(2, self.task.classes)
        losses = hinge_losses(scores, target, self._columns > 1, self.squared)
        marks = torch.where(losses.isfinite().all(1), 0, -1)
        ignored = self.task.ignore_index
        deferred = self._raise_or_defer(
            count_labels(marks, target, classes, ignore_index=ignored, weight=batch.weight).error
        )
        counted = torch.ones_like(target, dtype=torch.bool) if ignored is None else target != ignored
        weight = counted.double() if batch.weight is None else torch.where(counted, batch.weight, 0.0)
        rows = torch.where(counted[:, None], losses, torch.nan)
        sums = (exact_parts(rows.nan_to_num(0.0)) * weight[:, None]).sum(1)
        fields = sums, weight.sum(), samples_seen(batch, outside)
        self._add(HingeRows(*fields, rows) if self.keep_rows else HingeSums(*fields), deferred)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns float32 ``[]``, or ``[C]`` with a loss for each class; NaN without samples."""
        state = self.state()
        losses = (state.sums[0] + state.sums[1]) / state.total
        return (losses if self._columns > 1 else losses[0]).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the loss in float64, an array ``[C]`` where each class has one, and the samples behind it.

        Args:
            intervals: also give the interval of each loss, from so many replicates, or by all choices of a bootstrap.

        Raises:
            InputError: ``intervals`` is given, and rows are not kept.
        """
        with self.synced_state() as state:
            sums, total = state.sums.cpu().numpy(), float(state.total)
            losses = (sums[0] + sums[1]) / total if total > 0 else np.full(self._columns, np.nan)
            samples, ignored = state.seen.tolist()[:2]
        signature = Signature({"metric": type(self).__name__, **self._choices})
        values = {"HingeLoss": losses if self._columns > 1 else float(losses[0])}
        reasons = {} if total > 0 else {"HingeLoss": _NO_ROWS}
        counts = {"samples": samples, "ignored": ignored}
        result = Result(values, signature, counts, reasons, state=partial(self._resampled, state))
        return result if intervals is None else result.with_intervals(intervals)

    def _resampled(self, state: HingeSums) -> RowSample:
        if not isinstance(state, HingeRows):
            made = f"{type(self).__name__}(keep_rows=True)"
            raise InputError(f"intervals and comparisons need the loss of every sample: make the metric with {made}")
        rows = state.rows.cpu().numpy()
        places = np.flatnonzero(~np.isnan(rows).any(1))
        names = [f"HingeLoss/{c}" for c in range(self._columns)] if self._columns > 1 else ["HingeLoss"]
        ranges: dict[str, Any] = dict.fromkeys(names, (0.0, float("inf")))
        arrivals = Arrivals(places, len(rows))
        return RowSample(dict(zip(names, rows[places].T.copy())), ranges=ranges, arrivals=arrivals)

    def _describe(self, error: int) -> str:
        if value_kind(error) == PREDICTION:
            return f"preds[{value_row(error)}] must hold scores without NaN, and with a finite loss"
        return super()._describe(error)
