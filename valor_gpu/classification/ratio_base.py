"""Counts of each class as state, and the base class of the metrics that are a ratio of them: one update for all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.classification.plans import class_counts_plan
from valor_gpu.classification.task_metric import TaskMetric
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch
from valor_gpu.ops.error_codes import NAN_SCORE, PREDICTION, value_kind
from valor_gpu.ops.labels import TRUE, count_labels, count_top, top_classes
from valor_gpu.ops.predictions import predict_maps
from valor_gpu.ops.score_histogram import histogram_of
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.reduce.ratios import AVERAGES, NO_SAMPLE, Outcomes, Ratio, average_ratio
from valor_gpu.result import Result, Signature
from valor_gpu.state import ROUNDING, State, check_elements, check_sums, summed

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class ClassCounts(State):
    """Counts of each class, or sums of weights; float64 holds counts up to 2^53 exactly.

    Attributes:
        counts: float64 ``[4, C]``, the rows of :class:`~valor_gpu.reduce.ratios.Outcomes`: true positives, predicted,
            true and total. One tensor, since every tensor of a state costs host time in each update.
        seen: int64 ``[2]``, rows, and targets equal to ``ignore_index``.
    """

    counts: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless counts are sums, and true positives among the predicted and the true."""
        check_sums("counts", self.counts)
        check_seen(self.seen, rule)
        tp, predicted, true, _ = self.counts
        bound = torch.minimum(predicted, true) * (1 + ROUNDING)
        check_elements("counts", self.counts, (self.counts >= 0) & (tp <= bound), "not have more hits than predictions")

    @property
    def outcomes(self) -> Outcomes:
        """The counts as ratios take them."""
        return Outcomes(*self.counts.unbind())


def check_seen(seen: Tensor, task: Task) -> None:
    """Raises :class:`InputError` unless ``seen`` counts rows, and at most as many ignored targets as they have."""
    check_sums("seen", seen)
    per_row = 1 if task.kind == "multiclass" else task.classes
    if int(seen[1]) > per_row * int(seen[0]):
        raise InputError(
            f"state field seen must count ignored targets of its {int(seen[0])} rows but counts {int(seen[1])}"
        )


def samples_seen(batch: ScoreBatch) -> Tensor:
    """Returns int64 ``[2]``: rows, and targets equal to ``ignore_index``; does not synchronise with the device."""
    rows = batch.target.shape[0]
    if batch.target.is_cuda:  # filled there: no pinned memory, so that a CUDA graph can capture it
        seen = batch.target.new_zeros(2, dtype=torch.int64)
        seen[:1].fill_(rows)
    else:
        seen = torch.tensor([rows, 0])
    if batch.task.ignore_index is not None:
        seen[1] = (batch.target == batch.task.ignore_index).sum()
    return seen


def next_above(threshold: float, dtype: torch.dtype) -> float:
    """The least number of ``dtype`` above ``threshold`` as that dtype has it: ``score >= it`` is ``score > threshold``.

    Example:
        >>> next_above(0.5, torch.bfloat16)
        0.50390625
    """
    bits = torch.tensor(abs(threshold), dtype=dtype).view(_BITS[dtype.itemsize])
    return float((bits + 1).view(dtype))


next_above._dynamo_marked_constant = True  # type: ignore[attr-defined]  # its helper would import torch's compiler


def decided(batch: ScoreBatch, threshold: float) -> tuple[Tensor, float]:
    """Scores ``[N, L]`` and the number from which on they are positive; a hard label that is not 0 or 1 is NaN."""
    if not batch.hard:
        scores = batch.probabilities()
        return scores, next_above(threshold, scores.dtype)
    labels = batch.preds
    return torch.where((labels == 0) | (labels == 1), labels.float(), torch.nan), 1.0


def _count_elements(batch: ScoreBatch, threshold: float) -> tuple[ClassCounts, Tensor]:
    scores, least = decided(batch, threshold)
    limits = torch.tensor([least], dtype=torch.float64)
    histogram, error = histogram_of(
        scores, batch.target, limits, ignore_index=batch.task.ignore_index, weight=batch.weight
    )
    if batch.hard:
        error = torch.where(value_kind(error) == NAN_SCORE, error + (PREDICTION - NAN_SCORE), error)
    positives, every = histogram.double()
    counts = torch.stack((positives[:, 1], every[:, 1], positives.sum(1), every.sum(1)))
    return ClassCounts(counts, samples_seen(batch)), error


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
    if batch.hard and top_k > 1:
        raise InputError(f"preds must be scores with top_k={top_k} but are labels of {batch.preds.dtype}")
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


def predicted_classes(batch: ScoreBatch) -> tuple[Tensor, Tensor | None]:
    """Predicted classes ``[N]`` of the multiclass task, and the first error of the scores that they are of."""
    if batch.hard:
        return batch.preds, None
    if batch.preds.ndim == 3:
        return predict_maps(batch.preds, batch.target, ignore_index=batch.task.ignore_index)
    top = top_classes(batch.preds)
    return top.classes[:, 0], top.error


def error_of_scores(counted: Tensor, read: Tensor) -> Tensor:
    """First error of counting predicted classes, or of the scores where a row without a prediction comes first."""
    return torch.where(value_kind(counted) == PREDICTION, read, counted)


class RatioMetric(TaskMetric[ClassCounts]):
    """Base of the metrics that are a ratio of class counts; a subclass gives the ratio in ``_ratio``.

    All of them with equal ``num_classes``, ``num_labels``, ``top_k``, ``threshold``, ``ignore_index`` and
    ``activation`` share one ``update`` in a ``MetricCollection``. Values equal those of torchmetrics' class of the same
    name. Unweighted results have the same bits for any split and order of the samples, except where
    ``activation="auto"`` decides otherwise for another batch.

    Args:
        num_classes: C, in the multiclass task: scores ``[N, C, ...]`` or labels ``[N, ...]``, one class per sample.
        num_labels: L, in the multilabel task: scores or labels ``[N, L, ...]``. With neither, the task is binary.
        average: ``micro`` pools the counts of all classes; ``macro`` averages over classes that were predicted or are
            true (multilabel: over all labels); ``weighted`` averages by support; ``none`` or None gives every class.
            The binary task has one class, 1.
        top_k: multiclass: the target counts as predicted if it is among the ``top_k`` largest scores of its row.
            ``macro`` means of accuracy, precision, recall and negative predictive value then take the classes that are
            true.
        threshold: binary and multilabel: scores above it are positive, compared in their own dtype.
        ignore_index: samples (multilabel: elements) with this target are left out.
        zero_division: value of a class whose denominator is 0: 0, 1 or NaN, which leaves it out of means. Default: as
            in torchmetrics, 0 (Hamming distance: 1).
        activation: binary and multilabel: ``auto`` applies the sigmoid to every batch with a counted score outside [0,
            1]: another split of logits can give another number; ``none`` and ``sigmoid`` do not guess.
        kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`.

    Raises:
        InputError: an argument is out of range, or does not belong to the task.
    """

    update_family: ClassVar[str | None] = "class counts"
    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    _zero_division: ClassVar[float] = 0.0
    _top_k_by_support: ClassVar[bool] = False  # torchmetrics' rule differs between its metrics

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        average: str | None = "micro",
        top_k: int = 1,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        zero_division: float | None = None,
        activation: str = "auto",
        **kwargs: Any,
    ) -> None:
        task = Task.of(num_classes, num_labels, ignore_index, activation)
        check_choice("average", average, AVERAGES)
        self.average = "micro" if task.kind == "binary" else average
        self.top_k, self.threshold = choices_of(task, top_k, threshold)
        self.zero_division = self._zero_division if zero_division is None else float(zero_division)
        if self.zero_division not in (0, 1) and not math.isnan(self.zero_division):
            raise InputError(f"zero_division must be 0, 1 or NaN but got {zero_division!r}")
        empty = ClassCounts(torch.zeros((4, task.classes), dtype=torch.float64), torch.tensor([0, 0]))
        super().__init__(task, empty, self._config(task), **kwargs)

    def _planner(self) -> Planner:
        return pair_planner(self.__dict__, ("task", "top_k", "threshold"), self._plan)

    def _plan(self, form: Form) -> Plan | None:
        return class_counts_plan(form, self.task, self.top_k, partial(next_above, self.threshold))

    def _config(self, task: Task) -> dict[str, Any]:
        """The choices that ``update`` depends on."""
        if task.kind == "multiclass":
            return {**without_activation(task), "top_k": self.top_k}
        return {**task.config(), "threshold": self.threshold}

    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Counts a batch.

        Args:
            preds: multiclass: scores (logits or probabilities of any float dtype) ``[N, C, ...]`` or class indices
                ``[N, ...]``. Else scores or integers 0 and 1, ``[N, L, ...]`` or in the binary task ``[N, ...]``.
            target: multiclass: class indices ``[N, ...]``; else 0 and 1 in the shape of ``preds``.
            sample_weight: ``[N]``, or one weight for each element of ``[N, ...]``; from 0 to 1e60.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN scores, targets out of range) are
                raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        batch = score_batch(preds, target, self.task, sample_weight)
        counts, error = count_classes(batch, self.top_k, self.threshold)
        self._add(counts, self._raise_or_defer(error))

    def compute(self) -> Tensor:
        """Returns the value as torchmetrics gives it: float32 ``[]``, or ``[C]`` without average."""
        value = self._value(self._outcomes(self.state()), None)
        return value.float() if isinstance(value, Tensor) else torch.from_numpy(np.asarray(value, np.float32))

    def result(self) -> Result:
        """Returns the value in float64, the value of every class, and the counts behind them.

        ``per_class``, ``tp``, ``fp``, ``fn``, ``tn`` and ``support`` are arrays ``[C]``, in the binary task numbers. A
        number whose denominator is 0 is NaN, with a reason, but means take it as ``zero_division``.
        """
        with self.synced_state() as state:
            return self._result(state)

    def _ratio(self, o: Outcomes) -> Ratio:
        raise NotImplementedError

    def _outcomes(self, state: ClassCounts) -> Outcomes:
        return Outcomes(*state.counts.numpy()) if state.counts.is_cpu else state.outcomes

    def _counted(self, o: Outcomes) -> Any:
        """The classes that ``macro`` takes, bool ``[C]``."""
        if self.task.kind != "multiclass":
            return o.true >= 0
        return o.true > 0 if self.top_k > 1 and self._top_k_by_support else o.true + o.predicted > 0

    def _per_class(self, o: Outcomes) -> Any:
        """float64 ``[C]``, NaN where the denominator is 0."""
        return self._ratio(o).value()

    def _value(self, o: Outcomes, empty: float | None) -> Any:
        """The value, ``empty`` where nothing counts; None: what torchmetrics gives there."""
        return average_ratio(self._ratio, o, self.average, self._counted(o), self.zero_division, empty)

    def _result(self, state: ClassCounts) -> Result:
        o = self._outcomes(state)
        arrays = {"per_class": self._per_class(o), "tp": o.tp, "fp": o.fp, "fn": o.fn, "tn": o.tn, "support": o.true}
        if self.task.kind == "binary":
            arrays = {name: array[0] for name, array in arrays.items() if name != "per_class"}
        values: dict[str, Any] = {name: torch.as_tensor(array).cpu().numpy() for name, array in arrays.items()}
        if self.average not in ("none", None):
            values = {type(self).__name__: float(self._value(o, math.nan)), **values}
        missing = sorted(name for name, value in values.items() if bool(torch.as_tensor(value).isnan().any()))
        choices = {"average": self.average, "zero_division": self.zero_division, **self._choices()}
        return self._result_of(state, values, missing, choices)

    def _result_of(
        self, state: ClassCounts, values: dict[str, Any], missing: list[str], choices: dict[str, Any]
    ) -> Result:
        """A result of ``values``, with the reason why those that are ``missing`` are NaN or hold NaN."""
        samples, ignored = state.seen.tolist()
        signature = Signature({"metric": type(self).__name__, **self._identity.config, **choices})
        counts = {"samples": samples, "ignored": ignored}
        return Result(values, signature, counts, dict.fromkeys(missing, NO_SAMPLE))

    def _choices(self) -> dict[str, Any]:
        """Further choices of this metric, for its signature."""
        return {}


def choices_of(task: Task, top_k: int, threshold: float) -> tuple[int, float]:
    """``top_k`` and ``threshold`` if they belong to the task and lie in range."""
    multiclass = task.kind == "multiclass"
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= (task.classes if multiclass else 1):
        need = f"from 1 to num_classes={task.classes}" if multiclass else f"1 in the {task.kind} task"
        raise InputError(f"top_k must be an int {need} but got {top_k!r}")
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
        raise InputError(f"threshold must be a number from 0 to 1 but got {threshold!r}")
    if multiclass and threshold != 0.5:
        raise InputError(f"threshold must be left out in the multiclass task but got {threshold!r}: the argmax decides")
    if multiclass and task.activation != "auto":
        raise InputError(f"activation must be left out in the multiclass task but got {task.activation!r}:"
                         " it does not change the argmax")  # fmt: skip
    return top_k, float(threshold)


def without_activation(task: Task) -> dict[str, Any]:
    """The choices of a task whose prediction is the argmax."""
    return {name: choice for name, choice in task.config().items() if name != "activation"}
