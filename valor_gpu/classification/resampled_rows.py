"""What was decided of every row, as the bootstrap asks it: of means over classes, and of clusters of rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.classification.class_counts import ClassCounts, decided, predicted_classes
from valor_gpu.classification.row_trials import trials_of
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task
from valor_gpu.reduce.ratios import Outcomes
from valor_gpu.state import check_elements, check_rows, joined
from valor_gpu.stats.clusters import codes_by_name
from valor_gpu.stats.counts import ResampledCounts, ResampledParts
from valor_gpu.stats.resample import Floats, Resampled, holders
from valor_gpu.stats.trials import tests_of_trials
from valor_gpu.stats.units import Units

if TYPE_CHECKING:
    from valor_gpu.classification.class_ratio import ClassRatio
    from valor_gpu.stats.counts import Counts, Proportions
    from valor_gpu.stats.draws import Draws
    from valor_gpu.stats.paired_test import PairedTest
    from valor_gpu.stats.units import Pairing

_IGNORED = -1
_TN, _FP, _FN, _TP = range(4)  # 2 x true + predicted
_ELEMENTS_AT_A_TIME = 1 << 20  # 8 MB as float64
_MOST_AT_A_TIME = 64


@dataclass(frozen=True)
class RowCounts(ClassCounts):
    """Counts of each class, and what they are counts of.

    Attributes:
        rows: multiclass: ``[N]``, C x true class + predicted class; else int8 ``[N, L]``, 2 x true + predicted. The
            smallest integer dtype; -1: ignored.
    """

    rows: Tensor = joined()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the counts are sound, and there is a code for each row."""
        super().check(rule)
        check_rows("rows", self.rows, int(self.seen[0]), "seen")
        most = (rule.classes**2 if rule.kind == "multiclass" else 4) - 1
        known = (self.rows >= _IGNORED) & (self.rows <= most)
        check_elements("rows", self.rows, known, f"be a pair of classes from 0 to {most}, or -1")


def empty_rows(task: Task) -> Tensor:
    """Returns the codes of no rows."""
    if task.kind != "multiclass":
        return torch.empty((0, task.classes), dtype=torch.int8)
    fits = (d for d in (torch.int8, torch.int16, torch.int32) if task.classes**2 - 1 <= torch.iinfo(d).max)
    return torch.empty(0, dtype=next(fits, torch.int64))


def row_codes(batch: ScoreBatch, top_k: int, threshold: float) -> Tensor:
    """Returns the codes of the rows of a batch, as :class:`RowCounts` has them.

    It does not synchronise with the device; codes of values that are an error have no meaning.
    """
    task, target = batch.task, batch.target.long()
    if task.kind == "multiclass":
        predicted = predicted_classes(batch, top_k)[0].long()
        codes, sides = target * task.classes + predicted, task.classes
    else:
        scores, least = decided(batch, threshold)
        codes, sides = 2 * target + (scores >= least), 2
    sound = (target >= 0) & (target < sides)
    if task.ignore_index is not None:
        sound &= target != task.ignore_index
    return torch.where(sound, codes, _IGNORED).to(empty_rows(task).dtype)


class ResampledRows(Resampled):
    """Rows of decisions as the bootstrap asks them.

    Args:
        metric: that gives the numbers.
        state: of the metric.
        cells: of the same metric, which serve where the numbers of cells are exact.
    """

    family = "ratio"

    def __init__(self, metric: ClassRatio, state: RowCounts, cells: Sequence[ResampledCounts]) -> None:
        self._metric, self._swapped = metric, False
        self._cells = ResampledParts([part for part in cells if part.has_numbers] or cells)
        self._cells_do = cells[0].has_numbers or metric.average in ("none", None)
        codes = state.rows.cpu().numpy()
        counted = codes >= 0 if codes.ndim == 1 else np.ones(len(codes), bool)
        self._rows = len(codes)
        self._counted = counted
        self._set_codes(codes[counted])

    def _set_codes(self, codes: NDArray[Any]) -> None:
        self.units = len(codes)
        self._kinds, self._kind_of = _kinds_of(codes)
        kinds = self._kinds
        self.chunk = max(1, min(_MOST_AT_A_TIME, _ELEMENTS_AT_A_TIME // max(1, len(kinds))))

    def supports(self, clusters: NDArray[np.int64] | None = None) -> Mapping[str, int]:
        """Returns the rows, or the clusters, that hold a truth of a number.

        Of clusters proportions of rows need them, too: Wilson's interval is of rows that stand alone.
        """
        rows = self._cells.supports()
        if clusters is None:
            return rows
        if self._kinds.ndim == 1:
            classes = self._kinds[self._kind_of] // self._metric.task.classes
            units = np.arange(self.units)
        else:
            units, classes = np.nonzero(self._kinds[self._kind_of] >= _FN)
        held = holders(classes, units, self._metric.task.classes, self._of_units(clusters))
        by_class = {name for name in self._cells.proportions() if "/" in name}
        return {name: held[int(name.rpartition("/")[2]) if "/" in name else 0] for name in {*rows, *by_class}}

    def proportions(self) -> Proportions:
        """Returns successes and trials of the numbers that are proportions of rows."""
        return self._cells.proportions()

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """Returns the codes of the clusters of the rows, in the order of the clusters.

        Args:
            given: the cluster of every row, in the order of updates (and of ranks), or by the index of the row.

        Raises:
            InputError: a row has no cluster, or there are more of them than rows.
        """
        rows = range(self._rows)
        if isinstance(given, Mapping):
            if missing := [row for row in rows if row not in given]:
                raise InputError(f"clusters must name that of each of {self._rows} rows but lacks row {missing[0]}")
            given = [given[row] for row in rows]
        if len(given) != self._rows:
            raise InputError(f"clusters must have one for each of {self._rows} rows but has {len(given)}")
        return codes_by_name(given)

    def identities(self) -> Units:
        """Returns the rows that count by the place at which they came, with their targets."""
        codes, truths = self._kinds[self._kind_of], self._kinds
        truths = truths // self._metric.task.classes if codes.ndim == 1 else np.where(truths < 0, truths, truths >= _FN)
        arrival = np.flatnonzero(self._counted)
        return Units("rows", None, arrival, self._rows, self._kind_of, truths[self._kind_of], "target")

    def swapping(self, other: Resampled) -> ResampledRows | None:
        """Returns the rows of both models; see :meth:`Resampled.swapping`."""
        if not isinstance(other, ResampledRows):
            return None
        found = copy.copy(self)
        found._swapped, found._cells_do = True, False
        found._set_codes(np.concatenate([side._kinds[side._kind_of] for side in (self, other)]))
        return found

    def paired_tests(self, other: Resampled, pairing: Pairing, confidence: float) -> Mapping[str, PairedTest]:
        """Returns the tests of McNemar of numbers that are proportions of the same rows for both models."""
        if not isinstance(other, ResampledRows):
            return {}
        sides = (trials_of(side._metric, side._kinds[side._kind_of], side.proportions()) for side in (self, other))
        return tests_of_trials(next(sides), next(sides), pairing, confidence)

    def _of_units(self, each: NDArray[Any]) -> NDArray[Any]:
        """What rows have, such as clusters or weights, of the rows that count; a pairing is of these alone."""
        return each if len(each) == self.units else each[self._counted]

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of replicates."""
        together = self._swapped or draws.clusters is not None
        found = {} if together else dict(self._cells.replicates(draws))
        if not together and self._cells_do:
            return found
        for column, outcomes in enumerate(self._outcomes(self._counts(draws, together))):
            numbers = self._metric._numbers(outcomes)
            if together:
                numbers |= self._metric._class_numbers(outcomes)
            for name, number in numbers.items():
                found.setdefault(name, np.empty(draws.count))[column] = number
        return found

    def _counts(self, draws: Draws, together: bool) -> Counts:
        """How often rows of each kind are drawn, int64 ``[kinds, L]``."""
        if not together:
            return replace(draws, units=self.units).cells(np.bincount(self._kind_of, minlength=len(self._kinds)))
        by_kind = np.argsort(self._kind_of.astype(_smallest(len(self._kinds))), kind="stable")
        starts = np.searchsorted(self._kind_of[by_kind], np.arange(len(self._kinds)))
        of = by_kind if draws.clusters is None else self._of_units(draws.clusters)[by_kind]
        drawn = np.ascontiguousarray(replace(draws, units=draws.drawn, clusters=None).array().T)
        counts = np.zeros((len(self._kinds), draws.count), np.int64)
        for column in range(draws.count if len(starts) else 0):
            counts[:, column] = np.add.reduceat(drawn[column][of], starts, dtype=np.int64)
        return counts

    def _outcomes(self, counts: Counts) -> Iterator[Outcomes]:
        classes = self._metric.task.classes
        made = _of_pairs(self._kinds, classes) if self._kinds.ndim == 1 else _of_labels(self._kinds, counts)
        for column in range(counts.shape[1]):
            yield made(counts[:, column], column)


def _kinds_of(codes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different rows of codes, ascending, and which of them each row is."""
    if codes.ndim == 1 and len(codes) and int(codes.max()) < 4 * len(codes):
        kinds = np.flatnonzero(np.bincount(codes))
        numbers = np.zeros(int(kinds[-1]) + 1, np.int64)
        numbers[kinds] = np.arange(len(kinds))
        return kinds, numbers[codes]
    kinds, found = np.unique(codes, axis=0, return_inverse=True)
    return kinds, found.reshape(-1)


def _smallest(kinds: int) -> type[np.unsignedinteger[Any]]:
    """The dtype that numpy sorts fastest."""
    return np.uint16 if kinds <= 1 << 16 else np.uint32


def _of_pairs(kinds: NDArray[Any], classes: int) -> Callable[[Counts, int], Outcomes]:
    true, predicted = np.divmod(kinds.astype(np.int64), classes)
    right = true == predicted

    def outcomes(counts: Counts, _: int) -> Outcomes:
        tp = np.bincount(true[right], counts[right], classes)
        taken, held = (np.bincount(side, counts, classes) for side in (predicted, true))
        return Outcomes(tp, taken, held, np.full(classes, float(counts.sum())))

    return outcomes


def _of_labels(kinds: NDArray[Any], counts: Counts) -> Callable[[Counts, int], Outcomes]:
    drawn = counts.astype(np.float64)  # for a product by BLAS: whole numbers, so exact in any order
    labels = kinds.shape[1]
    sums = np.zeros((4, labels, counts.shape[1]))
    step = max(1, _ELEMENTS_AT_A_TIME // max(1, len(kinds)))
    for first in range(0, labels, step):
        block = np.ascontiguousarray(kinds[:, first : first + step].T)
        for code in range(4):
            sums[code, first : first + step] = (block == code).astype(np.float64) @ drawn

    def outcomes(_: Counts, column: int) -> Outcomes:
        tn, fp, fn, tp = np.ascontiguousarray(sums[:, :, column])
        return Outcomes(tp, tp + fp, tp + fn, tp + fp + fn + tn)

    return outcomes
