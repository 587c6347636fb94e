"""Base of the means over samples of a loss of probabilities, whose sums have the same bits in any order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.classification.class_counts import check_seen, samples_seen
from valor_gpu.classification.label_losses import LabelSample, label_error
from valor_gpu.classification.loss_plans import LARGEST, LossRule, loss_plan, row_losses
from valor_gpu.classification.task_metric import ProbabilityMetric
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch
from valor_gpu.inputs.values import Values
from valor_gpu.ops.activation.op import decision
from valor_gpu.ops.error_codes import PREDICTION, value_kind, value_row
from valor_gpu.ops.labels.op import count_labels
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.reduce.ratios import AVERAGES, mean
from valor_gpu.state import MAX_SUM, State, check_elements, check_rows, joined, summed
from valor_gpu.stats.row_samples import Arrivals, Pooled, RowSample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.resample import Resampled

NO_SAMPLE = "no sample has weight"
_COARSE, _FINE = 2.0**24, 2.0**48
_EXACT = 2.0**29  # from which on rounding changes no float64
_BLOCK = 1 << 14  # elements: their float64 copies stay in the cache, and torch starts no threads for them


@dataclass(frozen=True)
class LossSums(State):
    """Sums of the losses of samples, each times its weight.

    Attributes:
        sums: float64 ``[4]``: of finite losses rounded to 2^-24; of what that leaves of them, rounded to 2^-48; of
            weights; and how many losses are infinite. Unweighted sums below 2^29 are exact, so that no order of
            samples changes a bit. Multilabel ``[L, 5]``: those of each label, and the weights of its positives.
        seen: int64 ``[4]``, rows, targets equal to ``ignore_index``, and marks of :class:`TaskMetric`.
    """

    sums: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the sums are finite, and weights and counts at least 0."""
        least = torch.zeros(self.sums.shape[-1], dtype=torch.float64, device=self.sums.device)
        least[1] = -MAX_SUM
        good = (self.sums >= least) & (self.sums <= MAX_SUM)
        check_elements("sums", self.sums, good, f"be a sum of losses or weights, at most {MAX_SUM:g}")
        check_seen(self.seen, rule)


@dataclass(frozen=True)
class LossRows(LossSums):
    """Sums, and the losses that they are of.

    Attributes:
        losses: float64 ``[N]``, or ``[N, L]`` of labels, NaN where the target is ``ignore_index``.
        target: int64 in the shape of ``losses``.
    """

    losses: Tensor = joined()
    target: Tensor = joined()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("losses", "target")
    truth_fields: ClassVar[tuple[str, ...]] = ("target",)

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless every sample has a loss of at least 0 or is left out, and a class."""
        super().check(rule)
        check_rows("losses", self.losses, int(self.seen[0]), "seen")
        check_rows("target", self.target, int(self.seen[0]), "seen")
        check_elements("losses", self.losses, ~(self.losses < 0), "be at least 0")
        top = max(rule.classes, 2) if rule.kind == "multiclass" else 2
        good = ((self.target >= 0) & (self.target < top)) | self.losses.isnan()
        check_elements("target", self.target, good, f"be a class index from 0 to {top - 1}")


class RowLoss(ProbabilityMetric[LossSums]):
    """Base of the means of a loss over samples; a subclass gives it in ``_losses``.

    Activations are computed in float64.

    Args:
        keep_rows: keep the loss and the target of every sample (and label), 16 bytes, for intervals and comparisons.
        config: further choices that ``update`` depends on.
        bins: further fields of the state.
        average: multilabel: ``macro`` is the mean over labels, ``weighted`` the mean by their positives, ``micro``
            takes every element as a sample, ``none`` or None gives a number for each label.
    """

    higher_is_better = False
    plot_lower_bound = 0.0
    _scale: float = 1.0
    _means: ClassVar[bool] = True
    """Whether the number is the mean loss."""
    _loss_choices: ClassVar[tuple[str, ...]] = ()
    """Attributes that the loss depends on."""

    def __init__(
        self,
        num_classes: int | None,
        ignore_index: int | None,
        activation: str,
        keep_rows: bool,
        config: Mapping[str, Any],
        bins: Mapping[str, Tensor] | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_type("keep_rows", keep_rows, bool)
        check_choice("average", average, AVERAGES)
        self.keep_rows, self.average = keep_rows, average or "none"
        task = Task.of(num_classes, num_labels, ignore_index, activation)
        labels = (task.classes,) if task.kind == "multilabel" else ()
        shape = (*labels, 5 if labels else 4)
        seen = torch.zeros(4, dtype=torch.int64)
        sums = {"sums": torch.zeros(shape, dtype=torch.float64), "seen": seen, **(bins or {})}
        rows = (0, *labels)
        kept = {"losses": torch.zeros(rows, dtype=torch.float64), "target": torch.zeros(rows, dtype=torch.int64)}
        empty = self._state_of({**sums, **(kept if keep_rows else {})})
        keeps = {"keep_rows": True} if keep_rows else {}
        super().__init__(task, empty, {**task.config(), **config, **keeps}, **kwargs)

    def _state_of(self, fields: dict[str, Tensor]) -> LossSums:
        return LossRows(**fields) if self.keep_rows else LossSums(**fields)

    def update(self, preds: Values, target: Values, sample_weight: Values | None = None) -> None:
        """Adds a batch.

        Args:
            preds: probabilities or logits of any float dtype: multiclass ``[N, C, ...]``, multilabel ``[N, L, ...]``,
                binary ``[N, ...]``.
            target: multiclass: class indices ``[N, ...]``; else 0 and 1 in the shape of ``preds``.
            sample_weight: ``[N]``, or one weight for each element of ``[N, ...]``; from 0 to 1e60.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN scores, targets out of range) are
                raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        batch = score_batch(preds, target, self.task, sample_weight)
        outside = decision(batch.preds, batch.target, self.task.ignore_index, self.task.activation)
        deferred = self._raise_or_defer(_error_of(batch, batch.scores, outside))
        fields = self._native(batch, outside) or self._summed(batch, outside)
        self._add(self._state_of({**fields, "seen": samples_seen(batch, outside)}), deferred)

    def _summed(self, batch: ScoreBatch, outside: Tensor) -> dict[str, Tensor]:
        """The fields after a batch, by torch."""
        scores, several = batch.scores, self.task.kind == "multilabel"
        labels = batch.target if several else batch.target.reshape(-1)
        counted = torch.ones_like(labels, dtype=torch.bool)
        if self.task.ignore_index is not None:
            counted = labels != self.task.ignore_index
        given = batch.weight[:, None] if several and batch.weight is not None else batch.weight
        weight = counted.double() if given is None else torch.where(counted, given, 0.0)
        right = torch.where(counted, labels, 0).long()
        fields, rows = self._start(), []
        for part in blocks(labels[:, 0] if several else labels, scores.shape[1]):
            losses = self._losses_of(scores[part], right[part], outside, weight[part], fields)
            found = _sums(losses, weight[part])
            if several:
                found = torch.cat((found, (right[part] * weight[part]).sum(0)[:, None]), 1)
            fields["sums"] = fields["sums"] + found
            if self.keep_rows:
                rows.append(torch.where(counted[part], losses, math.nan))
        if self.keep_rows:
            fields |= {"losses": torch.cat(rows), "target": labels.long().clone()}
        return fields

    def _native(self, batch: ScoreBatch, outside: Tensor) -> dict[str, Tensor] | None:
        """The fields after a batch without errors, by the C++ library; None where it cannot read the batch."""
        if not outside.is_cpu or torch.compiler.is_compiling() or self.task.kind == "multilabel":
            return None
        how = self.task.activation
        if how == "auto":
            how = ("softmax" if self.task.kind == "multiclass" else "sigmoid") if outside.item() else "none"
        empty = {**self._start(), "seen": torch.zeros(4, dtype=torch.int64)}
        decided = replace(self.task, activation=how)
        step = row_losses(batch.scores, batch.target.reshape(-1), batch.weight, decided, self._rule(), empty)
        return None if step is None else {**step.tensors, **dict(step.rows)}

    def _rule(self) -> LossRule:
        """Returns the rule by which a batch is summed."""
        raise NotImplementedError

    def _planner(self) -> Planner:
        choices = ("task", "keep_rows", *self._loss_choices)
        return pair_planner(self.__dict__, choices, self._plan, LARGEST)

    def _plan(self, form: Form) -> Plan | None:
        return None if self.task.kind == "multilabel" else loss_plan(form, self.task, self._rule())

    def _start(self) -> dict[str, Tensor]:
        """The sums of no rows, on the device of the metric."""
        names = [name for name in self._merge if name not in ("seen", "losses", "target", "signature", "error")]
        return {name: torch.zeros_like(self._defaults[name], device=self.error.device) for name in names}

    def _losses_of(
        self, scores: Tensor, target: Tensor, outside: Tensor, weight: Tensor, fields: dict[str, Tensor]
    ) -> Tensor:
        """float64 ``[N]``, of labels ``[N, L]``; adds to ``fields`` what else a subclass keeps."""
        logits = self.task.activation != "none"
        if self.task.activation == "auto":
            if not outside.is_cpu or torch.compiler.is_compiling():
                of_logits, plain = (self._losses(scores, target, each) for each in (True, False))
                return torch.where(outside, of_logits, plain)
            logits = bool(outside.item())
        return self._losses(scores, target, logits)

    def _losses(self, scores: Tensor, target: Tensor, logits: bool) -> Tensor:
        """float64 ``[N]``, at least 0, of scores ``[N, C]`` and class indices ``[N]``; all ``[N, L]`` of labels."""
        raise NotImplementedError

    def _value(self, sums: Tensor) -> Tensor:
        """The mean, float64 ``[]``, or of every label ``[L]``; NaN without samples."""
        finite = (sums[..., 0] + sums[..., 1]) / sums[..., 2]
        return torch.where(sums[..., 3] > 0, math.inf, finite)

    def _number(self, state: LossSums) -> Tensor:
        """The mean over labels, where there are labels: float64 ``[]``, or ``[L]`` with average ``none``."""
        if self.task.kind == "multilabel" and self.average == "micro":
            return self._value(state.sums.sum(0))
        return self._averaged(self._value(state.sums), state)

    def _averaged(self, values: Tensor, state: LossSums) -> Tensor:
        """A number of every label ``[L]`` as their mean, but for average ``none``; labels without it are left out."""
        if self.task.kind != "multilabel" or self.average == "none":
            return values
        weights = state.sums[:, 4].to(values.device) if self.average == "weighted" else torch.ones_like(values)
        return torch.as_tensor(mean(values, weights))

    def _by_label(self, number: Tensor, each: Tensor) -> dict[str, Any]:
        """Numbers of a result: that of the class, and in the multilabel task those of labels."""
        values: dict[str, Any] = {} if number.ndim else {type(self).__name__: float(number)}
        return {**values, "per_class": each.cpu().numpy()} if self.task.kind == "multilabel" else values

    @property
    def _loss_name(self) -> str:
        return type(self).__name__

    @property
    def _shown(self) -> dict[str, Any]:
        """Choices for the signature."""
        config = {name: choice for name, choice in self._identity.config.items() if name != "keep_rows"}
        return {**config, "average": self.average} if self.task.kind == "multilabel" else config

    def _sample(self, state: LossSums, pooled: Sequence[Pooled] = ()) -> Resampled:
        """Returns the rows that the mean is resampled from.

        Raises:
            InputError: the metric keeps no rows, or rows have weights.
        """
        name = type(self).__name__
        if not self.keep_rows:
            made = f"{name}(keep_rows=True)"
            raise InputError(f"intervals and comparisons need the loss of every row: make the metric with {made}")
        losses, target = (getattr(state, field).cpu().numpy() for field in ("losses", "target"))
        if self.task.kind == "multilabel":
            return self._label_sample(state, losses, target)
        places = np.flatnonzero(~np.isnan(losses))
        if float(state.sums[2]) != len(places):
            raise InputError("intervals need rows of equal weight but sample_weight was given: leave it out")
        arrivals = Arrivals(places, len(losses), target)
        return self._row_sample(losses[places], target[places], arrivals)

    def _label_sample(self, state: LossSums, losses: Any, target: Any) -> Resampled:
        """Returns the rows that the means over labels and of each label are resampled from.

        Raises:
            InputError: an element is left out, or rows have weights.
        """
        if np.isnan(losses).any():
            raise InputError("intervals of labels need rows without an ignored element: leave those rows out")
        if bool((state.sums[:, 2] != len(losses)).any()):
            raise InputError("intervals need rows of equal weight but sample_weight was given: leave it out")
        arrivals = Arrivals(np.arange(len(losses)), len(losses), target)
        return LabelSample(self._loss_name, losses * self._scale, self.average, arrivals, self._means)

    def _row_sample(self, losses: Any, target: Any, arrivals: Arrivals) -> Resampled:
        return RowSample(
            {type(self).__name__: losses}, ranges={type(self).__name__: (0.0, math.inf)}, arrivals=arrivals
        )

    def _describe(self, error: int) -> str:
        if value_kind(error) == PREDICTION:
            return f"preds[{value_row(error)}] must hold probabilities from 0 to 1, or logits, and no NaN"
        return super()._describe(error)


def _error_of(batch: ScoreBatch, scores: Tensor, outside: Tensor) -> Tensor:
    """The first error of a batch; logits may be any number but NaN, and of classes no infinite one."""
    if batch.task.kind == "multilabel":
        return label_error(batch, scores, outside)
    low, high = scores.amin(1), scores.amax(1)  # NaN if one is
    several = batch.task.kind == "multiclass"
    good = (high < math.inf) & (low > -math.inf) if several else low == low
    probable = (low >= 0) & (high <= 1)
    if batch.task.activation == "none":
        good = probable
    elif batch.task.activation == "auto":
        good = torch.where(outside, good, probable)
    classes = batch.task.classes if several else 2
    predicted = torch.where(good, 0, -1)
    target, ignored = batch.target.reshape(-1), batch.task.ignore_index
    return count_labels(predicted, target, classes, ignore_index=ignored, weight=batch.weight).error


def blocks(rows: Tensor, columns: int) -> Iterator[slice]:
    """Parts of the rows whose arrays stay in the cache; on CUDA, and in a compiled program, all at once.

    Args:
        rows: of one element for each row.
        columns: that each has elsewhere.
    """
    count = max(rows.numel(), 1)
    step = count
    if rows.is_cpu and not torch.compiler.is_compiling():
        step = max(1, _BLOCK // max(columns, 1))
    for start in range(0, count, step):
        yield slice(start, start + step)


def narrowed(scores: Tensor) -> Tensor:
    """Returns the scores in float32 where that changes none, which takes half the time to sort."""
    narrow = scores.float()
    same = all(bool((narrow[part].double() == scores[part]).all()) for part in blocks(scores, 1))
    return narrow if same else scores


def _sums(losses: Tensor, weight: Tensor) -> Tensor:
    """The first four sums of :class:`LossSums`; losses without weight are not looked at."""
    held = weight > 0
    infinite = held & (losses == math.inf)
    finite = torch.where(held & ~infinite, losses, 0.0)
    coarse = torch.where(finite < _EXACT, (finite * _COARSE).round() / _COARSE, finite)
    fine = ((finite - coarse) * _FINE).round() / _FINE
    parts = coarse * weight, fine * weight, weight, infinite.double()
    return torch.stack([part.sum(0) for part in parts], -1)
