"""Base of the metrics of regression that are means or sums of scores of rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.ops.error_codes import raise_or_defer
from valor_gpu.ops.moments.kinds import WIDE, Kind
from valor_gpu.ops.moments.op import moments
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.reduce.exact_sums import exact, quotient, unit
from valor_gpu.regression.plans import mean_of_sum
from valor_gpu.regression.row_kernels import Scoring, native_row_sums, row_scores_plan
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, check_elements, check_rows, joined, least, on_host, summed
from valor_gpu.stats.row_samples import RowSample

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions
    from valor_gpu.stats.intervals import Bootstrap

REDUCTIONS = ("mean", "sum", "none", None)
_UNSEEN = 127  # largest int8, which merging by the minimum never keeps
_MOST_ROWS = 2**53
_MARKS = {
    torch.float32: torch.tensor(_UNSEEN, dtype=torch.int8),
    torch.float64: torch.tensor(0, dtype=torch.int8),
}
"""``wide`` of a batch of a dtype, which nobody may change."""


@dataclass(frozen=True)
class RowSums(State):
    """Exact sums of the scores of rows.

    Attributes:
        sums: int64 ``[2 K, limbs]``, of :func:`valor_gpu.ops.moments.op.moments`: of each of K scores the sum of what
            lies above 0 and the sum of what lies below it, without a sign.
        counts: int64 ``[K, 4]``: rows; those whose score is NaN, infinite and minus infinite.
        wide: int8 ``[]``, 0 where float64 came, else 127.
    """

    sums: Tensor = summed()
    counts: Tensor = summed()
    wide: Tensor = least()

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless the counts are possible, and sums are 0 where no score is finite."""
        check_elements("counts", self.counts, (self.counts >= 0) & (self.counts <= _MOST_ROWS), "be from 0 to 2^53")
        rows, other = self.counts[:, 0], self.counts[:, 1:].sum(1)
        check_elements("counts", self.counts, (other <= rows) & (rows == rows[0]), "be of the same rows")
        limbs = (self.sums.abs() <= 2**62) & ((rows > other).repeat(2)[:, None] | (self.sums == 0))
        check_elements("sums", self.sums, limbs, "be limbs of sums")
        check_elements("wide", self.wide, (self.wide == 0) | (self.wide == _UNSEEN), f"be 0 or {_UNSEEN}")


@dataclass(frozen=True)
class KeptSums(RowSums):
    """Exact sums of the scores of rows, and the scores.

    Attributes:
        scores: float64 ``[N, K]``.
    """

    scores: Tensor = joined()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("scores",)

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless the sums are those of the scores."""
        super().check(rule)
        sums, counts = _sums_of(self.scores)
        check_elements("counts", self.counts, self.counts == counts.to(self.counts.device), "be of the scores")
        same = exact(sums) == exact(self.sums)
        check_elements("sums", self.sums, torch.full_like(self.sums, same, dtype=torch.bool), "be of the scores")


@dataclass(frozen=True)
class RowScores(State):
    """Scores of rows, in their order.

    Attributes:
        scores: float64 ``[N, K]``.
        wide: int8 ``[]``, 0 where float64 came, else 127.
    """

    scores: Tensor = joined()
    wide: Tensor = least()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("scores",)

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless the mark is one."""
        check_elements("wide", self.wide, (self.wide == 0) | (self.wide == _UNSEEN), f"be 0 or {_UNSEEN}")
        check_rows("scores", self.scores, len(self.scores), "scores")


class RowMeans(Metric[Any]):
    """Base of the metrics of scores of rows; ``update`` of a subclass calls ``_kept`` or else ``_keep``.

    Sums are exact and rounded once, so that no order or split of the rows and no rank changes a bit of them. Scores are
    computed in float64.

    Args:
        names: of the K scores.
        config: the choices that scores depend on, by name.
        reduction: ``mean`` or ``sum`` over the rows; ``none`` or None keeps the score of every row, 8 bytes each.
        keep_rows: also keep the scores of every row, 8 bytes each, for intervals and comparisons.

    Raises:
        InputError: ``reduction`` is none of these, or ``keep_rows`` no bool.
    """

    names: tuple[str, ...]
    plot_lower_bound: float | None = 0.0
    _one_number = "reduction='mean'"

    def __init__(
        self,
        names: Sequence[str],
        config: Mapping[str, Any],
        reduction: str | None = "mean",
        *,
        keep_rows: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("reduction", reduction, REDUCTIONS)
        check_type("keep_rows", keep_rows, bool)
        self.reduction, self.keep_rows, self.names = reduction, keep_rows, tuple(names)
        self._choices = dict(config)
        kept = "rows" if reduction in ("none", None) else "sums and rows" if keep_rows else "sums"
        identity = {**config, "reduction": reduction or "none", "keep_rows": keep_rows}
        super().__init__(self._empty(kept), identity, **kwargs)

    def _empty(self, kept: str) -> State:
        count = len(self.names)
        scores, wide = torch.empty((0, count), dtype=torch.float64), torch.tensor(_UNSEEN, dtype=torch.int8)
        if kept == "rows":
            return RowScores(scores, wide)
        sums = torch.zeros((2 * count, WIDE), dtype=torch.int64), torch.zeros((count, 4), dtype=torch.int64)
        return KeptSums(*sums, wide, scores) if kept == "sums and rows" else RowSums(*sums, wide)

    @abstractmethod
    def _describe_error(self, code: int) -> str:
        """The message of an error code of ``_keep``."""

    @abstractmethod
    def _scoring(self) -> Scoring:
        """The native score of a row."""

    def _planner_by(self, *choices: str) -> Planner:
        """A planner whose plans depend on attributes, at least two."""
        return pair_planner(self.__dict__, choices, self._plan)

    def _plan(self, form: Form) -> Plan | None:
        return row_scores_plan(form, self._scoring(), _MARKS, *self._parts())

    def _parts(self) -> tuple[bool, bool]:
        """Whether the state has scores, and whether it has sums."""
        return self._kind is not RowSums, self._kind is not RowScores

    def _kept(self, first: Tensor, second: Tensor, wide: bool) -> bool:
        """Scores a batch by the library and adds it; False, and nothing happened, where it cannot, or a number is bad.

        Args:
            first: float32 or float64 ``[N, D]``, contiguous.
            second: ``[N, D]`` or ``[N]``, likewise.
            wide: whether an input was float64.
        """
        found = native_row_sums(first, second, self._scoring(), *self._parts())
        if found is None:
            return False
        mark = _MARKS[torch.float64 if wide else torch.float32]
        if self._kind is RowScores:
            self._add(self._kind(found.scores, mark))
        else:
            kept = (found.scores,) if self.keep_rows else ()
            self._add(self._kind(found.sums, found.counts, mark, *kept))
        return True

    def _keep(self, scores: Tensor, wide: bool, error: Tensor | None = None) -> None:
        """Adds the scores of a batch; the end of ``update``.

        Args:
            scores: float64 ``[N, K]``, which nobody else holds.
            wide: whether an input was float64.
            error: int64 ``[]``, a code of :meth:`_describe_error`.
        """
        deferred = None if error is None else raise_or_defer(error, self._describe_error)
        mark = torch.full((), 0 if wide else _UNSEEN, dtype=torch.int8, device=scores.device)
        if self._kind is RowScores:
            return self._add(RowScores(scores, mark), deferred)
        sums, counts = _sums_of(scores)
        kept = (scores,) if self.keep_rows else ()
        self._add(self._kind(sums, counts, mark, *kept), deferred)

    # ---------------------------------------------------------------------------------------------------- reductions

    @gives_own_memory
    def compute(self) -> Any:
        """Returns the number, ``[]``, or with ``reduction="none"`` that of every row, ``[N]``.

        It is float64 where float64 came, else float32; NaN where a row has no score, and for the mean of no row.
        """
        if self.reduction == "mean" and len(self.names) == 1 and self._kind is not RowScores:
            mean = mean_of_sum(self.__dict__, "wide", differences=True)
            if mean is not None:
                return mean if type(self)._shaped is RowMeans._shaped else self._shaped(mean[None])
        return self._shaped(self._computed_of(on_host(self.state())))

    def _computed_of(self, state: Any) -> Tensor:
        """``[K]``, or ``[N, K]`` without a reduction."""
        dtype = torch.float64 if int(state.wide) == 0 else torch.float32
        if isinstance(state, RowScores):
            return state.scores.to(dtype, copy=True)
        return torch.tensor(self._numbers(state), dtype=dtype, device=self.error.device)

    def _shaped(self, numbers: Tensor) -> Any:
        """The value of ``compute`` from ``[K]`` or ``[N, K]``; by default the only one of K."""
        return numbers[..., 0]

    def _numbers(self, state: RowSums) -> list[float]:
        """Means or sums, each rounded once."""
        sums, whole = exact(state.sums), unit(state.sums)
        counts = state.counts.tolist()
        above, below = sums[: len(counts)], sums[len(counts) :]
        return [
            _reduced(first - second, whole, count, self.reduction == "mean")
            for first, second, count in zip(above, below, counts)
        ]

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the number in float64 with the choices behind it, counts, and why it does not exist.

        Args:
            intervals: replicates of a bootstrap of rows, or its choices. The metric must have been made with
                ``keep_rows=True``, or with ``reduction="none"``, whose result has the mean.

        Raises:
            InputError: ``intervals`` is given to a metric that keeps no rows.
        """
        with self.synced_state() as state:
            result = self._result_of(state)
        return result if intervals is None else result.with_intervals(intervals)

    def _result_of(self, state: Any) -> Result:
        kept = state
        if isinstance(state, RowScores):
            kept = RowSums(*_sums_of(state.scores), state.wide)
        kept = on_host(kept)
        total = self.reduction == "sum"
        counts = kept.counts.tolist()
        numbers = self._numbers(kept) if self.reduction in ("mean", "sum") else _means(kept)
        reasons = {}
        for name, number, (rows, nan, *infinite) in zip(self.names, numbers, counts):
            if not math.isfinite(number):
                reason = f"{self._unscored}: {nan}" if nan else f"rows with an infinite score: {sum(infinite)}"
                reasons[name] = reason if rows else "no row was added"
        rows, nan, *infinite = (max(column) for column in zip(*counts))
        found = {"rows": rows, "nan_rows": nan, "infinite_rows": sum(infinite)}
        signature = Signature({"metric": type(self).__name__, **self._choices, "reduction": "sum" if total else "mean"})
        return Result(_nested(self.names, numbers), signature, found, reasons, state=lambda: self._sample(state))

    _unscored = "rows with NaN"
    """What a reason calls the rows that have no finite score."""

    def _sample(self, state: Any) -> RowSample:
        """What the numbers are resampled from.

        Raises:
            InputError: the metric keeps no rows.
        """
        if not isinstance(state, (KeptSums, RowScores)):
            made = f"{type(self).__name__}(keep_rows=True)"
            raise InputError(f"intervals and comparisons need the score of every row: make the metric with {made}")
        columns = state.scores.cpu().numpy().T
        return RowSample(dict(zip(self.names, columns)), scale=len(state.scores) if self.reduction == "sum" else 1.0)


def _sums_of(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The sums and counts of :class:`RowSums`."""
    sides = torch.cat((scores.clamp(min=0), scores.clamp(max=0)), 1)
    found = moments(sides, torch.zeros_like(sides), Kind.ABSOLUTE)
    above, below = found.counts.chunk(2)
    # A NaN is in both halves; an infinity in one of them, where an absolute value is never minus infinite.
    return found.sums[:, 0], torch.stack((above[:, 0], above[:, 1], above[:, 2], below[:, 2]), 1)


def _means(state: RowSums) -> list[float]:
    sums, whole, counts = exact(state.sums), unit(state.sums), state.counts.tolist()
    return [_reduced(sums[k] - sums[k + len(counts)], whole, count, True) for k, count in enumerate(counts)]


def _reduced(total: int, whole: int, counts: Sequence[int], mean: bool) -> float:
    """The mean or the sum of scores, of which some are not finite."""
    rows, nan, above, below = counts
    if nan or (above and below) or (mean and not rows):
        return math.nan
    if above or below:
        return math.inf if above else -math.inf
    return quotient(total, whole * (rows if mean else 1))


def _nested(names: Sequence[str], numbers: Sequence[float]) -> dict[str, Any]:
    """Numbers by name; what stands after ``/`` names a number of a mapping."""
    values: dict[str, Any] = {}
    for name, number in zip(names, numbers):
        first, _, rest = name.partition("/")
        if rest:
            values.setdefault(first, {})[rest] = number
        else:
            values[first] = number
    return values
