"""Selective prediction: the risk of what a model is most confident of, and how much that covers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_dense, check_same_device
from valor_gpu.classification.forms import seen_types
from valor_gpu.classification.resampled_ranks import ResampledPoints
from valor_gpu.classification.row_losses import blocks, narrowed
from valor_gpu.classification.score_metric import Ranked, ScoreRecords
from valor_gpu.classification.task_metric import ProbabilityMetric
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.ops.activation.op import decided, decision
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import NAN_SCORE, NO_ERROR, PREDICTION, value_kind, value_row
from valor_gpu.ops.labels.op import count_labels, top_classes
from valor_gpu.ops.ranks.op import rank_curves
from valor_gpu.ops.score_histogram.op import histogram_of
from valor_gpu.reduce.selective import area_under_risk, coverage_at_risk, least_area, risk_at_coverage
from valor_gpu.result import Result, Signature

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap

_IGNORED = -1
_RULE = Task("binary", 1, _IGNORED, "none")
_NOTHING = torch.zeros(0, dtype=torch.float64)
_NO_SAMPLES = "there are no samples"


class _Groups(NamedTuple):
    """Samples of equal confidence, the most confident first.

    Attributes:
        confidence: float32 or float64 ``[G]``.
        right: int64 ``[G]``, samples at least as confident that are right.
        wrong: int64 ``[G]``, those that are wrong.
    """

    confidence: NDArray[np.floating[Any]]
    right: NDArray[np.int64]
    wrong: NDArray[np.int64]


class _Read(NamedTuple):
    """Confidences, float64 ``[N, 1]``; what is right, int8 ``[N, 1]``; the first error, int64 ``[]``."""

    scores: Tensor
    right: Tensor
    error: Tensor


class SelectiveMetric(ProbabilityMetric[ScoreRecords]):
    """Base of the metrics of selective prediction; they share one ``update`` in a collection.

    A sample is wrong if the predicted class is not its target. The confidence of a prediction is the largest
    probability, in the binary task that of the class that is predicted (1 above 0.5, else 0); or what ``update`` is
    given. Samples of equal confidence are one group: no order among them is made up, so that the number has the same
    bits for any order and split of the samples. Every confidence is kept, 9 bytes per sample. There is no
    ``sample_weight``: the mean over the orders of equal confidences is defined for samples that count alike.

    Args:
        choices: of the number, for the signature.
    """

    update_family = "selective"
    higher_is_better: bool | None = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    _marked = False

    def __init__(
        self,
        num_classes: int | None,
        ignore_index: int | None,
        activation: str,
        choices: dict[str, float] | None = None,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        task = Task.of(num_classes, None, ignore_index, activation)
        self._choices = choices or {}
        scores, target = torch.empty((0, 1), dtype=torch.float64), torch.empty((0, 1), dtype=torch.int8)
        super().__init__(task, ScoreRecords(scores, target, _NOTHING, seen_types()), task.config(), **kwargs)
        self._state_rule = _RULE

    def update(self, preds: Values, target: Values, confidence: Values | None = None) -> None:
        """Adds a batch.

        Args:
            preds: probabilities or logits of any float dtype: multiclass ``[N, C, ...]``, binary ``[N, ...]``. With
                ``confidence`` also predicted classes ``[N, ...]`` of an integer dtype.
            target: multiclass: class indices ``[N, ...]``; binary: 0 and 1 ``[N, ...]``.
            confidence: ``[N, ...]``, any number but NaN for each sample, the larger the surer, such as a negated
                entropy; None: the largest probability.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN scores, targets out of range) are
                raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        batch = score_batch(preds, target, self.task)
        given = None if confidence is None else _given(confidence, batch, tuple(torch.as_tensor(target).shape))
        classes_alone = batch.hard and given is not None
        scores = batch.preds.reshape(-1, 1) if classes_alone else batch.scores
        how = "none" if classes_alone else self.task.activation
        outside = decision(batch.preds, batch.target, self.task.ignore_index, how)

        def read(part: slice) -> _Read:
            return self._read(batch, scores[part], outside, None if given is None else given[part], part)

        parts = [read(part) for part in blocks(batch.target, self.task.classes)]
        kept, right, error = parts[0]
        if len(parts) > 1:
            if any(part.error != NO_ERROR for part in parts):  # whose row counts from the first of its part
                self._raise_or_defer(read(slice(None)).error)
            kept, right = torch.cat([part.scores for part in parts]), torch.cat([part.right for part in parts])
        deferred = self._raise_or_defer(error)
        self._add(ScoreRecords(kept, right, kept.new_empty(0), seen_types(torch.float64, kept.device)), deferred)

    def _read(self, batch: ScoreBatch, scores: Tensor, outside: Tensor, given: Tensor | None, part: slice) -> _Read:
        """A part of a batch: its scores, or classes, and the confidences that were given."""
        labels, ignored = batch.target.reshape(-1)[part], self.task.ignore_index
        predicted = sure = scores[:, 0]
        if not batch.hard:
            predicted, sure = _predictions(batch.task, decided(scores, batch.target, self.task.activation, outside))
        sure = sure if given is None else given
        classes = self.task.classes if self.task.kind == "multiclass" else 2
        error = count_labels(predicted, labels, classes, ignore_index=ignored).error
        right = (predicted == labels).to(torch.int8)[:, None]
        scores = sure.double()[:, None]
        if ignored is not None:
            counted = (labels != ignored)[:, None]
            right, scores = torch.where(counted, right, _IGNORED), torch.where(counted, scores, 0.0)
        if given is not None:  # else predictions are bad where a score is NaN
            nan = histogram_of(scores, right, _NOTHING, ignore_index=_IGNORED).error
            error = torch.where(error == NO_ERROR, nan, error)
        return _Read(scores, right, error)

    def _ranked(self, state: ScoreRecords, pooled: bool) -> Ranked:
        """Returns the scores and targets as ops of ranks and the bootstrap take them."""
        return Ranked(state.scores, state.target, _IGNORED, None)

    def _groups(self, state: ScoreRecords) -> _Groups:
        found = rank_curves(narrowed(state.scores), state.target, ignore_index=_IGNORED)
        return _Groups(*(part.cpu().numpy() for part in found[:3]))

    def _numbers(self, state: ScoreRecords) -> dict[str, float]:
        """The numbers of a result by name, that of the class first."""
        raise NotImplementedError

    def compute(self) -> Any:
        """Returns the number, float32 ``[]``; NaN without samples."""
        return torch.tensor(self._numbers(self.state())[type(self).__name__], device=self.device).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the number in float64, what it is made of, and counts.

        Args:
            intervals: also give the interval of each number, from so many replicates, or by all choices of a bootstrap
                of the samples. Replicates are computed on the CPU, one after another.
        """
        with self.synced_state() as state:
            values = self._numbers(state)
            samples, ignored = len(state.target), int((state.target == _IGNORED).sum())
        signature = Signature({"metric": type(self).__name__, **self._identity.config, **self._choices})
        reasons = {name: self._reason(ignored < samples) for name, value in values.items() if math.isnan(value)}
        counts = {"samples": samples, "ignored": ignored}

        def resampled() -> ResampledPoints:
            numbers: Callable[[ScoreRecords], dict[str, float]] = self._resampled_numbers
            return ResampledPoints(self, state, numbers)  # type: ignore[arg-type]

        result = Result(values, signature, counts, reasons, state=resampled)
        return result if intervals is None else result.with_intervals(intervals)

    def _resampled_numbers(self, state: ScoreRecords) -> dict[str, float]:
        """The numbers that have intervals."""
        return {name: value for name, value in self._numbers(state).items() if name != "threshold"}

    def _reason(self, some: bool) -> str:
        """Why a number does not exist, where there are samples or none."""
        return _NO_SAMPLES

    def _describe(self, error: int) -> str:
        if value_kind(error) == NAN_SCORE:
            return f"confidence[{value_row(error)}] must not be NaN"
        if value_kind(error) == PREDICTION:
            return f"preds[{value_row(error)}] must hold probabilities from 0 to 1, or logits, and no NaN; or classes"
        return super()._describe(error)


class AURC(SelectiveMetric):
    """Computes the area under the risk-coverage curve: the mean risk over all coverages.

    It is ``sum_k risk(k) / n`` over k from 1 to n, where ``risk(k)`` is the fraction of errors among the k samples
    that the model is most confident of; of samples of equal confidence, the mean over their orders. A model that is
    least sure of its errors has the least area, which :meth:`result` also gives as ``optimal``.

    Source: Geifman, Uziel and El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, ICLR 2019.

    Example:
        >>> metric = AURC()
        >>> metric.update(torch.tensor([0.9, 0.2, 0.7]), torch.tensor([1, 1, 1]))
        >>> metric.compute()
        tensor(0.2778)
    """

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        ignore_index: int | None = None,
        activation: str = "auto",
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        super().__init__(num_classes, ignore_index, activation, **kwargs)

    def _numbers(self, state: ScoreRecords) -> dict[str, float]:
        _, right, wrong = self._groups(state)
        hits, errors = (int(side[-1]) if len(side) else 0 for side in (right, wrong))
        area, optimal = area_under_risk(right, wrong), least_area(hits, errors)
        excess = area - optimal if math.isnan(area) else max(area - optimal, 0.0)  # both sums round
        rate = errors / (hits + errors) if hits + errors else math.nan
        return {**self._named(area, excess), "optimal": optimal, "error_rate": rate}

    def _named(self, area: float, excess: float) -> dict[str, float]:
        return {"AURC": area, "excess": excess}


class EAURC(AURC):
    """Computes the excess of the area under the risk-coverage curve over the least that so many errors can have.

    It is ``AURC - optimal``: 0 for a model that is surer of all that is right than of any error. The least area is
    exact, ``sum_i i / (n - e + i) / n`` over the e errors; many publications take ``r + (1 - r) log(1 - r)`` with
    r = e / n, which is near to it where there are many samples.

    Source: Geifman, Uziel and El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, ICLR 2019.

    Example:
        >>> metric = EAURC()
        >>> metric.update(torch.tensor([0.9, 0.2, 0.7]), torch.tensor([1, 1, 1]))
        >>> metric.compute()
        tensor(0.1667)
    """

    def _named(self, area: float, excess: float) -> dict[str, float]:
        return {"EAURC": excess, "AURC": area}


class _Point(SelectiveMetric):
    """Base of one point of the risk-coverage curve."""

    def compute(self) -> tuple[Tensor, Tensor]:
        """Returns the number, float32 ``[]``, and the least confidence that is covered, float64 ``[]``.

        Where no confidence will do, the number is that of no sample, and the confidence is NaN.
        """
        numbers = self._numbers(self.state())
        value = torch.tensor(numbers[type(self).__name__], device=self.device).float()
        return value, torch.tensor(numbers["threshold"], dtype=torch.float64, device=self.device)

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Raises :class:`InputError`: a point of a curve has no picture.

        Args:
            val: must be left out.
            ax: matplotlib axes.
        """
        return self._draw(val, ax)

    def _at(self, groups: _Groups, place: int) -> tuple[float, float, float]:
        """Risk, coverage and threshold of a group; NaN, 0 and NaN before the first."""
        if place < 0:
            return math.nan, 0.0 if len(groups.right) else math.nan, math.nan
        right, wrong = int(groups.right[place]), int(groups.wrong[place])
        covered = (right + wrong) / int(groups.right[-1] + groups.wrong[-1])
        return wrong / (right + wrong), covered, float(groups.confidence[place])


class RiskAtCoverage(_Point):
    """Computes the risk among the most confident samples that make up a coverage, and the least of their confidences.

    The threshold is the highest confidence that at least a fraction ``coverage`` of the samples reaches; risk is the
    fraction of errors among those. Samples of equal confidence are covered together, so that the coverage that is
    reached, which :meth:`result` gives, can be larger.

    Source: Geifman and El-Yaniv, Selective classification for deep neural networks, NeurIPS 2017.

    Args:
        coverage: the fraction of samples that must be covered, above 0, at most 1.

    Example:
        >>> metric = RiskAtCoverage(coverage=0.5)
        >>> metric.update(torch.tensor([0.875, 0.25, 0.625]), torch.tensor([1, 1, 1]))
        >>> metric.compute()
        (tensor(0.5000), tensor(0.7500, dtype=torch.float64))
    """

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        coverage: float,
        ignore_index: int | None = None,
        activation: str = "auto",
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        if isinstance(coverage, bool) or not isinstance(coverage, (int, float)) or not 0 < coverage <= 1:
            raise InputError(f"coverage must be a number above 0 and at most 1 but got {coverage!r}")
        self.coverage = float(coverage)
        super().__init__(num_classes, ignore_index, activation, {"coverage": self.coverage}, **kwargs)

    def _numbers(self, state: ScoreRecords) -> dict[str, float]:
        groups = self._groups(state)
        risk, covered, threshold = self._at(groups, risk_at_coverage(groups.right, groups.wrong, self.coverage))
        return {type(self).__name__: risk, "coverage": covered, "threshold": threshold}


class CoverageAtRisk(_Point):
    """Computes the largest coverage whose risk is at most a limit, and the least confidence that is covered.

    Coverage is the fraction of the samples whose confidence reaches a threshold, risk the fraction of errors among
    them. Samples of equal confidence are covered together. Where every threshold has a higher risk, coverage is 0 and
    the threshold NaN. A limit that the data meet is not one that new data meet with any certainty.

    Source: Geifman and El-Yaniv, Selective classification for deep neural networks, NeurIPS 2017.

    Args:
        max_risk: the limit, from 0 to 1.

    Example:
        >>> metric = CoverageAtRisk(max_risk=0.1)
        >>> metric.update(torch.tensor([0.875, 0.25, 0.625]), torch.tensor([1, 1, 1]))
        >>> metric.compute()
        (tensor(0.3333), tensor(0.8750, dtype=torch.float64))
    """

    higher_is_better = True

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        max_risk: float,
        ignore_index: int | None = None,
        activation: str = "auto",
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        if isinstance(max_risk, bool) or not isinstance(max_risk, (int, float)) or not 0 <= max_risk <= 1:
            raise InputError(f"max_risk must be a number from 0 to 1 but got {max_risk!r}")
        self.max_risk = float(max_risk)
        super().__init__(num_classes, ignore_index, activation, {"max_risk": self.max_risk}, **kwargs)

    def _numbers(self, state: ScoreRecords) -> dict[str, float]:
        groups = self._groups(state)
        risk, covered, threshold = self._at(groups, coverage_at_risk(groups.right, groups.wrong, self.max_risk))
        return {type(self).__name__: covered, "risk": risk, "threshold": threshold}

    def _reason(self, some: bool) -> str:
        return f"no confidence has a risk of at most {self.max_risk:g}" if some else _NO_SAMPLES


def _predictions(task: Task, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """Predicted classes ``[N]``, -1 where scores are bad, and confidences ``[N]``."""
    if task.kind == "multiclass":
        low, high = probabilities.amin(1), probabilities.amax(1)  # NaN if one is
        predicted, sure = top_classes(probabilities).classes[:, 0].long(), high
    else:
        low = high = chance = probabilities[:, 0]
        chance = chance.double()
        predicted, sure = (chance > 0.5).long(), torch.maximum(chance, 1 - chance)
    return torch.where((low >= 0) & (high <= 1), predicted, -1), sure


def _given(confidence: Values, batch: ScoreBatch, rows: tuple[int, ...]) -> Tensor:
    given = as_values("confidence", confidence)
    check_dense("confidence", given)
    check_same_device(("preds", "confidence"), (batch.preds, given))
    if given.dtype not in FLOAT_TYPES or tuple(given.shape) != rows:
        need = f"be floating point of shape {list(rows)}"
        raise InputError(f"confidence must {need} but is {given.dtype} {list(given.shape)}")
    return given.detach().reshape(-1)
