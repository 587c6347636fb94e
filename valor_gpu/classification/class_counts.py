"""Counts of each class as state, of all data or of each sample, and how a batch is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task
from valor_gpu.ops._device_tables import constant
from valor_gpu.ops.error_codes import NAN_SCORE, PREDICTION, value_kind
from valor_gpu.ops.labels.op import TRUE, count_labels, count_top, top_classes
from valor_gpu.ops.predictions.op import predict_maps
from valor_gpu.ops.score_histogram.op import ScoreHistogram, histogram_of
from valor_gpu.reduce.ratios import Outcomes
from valor_gpu.state import ROUNDING, State, check_elements, check_sums, joined, summed

_FEW = 16  # numbers that Python compares faster than a tensor of float64 is made for torch.equal
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class ClassCounts(State):
    """Counts of each class, or sums of weights; float64 holds counts up to 2^53 exactly.

    Attributes:
        counts: float64 ``[4, C]``, the rows of :class:`~valor_gpu.reduce.ratios.Outcomes`: true positives, predicted,
            true and total. One tensor, since every tensor of a state costs host time in each update.
        seen: int64 ``[4]``, rows, targets equal to ``ignore_index``, and marks of :class:`TaskMetric`.
    """

    counts: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless counts are sums, and true positives among the predicted and the true."""
        check_sums("counts", self.counts)
        check_seen(self.seen, rule)
        tp, predicted, true, _ = self.counts.unbind(-2)
        bound = (torch.minimum(predicted, true) * (1 + ROUNDING)).unsqueeze(-2)
        check_elements(
            "counts",
            self.counts,
            (self.counts >= 0) & (tp.unsqueeze(-2) <= bound),
            "not have more hits than predictions",
        )

    @property
    def outcomes(self) -> Outcomes:
        """The counts as ratios take them, each ``[C]``, or for each sample ``[N, C]``."""
        return Outcomes(*self.counts.unbind(-2))


@dataclass(frozen=True)
class SampleCounts(ClassCounts):
    """Counts of each class in each sample.

    Attributes:
        counts: float64 ``[N, 4, C]``, rows as in ClassCounts.
    """

    counts: Tensor = joined()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("counts",)


def check_seen(seen: Tensor, task: Task) -> None:
    """Raises :class:`InputError` unless ``seen`` counts rows, and at most as many ignored targets as they have."""
    check_sums("seen", seen)
    check_marks(seen[-2:])
    per_row = 1 if task.kind == "multiclass" else task.classes
    if int(seen[1]) > per_row * int(seen[0]):
        raise InputError(
            f"state field seen must count ignored targets of its {int(seen[0])} rows but counts {int(seen[1])}"
        )


def check_marks(marks: Tensor) -> None:
    """Raises :class:`InputError` unless no more batches were taken for logits than there were to decide about."""
    logits, batches = marks.tolist()
    if logits > batches:
        raise InputError(f"state field seen must count at most {batches} batches as logits but counts {logits}")


def whole_numbers(values: Tensor) -> Tensor:
    """Float64 counts as int64; sums of weights that int64 does not hold exactly stay as they are.

    Example:
        >>> whole_numbers(torch.tensor([2.0, 3.0], dtype=torch.float64))
        tensor([2, 3])
        >>> whole_numbers(torch.tensor([2.0, 1e60], dtype=torch.float64)).dtype
        torch.float64
    """
    whole = values.long()
    few = values.numel() <= _FEW and values.is_cpu
    same = whole.tolist() == values.tolist() if few else torch.equal(whole.double(), values)
    return whole if same else values


def samples_seen(batch: ScoreBatch, outside: Tensor | None = None) -> Tensor:
    """Returns int64 ``[4]``: rows, targets equal to ``ignore_index``, and marks.

    It does not synchronise with the device.

    Args:
        batch: of any task.
        outside: bool or int64 ``[1]``, whether ``auto`` took its scores for logits; None or ``[0]``: it did not decide.
    """
    rows, target = batch.target.shape[0], batch.target
    decides = outside is not None and len(outside) > 0 and target.numel() > 0
    if not target.is_cuda:
        seen = torch.tensor([rows, 0, 0, int(decides)])
    elif decides and not torch.compiler.is_compiling():  # one kernel, from tables that stay on the device
        seen = torch.add(constant(_MARK, target.device), constant(_ROW, target.device), alpha=rows)
    else:  # filled there: no pinned memory, so that a CUDA graph can capture it
        seen = target.new_zeros(4, dtype=torch.int64)
        seen[:1].fill_(rows)
        if decides:
            seen[3:].fill_(1)
    if decides and outside is not None:
        seen[2:3].copy_(outside)
    if batch.task.ignore_index is not None:
        seen[1] = (target == batch.task.ignore_index).sum()
        if decides:
            seen[2:] *= seen[1] < target.numel()
    return seen


_ROW, _MARK = np.array([1, 0, 0, 0]), np.array([0, 0, 0, 1])


def next_above(threshold: float, dtype: torch.dtype) -> float:
    """The least number of ``dtype`` above ``threshold`` as that dtype has it: ``score >= it`` is ``score > threshold``.

    Example:
        >>> next_above(0.5, torch.bfloat16)
        0.50390625
    """
    return float(_next_above(threshold, dtype))


def _next_above(threshold: float, dtype: torch.dtype) -> str:
    """Returns the number as text: as a float from a function that is marked constant, torch 2.6 cannot compile it."""
    bits = torch.tensor(abs(threshold), dtype=dtype).view(_BITS[dtype.itemsize])
    return repr(float((bits + 1).view(dtype)))


_next_above._dynamo_marked_constant = True  # type: ignore[attr-defined]  # its helper would import torch's compiler


def decided(batch: ScoreBatch, threshold: float) -> tuple[Tensor, float]:
    """Scores ``[N, L]`` and the number from which on they are positive; a hard label that is not 0 or 1 is NaN."""
    if not batch.hard:
        scores = batch.probabilities()
        return scores, next_above(threshold, scores.dtype)
    labels = batch.preds
    return torch.where((labels == 0) | (labels == 1), labels.float(), torch.nan), 1.0


def probability_histogram(batch: ScoreBatch, thresholds: Tensor) -> ScoreHistogram:
    """The histogram of ``batch.probabilities()``, which are made where scores are counted."""
    task = batch.task
    return histogram_of(
        batch.scores, batch.target, thresholds, ignore_index=task.ignore_index, weight=batch.weight,
        activation=task.activation,
    )  # fmt: skip


def _count_elements(batch: ScoreBatch, threshold: float) -> tuple[ClassCounts, Tensor]:
    if batch.hard:
        scores, least = decided(batch, threshold)
        limits = torch.tensor([least], dtype=torch.float64)
        histogram, error, outside = histogram_of(
            scores, batch.target, limits, ignore_index=batch.task.ignore_index, weight=batch.weight
        )
    else:
        limits = torch.tensor([next_above(threshold, batch.preds.dtype)], dtype=torch.float64)
        histogram, error, outside = probability_histogram(batch, limits)
    if batch.hard:
        error = torch.where(value_kind(error) == NAN_SCORE, error + (PREDICTION - NAN_SCORE), error)
    positives, every = histogram.double()
    counts = torch.stack((positives[:, 1], every[:, 1], positives.sum(1), every.sum(1)))
    return ClassCounts(counts, samples_seen(batch, outside)), error


def count_classes(batch: ScoreBatch, top_k: int = 1, threshold: float = 0.5) -> tuple[ClassCounts, Tensor]:
    """Returns the state of one batch and its error code, without synchronising with the device.

    Args:
        batch: of any task.
        top_k: multiclass: a target among the ``top_k`` largest scores of its row is predicted.
        threshold: binary and multilabel: scores above it are positive.

    Raises:
        InputError: ``top_k`` is above 1 but the predictions are labels.
    """
    if batch.task.kind != "multiclass":
        return _count_elements(batch, threshold)
    ignore_index, weight = batch.task.ignore_index, batch.weight
    _check_kind(batch, top_k)
    if batch.hard:
        result = count_labels(batch.preds, batch.target, batch.task.classes, ignore_index=ignore_index, weight=weight)
    elif batch.preds.ndim == 3 and top_k == 1:
        maps = predict_maps(batch.preds, batch.target, ignore_index=ignore_index)
        result = count_labels(maps.classes, batch.target, batch.task.classes, ignore_index=ignore_index, weight=weight)
        result = result._replace(error=error_of_scores(result.error, maps.error))
    else:
        result = count_top(batch.scores, batch.target, top_k, ignore_index=ignore_index, weight=weight)
    total = result.counts[TRUE].sum().expand(1, batch.task.classes)
    return ClassCounts(torch.cat((result.counts, total)).double(), samples_seen(batch)), result.error


def count_samples(
    batch: ScoreBatch, samples: int, top_k: int = 1, threshold: float = 0.5
) -> tuple[SampleCounts, Tensor]:
    """As :func:`count_classes`, for each of so many samples; the elements of a sample follow one another."""
    if batch.task.kind == "multiclass":
        counts, error = _count_classes_of(samples, batch, top_k)
        return SampleCounts(counts, samples_seen(batch)), error
    counted, error = _count_elements(batch, threshold)
    return SampleCounts(_count_elements_of(samples, batch, threshold), counted.seen), error


def _count_classes_of(samples: int, batch: ScoreBatch, top_k: int) -> tuple[Tensor, Tensor]:
    """Counts ``[N, 4, C]`` and the first error: class c of sample n is counted as class n C + c of the batch."""
    classes, ignore_index = batch.task.classes, batch.task.ignore_index
    predicted, read = predicted_classes(batch, top_k)
    error = count_labels(predicted, batch.target, classes, ignore_index=ignore_index, weight=batch.weight).error
    predicted, target = predicted.long(), batch.target.long()
    sound = (predicted >= 0) & (predicted < classes) & (target >= 0) & (target < classes)
    if ignore_index is not None:
        sound &= target != ignore_index
    each = max(1, len(target) // max(1, samples))
    start = torch.arange(len(target), device=target.device).div(each, rounding_mode="floor") * classes
    cells = max(1, samples * classes)
    counts = count_labels(
        predicted + start, torch.where(sound, target + start, -1), cells, ignore_index=-1, weight=batch.weight
    ).counts
    table = counts[:, : samples * classes].reshape(3, samples, classes).double()
    total = table[TRUE].sum(1, keepdim=True).expand(samples, classes)
    counts = torch.cat((table, total[None])).movedim(0, 1).contiguous()
    return counts, error if read is None else error_of_scores(error, read)


def _count_elements_of(samples: int, batch: ScoreBatch, threshold: float) -> Tensor:
    """Counts ``[N, 4, L]``."""
    scores, least = decided(batch, threshold)
    predicted, true = scores >= least, batch.target == 1
    counts = true | (batch.target == 0)
    if batch.task.ignore_index is not None:
        counts &= batch.target != batch.task.ignore_index
    predicted, true = predicted & counts, true & counts
    shape = (samples, len(scores) // max(1, samples), batch.task.classes)
    parts = (predicted & true, predicted, true, counts)
    if batch.weight is not None:
        weight = batch.weight[:, None]
        return torch.stack([torch.where(part, weight, 0.0).reshape(shape).sum(1) for part in parts], 1)
    return torch.stack([part.reshape(shape).sum(1) for part in parts], 1).double()


def _check_kind(batch: ScoreBatch, top_k: int) -> None:
    if batch.hard and top_k > 1:
        raise InputError(f"preds must be scores with top_k={top_k} but are labels of {batch.preds.dtype}")


def predicted_classes(batch: ScoreBatch, top_k: int = 1) -> tuple[Tensor, Tensor | None]:
    """Predicted classes ``[N]`` of the multiclass task, and the first error of the scores that they are of.

    Raises:
        InputError: ``top_k``, as in :func:`count_classes`, is above 1 but the predictions are labels.
    """
    _check_kind(batch, top_k)
    if batch.hard:
        return batch.preds, None
    if batch.preds.ndim == 3 and top_k == 1:
        return predict_maps(batch.preds, batch.target, ignore_index=batch.task.ignore_index)
    top = top_classes(batch.scores, top_k)
    if top_k == 1:
        return top.classes[:, 0], top.error
    among = (top.classes == batch.target[:, None]).any(1)
    return torch.where(among, batch.target, top.classes[:, 0]), top.error


def error_of_scores(counted: Tensor, read: Tensor) -> Tensor:
    """First error of counting predicted classes, or of the scores where a row without a prediction comes first."""
    return torch.where(value_kind(counted) == PREDICTION, read, counted)
