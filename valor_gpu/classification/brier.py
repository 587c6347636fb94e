"""The Brier score with its parts, and its skill."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.classification.calibration import edges_of
from valor_gpu.classification.loss_plans import LossRule
from valor_gpu.classification.row_losses import NO_SAMPLE, LossRows, LossSums, RowLoss
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import Task
from valor_gpu.ops.activation.op import activated
from valor_gpu.ops.labels.op import TRUE, count_labels
from valor_gpu.reduce.brier import brier_parts, uncertainty_of
from valor_gpu.reduce.reliability import BIASED_ERROR, STEPS, with_ones_in_last_bin
from valor_gpu.result import Result, Signature
from valor_gpu.state import ROUNDING, check_elements, check_sums, on_host, summed
from valor_gpu.stats.row_samples import Arrivals, Pooled, RowSample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled

ONE_CLASS = "every sample is of one class"
OF_A_LABEL = "a label has no sample with weight, or samples of one class alone"
_MANY = "its intervals are made of at most 64 classes"
_PARTS = ("reliability", "resolution", "within_bins")
_MOST_CLASSES, _UNIT = 64, 2.0**24


@dataclass(frozen=True)
class BrierSums(LossSums):
    """Sums of squared errors, and sums over bins of probability.

    Attributes:
        bins: float64 ``[3, C, B + 1]``, of each class (binary: of class 1) and bin, the last of a probability of
            exactly 1: samples, or the sum of their weights; probabilities rounded to 2^-24; samples of the class.
    """

    bins: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the sums of every bin are at most its count."""
        super().check(rule)
        check_sums("bins", self.bins)
        good = self.bins <= self.bins[:1] * (1 + ROUNDING)
        check_elements("bins", self.bins, good, "be at most the count of its bin")


@dataclass(frozen=True)
class BrierRows(BrierSums, LossRows):
    """Sums, and the squared errors that they are of."""

    sums: Tensor = summed()


class BrierScore(RowLoss):
    """Computes the Brier score, the mean squared distance of probabilities from the truth.

    Binary, it is the mean of ``(p - y)^2``, from 0 to 1. Multiclass, it is the mean over samples of
    ``sum_c (p_c - y_c)^2``, from 0 to 2, of which ``scale_by_half`` takes half: two classes then have the binary
    number. Multilabel, it is the binary number of each label, and their average. :meth:`result` also gives its parts,
    which add up to it (reliability - resolution + uncertainty + within_bins, see
    :func:`valor_gpu.reduce.brier.brier_parts`), and the skill. It equals scikit-learn's ``brier_score_loss``, and
    unweighted it has the same bits for any order and split of the samples.

    Source: Brier, Verification of forecasts expressed in terms of probability (1950); Murphy, A new vector partition of
    the probability score (1973).

    Args:
        n_bins: B, number of bins of equal width of the parts, at least 1; those of :class:`CalibrationError`.
        scale_by_half: take half of the sum over classes; multiclass only.

    Example:
        >>> metric = BrierScore()
        >>> metric.update(torch.tensor([0.25, 0.25, 0.75, 1.0]), torch.tensor([0, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.1719)
    """

    update_family = "brier"
    _loss_choices = ("n_bins",)
    plot_upper_bound: float | None = 2.0  # type: ignore[assignment]

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        num_labels: int | None = None,
        average: str | None = "macro",
        n_bins: int = 15,
        scale_by_half: bool = False,
        ignore_index: int | None = None,
        activation: str = "auto",
        keep_rows: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_type("scale_by_half", scale_by_half, bool)
        if isinstance(n_bins, bool) or not isinstance(n_bins, int) or n_bins < 1:
            raise InputError(f"n_bins must be an int of at least 1 but got {n_bins!r}")
        if scale_by_half and num_classes is None:
            raise InputError("scale_by_half must be False without num_classes: binary numbers are half the sum")
        self.n_bins, self.scale_by_half = n_bins, scale_by_half
        columns = Task.of(num_classes, num_labels).classes
        bins = {"bins": torch.zeros((3, columns, n_bins + 1), dtype=torch.float64)}
        labels: Any = {"num_labels": num_labels, "average": average}
        super().__init__(num_classes, ignore_index, activation, keep_rows, {"n_bins": n_bins}, bins, **labels, **kwargs)

    def _state_of(self, fields: dict[str, Tensor]) -> BrierSums:
        return BrierRows(**fields) if self.keep_rows else BrierSums(**fields)

    def _rule(self) -> LossRule:
        return LossRule(self.n_bins, keeps=self.keep_rows)

    def _losses_of(
        self, scores: Tensor, target: Tensor, outside: Tensor, weight: Tensor, fields: dict[str, Tensor]
    ) -> Tensor:
        probabilities = self._probabilities_of(scores, outside)
        multiclass, columns = self.task.kind == "multiclass", torch.arange(scores.shape[1], device=scores.device)
        hot = target == 1 if target.ndim == 2 else target[:, None] == (columns if multiclass else columns + 1)
        each = weight if weight.ndim == 2 else weight[:, None]
        dtype = scores.dtype if scores.dtype == torch.float64 else torch.float32
        cells = torch.bucketize(probabilities, edges_of(self.n_bins, dtype, scores.device).double(), right=True) - 1
        cells = cells + columns * (self.n_bins + 1)
        cells = torch.where(each > 0, cells, -1).reshape(-1)
        rounded = (probabilities * STEPS).round() / STEPS
        size = len(columns) * (self.n_bins + 1)
        sums = [
            count_labels(cells, cells, size, ignore_index=-1, weight=(of * each).reshape(-1).contiguous()).counts[TRUE]
            for of in (torch.ones_like(rounded), rounded, hot.double())
        ]
        fields["bins"] = fields["bins"] + torch.stack(sums).reshape(fields["bins"].shape)
        distances: Tensor = (probabilities - hot.double()).square()
        return distances if target.ndim == 2 else distances.sum(1)

    def _probabilities_of(self, scores: Tensor, outside: Tensor) -> Tensor:
        wide = scores.to(torch.float64, memory_format=torch.contiguous_format)
        if self.task.activation == "none":
            return wide
        how = "softmax" if self.task.kind == "multiclass" else "sigmoid"
        if self.task.activation != "auto":
            return activated(wide, how)
        if outside.is_cpu and not torch.compiler.is_compiling():
            return activated(wide, how) if outside.item() else wide
        return torch.where(outside, activated(wide, how), wide)

    @property
    def _loss_name(self) -> str:
        return "BrierScore"

    @property
    def _scale(self) -> float:  # type: ignore[override]
        return 0.5 if self.scale_by_half else 1.0

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the score, float32 ``[]``, or ``[L]`` with average ``none``; NaN without data."""
        return (self._number(self.state()) * self._scale).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the score, its parts and its skill in float64, and counts.

        Args:
            intervals: replicates or choices of a bootstrap of the samples: also give the intervals of score, skill and
                uncertainty, of several labels those of scores alone. The metric must have been made with
                ``keep_rows=True``.

        Raises:
            InputError: ``intervals`` is given to a metric that keeps no rows.
        """
        with self.synced_state() as state:
            values = self._values(on_host(state))
            samples, ignored = state.seen.tolist()[:2]
        half = {"scale_by_half": True} if self.scale_by_half else {}
        signature = Signature({"metric": type(self).__name__, **self._shown, **half})
        empty = bool(np.isnan(values["uncertainty"]).all())
        missing = [name for name, value in values.items() if np.isnan(value).any()]
        reason = NO_SAMPLE if empty else OF_A_LABEL if self.task.kind == "multilabel" else ONE_CLASS
        reasons = dict.fromkeys(missing, reason)
        counts = {"samples": samples, "ignored": ignored}
        result = Result(values, signature, counts, reasons, state=lambda: self._sample(state))
        return result if intervals is None else result.with_intervals(intervals)

    def _values(self, state: Any) -> dict[str, Any]:
        if self.task.kind == "multilabel":
            return self._label_values(state)
        score = float(self._value(state.sums))
        parts = brier_parts(
            score, *with_ones_in_last_bin(np.moveaxis(state.bins.cpu().numpy(), 2, 0)).transpose(1, 2, 0)
        )
        skill = parts.pop("skill")
        return self._named(score * self._scale, skill, {name: part * self._scale for name, part in parts.items()})

    def _label_values(self, state: Any) -> dict[str, Any]:
        """The numbers of labels as binary tasks, averaged; ``micro``: of all elements as those of one."""
        sums, bins = state.sums, with_ones_in_last_bin(np.moveaxis(state.bins.cpu().numpy(), 2, 0)).transpose(1, 2, 0)
        scores = self._value(sums).tolist()
        rows = [{"score": score, **brier_parts(score, *bins[:, k : k + 1])} for k, score in enumerate(scores)]
        each = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        numbers: dict[str, Any] = {name: self._averaged(torch.from_numpy(of), state) for name, of in each.items()}
        numbers = {name: number.numpy() if number.ndim else float(number) for name, number in numbers.items()}
        if self.average == "micro":
            score = float(self._value(sums.sum(0)))
            numbers = {"score": score, **brier_parts(score, *bins.sum(1, keepdims=True))}
        values = self._named(numbers.pop("score"), numbers.pop("skill"), numbers)
        name = type(self).__name__
        if self.average == "none":
            values.pop(name)
        return {**values, "per_class": self._named(each["score"], each["skill"], {})[name]}

    def _named(self, score: Any, skill: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Numbers of a result by name, that of the class first."""
        return {"BrierScore": score, "skill": skill, **parts}

    def _row_sample(self, losses: Any, target: Any, arrivals: Arrivals) -> Resampled:
        classes, binary = max(self.task.classes, 2), self.task.kind == "binary"
        if classes > _MOST_CLASSES:
            return _BrierRows({"BrierScore": losses * self._scale}, arrivals=arrivals, name=self._skill, few=False)
        hot = target[:, None] == np.arange(1 if binary else 0, classes)
        counts = np.column_stack((np.ones(len(losses), np.int64), np.rint(losses * _UNIT), hot)).astype(np.int64)

        def numbers(sums: list[int]) -> dict[str, float]:
            rows, distance, *of_classes = sums
            if not rows:
                return {self._skill: math.nan, "uncertainty": math.nan}
            chance = uncertainty_of(np.array(of_classes) / rows)
            skill = 1 - distance / _UNIT / rows / chance if chance > 0 else math.nan
            return {self._skill: skill, "uncertainty": chance * self._scale}

        means = {"BrierScore": losses * self._scale}
        return _BrierRows(means, [Pooled(counts, numbers)], arrivals=arrivals, name=self._skill)

    @property
    def _skill(self) -> str:
        return "skill"


class BrierSkillScore(BrierScore):
    """Computes the Brier skill score: by how much the Brier score is better than that of the fractions of the classes.

    It is ``1 - Brier score / uncertainty``: 1 is perfect, 0 is no better than to give every sample the fractions of the
    classes, below 0 is worse. Where every sample is of one class there is none: NaN. It is the scaled Brier score of
    Steyerberg et al. (2010), and the index of prediction accuracy.

    Source: Murphy, Skill scores based on the mean square error and their relationships to the correlation coefficient
    (1988); Steyerberg et al., Assessing the performance of prediction models (2010).

    Example:
        >>> metric = BrierSkillScore()
        >>> metric.update(torch.tensor([0.25, 0.25, 0.75, 0.75]), torch.tensor([0, 0, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    higher_is_better = True
    _means = False
    plot_lower_bound: float | None = None  # type: ignore[assignment]
    plot_upper_bound = 1.0

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the skill, float32 ``[]``; NaN without data, or where every sample is of one class.

        With average ``none`` it is ``[L]``.
        """
        state: Any = self.state()
        values = self._values(on_host(state))
        return torch.as_tensor(values.get("BrierSkillScore", values.get("per_class"))).float().to(state.sums.device)

    def _named(self, score: Any, skill: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
        return {"BrierSkillScore": skill, "BrierScore": score, **parts}

    @property
    def _skill(self) -> str:
        return "BrierSkillScore"


class _BrierRows(RowSample):
    """Squared errors with their classes; the parts that bins make have no interval."""

    def __init__(self, *given: Any, name: str, few: bool = True, **kwargs: Any) -> None:
        super().__init__(*given, **kwargs)
        self._refusals = dict.fromkeys(_PARTS, BIASED_ERROR)
        if not few:
            self._refusals |= {name: _MANY, "uncertainty": _MANY}

    def family_of(self, name: str) -> str:
        """``rows``: a skill may lie below 0."""
        return self.family

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of the parts that have no interval."""
        return self._refusals
