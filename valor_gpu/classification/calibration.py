"""Calibration error: whether a fraction p of the predictions made with confidence p is correct."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.classification.class_counts import check_seen, samples_seen
from valor_gpu.classification.plans import reliability_plan
from valor_gpu.classification.reliability_plot import plot_reliability
from valor_gpu.classification.resampled_classes import refused_errors
from valor_gpu.classification.task_metric import ProbabilityMetric
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch
from valor_gpu.inputs.values import Values
from valor_gpu.ops._device_tables import constant
from valor_gpu.ops.error_codes import PREDICTION, value_kind, value_row
from valor_gpu.ops.labels.op import TRUE, count_labels, top_classes
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.reduce.histogram_metrics import quick
from valor_gpu.reduce.reliability import (
    NO_CONFIDENCE,
    STEPS,
    bin_edges,
    calibration_error,
    missing_values,
    reliability_values,
    with_ones_in_last_bin,
)
from valor_gpu.result import Result, Signature
from valor_gpu.state import ROUNDING, State, check_elements, check_sums, summed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap

NORMS = ("l1", "max", "l2")


@dataclass(frozen=True)
class ReliabilityBins(State):
    """Sums over the samples whose confidence lies in each of B equal bins, and, last, over those where it is exactly 1.

    Attributes:
        count: float64 ``[B + 1]``, samples, or the sum of their weights.
        confidence: float64 ``[B + 1]``, of confidences rounded to 2^-24, so that the sum of up to 2^29 of them has the
            same bits in any order.
        correct: float64 ``[B + 1]``, samples that are right.
        seen: int64 ``[4]``, rows, targets equal to ``ignore_index``, and marks of :class:`TaskMetric`.
    """

    count: Tensor = summed()
    confidence: Tensor = summed()
    correct: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the sums of every bin are at most its count."""
        for name in ("count", "confidence", "correct"):
            check_sums(name, getattr(self, name))
            within = getattr(self, name) <= self.count * (1 + ROUNDING)
            check_elements(name, getattr(self, name), within, "be at most the count of its bin")
        check_seen(self.seen, rule)


class CalibrationError(ProbabilityMetric[ReliabilityBins]):
    """Computes the calibration error, the distance of accuracy from confidence: ECE (l1), MCE (max) or RMS (l2).

    Multiclass: the confidence is the largest probability, and a sample of that class is correct. Binary: the confidence
    is the probability of class 1, and a sample of class 1 is correct. Bins are [a, b) and the last is [a, 1], as in
    ``numpy.histogram``; the sources leave open where an inner edge belongs. In torchmetrics a confidence of exactly 1,
    which sigmoid and softmax often give in half precision, has a bin of its own: ``separate_ones=True`` does the same.
    Edges are the numbers nearest to k / B on every device; torchmetrics has those of ``torch.linspace``, some of which
    lie a unit in the last place beside them, and which processors differ in.

    With ``top_k`` the confidence is the sum of the k largest probabilities, and a sample of one of these classes is
    correct: calibration within the top k.

    Source: Naeini, Cooper and Hauskrecht, AAAI 2015; Guo et al., ICML 2017; l2: Kumar, Liang and Ma, NeurIPS 2019; top
    k: Gupta et al., Calibration of neural networks using splines, ICLR 2021.

    Args:
        n_bins: B, number of bins of equal width, at least 1.
        norm: ``l1``, ``max`` or ``l2``: what :meth:`compute` gives; :meth:`result` has all three.
        top_k: k, from 1 to C: how many classes a prediction holds; multiclass only.
        separate_ones: give confidences of exactly 1 a bin of their own, as torchmetrics does, for equal numbers.

    Example:
        >>> metric = CalibrationError(n_bins=2)
        >>> metric.update(torch.tensor([0.25, 0.25, 0.55, 0.75, 0.75]), torch.tensor([0, 0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.2900)
    """

    higher_is_better = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: int | None = None,
        activation: str = "auto",
        separate_ones: bool = False,
        top_k: int = 1,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_choice("norm", norm, NORMS)
        check_type("separate_ones", separate_ones, bool)
        if isinstance(n_bins, bool) or not isinstance(n_bins, int) or n_bins < 1:
            raise InputError(f"n_bins must be an int of at least 1 but got {n_bins!r}")
        task = Task.of(num_classes, None, ignore_index, activation)
        most = task.classes if task.kind == "multiclass" else 1
        if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= most:
            raise InputError(f"top_k must be an int from 1 to {most} in the {task.kind} task but got {top_k!r}")
        self.n_bins, self.norm, self.separate_ones, self.top_k = n_bins, norm, separate_ones, top_k
        count, confidence, correct = torch.zeros((3, n_bins + 1), dtype=torch.float64).unbind()
        empty = ReliabilityBins(count, confidence, correct, torch.zeros(4, dtype=torch.int64))
        top = {"top_k": top_k} if top_k > 1 else {}
        super().__init__(task, empty, {**task.config(), "n_bins": n_bins, **top}, **kwargs)

    def _planner(self) -> Planner:
        return pair_planner(self.__dict__, ("task", "n_bins", "top_k"), self._plan)

    def _plan(self, form: Form) -> Plan | None:
        return reliability_plan(form, self.task, self.n_bins) if self.top_k == 1 else None

    def update(self, preds: Values, target: Values, sample_weight: Values | None = None) -> None:
        """Adds a batch.

        Args:
            preds: probabilities or logits of any float dtype: multiclass ``[N, C, ...]``, binary ``[N, ...]``.
            target: multiclass: class indices ``[N, ...]``; binary: 0 and 1 ``[N, ...]``.
            sample_weight: ``[N]``, or one weight for each element of ``[N, ...]``; from 0 to 1e60.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN scores, targets out of range) are
                raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        batch = score_batch(preds, target, self.task, sample_weight)
        probabilities, outside = batch.decided()
        confidence, correct, error = _confidences(batch, probabilities, self.top_k)
        deferred = self._raise_or_defer(error)
        edges = edges_of(self.n_bins, confidence.dtype, confidence.device)
        cells = torch.bucketize(confidence, edges, right=True) - 1
        if self.task.ignore_index is not None:
            cells = torch.where(batch.target.reshape(-1) == self.task.ignore_index, -1, cells)
        weight = torch.ones_like(confidence, dtype=torch.float64) if batch.weight is None else batch.weight
        rounded = (confidence.double() * STEPS).round() / STEPS
        sums = [
            count_labels(cells, cells, self.n_bins + 1, ignore_index=-1, weight=weight * of).counts[TRUE]
            for of in (torch.ones_like(rounded), rounded, correct.double())
        ]
        self._add(ReliabilityBins(sums[0], sums[1], sums[2], samples_seen(batch, outside)), deferred)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the error of ``norm``, float32 ``[]``; NaN without data."""
        state = self.state()
        sums = map(quick, (state.count, state.confidence, state.correct))
        count, confidence, correct = sums if self.separate_ones else map(with_ones_in_last_bin, sums)
        return torch.as_tensor(calibration_error(count, confidence, correct, self.norm)).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the three errors in float64 and, for every bin, edges, confidence, accuracy and count.

        There are B bins, with ``separate_ones`` one more.

        Args:
            intervals: replicates or choices of a bootstrap: each error says why it has no interval.
        """
        with self.synced_state() as state:
            count, confidence, correct = (part.cpu().numpy() for part in (state.count, state.confidence, state.correct))
            values = reliability_values(count, confidence, correct, self.norm, self.separate_ones)
            samples, ignored = state.seen.tolist()[:2]
        separate = {"separate_ones": True} if self.separate_ones else {}
        signature = Signature({"metric": "CalibrationError", **self._identity.config, "norm": self.norm, **separate})
        reasons = dict.fromkeys(missing_values(values), NO_CONFIDENCE)
        counts = {"samples": samples, "ignored": ignored}
        refused = partial(refused_errors, samples - ignored)
        result = Result(values, signature, counts, reasons, plot_reliability, state=refused)
        return result if intervals is None else result.with_intervals(intervals)

    def _describe(self, error: int) -> str:
        if value_kind(error) == PREDICTION:
            return f"preds[{value_row(error)}] must hold probabilities from 0 to 1, or logits, and no NaN"
        return super()._describe(error)


def _confidences(batch: ScoreBatch, probabilities: Tensor, top_k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Confidence ``[N]``, float32 or float64; whether it was right, bool ``[N]``; the first error of the batch."""
    target = batch.target.reshape(-1)
    if batch.task.kind == "multiclass":
        confidence = probabilities.amax(1).float()
        predicted = top_classes(probabilities).classes[:, 0]
        correct, classes = predicted == target, batch.task.classes
        if top_k > 1:
            confidence, correct = _of_top(probabilities, target, top_k)
    else:
        confidence = probabilities[:, 0].to(torch.promote_types(probabilities.dtype, torch.float32))
        predicted, classes = torch.zeros_like(target), 2
        correct = target == 1
    predicted = torch.where((confidence >= 0) & (confidence <= 1), predicted, -1)
    read = count_labels(predicted, target, classes, ignore_index=batch.task.ignore_index, weight=batch.weight)
    return confidence.contiguous(), correct, read.error


def _of_top(probabilities: Tensor, target: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Sums of the ``top_k`` largest probabilities, float32 ``[N]``, and whether the target is one of these classes.

    What rounding of probabilities, to bfloat16 at the most, adds above 1 is taken off; of rows that hold none sums are
    NaN.
    """
    classes = top_classes(probabilities, top_k).classes
    sums = probabilities.double().gather(1, classes.long().clamp(min=0)).sum(1)
    most = 1 + top_k * torch.finfo(torch.bfloat16).eps
    sums = torch.where((sums > 1) & (sums <= most), 1.0, sums)
    good = (probabilities.amin(1) >= 0) & (probabilities.amax(1) <= 1)
    return torch.where(good, sums, torch.nan).float(), (classes == target[:, None]).any(1)


def edges_of(n_bins: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The edges of the bins in the dtype and on the device of confidences."""
    wide = dtype == torch.float64
    edges = bin_edges(n_bins, np.float64 if wide else np.float32).astype(np.float64)
    if device.type == "cpu":
        return torch.from_numpy(edges).to(dtype)
    return constant(edges, device).to(dtype)
