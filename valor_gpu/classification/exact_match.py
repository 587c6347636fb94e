"""Exact match: the fraction of samples all of whose elements are right."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from valor_gpu._lazy import names_of_package
from valor_gpu.classification.class_counts import (
    check_marks,
    count_classes,
    decided,
    error_of_scores,
    next_above,
    predicted_classes,
)
from valor_gpu.classification.plans import exact_match_plan
from valor_gpu.classification.ratio_base import choices_of, without_activation
from valor_gpu.classification.resampled_classes import resampled_matches
from valor_gpu.classification.task_metric import TaskMetric
from valor_gpu.classification.tasks import check_multidim
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.ops.labels.op import count_labels
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.result import Result, Signature
from valor_gpu.state import ROUNDING, State, check_elements, check_sums, joined, summed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap

__getattr__ = names_of_package(__name__)


@dataclass(frozen=True)
class MatchCounts(State):
    """Samples that match.

    Attributes:
        sums: float64 ``[2]``, samples that match and all samples, or the sums of their weights.
        seen: int64 ``[5]``, samples, elements whose target is ``ignore_index``, samples of such elements alone, and
            marks of :class:`TaskMetric`.
    """

    sums: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the counts are sums, and no more samples match than there are."""
        check_sums("sums", self.sums)
        check_sums("seen", self.seen)
        total = self.sums[..., 1:]
        check_elements("sums", self.sums, self.sums <= total * (1 + ROUNDING), "count no more matches than samples")
        check_marks(self.seen[-2:])
        limits = torch.stack((self.seen[0], self.seen[1], self.seen[0]))
        check_elements("seen", self.seen[:3], self.seen[:3] <= limits, "count at most the samples as left out")


@dataclass(frozen=True)
class SampleMatches(MatchCounts):
    """MatchCounts of each sample.

    Attributes:
        sums: float64 ``[N, 2]``: of each sample its positions that match and all of them, or the sums of their weights.
    """

    sums: Tensor = joined()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("sums",)


class ExactMatch(TaskMetric[MatchCounts]):
    """Computes exact match (subset accuracy), the fraction of samples all of whose elements are right.

    Multiclass: the elements of a sample are its positions, of ``[N, ...]``; multilabel: its labels, and further
    positions are further samples. Of equal largest scores the lowest class is predicted. Elements that are ignored
    match; a sample of ignored elements alone therefore matches, as in torchmetrics, and :meth:`result` counts these
    as ``all_ignored``. Without samples :meth:`result` has NaN with a reason and ``compute`` gives 0.

    Source: scikit-learn, ``accuracy_score`` of multilabel targets ("subset accuracy"); torchmetrics, ``ExactMatch``.

    Args:
        num_classes: C, in the multiclass task: scores ``[N, C, ...]`` or labels ``[N, ...]``.
        num_labels: L, in the multilabel task: scores or labels ``[N, L, ...]``. One of both is needed.
        threshold: multilabel: scores above it are positive, compared in their own dtype.
        ignore_index: elements with this target match whatever is predicted.
        activation: multilabel: ``auto`` applies the sigmoid to every batch with a counted score outside [0, 1];
            ``none`` and ``sigmoid`` do not guess.
        multidim_average: ``global``: one value; ``samplewise``: one for each sample of ``[N, ...]``: multiclass 0 or 1,
            multilabel the fraction of its positions. The state then keeps 16 bytes per sample.

    Example:
        >>> metric = ExactMatch(num_classes=3)
        >>> metric.update(torch.tensor([[0, 1, 2], [1, 1, 0]]), torch.tensor([[0, 1, 2], [1, 2, 0]]))
        >>> metric.compute()
        tensor(0.5000)
    """

    update_family = "exact match of labels"
    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        activation: str = "auto",
        multidim_average: str = "global",
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        task = Task.of(num_classes, num_labels, ignore_index, activation)
        if task.kind == "binary":
            raise InputError("num_classes or num_labels must be given: a binary sample has one element, see Accuracy")
        self.threshold = choices_of(task, 1, threshold)[1]
        multiclass = task.kind == "multiclass"
        config = without_activation(task) if multiclass else {**task.config(), "threshold": self.threshold}
        self.multidim_average = check_multidim(multidim_average)
        seen = torch.zeros(5, dtype=torch.int64)
        empty = MatchCounts(torch.zeros(2, dtype=torch.float64), seen)
        if multidim_average == "samplewise":
            config["multidim_average"] = multidim_average
            empty = SampleMatches(torch.zeros((0, 2), dtype=torch.float64), seen)
        super().__init__(task, empty, config, **kwargs)

    def _planner(self) -> Planner | None:
        if self.multidim_average != "global":
            return None
        return pair_planner(self.__dict__, ("task", "threshold"), self._plan)

    def _plan(self, form: Form) -> Plan | None:
        return exact_match_plan(form, self.task, partial(next_above, self.threshold))

    def update(self, preds: Values, target: Values, sample_weight: Values | None = None) -> None:
        """Counts a batch.

        Args:
            preds: multiclass: scores ``[N, C, ...]`` of any float dtype or class indices ``[N, ...]``; multilabel:
                scores or integers 0 and 1, ``[N, L, ...]``.
            target: multiclass: class indices ``[N, ...]``; multilabel: 0 and 1 in the shape of ``preds``.
            sample_weight: ``[N]``, from 0 to 1e60; multilabel also one for each position, ``[N, ...]``.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN scores, targets out of range) are
                raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        target = as_values("target", target)
        weight = None if sample_weight is None else as_values("sample_weight", sample_weight)
        batch = score_batch(preds, target, self.task, weight)
        if self.task.kind == "multiclass":
            if weight is not None and weight.ndim != 1:
                got = list(weight.shape)
                raise InputError(f"sample_weight must have shape [{len(target)}], one per sample, but got {got}")
            samples = len(target)
            right, error, marks = self._right_classes(batch)
        else:
            samples = len(batch.target)
            right, error, marks = self._right_labels(batch)
        deferred = self._raise_or_defer(error)
        self._add(self._count(batch, right, marks, samples, len(target)), deferred)

    def _right_classes(self, batch: ScoreBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Whether each element is right, bool ``[E]``, the first error of the batch, and its marks."""
        predicted, read = predicted_classes(batch)
        choices: Any = {"ignore_index": self.task.ignore_index, "weight": batch.weight}
        error = count_labels(predicted, batch.target, self.task.classes, **choices).error
        marks = torch.zeros(2, dtype=torch.int64, device=error.device)
        return predicted == batch.target, error if read is None else error_of_scores(error, read), marks

    def _right_labels(self, batch: ScoreBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Whether each element is right, bool ``[M, L]``, the first error of the batch, and its marks."""
        scores, least = decided(batch, self.threshold)
        counts, error = count_classes(batch, threshold=self.threshold)
        return (scores >= least) == (batch.target == 1), error, counts.seen[2:]

    def _count(self, batch: ScoreBatch, right: Tensor, marks: Tensor, samples: int, rows: int) -> MatchCounts:
        """The counts of so many samples, which with ``samplewise`` are the positions of so many rows."""
        index, left_out = self.task.ignore_index, torch.zeros_like(right)
        if index is not None:
            left_out = batch.target == index
        shape = (samples, right.numel() // max(1, samples))
        matched = (right | left_out).reshape(shape).all(1)
        empty = left_out.reshape(shape).all(1) if index is not None else torch.zeros_like(matched)
        weight = torch.ones_like(matched, dtype=torch.float64)
        if batch.weight is not None:
            weight = batch.weight.reshape(samples, -1)[:, 0] if len(batch.weight) else weight
        count = torch.ones_like(matched, dtype=torch.int64).sum()
        seen = torch.cat((torch.stack((count, left_out.sum(), empty.sum())), marks))
        pairs = torch.stack((torch.where(matched, weight, 0.0), weight), 1)
        if self.multidim_average == "global":
            return MatchCounts(pairs.sum(0), seen)
        return SampleMatches(pairs.reshape(rows, samples // max(1, rows), 2).sum(1), seen)

    def compute(self) -> Tensor:
        """Returns float32 ``[]``, with ``samplewise`` ``[N]``; 0 without samples, as torchmetrics gives it."""
        matched, total = self.state().sums.unbind(-1)
        return torch.where(total > 0, matched / total, 0.0).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the fraction in float64, and the samples behind it.

        Args:
            intervals: also give the intervals of the numbers, from so many replicates, or by all choices of a
                bootstrap. See docs/guides/intervals.md for the numbers that have one.

        Raises:
            InputError: ``intervals`` is given, and samples have weights, or ``multidim_average`` is ``samplewise``.
        """
        with self.synced_state() as state:
            matched, total = state.sums.cpu().unbind(-1)
            value = torch.where(total > 0, matched / total, math.nan)
            parts = {"ExactMatch": value, "matched": matched, "total": total}
            values = {name: part.numpy() if part.ndim else float(part) for name, part in parts.items()}
            samples, ignored, empty = state.seen.tolist()[:3]
            signature = Signature({"metric": "ExactMatch", **self._identity.config})
            counts = {"samples": samples, "ignored": ignored, "all_ignored": empty}
            reasons = {"ExactMatch": "no sample has weight"} if bool(value.isnan().any()) else {}
        result = Result(values, signature, counts, reasons, state=lambda: resampled_matches(state))
        return result if intervals is None else result.with_intervals(intervals)
