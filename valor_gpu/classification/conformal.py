"""Coverage and size of conformal prediction sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.classification.task_metric import ProbabilityMetric
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import Task, score_batch
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.ops.error_codes import PREDICTION, value_kind, value_row
from valor_gpu.ops.labels.op import TRUE, TRUE_POSITIVES, count_labels
from valor_gpu.reduce.conformal import least, rates, size_values, strata
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, check_elements, check_rows, check_sums, joined, summed
from valor_gpu.stats.cell_rows import CellRows
from valor_gpu.stats.counts import ResampledCounts, ResampledParts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled

_NO_SAMPLES = "there are no samples"
_NO_SUCH = "no sample is of such a class, or has such a set"
_MINIMUM = "a minimum over groups is biased downward, more so in a replicate"


@dataclass(frozen=True)
class SetCounts(State):
    """Counts of prediction sets.

    Attributes:
        by_class: int64 ``[2, C]``, samples of each class, and those among them whose set holds it.
        by_size: int64 ``[2, C + 1]``, samples by the number of classes in their set, and those among them whose set
            holds their class.
        seen: int64 ``[2]``, rows, and targets equal to ``ignore_index``.
    """

    by_class: Tensor = summed()
    by_size: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the counts are of the same samples, right ones among them."""
        check_sums("seen", self.seen)
        rows = self.seen[0] - self.seen[1]
        for name in ("by_class", "by_size"):
            counts = getattr(self, name)
            check_sums(name, counts)
            check_elements(name, counts, counts <= counts[:1], "be at most the samples")
            if int(counts[0].sum()) != int(rows):
                raise InputError(f"state field {name} must count {int(rows)} samples but has {int(counts[0].sum())}")


@dataclass(frozen=True)
class SetRows(SetCounts):
    """The counts, and what they are of.

    Attributes:
        rows: int64 ``[N]``, ``(class * (C + 1) + size of the set) * 2``, and 1 more where it holds the class; -1:
            ignored.
    """

    rows: Tensor = joined()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the counts are those of the rows."""
        super().check(rule)
        check_rows("rows", self.rows, int(self.seen[0]), "seen")
        sizes = rule.classes + 1
        good = (self.rows >= -1) & (self.rows < 2 * rule.classes * sizes)
        check_elements("rows", self.rows, good, "be a class, a size and 0 or 1, or -1")
        codes = self.rows[self.rows >= 0]
        for name, of, size in (("by_class", codes // 2 // sizes, rule.classes), ("by_size", codes // 2 % sizes, sizes)):
            found = torch.stack([torch.bincount(each, minlength=size) for each in (of, of[codes % 2 == 1])])
            check_elements(name, getattr(self, name), getattr(self, name) == found, "be the counts of the rows")


class ConformalCoverage(ProbabilityMetric[SetCounts]):
    """Computes the coverage of prediction sets: the fraction of samples whose set holds their class.

    :meth:`result` also gives the mean size of the sets, the fractions of empty and of single ones, the coverage of
    each class and of each size of set, and the least of either: sets of split conformal prediction have the coverage
    that they were made for over all samples, not in each group of them. Counts are whole numbers: any order and split
    of the samples has the same bits. There is no ``sample_weight``: coverage is promised to exchangeable
    samples, and weights, as under covariate shift, belong to the choice of the threshold.

    Source: Angelopoulos and Bates, A gentle introduction to conformal prediction and distribution-free uncertainty
    quantification (2021), sections 1.1 and 3; Sadinle, Lei and Wasserman, Least ambiguous set-valued classifiers with
    bounded error levels (2019).

    Args:
        num_classes: C.
        threshold: for scores: a set holds the classes whose score is at least this number, such as ``1 - q`` where
            split conformal prediction found the quantile q of ``1 - score``; None: only sets are taken.
        size_starts: the least size of set of each group of sizes, ascending from 0, such as ``(0, 2, 4, 11, 101)``;
            None: each size is a group.
        activation: ``none`` takes scores as they are; ``softmax`` and ``auto`` as elsewhere.
        keep_rows: also keep what the set of each sample is, 8 bytes, for comparisons and clusters.

    Example:
        >>> metric = ConformalCoverage(num_classes=3)
        >>> sets = torch.tensor([[True, True, False], [False, True, False], [True, False, True]])
        >>> metric.update(sets, torch.tensor([0, 1, 1]))
        >>> metric.compute()
        tensor(0.6667)
        >>> metric.result().values["mean_set_size"]
        1.6666666666666667
    """

    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    _marked = False

    def __init__(
        self,
        num_classes: int,
        *,
        threshold: float | None = None,
        size_starts: Sequence[int] | None = None,
        ignore_index: int | None = None,
        activation: str = "none",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        if num_classes is None:
            raise InputError("num_classes must be an int of at least 2 but got None")
        task = Task.of(num_classes, None, ignore_index, activation)
        number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
        if threshold is not None and not (number and math.isfinite(threshold)):
            raise InputError(f"threshold must be a finite number or None but got {threshold!r}")
        self.threshold = None if threshold is None else float(threshold)
        self.size_starts = None if size_starts is None else _starts(size_starts)
        check_type("keep_rows", keep_rows, bool)
        self.keep_rows = keep_rows
        zeros = [torch.zeros(shape, dtype=torch.int64) for shape in ((2, task.classes), (2, task.classes + 1), (2,))]
        if keep_rows:
            zeros.append(torch.zeros(0, dtype=torch.int64))
        empty = (SetRows if keep_rows else SetCounts)(*zeros)
        kept = {"keep_rows": True} if keep_rows else {}
        super().__init__(task, empty, {**task.config(), "threshold": self.threshold, **kept}, **kwargs)

    def update(self, preds: Values, target: Values) -> None:
        """Adds a batch.

        Args:
            preds: sets, bool ``[N, C, ...]``; with ``threshold`` also scores of any float dtype.
            target: class indices ``[N, ...]``.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN scores, targets out of range) are
                raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        given = as_values("preds", preds)
        if given.dtype == torch.bool:
            batch = score_batch(given.float(), target, replace(self.task, activation="none"))
            sets, good = batch.scores > 0, torch.ones(len(batch.target), dtype=torch.bool, device=given.device)
        else:
            if self.threshold is None:
                raise InputError(f"preds must be sets of bool, or threshold given for scores, but is {given.dtype}")
            batch = score_batch(given, target, self.task)
            scores = batch.decided()[0]
            sets, good = scores.double() >= self.threshold, ~scores.isnan().any(1)
        labels, ignored, classes = batch.target.reshape(-1).long(), self.task.ignore_index, self.task.classes
        inside = (labels >= 0) & (labels < classes)
        column = torch.where(inside, labels, 0)
        right = sets.gather(1, column[:, None])[:, 0]
        predicted = torch.where(good, torch.where(right, column, (column + 1) % classes), -1)
        found = count_labels(predicted, labels, classes, ignore_index=ignored)
        deferred = self._raise_or_defer(found.error)
        counted = torch.ones_like(inside) if ignored is None else labels != ignored
        size = torch.where(counted, sets.sum(1), -1)
        other = torch.where(right | ~counted, size, (size + 1) % (classes + 1))
        sizes = count_labels(other, size, classes + 1, ignore_index=-1).counts
        rows = torch.ones_like(labels).sum()
        by_class, by_size = (counts[[TRUE, TRUE_POSITIVES]] for counts in (found.counts, sizes))
        codes = torch.where(counted, (column * (classes + 1) + size) * 2 + right, -1)
        kept = (codes,) if self.keep_rows else ()
        self._add(self._kind(by_class, by_size, torch.stack((rows, (~counted).sum())), *kept), deferred)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the coverage, float32 ``[]``; NaN without samples."""
        rows, right = self.state().by_size.sum(1).double()
        covered: Tensor = right / rows
        return covered.float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns coverage and sizes in float64, arrays by class and by group of sizes, and counts.

        Args:
            intervals: also give the intervals of coverages, of all samples, classes and groups of sizes, and of the
                mean size. Minima have none. Clusters of a bootstrap need ``keep_rows=True``.
        """
        with self.synced_state() as state:
            by_class, by_size = state.by_class.cpu().numpy(), state.by_size.cpu().numpy()
            rows, ignored = state.seen.tolist()
            codes = state.rows.cpu().numpy() if isinstance(state, SetRows) else None
        groups = strata(by_size, self.size_starts)
        per_class, per_size = rates(by_class), rates(groups)
        values: dict[str, Any] = self._numbers(by_size)
        values |= {"least_class_coverage": least(per_class), "least_size_coverage": least(per_size)}
        values |= {"per_class": per_class, "per_size": per_size, "samples_per_size": groups[0]}
        reason = _NO_SAMPLES if rows == ignored else _NO_SUCH
        reasons = {name: reason for name, value in values.items() if np.isnan(value).any()}
        starts = {"size_starts": list(self.size_starts)} if self.size_starts else {}
        config = {name: choice for name, choice in self._identity.config.items() if name != "keep_rows"}
        signature = Signature({"metric": type(self).__name__, **config, **starts})
        counts = {"samples": rows, "ignored": ignored}
        made = Result(values, signature, counts, reasons, state=lambda: self._resampled(by_class, by_size, codes))
        return made if intervals is None else made.with_intervals(intervals)

    def _numbers(self, by_size: Any) -> dict[str, float]:
        found = size_values(by_size)
        return {"ConformalCoverage": found.pop("coverage"), **found}

    def _resampled(self, by_class: Any, by_size: Any, codes: Any) -> Resampled:
        def of_sizes(table: Any) -> dict[str, float]:
            sizes = _from_cells(table)
            groups = rates(strata(sizes, self.size_starts)).tolist()
            return {**self._numbers(sizes), **{f"per_size/{k}": rate for k, rate in enumerate(groups)}}

        def of_classes(table: Any) -> dict[str, float]:
            return {f"per_class/{k}": rate for k, rate in enumerate(rates(_from_cells(table)).tolist())}

        total = int(by_size[0].sum())
        whole = {
            "ConformalCoverage": (int(by_size[1].sum()), total),
            "empty": (int(by_size[0, 0]), total),
            "single": (int(by_size[0, 1]), total),
        }
        groups = strata(by_size, self.size_starts)
        refused = dict.fromkeys(("least_class_coverage", "least_size_coverage"), _MINIMUM)
        trials = {**whole, **_trials("per_size", groups)}
        parts = [
            ResampledCounts(_cells(by_size), of_sizes, refused=refused, proportions=trials),
            ResampledCounts(_cells(by_class), of_classes, proportions=_trials("per_class", by_class)),
        ]
        if codes is None:
            return ResampledParts(parts, f"make the metric with {type(self).__name__}(keep_rows=True)")
        classes, sizes = self.task.classes, self.task.classes + 1
        places = [
            lambda kinds: kinds // 2 % sizes + sizes * (1 - kinds % 2),  # the right ones first, see _cells
            lambda kinds: kinds // 2 // sizes + classes * (1 - kinds % 2),
        ]
        return CellRows(codes, parts, places, lambda kinds: kinds // 2 // sizes)

    def _describe(self, error: int) -> str:
        if value_kind(error) == PREDICTION:
            return f"preds[{value_row(error)}] must hold no NaN"
        return super()._describe(error)


def _starts(given: Sequence[int]) -> tuple[int, ...]:
    starts = tuple(given)
    whole = all(isinstance(start, int) and not isinstance(start, bool) for start in starts)
    if not whole or starts[:1] != (0,) or any(low >= high for low, high in pairwise(starts)):
        raise InputError(f"size_starts must be ints that ascend from 0 but got {given!r}")
    return starts


def _cells(counts: Any) -> Any:
    """A table of samples that are right and wrong, ``[1, 2 K]``, of counts ``[2, K]``."""
    return np.concatenate((counts[1], counts[0] - counts[1]))[None]


def _from_cells(table: Any) -> Any:
    right, wrong = table.reshape(2, -1)
    return np.stack((right + wrong, right))


def _trials(name: str, counts: Any) -> dict[str, tuple[int, int]]:
    return {f"{name}/{k}": (right, rows) for k, (rows, right) in enumerate(counts.T.tolist())}
