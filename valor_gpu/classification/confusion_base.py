"""Base class of the metrics of a confusion matrix."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_dtype, check_same_device, check_shape
from valor_gpu.classification.class_counts import (
    count_classes,
    decided,
    error_of_scores,
    next_above,
    predicted_classes,
    samples_seen,
)
from valor_gpu.classification.examples import NOTHING, example_rows, thinned
from valor_gpu.classification.pair_counts import PairCounts, PairExamples
from valor_gpu.classification.plans import pairs_plan
from valor_gpu.classification.ratio_base import choices_of, without_activation
from valor_gpu.classification.resampled_classes import resampled_pairs
from valor_gpu.classification.task_metric import TaskMetric
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.metric import Metric
from valor_gpu.ops.dtypes import INT_TYPES
from valor_gpu.ops.labels.op import count_labels, count_pairs
from valor_gpu.ops.predictions.op import confuse_scores
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.result import Result, Signature

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions

_SMALL = 8  # a batch with fewer rows than one in so many cells of its matrix is counted later,
_FEW_CELLS = 1 << 16  # unless the matrix is small enough to add one to another every time,
_FEW_CELLS_ON_CUDA = 1 << 22  # where 32 MB are added sooner than the host launches what pending rows take
_THIN_EVERY = 64  # updates, since looking through the parts costs host time


def _check_memory(task: Task) -> None:
    """Raises unless the matrix of ``task`` fits into the memory of this machine."""
    size = 8 * task.classes * (task.classes if task.kind == "multiclass" else 4)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > memory:
        need = f"{task.classes} classes need {size / 2**30:,.0f} GiB and this machine has {memory / 2**30:,.0f} GiB"
        raise InputError(f"num_classes must be so small that the matrix fits into memory but {need}")


class PairMetric(TaskMetric[PairCounts]):
    """Base of the metrics of a confusion matrix; those of equal configuration share one ``update`` in a collection.

    Args:
        max_examples: how many samples of each cell are kept, 24 bytes each; 0 keeps none.
    """

    update_family: ClassVar[str | None] = "class pairs"
    matrix: Tensor
    pending: list[Tensor]
    picked: list[Tensor]

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        activation: str = "auto",
        max_examples: int = 0,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        task = Task.of(num_classes, num_labels, ignore_index, activation)
        self.threshold = choices_of(task, 1, threshold)[1]
        if isinstance(max_examples, bool) or not isinstance(max_examples, int) or max_examples < 0:
            raise InputError(f"max_examples must be an int of at least 0 but got {max_examples!r}")
        self.max_examples = max_examples
        multiclass = task.kind == "multiclass"
        _check_memory(task)
        zeros = torch.zeros((task.classes,) * 2 if multiclass else (task.classes, 2, 2), dtype=torch.float64)
        self._cells = zeros.numel()
        seen = torch.zeros(4, dtype=torch.int64)
        empty = PairCounts(zeros, seen, torch.zeros((0, 2), dtype=torch.float64))
        if max_examples:
            empty = PairExamples(zeros, seen, empty.pending, torch.zeros((0, 3), dtype=torch.int64))
        kind = without_activation(task) if multiclass else {**task.config(), "threshold": self.threshold}
        super().__init__(task, empty, {**kind, "max_examples": max_examples}, **kwargs)

    _plan_methods = (*TaskMetric._plan_methods, "_count_classes", "_count_elements")

    def _planner(self) -> Planner:
        return pair_planner(self.__dict__, ("task", "threshold", "max_examples"), self._plan, cuda=self._plan)

    def _plan(self, form: Form) -> Plan | None:
        few = _FEW_CELLS if form.on_cpu else _FEW_CELLS_ON_CUDA
        if self.max_examples or self._pends(form.target_shape.numel(), few):
            return None
        return pairs_plan(form, self.task, partial(next_above, self.threshold))

    def update(
        self, preds: Values, target: Values, sample_weight: Values | None = None, sample_ids: Values | None = None
    ) -> None:
        """Counts a batch.

        Args:
            preds: multiclass: scores (logits or probabilities of any float dtype) ``[N, C, ...]`` or class indices
                ``[N, ...]``. Else scores or integers 0 and 1, ``[N, L, ...]`` or in the binary task ``[N, ...]``.
            target: multiclass: class indices ``[N, ...]``; else 0 and 1 in the shape of ``preds``.
            sample_weight: ``[N]``, or one weight for each element of ``[N, ...]``; from 0 to 1e60.
            sample_ids: integer ``[N]``, the names of the samples in examples. A sample without one is named by how many
                came before it; where states are merged, the samples of the first come first.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN scores, targets out of range) are
                raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        preds, target = as_values("preds", preds), as_values("target", target)
        batch = score_batch(preds, target, self.task, sample_weight)
        if sample_ids is not None:
            sample_ids = as_values("sample_ids", sample_ids)
            check_shape("sample_ids", sample_ids, (target.shape[0],))
            check_dtype("sample_ids", sample_ids, INT_TYPES)
            check_same_device(("preds", "sample_ids"), (preds, sample_ids))
        counted = self._count_classes if self.task.kind == "multiclass" else self._count_elements
        predicted, matrix, pending, error, seen = counted(batch)
        deferred = self._raise_or_defer(error)
        counts = PairCounts(matrix, seen, pending)
        if not self.max_examples:
            self._add(counts, deferred)
        else:
            cells = self._cells_of(predicted, batch.target)
            picked = example_rows(cells, self._cells, self.max_examples, target.shape[0], sample_ids)
            self._add(PairExamples(matrix, counts.seen, pending, picked), deferred)
            if torch.compiler.is_compiling() or len(self.picked) % _THIN_EVERY == 0:
                self._thin_examples()
        if len(pending) and len(self.pending) % _THIN_EVERY == 0:
            self._count_pending()

    def _count_classes(self, batch: ScoreBatch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Predicted classes ``[N]``, the matrix of the batch, what is pending of it, its first error, what was seen."""
        task, rows = self.task, batch.target.shape[0]
        few = _FEW_CELLS_ON_CUDA if batch.target.is_cuda and batch.weight is None else _FEW_CELLS
        later = self._pends(rows, few) and not torch.compiler.is_compiling()  # a program has one state for all updates
        if not (batch.hard or later) and batch.weight is None and batch.preds.ndim == 2:
            found = confuse_scores(batch.preds, batch.target, ignore_index=task.ignore_index)
            return found.classes, found.matrix.double(), self._none_pending(), found.error, samples_seen(batch)
        predicted, read = predicted_classes(batch)
        choices: Any = {"ignore_index": task.ignore_index, "weight": batch.weight}
        if later:
            error = count_labels(predicted, batch.target, task.classes, **choices).error
            matrix, pending = cast(Tensor, self._defaults["matrix"]), self._pending_of(predicted, batch)
        else:
            pairs = count_pairs(predicted, batch.target, task.classes, **choices)
            matrix, pending, error = pairs.matrix.double(), self._none_pending(), pairs.error
        error = error if read is None else error_of_scores(error, read)
        return predicted, matrix, pending, error, samples_seen(batch)

    def _pends(self, rows: int, few: int = _FEW_CELLS) -> bool:
        """Whether a batch is so small beside the matrix that it is counted later."""
        return self.task.kind == "multiclass" and max(_SMALL * rows, few) < self._cells

    def _none_pending(self) -> Tensor:
        return torch.empty((0, 2), dtype=torch.float64, device=self.matrix.device)

    def _pending_of(self, predicted: Tensor, batch: ScoreBatch) -> Tensor:
        """float64 ``[N, 2]``, cell and weight of every sample; 0 and 0 of those that do not count."""
        classes, target = self.task.classes, batch.target.long()
        counts = (target >= 0) & (target < classes) & (predicted >= 0) & (predicted < classes)
        if self.task.ignore_index is not None:
            counts &= target != self.task.ignore_index
        weight = counts.double() if batch.weight is None else torch.where(counts, batch.weight, 0.0)
        return torch.stack((torch.where(counts, target * classes + predicted, 0).double(), weight), 1)

    def _count_pending(self) -> None:
        """Counts what is pending once it is as large as the matrix, so that memory stays below two matrices."""
        if 2 * sum(map(len, self.pending)) >= self._cells:
            rows = torch.cat([part.to(self.matrix.device) for part in self.pending])
            self.matrix, self.pending = self.matrix + self._matrix_of(rows), []

    def _matrix_of(self, rows: Tensor) -> Tensor:
        """float64 ``[C, C]`` of pending rows."""
        cells, classes = rows[:, 0].long(), self.task.classes
        return count_pairs(cells % classes, cells // classes, classes, weight=rows[:, 1]).matrix

    def _count_elements(self, batch: ScoreBatch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What was decided of each element, bool ``[N, L]``, the matrices of the batch, nothing, and as above."""
        counts, error = count_classes(batch, threshold=self.threshold)
        o = counts.outcomes
        matrix = torch.stack((o.tn, o.fp, o.fn, o.tp), 1).reshape(-1, 2, 2)
        if not self.max_examples:
            return batch.target, matrix, self._none_pending(), error, counts.seen
        scores, least = decided(batch, self.threshold)
        return scores >= least, matrix, self._none_pending(), error, counts.seen

    def _cells_of(self, predicted: Tensor, target: Tensor) -> Tensor:
        """int64 ``[E]``, the cell of every element; ``NOTHING`` where the target is ignored."""
        side = self.task.classes if self.task.kind == "multiclass" else 2
        cells = target.long() * side + predicted
        if self.task.kind != "multiclass":
            cells += torch.arange(self.task.classes, device=cells.device) * 4
        if self.task.ignore_index is not None:
            cells = torch.where(target == self.task.ignore_index, NOTHING, cells)
        return cells.reshape(-1)

    def _thin_examples(self) -> None:
        """Keeps memory bounded by what will be shown; a joined state is not to be looked at between updates."""
        if sum(map(len, self.picked)) > 4 * self._cells * self.max_examples + 1024:
            rows = torch.cat([part.to(self.picked[0].device) for part in self.picked])
            self.picked = [thinned(rows, self._cells, self.max_examples)]

    def _counted(self) -> Tensor:
        """The matrix of the state; where nothing is pending and ``state`` is as written, without the other fields."""
        if self.pending or self.compute_on_cpu or getattr(self.state, "__func__", None) is not Metric.state:
            return self._matrix(self.state())
        return self.matrix[0] if self.task.kind == "binary" else self.matrix

    def _matrix(self, state: PairCounts) -> Tensor:
        """float64 ``[C, C]``, or multilabel ``[L, 2, 2]``."""
        if len(state.pending):
            return state.matrix + self._matrix_of(state.pending)
        return state.matrix[0] if self.task.kind == "binary" else state.matrix

    def _result_of(
        self, state: PairCounts, values: dict[str, Any], choices: dict[str, Any], reason: str, plot: Any
    ) -> Result:
        """A result of ``values``, with ``reason`` for every one that is NaN or holds NaN."""
        missing = [name for name, value in values.items() if bool(np.isnan(value).any())]
        samples, ignored = state.seen.tolist()[:2]
        signature = Signature({"metric": type(self).__name__, **self._identity.config, **choices})
        counts, reasons = {"samples": samples, "ignored": ignored}, dict.fromkeys(missing, reason)
        return Result(values, signature, counts, reasons, plot, state=lambda: resampled_pairs(self, state))

    def _number(self, matrix: Any) -> float | None:
        """The number of a matrix ``[C, C]`` or ``[L, 2, 2]``; None: the metric has none, but the matrix."""
        return None
