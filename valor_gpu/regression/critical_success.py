"""Critical success index: events above a threshold that were forecast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_dense, check_dtype, check_int, check_number, check_same_device, check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.metric import Metric
from valor_gpu.ops._launch import on_host
from valor_gpu.ops.moments.launches import NUMBER_TYPES
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.regression.plans import events_plan
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, check_elements, joined, summed
from valor_gpu.stats.cell_rows import CellRows
from valor_gpu.stats.counts import ResampledCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import Resampled

_OF_NUMPY = (torch.float32, torch.float64)
"""Dtypes that NumPy compares with a threshold as torch does."""
_NO_EVENT = "no prediction or target reaches the threshold"
_HIT, _MISS, _ALARM, _NEITHER, _NAN = range(5)
_SEQUENCES = (
    "intervals and comparisons need one number of all rows, but keep_sequence_dim gives one of each step: take"
    " keep_sequence_dim=None"
)


@dataclass(frozen=True)
class EventCounts(State):
    """Counts of numbers by what they are: hits, misses, false alarms, neither, NaN.

    Attributes:
        events: int64 ``[5]``.
    """

    events: Tensor = summed()

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless the counts are possible."""
        check_elements("events", self.events, (self.events >= 0) & (self.events <= 2**53), "be from 0 to 2^53")


@dataclass(frozen=True)
class StepCounts(EventCounts):
    """The same of each step of a sequence, one batch after another.

    Attributes:
        events: int64 ``[S, 5]``.
    """

    events: Tensor = joined()


@dataclass(frozen=True)
class EventRows(EventCounts):
    """The counts, and what they are of.

    Attributes:
        rows: int8 ``[N]``, the place in ``events`` of each number.
    """

    rows: Tensor = joined()

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless the counts are those of the rows."""
        super().check(rule)
        check_elements("rows", self.rows, (self.rows >= 0) & (self.rows <= _NAN), f"be a place from 0 to {_NAN}")
        found = torch.bincount(self.rows.long(), minlength=5)
        check_elements("events", self.events, self.events == found, "be the counts of the rows")


class CriticalSuccessIndex(Metric[EventCounts]):
    """Computes the critical success index, or threat score: hits / (hits + misses + false alarms).

    A number is an event if it reaches the threshold: a hit is one that is an event on both sides, a miss one of the
    target alone, a false alarm one of the prediction alone. Without any, ``compute`` gives 0 and :meth:`result` NaN. A
    NaN on either side makes the number NaN.

    Source: Schaefer, The critical success index as an indicator of warning skill, Weather and Forecasting 5, 1990.

    Args:
        threshold: from which on a number is an event, compared in the dtype of the numbers.
        keep_sequence_dim: a dimension whose every position has its own number; those of batches follow one another.
        keep_rows: also keep what each number is, a byte, for comparisons and clusters; not with ``keep_sequence_dim``.

    Raises:
        InputError: an argument is out of range.
        InputTypeError: an argument is of another type.

    Example:
        >>> metric = CriticalSuccessIndex(0.5)
        >>> metric.update(torch.tensor([0.8, 0.3, 0.6]), torch.tensor([0.9, 0.7, 0.7]))
        >>> metric.compute()
        tensor(0.6667)
    """

    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    _one_number = "keep_sequence_dim=None"

    def __init__(
        self,
        threshold: float,
        keep_sequence_dim: int | None = None,
        *,
        keep_rows: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_number("threshold", threshold)
        check_type("keep_rows", keep_rows, bool)
        if keep_rows and keep_sequence_dim is not None:
            raise InputError("keep_rows must be False with keep_sequence_dim, which has a number of each step")
        self.keep_rows = keep_rows
        if keep_sequence_dim is not None:
            check_int("keep_sequence_dim", keep_sequence_dim)
        self.threshold, self.keep_sequence_dim = float(threshold), keep_sequence_dim
        config = {"threshold": self.threshold, "keep_sequence_dim": keep_sequence_dim}
        counts = torch.zeros((0, 5) if keep_sequence_dim is not None else 5, dtype=torch.int64)
        empty = EventCounts(counts) if keep_sequence_dim is None else StepCounts(counts)
        if keep_rows:
            empty = EventRows(counts, torch.zeros(0, dtype=torch.int8))
        super().__init__(empty, {**config, **({"keep_rows": True} if keep_rows else {})}, **kwargs)

    def update(self, preds: Values, target: Values) -> None:
        """Counts a batch.

        Args:
            preds: predictions of any shape, numbers of any floating or integer dtype.
            target: likewise, of the same shape.

        Raises:
            InputError: naming the argument.
        """
        preds, target = as_values("preds", preds), as_values("target", target)
        for name, side in (("preds", preds), ("target", target)):
            check_dense(name, side)
            check_dtype(name, side, NUMBER_TYPES)
        if preds.shape != target.shape:
            shapes = f"{list(preds.shape)} and {list(target.shape)}"
            raise InputError(f"preds and target must have the same shape but have {shapes}")
        check_same_device(("preds", "target"), (preds, target))
        masks = _masks(preds, target, self.threshold)
        hits, events, forecasts, missing = map(self._count, masks)
        rows = preds.numel() // max(hits.numel(), 1)
        neither = rows - missing - events - forecasts + hits
        kept = (_places(*masks),) if self.keep_rows else ()
        self._add(self._kind(torch.stack((hits, events - hits, forecasts - hits, neither, missing), -1), *kept))

    def _planner(self) -> Planner | None:
        def make(form: Form) -> Plan | None:
            return None if self.keep_rows else events_plan(form, self.threshold, self.keep_sequence_dim)

        return pair_planner(self.__dict__, ("threshold", "keep_sequence_dim", "keep_rows"), make)

    def _count(self, mask: Tensor) -> Tensor:
        """How often a mask is true, int64 ``[]`` or ``[S]``."""
        kept = self.keep_sequence_dim
        if kept is None:
            return mask.count_nonzero()
        if kept >= mask.ndim:
            shape = list(mask.shape)
            raise InputError(f"keep_sequence_dim must be a dimension of preds but is {kept} and preds are {shape}")
        moved = mask.movedim(kept, 0)
        return moved.reshape(len(moved), math.prod(moved.shape[1:])).count_nonzero(1)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the index, float32 ``[]``, or ``[S]`` with ``keep_sequence_dim``."""
        events = self.state().events
        hits, misses, alarms, _, none = events.unbind(-1)
        total = hits + misses + alarms
        value = torch.where(total > 0, hits.double() / total.clamp(min=1), 0.0)
        return torch.where(none > 0, math.nan, value).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the index in float64, with counts of hits, misses, false alarms and other numbers.

        Args:
            intervals: replicates of a bootstrap of numbers, or its choices; its clusters need ``keep_rows=True``.

        Raises:
            InputError: ``intervals`` is given with ``keep_sequence_dim``, or where a number is NaN.
        """
        with self.synced_state() as state:
            events = state.events.cpu().numpy()
            rows = state.rows.cpu().numpy() if isinstance(state, EventRows) else None
        hits, misses, alarms, neither, none = (int(each) for each in events.reshape(-1, 5).sum(0))
        value: Any = _index(events)
        name, reasons = type(self).__name__, {}
        if np.isnan(value).any():
            reasons = {name: f"{none} numbers are NaN" if none else _NO_EVENT}
        counts = {"hits": hits, "misses": misses, "false_alarms": alarms, "neither": neither, "nan": none}
        config = {name: choice for name, choice in self._identity.config.items() if name != "keep_rows"}
        signature = Signature({"metric": name, **config})
        result = Result({name: value}, signature, counts, reasons, state=lambda: self._resampled(events, rows))
        return result if intervals is None else result.with_intervals(intervals)

    def _resampled(self, events: NDArray[np.int64], rows: NDArray[np.int8] | None) -> Resampled:
        if events.ndim == 2:
            raise InputError(_SEQUENCES)
        if events[4]:
            raise InputError(
                f"intervals and comparisons need numbers but {events[4]} are NaN: take them of the other rows alone"
            )
        name = type(self).__name__
        keeps = f"make the metric with {name}(keep_rows=True)"
        cells = ResampledCounts(events[None], lambda table: {name: float(_index(table[0]))}, keeps=keeps)
        if rows is None:
            return cells
        codes = rows.astype(np.int64)
        return CellRows(codes, [cells], [lambda kinds: kinds], lambda kinds: (kinds < _ALARM).astype(np.int64))


def _places(both: Tensor, true: Tensor, said: Tensor, missing: Tensor) -> Tensor:
    """Places in the counts of events, int8 ``[N]``."""
    found = torch.where(both, _HIT, torch.where(true, _MISS, torch.where(said, _ALARM, _NEITHER)))
    return torch.where(missing, _NAN, found).reshape(-1).to(torch.int8)


def _masks(preds: Tensor, target: Tensor, threshold: float) -> tuple[Tensor, ...]:
    """Where both are events, the target is one, the prediction is one, and where one of them is NaN."""
    sides = (preds.detach(), target.detach())
    if on_host("valor_cpu") and all(side.is_cpu and side.dtype in _OF_NUMPY for side in sides):
        said, true = (side.resolve_neg().numpy() for side in sides)  # NumPy compares ten times as fast as torch here
        with np.errstate(over="ignore"):  # a threshold that float32 does not hold
            return tuple(torch.from_numpy(np.asarray(mask)) for mask in _masks_of(said, true, threshold))
    return _masks_of(*sides, threshold)


def _masks_of(preds: Any, target: Any, threshold: float) -> tuple[Any, ...]:
    """The masks of tensors or arrays."""
    said, true, missing = preds >= threshold, target >= threshold, (preds != preds) | (target != target)
    there = ~missing
    return said & true, true & there, said & there, missing


def _index(events: NDArray[Any]) -> Any:
    """The index of counts ``[..., 5]``; NaN without events, or with a NaN."""
    total = events[..., :3].sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where((total > 0) & (events[..., 4] == 0), events[..., 0] / total, math.nan)
    return found if found.ndim else float(found)
