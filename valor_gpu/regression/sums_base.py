"""Base classes of the metrics of exact sums over pairs of numbers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_int, check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.metric import Metric
from valor_gpu.ops.error_codes import raise_or_defer
from valor_gpu.ops.moments.kinds import WIDE, Kind, limbs_for
from valor_gpu.ops.moments.op import Moments, describe_moment, moments
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.reduce.regression import Number, average, first_reason
from valor_gpu.regression.plans import mean_of_sum, moments_plan
from valor_gpu.regression.resampled_rows import Recipe, resampled_rows
from valor_gpu.regression.sums_state import (
    WIDE_VALUES,
    ExactSums,
    InferredSums,
    KeptInferredSums,
    KeptSums,
    Output,
    Rule,
    outputs_of,
    width_of,
)
from valor_gpu.regression.whole_numbers import (
    describe_rounding,
    differences_matter,
    exact_differences,
    rounding_error,
)
from valor_gpu.result import Result, Signature
from valor_gpu.state import on_host

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled

_OF_NUMBERS = ("sums", "counts", "lowest", "highest")
_BLOCKS = ("outputs_seen", "sums", "counts")


class SumsMetric(Metric[Any]):
    """Base of the metrics of exact sums over rows of predictions and targets.

    No order or split of the rows, no number of ranks and no device changes a bit of the sums, and the number is rounded
    from them once. It is float32, or float64 once a batch of float64 came. A row with NaN makes it NaN, and an infinite
    one infinite or NaN; :meth:`result` says how many there are.

    Args:
        choices: what the number depends on, by name.
        columns: D, outputs of the state; None: as many as the first batch has.
        parameter: of the kind of the sums.
        num_outputs: D: with 1, every number is a row, whatever the shape; else ``[N, D]``, and a number for each.
        keep_rows: also keep predictions and targets, 16 bytes a row and output, for intervals and comparisons.

    Raises:
        InputError: an argument is out of range; the message names it.
    """

    higher_is_better = False
    plot_lower_bound: float | None = 0.0
    kind: ClassVar[Kind]
    _averages = False  # whether the number is the mean over outputs
    _any_shape: ClassVar[bool] = False
    """Whether a single output takes numbers of any shape."""

    def __init__(
        self,
        choices: Mapping[str, Any],
        columns: int | None = 1,
        parameter: float = 0.0,
        keep_rows: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_type("keep_rows", keep_rows, bool)
        if columns is not None:
            check_int("num_outputs", columns, 1)
        self.keep_rows, self.parameter, self._columns = keep_rows, parameter, columns
        self._choices = dict(choices)
        self._state_rule = Rule(self.kind, parameter, keep_rows)
        empty = (
            (KeptInferredSums if keep_rows else InferredSums).nothing(self.kind.sums)
            if columns is None
            else (KeptSums if keep_rows else ExactSums).nothing(columns, self.kind.sums, limbs_for(columns))
        )
        super().__init__(empty, self._update_choices(), **kwargs)

    def _update_choices(self) -> dict[str, Any]:
        """What ``update`` depends on, as JSON values."""
        found: dict[str, Any] = {"sums": self.kind.name.lower(), "parameter": self.parameter, "outputs": self._columns}
        return {**found, "any_shape": self._any_shape, "keep_rows": self.keep_rows}

    def update(self, preds: Values, target: Values) -> None:
        """Adds a batch.

        Args:
            preds: predictions, numbers of any floating or integer dtype, int64 up to 2^53; errors of int64 beside whole
                numbers are exact, and must be at most 2^53, where they are all that counts and no rows are kept.
            target: likewise, of the same shape.

        Raises:
            InputError: naming the argument. On CUDA, bad values are raised by ``compute`` instead, since ``update``
                does not synchronise with the device.
        """
        self._add_rows(preds, target)

    def _planner(self) -> Planner | None:
        return pair_planner(self.__dict__, ("_identity", "_state_rule"), self._plan)

    def _plan(self, form: Form) -> Plan | None:
        try:
            shape = self._row_shape(form.preds_shape, form.target_shape, "target")
        except InputError:  # the checked path says what is wrong
            return None
        return moments_plan(form, self._state_rule, shape, self._limbs, self._columns is None)

    def _add_rows(self, preds: Values, target: Values, name: str = "target") -> None:
        p, t = self._pair(as_values("preds", preds), as_values(name, target), name)
        first, second, rounded = p, t, None
        if not self.keep_rows and differences_matter(p, t, self.kind):
            first, rounded = exact_differences(p, t)
            second = torch.zeros_like(first)
        else:
            rounded = rounding_error((p, t))
        deferred = None if rounded is None else raise_or_defer(rounded, self._describe_error)
        found = moments(first, second, self.kind, self.parameter, limbs=self._limbs)
        describe = partial(describe_moment, kind=self.kind, parameter=self.parameter, sides=(p, t))
        of_terms = raise_or_defer(found.error, describe)
        deferred = of_terms if of_terms is None or deferred is None else torch.minimum(of_terms, deferred)
        self._add(self._batch_state(found, p, t), deferred)

    @property
    def _limbs(self) -> int:
        return WIDE if self._columns is None else limbs_for(self._columns)

    def _pair(self, preds: Tensor, target: Tensor, name: str) -> tuple[Tensor, Tensor]:
        """Predictions and targets ``[N]`` or ``[N, D]``."""
        shape = self._row_shape(preds.shape, target.shape, name)
        return preds.reshape(shape), target.reshape(shape)

    def _row_shape(self, shape: torch.Size, other: torch.Size, name: str) -> torch.Size:
        """The shape of the rows of predictions and targets of such shapes."""
        if shape != other:
            raise InputError(f"preds and {name} must have the same shape but have {list(shape)} and {list(other)}")
        columns = self._columns
        if columns == 1 and self._any_shape:
            return torch.Size((shape.numel(),))
        one = columns in (1, None)
        if (len(shape) != 1 or not one) and (len(shape) != 2 or columns not in (shape[1], None)):
            raise InputError(f"preds must have shape {'[N] or ' * one}[N, {columns or 'D'}] but got {list(shape)}")
        return shape

    def _batch_state(self, found: Moments, preds: Tensor, target: Tensor) -> Any:
        width = width_of(preds.dtype, target.dtype, found.sums.device)
        columns = len(found.sums)
        kept = [(side if self.keep_rows else side[:0]).detach().double() for side in (preds, target)]
        # A copy, since the state shares no memory with its inputs.
        rows = [side.reshape(-1, columns).clone() for side in kept]
        if self._columns is not None:
            return self._kind.of_batch(found, width, *rows)
        places = torch.arange(columns, device=found.sums.device)
        return self._kind(places, found.sums, found.counts, width, *(side.reshape(-1) for side in rows))

    def _describe_error(self, code: int) -> str:
        return describe_rounding(code) or describe_moment(code, self.kind, self.parameter)

    @abstractmethod
    def _number(self, output: Output) -> Number:
        """The number of one output whose rows are all finite."""

    def _number_of_all(self, outputs: Sequence[Output]) -> Number | None:
        """The number over outputs; None: each has its own."""
        return None

    def _takes_mean(self) -> bool:
        """Whether the number of one output is the mean of the terms of rows."""
        return False

    def _of_infinite(self, output: Output) -> float:
        """The number where a row is infinite."""
        return math.nan

    def _numbers(self, outputs: Sequence[Output]) -> list[Number]:
        """The numbers, one over all outputs or one for each."""
        bad = [self._not_finite(output) for output in outputs]
        together = self._number_of_all(outputs) if not any(bad) else None
        if together is not None:
            return [together]
        each = [number or self._number(output) for number, output in zip(bad, outputs)]
        return [average(each)] if self._averages else each

    def _not_finite(self, output: Output) -> Number | None:
        """The number where a row is NaN or infinite; None: all rows are finite."""
        if output.nan:
            return Number(math.nan, f"{output.nan} of {output.rows} rows hold NaN or have no term")
        if output.infinite:
            return Number(self._of_infinite(output), f"{output.infinite} of {output.rows} rows are infinite")
        return None

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the number ``[]``, or one for each output ``[D]``: float32, of float64 numbers float64."""
        if self._takes_mean() and (mean := mean_of_sum(self.__dict__, "narrowest")) is not None:
            return mean
        state = self.__dict__  # a whole state, with fields that no number needs, takes as long as all of this
        narrowest, sums = state["narrowest"], state["sums"]
        if type(sums) is Tensor and sums.is_cpu and "state" not in state:
            outputs = outputs_of(*(state[name] for name in _OF_NUMBERS))
        else:
            whole = on_host(self.state())
            outputs, narrowest = whole.outputs(), whole.narrowest
        numbers = self._numbers(outputs)
        wide = torch.float64 if narrowest.item() == WIDE_VALUES else torch.float32
        device = state["error"].device
        if len(numbers) == 1:
            return torch.tensor(numbers[0].value, dtype=wide, device=device)
        return torch.tensor([number.value for number in numbers], dtype=wide, device=device)

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the number in float64 with the rows behind it: NaN, with a reason, where it does not exist.

        Several outputs have an array. ``nan_rows`` and ``infinite_rows`` count rows of every output.

        Args:
            intervals: replicates of a bootstrap of rows, or its choices. The metric must have been made with
                ``keep_rows=True``.

        Raises:
            InputError: ``intervals`` is given to a metric that keeps no rows, or a row is not finite.
        """
        with self.synced_state() as state:
            result = self._result_of(state)
        return result if intervals is None else result.with_intervals(intervals)

    def _result_of(self, state: Any) -> Result:
        outputs = on_host(state).outputs()
        numbers = self._numbers(outputs)
        name = type(self).__name__
        values: Any = numbers[0].shown if len(numbers) == 1 else np.array([number.shown for number in numbers])
        reason = first_reason(numbers)
        counts = {"rows": outputs[0].rows, "nan_rows": 0, "infinite_rows": 0}
        for output in outputs:
            counts["nan_rows"] += output.nan
            counts["infinite_rows"] += output.infinite
        signature = Signature({"metric": name, **self._choices})
        reasons = {name: reason} if reason else {}
        return Result({name: values}, signature, counts, reasons, state=lambda: self._resampled(state, reason))

    def _resampled(self, state: Any, reason: str) -> Resampled:
        """What the numbers are resampled from.

        Raises:
            InputError: the metric keeps no rows, or one of them is not finite.
        """
        if not self.keep_rows:
            made = f"{type(self).__name__}(keep_rows=True)"
            raise InputError(f"intervals and comparisons need the rows: make the metric with {made}")
        return resampled_rows(self._recipe(), *(side.cpu().numpy() for side in state.rows()))

    @abstractmethod
    def _recipe(self) -> Recipe:
        """How the number is made of rows."""


class InferredOutputs(SumsMetric):
    """Base of metrics with as many outputs as the first batch has: the blocks of batches are added up at once."""

    sums: list[Tensor]
    outputs_seen: list[Tensor]
    _added_up = frozenset(_BLOCKS)

    @property
    def _classes(self) -> int | None:  # type: ignore[override]
        """The number of outputs so far; None before the first batch."""
        return len(self.sums[0]) if self.sums else None

    def _planner(self) -> Planner | None:
        return super()._planner()  # plans stand for the ``_add`` of this class too: see ``Planned._plan_methods``

    def _batch_state(self, found: Moments, preds: Tensor, target: Tensor) -> Any:
        # A batch without rows does not say how many outputs there are.
        return super()._batch_state(found, preds, target) if len(preds) else self._kind.nothing(self.kind.sums)

    def _add(self, batch: Any, error: Tensor | None = None) -> None:
        if self.sums and len(batch.sums) not in (0, len(self.sums[0])):
            need = f"must have {len(self.sums[0])} outputs like the batches before"
            raise InputError(f"preds and target {need} but have {len(batch.sums)}")
        super()._add(batch, error)
        self._fold()

    def _from_elsewhere(self, parts: Mapping[str, list[Tensor]]) -> Mapping[str, list[Tensor]]:
        """Its blocks as one, which waits for a device; those of this process are added up by their lengths alone."""
        if all(len(block) == 1 for block in parts["outputs_seen"]):
            return parts
        none = self._kind.nothing(self.kind.sums)
        # Several blocks may have come as one: their values tell.
        whole = {name: torch.cat([getattr(none, name).to(self.error.device), *parts[name]]) for name in _BLOCKS}
        folded = replace(none, **whole).folded()
        return {**parts, **{name: [getattr(folded, name)] if len(folded.sums) else [] for name in _BLOCKS}}

    def _combine(self, base: Mapping[str, Any], parts: Mapping[str, list[Tensor]], updates: int) -> None:
        if len(sizes := {len(block) for block in (*base["sums"], *parts["sums"]) if len(block)}) > 1:
            low, *_, high = sorted(sizes)
            raise InputError(f"all batches must have the same number of outputs but one had {high} and another {low}")
        super()._combine(base, parts, updates)
        self._fold()

    def _planned_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        if self._wrappers:  # which look at the number of outputs that the checked path finds
            return None
        found = super()._planned_forward(args, kwargs)
        self._fold()
        return found

    def _fold(self) -> None:
        """Adds up the blocks of batches."""
        if len(self.sums) > 1 or (self.sums and not len(self.sums[0])):
            blocks = {name: [block for block in getattr(self, name) if len(block)] for name in _BLOCKS}
            if len(blocks["sums"]) > 1:
                added = {name: [torch.stack(blocks[name]).sum(0)] for name in ("sums", "counts")}
                blocks = {"outputs_seen": blocks["outputs_seen"][:1], **added}
            self.__dict__.update(blocks)
