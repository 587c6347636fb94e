"""Rates of groups, and how far they are apart: demographic parity, equal opportunity and equalized odds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_int, check_number, check_same_device, check_shape, check_type
from valor_gpu.classification.class_counts import check_seen, decided, next_above, samples_seen
from valor_gpu.classification.resampled_groups import PARTS, resampled_gaps, resampled_parts, rows_of_groups
from valor_gpu.classification.task_metric import TaskMetric
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.ops.dtypes import INT_TYPES
from valor_gpu.ops.error_codes import GROUP, NAN_SCORE, PREDICTION, first_error, value_kind, value_row
from valor_gpu.ops.labels.op import TRUE, count_labels
from valor_gpu.ops.score_histogram.op import histogram_of
from valor_gpu.reduce.group_rates import (
    CRITERIA,
    fairness_values,
    gap_of,
    gap_reasons,
    group_rates,
    rates_of,
)
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, check_elements, check_rows, check_sums, joined, summed
from valor_gpu.stats.counts import ResampledCounts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions, TaskOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled

_TP, _FP, _TN, _FN = range(4)
_NOTHING = torch.zeros(0, dtype=torch.float64)
_NO_MEMBERS = "groups without samples have none"


@dataclass(frozen=True)
class GroupCounts(State):
    """Counts of G groups, or sums of weights; float64 holds counts up to 2^53 exactly.

    Attributes:
        counts: float64 ``[G, 4]``, true positives, false positives, true negatives and false negatives.
        seen: int64 ``[4]``, rows, targets equal to ``ignore_index``, and marks of :class:`TaskMetric`.
    """

    counts: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless counts are sums."""
        check_sums("counts", self.counts)
        check_seen(self.seen, rule)


@dataclass(frozen=True)
class GroupRows(GroupCounts):
    """The counts, and what they are of.

    Attributes:
        rows: int64 ``[N]``, ``4 * group``, and 0 to 3 more in the order of ``counts``; -1: ignored.
    """

    rows: Tensor = joined()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless there is a cell for each row."""
        super().check(rule)
        check_rows("rows", self.rows, int(self.seen[0]), "seen")
        good = (self.rows >= -1) & (self.rows < self.counts.numel())
        check_elements("rows", self.rows, good, "be a cell of a group, or -1")


class GroupMetric(TaskMetric[GroupCounts]):
    """Base of the metrics of groups: counts the decisions about the members of each.

    Args:
        num_groups: G, at least 2.
        threshold: scores above it are positive, compared in their own dtype.
        ignore_index: elements with this target are left out.
        group_names: of the groups, G different texts, which stand for their numbers wherever they are named.
        keep_rows: also keep group and outcome of each element, 8 bytes, for comparisons and clusters.
    """

    update_family = "groups"
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    takes_own_task = True
    _reads_target = True

    def __init__(
        self,
        num_groups: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        *,
        group_names: Sequence[str] | None = None,
        activation: str = "auto",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_type("keep_rows", keep_rows, bool)
        check_int("num_groups", num_groups, 2)
        check_number("threshold", threshold, 0, 1)
        self.num_groups, self.threshold = num_groups, threshold
        self.group_names = _checked_names(group_names, num_groups)
        self._rule = Task.of(None, None, ignore_index, activation)
        read = {} if self._reads_target else {"reads_target": False}
        kept = {"keep_rows": True} if keep_rows else {}
        config = {**self._rule.config(), "num_groups": num_groups, "threshold": threshold, **read, **kept}
        self.keep_rows = keep_rows
        zeros = torch.zeros((num_groups, 4), dtype=torch.float64), torch.zeros(4, dtype=torch.int64)
        empty = GroupRows(*zeros, torch.zeros(0, dtype=torch.int64)) if keep_rows else GroupCounts(*zeros)
        super().__init__(self._rule, empty, config, **kwargs)

    def update(self, preds: Values, target: Values | None, groups: Values, sample_weight: Values | None = None) -> None:
        """Adds a batch.

        Args:
            preds: probabilities or logits of any float dtype, or decisions 0 and 1 of an integer dtype, ``[N, ...]``.
            target: 0 and 1 in the shape of ``preds``.
            groups: integer group of each element in the shape of ``preds``, or ``[N]`` of each row; from 0 to G - 1.
            sample_weight: ``[N]``, or one weight for each element of ``[N, ...]``; from 0 to 1e60.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN scores, targets and groups out of
                range) are raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        if target is None or not self._reads_target:
            if self._reads_target:
                raise InputError("target must be given but got None: demographic parity alone needs none")
            preds = as_values("preds", preds)
            target, task = torch.zeros(preds.shape, dtype=torch.int8, device=preds.device), Task.of(None, None)
        else:
            task = self._rule
        batch = score_batch(preds, target, Task("binary", 1, task.ignore_index, self._rule.activation), sample_weight)
        members = _members(groups, batch, preds)
        decisions, outside, error = _decisions(batch, self.threshold)
        sound = (members >= 0) & (members < self.num_groups)
        deferred = self._raise_or_defer(torch.minimum(error, first_error([(~sound, GROUP)])))
        true = batch.target.reshape(-1).long().clamp(0, 1)
        positive = decisions.long()
        cells = members.long() * 4 + torch.where(true == 1, _TP + (_FN - _TP) * (1 - positive), _TN - positive)
        if task.ignore_index is not None:
            cells = torch.where(batch.target.reshape(-1) == task.ignore_index, -1, cells)
        counts = count_labels(cells, cells, 4 * self.num_groups, ignore_index=-1, weight=batch.weight).counts[TRUE]
        seen = samples_seen(batch, outside)
        rows = (cells,) if self.keep_rows else ()
        self._add(self._kind(counts.double().reshape(self.num_groups, 4), seen, *rows), deferred)

    def _describe(self, error: int) -> str:
        if value_kind(error) == GROUP:
            return f"groups[{value_row(error)}] must be from 0 to {self.num_groups - 1}"
        return super()._describe(error)

    def _result(self, state: GroupCounts, values: Mapping[str, Any], reasons: Mapping[str, str]) -> Result:
        """The result of values, with the counts of groups behind them."""
        samples, ignored = state.seen.tolist()[:2]
        counts = state.counts.cpu().numpy()
        each = {name: dict(zip(PARTS, row)) for name, row in zip(self.group_names, counts.tolist())}
        config = {name: choice for name, choice in self._identity.config.items() if name != "keep_rows"}
        signature = Signature({"metric": type(self).__name__, **config, **self._shown()})
        seen = {"samples": samples, "ignored": ignored}
        codes = state.rows.cpu().numpy() if isinstance(state, GroupRows) else None

        def resampled() -> Resampled:
            cells = self._resampled(counts, samples - ignored)
            return cells if codes is None else rows_of_groups(cells, codes)

        return Result({**values, "group_counts": each}, signature, seen, reasons, state=resampled)

    def _shown(self) -> dict[str, Any]:
        """Choices that ``update`` does not depend on, for the signature."""
        return {}

    def _resampled(self, counts: Any, rows: int) -> ResampledCounts:
        """The counts ``[G, 4]`` of so many rows as the bootstrap asks them."""
        raise NotImplementedError


class BinaryGroupStatRates(GroupMetric):
    """Computes the fractions of true and false positives and negatives among the members of each group.

    For each group they are ``(tp, fp, tn, fn) / (tp + fp + tn + fn)``, by ``group_0`` and so on; NaN where a group has
    no members.

    Source: Hardt, Price and Srebro, Equality of opportunity in supervised learning (2016); torchmetrics,
    ``BinaryGroupStatRates``.

    Example:
        >>> metric = BinaryGroupStatRates(num_groups=2)
        >>> metric.update(torch.tensor([0.9, 0.8, 0.2, 0.4]), torch.tensor([1, 0, 0, 1]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        {'group_0': tensor([0.5000, 0.5000, 0.0000, 0.0000]), 'group_1': tensor([0.0000, 0.0000, 0.5000, 0.5000])}
    """

    def __init__(
        self,
        num_groups: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        group_names: Sequence[str] | None = None,
        activation: str = "auto",
        keep_rows: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        options: Any = {**kwargs, "validate_args": validate_args, "keep_rows": keep_rows}
        super().__init__(num_groups, threshold, ignore_index, group_names=group_names, activation=activation, **options)

    def compute(self) -> dict[str, Tensor]:
        """Returns float32 ``[4]`` of each group by its name."""
        counts = self.state().counts
        rates = (counts / counts.sum(1, keepdim=True)).float()
        return {f"group_{name}": row for name, row in zip(self.group_names, rates)}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the fractions in float64 and, under ``group_counts``, the counts behind them.

        Args:
            intervals: also give the interval of each fraction, from so many replicates, or by all choices of a
                bootstrap.

        Raises:
            InputError: ``intervals`` is given, and sums of weights are kept.
        """
        with self.synced_state() as state:
            values = self._fractions(state.counts.cpu().numpy())
            reasons = {name: _NO_MEMBERS for name, row in values.items() if np.isnan(list(row.values())).any()}
            result = self._result(state, values, reasons)
        return result if intervals is None else result.with_intervals(intervals)

    def _fractions(self, counts: Any) -> dict[str, dict[str, float]]:
        rates = rates_of(counts, counts.sum(1, keepdims=True))
        return {f"group_{name}": dict(zip(PARTS, row)) for name, row in zip(self.group_names, rates.tolist())}

    def _resampled(self, counts: Any, rows: int) -> ResampledCounts:
        return resampled_parts(counts, rows, self.group_names)


class BinaryFairness(GroupMetric):
    """Computes how far groups are apart: the lowest of their rates divided by the highest; 1 is parity.

    Demographic parity compares the fractions of positive decisions, equal opportunity those among the positives, the
    true positive rates: ``DP = min P(d = 1 | g) / max P(d = 1 | g)`` over the groups g, ``EO`` likewise of
    ``P(d = 1 | y = 1, g)``. ``compute`` names the groups of both rates, as ``DP_1_0`` where group 1 has the lowest; of
    equal rates the first. A group without members, or without positives, has no rate and is left out; torchmetrics
    takes it for 0. Where the highest rate is 0 the ratio is NaN, in torchmetrics 0. :meth:`result` also has the
    differences, those of equalized odds (false positive rates too), and the rates of each group.

    Source: Dwork et al., Fairness through awareness (2012); Hardt, Price and Srebro, Equality of opportunity in
    supervised learning (2016); fairlearn, ``demographic_parity_ratio``.

    Args:
        task: ``demographic_parity``, which needs and reads no target, ``equal_opportunity`` or ``all``.

    Example:
        >>> metric = BinaryFairness(num_groups=2)
        >>> scores, target = torch.tensor([0.9, 0.8, 0.2, 0.6]), torch.tensor([1, 1, 1, 1])
        >>> metric.update(scores, target, torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        {'DP_1_0': tensor(0.5000), 'EO_1_0': tensor(0.5000)}
    """

    higher_is_better = True

    def __init__(
        self,
        num_groups: int,
        task: str = "all",
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        group_names: Sequence[str] | None = None,
        activation: str = "auto",
        keep_rows: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("task", task, tuple(CRITERIA))
        self.criterion = task
        self._reads_target = task != "demographic_parity"
        options: Any = {**kwargs, "validate_args": validate_args, "group_names": group_names, "activation": activation}
        options["keep_rows"] = keep_rows
        super().__init__(num_groups, threshold, ignore_index, **options)

    def compute(self) -> dict[str, Tensor]:
        """Returns float32 ``[]`` of each criterion by its name and those of its groups."""
        state = self.state()
        rates = group_rates(state.counts.cpu().numpy())
        found = {}
        for short, rate in CRITERIA[self.criterion].items():
            gap = gap_of(rates[rate])
            low, high = (self.group_names[place] for place in (gap.lowest, gap.highest))
            found[f"{short}_{low}_{high}"] = torch.tensor(gap.ratio, dtype=torch.float32, device=state.counts.device)
        return found

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns ratios, differences and the rates of each group in float64, and the counts behind them.

        Args:
            intervals: also give the interval of each number, from so many replicates, or by all choices of a bootstrap.
                Those of ratios and differences are of the groups that ``compute`` names, also where others are further
                apart in a replicate, so that they may end above 1, and below 0.

        Raises:
            InputError: ``intervals`` is given, and sums of weights are kept.
        """
        with self.synced_state() as state:
            rates = group_rates(state.counts.cpu().numpy())
            values = fairness_values(rates, self.criterion, self.group_names)
            result = self._result(state, values, gap_reasons(values))
        return result if intervals is None else result.with_intervals(intervals)

    def _shown(self) -> dict[str, Any]:
        return {"criterion": self.criterion}

    def _resampled(self, counts: Any, rows: int) -> ResampledCounts:
        return resampled_gaps(counts, rows, self.group_names, self.criterion)


def groups_in(groups: Tensor) -> int:
    """Returns how many groups there are if the largest number is that of the last; at least 2."""
    return max(2, int(groups.max()) + 1) if groups.numel() else 2


def _checked_names(given: Sequence[str] | None, num_groups: int) -> tuple[str, ...]:
    """Returns the names of groups, by default their numbers.

    Raises:
        InputError: there are others than so many different texts.
    """
    if given is None:
        return tuple(map(str, range(num_groups)))
    texts = not isinstance(given, str) and isinstance(given, Sequence) and all(isinstance(each, str) for each in given)
    if not texts or len(given) != num_groups or len(set(given)) != num_groups or any("/" in each for each in given):
        raise InputError(f"group_names must be {num_groups} different texts without / but got {given!r}")
    return tuple(given)


def _members(groups: Values, batch: ScoreBatch, preds: Values) -> Tensor:
    """The group of each element of a batch, ``[N]``."""
    found, shape = as_values("groups", groups), as_values("preds", preds).shape
    check_same_device(("preds", "groups"), (batch.preds, found))
    if found.dtype not in INT_TYPES:
        raise InputError(f"groups must be integer but is {found.dtype}")
    if found.shape != shape:
        check_shape("groups", found, tuple(shape[:1]))
        found = found.reshape(-1, *(1,) * (len(shape) - 1)).expand(shape)
    return found.detach().reshape(-1)


def _decisions(batch: ScoreBatch, threshold: float) -> tuple[Tensor, Tensor | None, Tensor]:
    """Returns the decisions, bool ``[N]``, the answer of ``auto``, and the first error."""
    outside = None
    if batch.hard:
        scores, least = decided(batch, threshold)
    else:
        scores, outside = batch.decided()
        least = next_above(threshold, scores.dtype)
    error = histogram_of(
        scores, batch.target, _NOTHING, ignore_index=batch.task.ignore_index, weight=batch.weight
    ).error
    if batch.hard:
        error = torch.where(value_kind(error) == NAN_SCORE, error + (PREDICTION - NAN_SCORE), error)
    return (scores >= least).reshape(-1), outside, error
