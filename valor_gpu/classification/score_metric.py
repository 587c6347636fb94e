"""Base class of the metrics of scores, whose state is the scores themselves or a histogram of them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.classification.class_counts import check_seen, probability_histogram, samples_seen
from valor_gpu.classification.forms import UNSEEN, seen_types
from valor_gpu.classification.plans import histogram_plan, records_plan
from valor_gpu.classification.softmax_errors import softmax_need
from valor_gpu.classification.task_metric import TaskMetric
from valor_gpu.classification.threshold_grid import threshold_plan
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch
from valor_gpu.inputs.values import Values
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import (
    NAN_SCORE,
    NO_ERROR,
    ROUNDED_SCORES,
    Names,
    describe_value,
    raise_error,
    value_kind,
    value_row,
)
from valor_gpu.ops.labels.op import top_classes
from valor_gpu.ops.score_histogram.op import histogram_of
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.result import Signature, grid_choice
from valor_gpu.state import ROUNDING, State, check_elements, check_rows, check_sums, joined, least, summed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions

SCORE_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_NOTHING = torch.zeros(0, dtype=torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32)


@dataclass(frozen=True)
class ScoreRecords(State):
    """Every score and target, as exact ranks need them.

    Attributes:
        scores: ``[N, C]`` in the ``score_dtype`` of the metric, before any activation.
        target: ``[N]`` class indices in the multiclass task, else ``[N, C]`` of 0 and 1; the smallest integer dtype
            that holds them and ``ignore_index``.
        weight: float64 ``[N]``, or ``[0]`` where no update had weights.
        score_types: int8 ``[4]``, 0 for each of ``FLOAT_TYPES`` in which scores came, else 127.
    """

    scores: Tensor = joined()
    target: Tensor = joined()
    weight: Tensor = joined()
    score_types: Tensor = least()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("scores", "target", "weight")
    truth_fields: ClassVar[tuple[str, ...]] = ("target",)

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the rows are such as ``update`` takes."""
        check_rows("target", self.target, len(self.scores), "scores")
        if len(self.weight):
            check_rows("weight", self.weight, len(self.scores), "scores")
        weight = self.weight if len(self.weight) else None
        found = histogram_of(self.scores, self.target, _NOTHING, ignore_index=rule.ignore_index, weight=weight)
        names = Names(
            rule.classes, rule.kind != "multiclass", "state field scores", "state field target", "state field weight"
        )
        raise_error(found.error, lambda code: describe_value(code, names))
        good = (self.score_types == 0) | (self.score_types == UNSEEN)
        check_elements("score_types", self.score_types, good, f"be 0 or {UNSEEN}")


@dataclass(frozen=True)
class Histogram(State):
    """Counts of scores between thresholds.

    Attributes:
        counts: float64 ``[2, C, T + 1]``, of :func:`valor_gpu.ops.score_histogram.op.score_histogram`.
        seen: int64 ``[4]``, rows, targets equal to ``ignore_index``, and marks of :class:`TaskMetric`.
        lightest: float64 ``[]``, the smallest weight above 0, 1 without weights.
    """

    counts: Tensor = summed()
    seen: Tensor = summed()
    lightest: Tensor = least()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the counts are sums, of positives at most those of all."""
        check_sums("counts", self.counts)
        positives, every = self.counts
        good = (positives <= every * (1 + ROUNDING)).expand(self.counts.shape)
        check_elements("counts", self.counts, good, "not have more positives than elements")
        check_seen(self.seen, rule)
        check_elements("lightest", self.lightest, self.lightest > 0, "be above 0")


class ScoreMetric(TaskMetric[Any]):
    """Base of the metrics of scores: one update, whose state is all scores or a histogram of them.

    Metrics of one configuration share their state in a ``MetricCollection``, whichever numbers they give.

    Activations are computed in the dtype in which scores came. Half-precision scores are not widened: a half of 0.1
    lies below a float32 threshold of 0.1.

    Args:
        task: what is predicted.
        num_classes: C, in the multiclass task: scores ``[N, C, ...]`` with class indices as target, each class against
            the rest.
        num_labels: L, in the multilabel task: scores and target ``[N, L, ...]``, each label by itself. With neither,
            the task is binary.
        thresholds: None takes every distinct score as a threshold, which is exact, and keeps every score. In float32
            that is at most 4 C + 4 bytes per sample (5 in the binary task, 5 L with labels), in float64 8 C + 4 (9, or
            9 L), and 8 more with weights. An int of at least 2 (thresholds evenly spaced from 0 to 1) or ascending
            numbers keep a histogram of constant size, in which scores between two thresholds are tied.
        bins: bins in every power of two, for a histogram that follows the order of floats, so that scores near 0 stay
            apart; constant memory, with bounds on the exact number in :meth:`result`. Not together with ``thresholds``.
        hardmax: only the largest score of a row counts, of equal ones the lowest class; multiclass only.
        ignore_index: target value that leaves out a row (multiclass) or one element.
        activation: ``auto`` takes scores for logits if any that counts lies outside [0, 1] (with a histogram: any of
            the batch); ``none``, ``sigmoid`` and ``softmax`` do not guess.
        normalization: ``sigmoid`` and ``softmax`` are ``activation="auto"``, None is ``activation="none"``.
        score_dtype: dtype in which scores are kept and compared, by default float32. Exact numbers of float64 scores
            need ``torch.float64``: scores that a smaller dtype would change are rejected. A histogram rounds scores
            and thresholds to it, so that a score that equals a threshold reaches it.
    """

    update_family: ClassVar[str | None] = "scores"
    is_differentiable = False

    def __init__(
        self,
        task: Task,
        /,
        thresholds: int | ArrayLike | Tensor | None = None,
        bins: int | None = None,
        score_dtype: torch.dtype = torch.float32,
        hardmax: bool = False,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_choice("score_dtype", score_dtype, SCORE_DTYPES)
        self.bins, self.score_dtype, self.hardmax = bins, score_dtype, hardmax
        self.levels, self.thresholds = threshold_plan(thresholds, bins, score_dtype)
        dtype = str(score_dtype).removeprefix("torch.")
        plan = {"thresholds": self.levels or None, "bins": bins, "score_dtype": dtype, "hardmax": hardmax}
        super().__init__(task, self._empty(task), {**task.config(), **plan}, **kwargs)

    _plan_methods = (*TaskMetric._plan_methods, "_keep", "_count")

    def _planner(self) -> Planner:
        choices = ("task", "score_dtype", "thresholds", "hardmax")
        return pair_planner(self.__dict__, choices, self._plan, cuda=self._plan)

    def _plan(self, form: Form) -> Plan | None:
        if form.preds not in FLOAT_TYPES or torch.promote_types(form.preds, self.score_dtype) != self.score_dtype:
            return None
        if self.exact:
            return records_plan(form, self.task, self.score_dtype, _target_dtype(self.task))
        return None if self.hardmax else histogram_plan(form, self.task, self.thresholds)

    @property
    def exact(self) -> bool:
        """Whether every score is kept."""
        return len(self.thresholds) == 0

    def _empty(self, task: Task) -> State:
        classes = task.classes
        if not self.exact:
            counts = torch.zeros((2, classes, len(self.thresholds) + 1), dtype=torch.float64)
            return Histogram(counts, torch.zeros(4, dtype=torch.int64), torch.tensor(math.inf, dtype=torch.float64))
        shape = (0,) if task.kind == "multiclass" else (0, classes)
        target = torch.empty(shape, dtype=_target_dtype(task))
        return ScoreRecords(torch.empty((0, classes), dtype=self.score_dtype), target, _NOTHING, seen_types())

    def _signature(self, **choices: Any) -> Signature:
        """The configuration and ``choices`` that ``update`` does not depend on."""
        shown = {"thresholds": grid_choice(self.levels)} if self.levels else {}
        return Signature({"metric": type(self).__name__, **self._identity.config, **shown, **choices})

    def update(self, preds: Values, target: Values, sample_weight: Values | None = None) -> None:
        """Adds a batch.

        Args:
            preds: scores of any floating dtype: ``[N, C, ...]`` with ``num_classes`` or ``num_labels``, else ``[N,
                ...]``.
            target: with ``num_classes`` class indices ``[N, ...]``, else 0 and 1 in the shape of ``preds``.
            sample_weight: ``[N]`` or one for each row, from 0 to 1e60. Where every score is kept, every update
                has weights or none has.

        Raises:
            InputError: naming the argument; ``score_dtype`` where every score is kept and rounding to it changes
                float64 scores. On CUDA, bad values (NaN scores, targets out of range, digits lost) are raised by
                ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        batch = score_batch(preds, target, self.task, sample_weight)
        if batch.target.shape[0] == 0:
            return
        if self.exact:
            self._keep(batch)
        else:
            self._count(batch)

    def _keep(self, batch: ScoreBatch) -> None:
        rounded = batch.scores.to(self.score_dtype, copy=True, memory_format=torch.contiguous_format)
        error = _first_bad_value(batch, rounded)
        if batch.scores.dtype == torch.float64 != self.score_dtype:
            changed = torch.where(_loses_digits(batch, rounded), ROUNDED_SCORES, NO_ERROR)
            error = torch.where(error == NO_ERROR, changed, error)
        deferred = self._raise_or_defer(error)
        scores, weights = self.metric_state["scores"], self.metric_state["weight"]
        weighted = batch.weight is not None
        # A compiled update adds no empty part. In its program, torch 2.6 can branch on a length alone.
        mixed = not weighted if weights and len(weights[-1]) > 0 else weighted
        if mixed and scores and len(scores[-1]) > 0:
            raise InputError(_MIXED)
        target = batch.target.to(_target_dtype(self.task), copy=True)
        weight = rounded.new_empty(0, dtype=torch.float64) if batch.weight is None else batch.weight.clone()
        self._add(ScoreRecords(rounded, target, weight, seen_types(batch.scores.dtype, rounded.device)), deferred)

    def _count(self, batch: ScoreBatch) -> None:
        wider = torch.promote_types(batch.scores.dtype, self.score_dtype) != self.score_dtype
        scores, outside = batch.decided() if self.hardmax or wider else (None, None)
        if scores is not None:
            scores = (winners(scores) if self.hardmax else scores).to(self.score_dtype if wider else scores.dtype)
            batch = ScoreBatch(replace(self.task, activation="none"), scores, batch.target, batch.weight)
        counts, error, found = probability_histogram(batch, self.thresholds)
        deferred = self._raise_or_defer(error)
        lightest = torch.ones((), dtype=torch.float64, device=counts.device)
        if batch.weight is not None:
            lightest = torch.where(batch.weight > 0, batch.weight, math.inf).amin()
        seen = samples_seen(batch, found if outside is None else outside)
        self._add(Histogram(counts.double(), seen, lightest), deferred)

    def _describe(self, error: int) -> str:
        if error != ROUNDED_SCORES:
            softmax = value_kind(error) == NAN_SCORE and not self._monotone
            return super()._describe(error) + (f", and {softmax_need(value_row(error))}" if softmax else "")
        name = str(self.score_dtype).removeprefix("torch.")
        return (
            f"score_dtype must be torch.float64 for preds of float64 that {name} changes, "
            f"since scores are kept and compared in score_dtype; or give preds.to(torch.{name})"
        )

    def _describe_error(self, code: int) -> str:
        return self._describe(code) if code == ROUNDED_SCORES else super()._describe_error(code)

    # ---------------------------------------------------------------------------------------------------- reductions

    @property
    def _monotone(self) -> bool:
        """Whether the activation keeps the order of scores, so that ranks need none of it."""
        how = self.task.activation
        return how in ("none", "sigmoid") or (how == "auto" and self.task.kind != "multiclass")

    def _ranked(self, state: ScoreRecords, pooled: bool) -> Ranked:
        """What the ops of ranks take; ``pooled`` makes one class of all elements."""
        if (weights := state.weight.shape[0]) not in (0, state.scores.shape[0]):
            raise InputError(_MIXED)
        weight = state.weight if weights else None
        scores = state.scores if self._monotone else self._probabilities(state)
        ranked = Ranked(scores, state.target, self.task.ignore_index, weight)
        return pool(ranked) if pooled else ranked

    @property
    def _pooled(self) -> int:
        """How many elements of a sample are ranked as rows of their own: all with ``average="micro"``."""
        return self.task.classes if getattr(self, "average", None) == "micro" else 1

    def _counts(self, state: ScoreRecords | Histogram) -> dict[str, int]:
        """Counts of samples for a result."""
        if isinstance(state, Histogram):
            samples, ignored = state.seen.tolist()[:2]
        else:
            samples, ignored = len(state.target), self._ignored(state.target)
        return {"samples": samples, "ignored": ignored}

    def _ignored(self, target: Tensor) -> int:
        return 0 if self.task.ignore_index is None else int((target == self.task.ignore_index).sum())

    def _probabilities(self, state: ScoreRecords, scores: Tensor | None = None) -> Tensor:
        """The activation of ``scores``, by default all; ``auto`` looks at all at once, the same for every split.

        It is that of a histogram, so that thresholds of a curve reach their own scores there: computed in the dtype
        in which scores came (of several, the one that holds them all), then rounded to ``score_dtype``.
        """
        wanted = state.scores if scores is None else scores
        if self.task.activation == "none":
            return wanted
        came = [dtype for dtype, mark in zip(FLOAT_TYPES, state.score_types.tolist()) if mark == 0]
        dtype = functools.reduce(torch.promote_types, came or [self.score_dtype])
        return ScoreBatch(self.task, state.scores, state.target).activated(wanted.to(dtype)).to(self.score_dtype)


class Ranked(NamedTuple):
    """Arguments of :func:`~valor_gpu.ops.ranks.op.auroc_and_ap` and its kin: ``scores [N, C]``, ``target [N]`` or
    ``[N, C]``, and ``weight [N]`` or None.
    """

    scores: Tensor
    target: Tensor
    ignore_index: int | None
    weight: Tensor | None


def pool(ranked: Ranked) -> Ranked:
    """Every element of ``[N, C]`` as a sample of one class (average ``micro``)."""
    target, ignore_index = ranked.target, ranked.ignore_index
    if target.ndim == 1:
        classes = torch.arange(ranked.scores.shape[1], device=target.device)
        hot = (target[:, None] == classes).to(torch.int8)
        if ignore_index is not None:
            hot = torch.where((target == ignore_index)[:, None], -1, hot)
            ignore_index = -1
        target = hot
    weight = None if ranked.weight is None else ranked.weight.repeat_interleave(ranked.scores.shape[1])
    return Ranked(ranked.scores.reshape(-1, 1), target.reshape(-1, 1), ignore_index, weight)


def winners(scores: Tensor) -> Tensor:
    """``scores [N, C]`` with -inf for all but the largest of each row, of equal ones the first; NaN stays.

    Example:
        >>> winners(torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.0, 0.5]]))
        tensor([[  -inf, 0.5000,   -inf],
                [0.5000,   -inf,   -inf]])
    """
    best = top_classes(scores).classes.long().clamp(min=0)
    lost = torch.full_like(scores, -math.inf).scatter(1, best, scores.gather(1, best))
    return torch.where(scores.isnan(), scores, lost)


def _first_bad_value(batch: ScoreBatch, scores: Tensor) -> Tensor:
    """Error code int64 ``[]`` of the first bad score, target or weight of a batch whose scores are all kept.

    A histogram without thresholds reads every value in one pass, on any device without synchronising; only its error
    is used, not its counts.
    """
    ignore_index = batch.task.ignore_index
    return histogram_of(scores, batch.target, _NOTHING, ignore_index=ignore_index, weight=batch.weight).error


def _loses_digits(batch: ScoreBatch, rounded: Tensor) -> Tensor:
    """Whether rounding changed a score that counts, bool ``[]``; does not synchronise with the device."""
    changed = rounded.double() != batch.scores
    if batch.task.ignore_index is not None:
        counts = batch.target != batch.task.ignore_index
        changed &= counts if counts.ndim == 2 else counts[:, None]
    return changed.any()


_MIXED = "sample_weight must be given to every update or to none, where every score is kept"


def _target_dtype(task: Task) -> torch.dtype:
    """The smallest integer dtype for the target values of ``task``, ``ignore_index`` among them."""
    top = task.classes - 1 if task.kind == "multiclass" else 1
    values = (0, top, task.ignore_index or 0)
    for dtype in _INTEGERS:
        limits = torch.iinfo(dtype)
        if limits.min <= min(values) and max(values) <= limits.max:
            return dtype
    return torch.int64
