"""Base class of the metrics that are a ratio of counts of classes: one update for all."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.classification.class_counts import ClassCounts, SampleCounts, count_classes, count_samples, next_above
from valor_gpu.classification.class_ratio import ClassRatio
from valor_gpu.classification.plans import class_counts_plan
from valor_gpu.classification.resampled_classes import cells_of_classes
from valor_gpu.classification.resampled_rows import ResampledRows, RowCounts, empty_rows, row_codes
from valor_gpu.classification.task_metric import TaskMetric, check_multidim
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import Task, score_batch
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.reduce.ratios import AVERAGES, NO_SAMPLE, Outcomes
from valor_gpu.result import Result, Signature
from valor_gpu.stats.counts import ResampledParts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled


class RatioMetric(ClassRatio, TaskMetric[ClassCounts]):
    """Base of the metrics that are a ratio of class counts; a subclass gives the ratio in ``_ratio``.

    All of them with equal ``num_classes``, ``num_labels``, ``top_k``, ``threshold``, ``ignore_index`` and
    ``activation`` share one ``update`` in a ``MetricCollection``. Values equal those of torchmetrics' class of the same
    name. Unweighted results have the same bits for any split and order of the samples, except where
    ``activation="auto"`` decides otherwise for another batch.

    Args:
        average: ``micro`` pools the counts of all classes; ``macro`` averages over classes that were predicted or are
            true (multilabel: over all labels); ``weighted`` averages by support; ``none`` or None gives every class.
            The binary task has one class, 1.
        top_k: multiclass: the target counts as predicted if it is among the ``top_k`` largest scores of its row.
            ``macro`` means of accuracy, precision, recall and negative predictive value then take the classes that are
            true.
        zero_division: value of a class whose denominator is 0: 0 (default), 1 or NaN, which leaves it out of means.
        multidim_average: ``global``: all elements count alike; ``samplewise``: one value for each sample n, of its
            elements ``[n, ...]``. The state then keeps 32 C bytes per sample.
        keep_rows: keep the outcome of every row, for intervals of means over classes and of clusters of rows; see
            docs/guides/intervals.md. A row takes the smallest integer dtype that holds it, or a byte per label.
    """

    update_family: ClassVar[str | None] = "class counts"
    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    _zero_division: ClassVar[float] = 0.0

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
        multidim_average: str = "global",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        task = Task.of(num_classes, num_labels, ignore_index, activation)
        check_choice("average", average, AVERAGES)
        self.average = "micro" if task.kind == "binary" else average
        self.top_k, self.threshold = choices_of(task, top_k, threshold)
        self.zero_division = self._zero_division if zero_division is None else float(zero_division)
        if self.zero_division not in (0, 1) and not math.isnan(self.zero_division):
            raise InputError(f"zero_division must be 0, 1 or NaN but got {zero_division!r}")
        self.multidim_average = check_multidim(multidim_average)
        check_type("keep_rows", keep_rows, bool)
        if keep_rows and self.multidim_average != "global":
            raise InputError(f"keep_rows must be False with multidim_average={multidim_average!r}, which keeps samples")
        self.keep_rows = keep_rows
        super().__init__(task, self._empty(task), self._config(task), **kwargs)

    def _empty(self, task: Task) -> ClassCounts:
        """The state without data."""
        shape, seen = (4, task.classes), torch.zeros(4, dtype=torch.int64)
        if self.multidim_average == "global":
            counts = torch.zeros(shape, dtype=torch.float64)
            return RowCounts(counts, seen, empty_rows(task)) if self.keep_rows else ClassCounts(counts, seen)
        return SampleCounts(torch.zeros((0, *shape), dtype=torch.float64), seen)

    def _planner(self) -> Planner | None:
        if self.multidim_average != "global" or self.keep_rows:
            return None
        return pair_planner(self.__dict__, ("task", "top_k", "threshold"), self._plan, cuda=self._plan)

    def _plan(self, form: Form) -> Plan | None:
        return class_counts_plan(form, self.task, self.top_k, partial(next_above, self.threshold))

    def _config(self, task: Task) -> dict[str, Any]:
        """The choices that ``update`` depends on."""
        shared: dict[str, Any] = {}
        if self.multidim_average != "global":
            shared["multidim_average"] = self.multidim_average
        if self.keep_rows:
            shared["keep_rows"] = True
        if task.kind == "multiclass":
            return {**without_activation(task), "top_k": self.top_k, **shared}
        return {**task.config(), "threshold": self.threshold, **shared}

    def update(self, preds: Values, target: Values, sample_weight: Values | None = None) -> None:
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
        target = as_values("target", target)
        batch = score_batch(preds, target, self.task, sample_weight)
        counts: ClassCounts
        if self.multidim_average == "global":
            counts, error = count_classes(batch, self.top_k, self.threshold)
            if self.keep_rows:
                counts = RowCounts(counts.counts, counts.seen, row_codes(batch, self.top_k, self.threshold))
        else:
            counts, error = count_samples(batch, len(target), self.top_k, self.threshold)
        self._add(counts, self._raise_or_defer(error))

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the value as torchmetrics gives it: float32 ``[]``, or ``[C]`` without average.

        With ``multidim_average="samplewise"`` that of each sample, ``[N]`` or ``[N, C]``.
        """
        value = self._value(self._outcomes(self.state()), None)
        return value.float() if isinstance(value, Tensor) else torch.from_numpy(np.asarray(value, np.float32))

    def result(self, intervals: int | str | Bootstrap | None = None) -> Result:
        """Returns the value in float64, the value of every class, and the counts behind them.

        ``per_class``, ``tp``, ``fp``, ``fn``, ``tn`` and ``support`` are arrays ``[C]``, in the binary task numbers. A
        number whose denominator is 0 is NaN, with a reason, but means take it as ``zero_division``. With
        ``multidim_average="samplewise"`` every number is one of each sample: an array of N rows.

        Args:
            intervals: also give the intervals of the numbers, from so many replicates, or by all choices of a
                bootstrap. See docs/guides/intervals.md for the numbers that have one.

        Raises:
            InputError: ``intervals`` is given, and samples have weights, or ``multidim_average`` is ``samplewise``.
        """
        with self.synced_state() as state:
            result = self._result(state)
        return result if intervals is None else result.with_intervals(intervals)

    def _outcomes(self, state: ClassCounts) -> Outcomes:
        if not state.counts.is_cpu:
            return state.outcomes
        counts = state.counts.numpy()
        return Outcomes(*(counts if counts.ndim == 2 else counts.swapaxes(0, 1)))

    def _result(self, state: ClassCounts) -> Result:
        o = self._outcomes(state)
        arrays = {"per_class": self._per_class(o), "tp": o.tp, "fp": o.fp, "fn": o.fn, "tn": o.tn, "support": o.true}
        if self.task.kind == "binary":
            arrays = {name: array[..., 0] for name, array in arrays.items() if name != "per_class"}
        values: dict[str, Any] = {name: torch.as_tensor(array).cpu().numpy() for name, array in arrays.items()}
        if self.average not in ("none", None):
            found = self._value(o, math.nan)
            value = found.cpu().numpy() if isinstance(found, Tensor) else np.asarray(found)
            values = {type(self).__name__: value if value.ndim else float(value), **values}
        missing = sorted(name for name, value in values.items() if bool(torch.as_tensor(value).isnan().any()))
        choices = {"average": self.average, "zero_division": self.zero_division, **self._choices()}
        return self._result_of(state, values, missing, choices)

    def _result_of(
        self, state: ClassCounts, values: dict[str, Any], missing: list[str], choices: dict[str, Any]
    ) -> Result:
        """A result of ``values``, with the reason why those that are ``missing`` are NaN or hold NaN."""
        samples, ignored = state.seen.tolist()[:2]
        config = {name: choice for name, choice in self._identity.config.items() if name != "keep_rows"}
        signature = Signature({"metric": type(self).__name__, **config, **choices})
        counts, reasons = {"samples": samples, "ignored": ignored}, dict.fromkeys(missing, NO_SAMPLE)
        return Result(values, signature, counts, reasons, state=lambda: self._resampled(state))

    def _resampled(self, state: ClassCounts) -> Resampled:
        cells = cells_of_classes(self, state)
        if isinstance(state, RowCounts):
            return ResampledRows(self, state, cells)
        return ResampledParts(cells, f"make the metric with {type(self).__name__}(keep_rows=True)")

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
