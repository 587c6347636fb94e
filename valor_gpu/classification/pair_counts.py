"""Counts of pairs of true and predicted class as state."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from valor_gpu.classification.class_counts import check_seen
from valor_gpu.classification.examples import END, NOTHING
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import Task
from valor_gpu.ops.targets.op import MAX_WEIGHT
from valor_gpu.state import State, check_elements, check_sums, joined, summed


@dataclass(frozen=True)
class PairCounts(State):
    """Counts of pairs of true and predicted class, or sums of weights.

    Attributes:
        matrix: float64 ``[C, C]``, rows are true classes; binary and multilabel ``[L, 2, 2]``.
        seen: int64 ``[4]``, rows, targets equal to ``ignore_index``, and marks of :class:`TaskMetric`.
        pending: float64 ``[N, 2]``, cell and weight of samples that are in no matrix yet: those of batches that are
            small beside a matrix of many classes.
    """

    matrix: Tensor = summed()
    seen: Tensor = summed()
    pending: Tensor = joined()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the matrix holds sums, and pending rows name cells of it."""
        check_sums("matrix", self.matrix)
        check_seen(self.seen, rule)
        if rule.kind != "multiclass" and len(self.pending):
            raise InputError(
                f"state field pending must be empty in the {rule.kind} task but has {len(self.pending)} rows"
            )
        cells, weights = self.pending.unbind(1)
        known = (cells >= 0) & (cells < self.matrix.numel()) & (cells == cells.floor())
        check_elements("pending", self.pending, known, f"name a cell from 0 to {self.matrix.numel() - 1}")
        check_elements("pending", self.pending, (weights >= 0) & (weights <= MAX_WEIGHT), "weigh 0 to 1e60")


@dataclass(frozen=True)
class PairExamples(PairCounts):
    """PairCounts with samples to show.

    Attributes:
        picked: int64 ``[N, 3]``, see :mod:`valor_gpu.classification.examples`.
    """

    picked: Tensor = joined()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the counts are sound and picked rows name cells of the matrix."""
        super().check(rule)
        cells, names, running = self.picked.unbind(1)
        known = (cells >= NOTHING) & (cells < self.matrix.numel())
        check_elements("picked", self.picked, known, f"name a cell from {NOTHING} to {self.matrix.numel() - 1}")
        check_elements("picked", self.picked, (running == 0) | (running == 1), "end in 0 or 1")
        counted = (names >= 0) & (names <= 2**53)
        check_elements("picked", self.picked, counted | ((cells != END) & (running == 0)), "count from 0 to 2^53")
