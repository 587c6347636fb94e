"""Base classes of the metrics of a corpus: whole-number sums of counts over rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.plans import Planner, Step
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, check_elements, joined, summed
from valor_gpu.stats.row_samples import Pooled, RowSample
from valor_gpu.text.metric_base import NO_ROWS, References, Texts, as_rows, number_as_tensor, numbers_as_tensors

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import CorpusOptions, MetricOptions
    from valor_gpu.stats.intervals import Bootstrap


@dataclass(frozen=True)
class CorpusCounts(State):
    """Sums of counts over all rows.

    Attributes:
        counts: int64 ``[M]``.
        rows: int64 ``[]``, the number of rows.
    """

    counts: Tensor = summed()
    rows: Tensor = summed()

    def check(self, rule: Sequence[tuple[int, int]]) -> None:
        """Raises :class:`InputError` unless the counts are not negative, and 0 without a row.

        Args:
            rule: pairs of positions in ``counts``, of which the first is never above the second.
        """
        need = "be from 0 to 2^53" if int(self.rows) else "be 0 without rows"
        limit = 2**53 if int(self.rows) else 0
        check_elements("rows", self.rows, (self.rows >= 0) & (self.rows <= 2**53), "be from 0 to 2^53")
        check_elements("counts", self.counts, (self.counts >= 0) & (self.counts <= limit), need)
        for part, whole in rule:
            if int(self.counts[part]) > int(self.counts[whole]):
                raise InputError(f"state field counts[{part}] must be at most counts[{whole}] but is above it")


@dataclass(frozen=True)
class RowCounts(CorpusCounts):
    """Sums of counts over all rows, and the counts of every row.

    Attributes:
        row_counts: int64 ``[rows, M]``.
    """

    row_counts: Tensor = joined()

    def check(self, rule: Sequence[tuple[int, int]]) -> None:
        """Raises :class:`InputError` unless the counts are possible, and those of the rows have their sums."""
        super().check(rule)
        check_elements("row_counts", self.row_counts, self.row_counts >= 0, "be at least 0")
        check_elements(
            "rows", self.rows, self.rows == len(self.row_counts), f"be the rows of row_counts, {len(self.row_counts)}"
        )
        check_elements("counts", self.counts, self.counts == self.row_counts.sum(0), "be the sums of row_counts")


@dataclass(frozen=True)
class ScoredCounts(CorpusCounts):
    """Sums of counts over all rows, and the score of every row.

    Attributes:
        scores: float64 ``[rows]``.
    """

    scores: Tensor = joined()

    def check(self, rule: Sequence[tuple[int, int]]) -> None:
        """Raises :class:`InputError` unless the counts are possible, and every row has a finite score of at least 0."""
        super().check(rule)
        check_elements("scores", self.scores, (self.scores >= 0) & self.scores.isfinite(), "be finite and at least 0")
        check_elements("rows", self.rows, self.rows == len(self.scores), f"be the number of scores, {len(self.scores)}")


class CorpusMetric(Metric[CorpusCounts]):
    """Base of the metrics of a corpus, from whole-number sums; a subclass gives ``_counts`` and ``_values``.

    Args:
        size: M, how many sums are kept.
        config: the choices that counts depend on, by name.
        keep_rows: keep the counts of every row (8 M bytes) beside their sums, for intervals.
        kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`.
    """

    plot_lower_bound = 0.0
    plot_upper_bound: float | None = 1.0  # type: ignore[assignment]
    _takes_lists = True
    _state_rule: Sequence[tuple[int, int]] = ()

    def __init__(
        self, size: int, config: Mapping[str, Any], keep_rows: bool = False, **kwargs: Unpack[MetricOptions]
    ) -> None:
        check_type("keep_rows", keep_rows, bool)
        self.keep_rows = keep_rows
        self._choices = {**config, **({"keep_rows": True} if keep_rows else {})}
        super().__init__(self._empty(size), self._choices, **kwargs)

    def _empty(self, size: int) -> CorpusCounts:
        sums = torch.zeros(size, dtype=torch.int64), torch.zeros((), dtype=torch.int64)
        return RowCounts(*sums, torch.zeros((0, size), dtype=torch.int64)) if self.keep_rows else CorpusCounts(*sums)

    @abstractmethod
    def _row_counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        """int64 ``[N, M]`` of a batch."""

    def _counts(self, preds: Texts, target: References) -> NDArray[np.int64]:
        """int64 ``[M]`` of a batch."""
        total: NDArray[np.int64] = self._row_counts(preds, target).sum(0)
        return total

    @abstractmethod
    def _values(self, counts: list[int]) -> dict[str, float]:
        """The numbers of a corpus of at least one row."""

    def update(self, preds: str | Texts, target: str | References) -> None:
        """Counts rows and adds their counts.

        Args:
            preds: one text per row; a text alone is one row.
            target: for each row one text or several.

        Raises:
            InputError: a row is not text, or the lengths differ.
        """
        preds, target = as_rows(preds, target)
        sums, *scores = self._batch(preds, target)
        batch = (sums, torch.tensor(len(preds)), *scores)
        self._add(self._kind(*(tensor.to(self.error.device, non_blocking=True) for tensor in batch)))

    def _batch(self, preds: Texts, target: References) -> tuple[Tensor, ...]:
        """The sums of a batch, and where they are kept the counts or scores of its rows."""
        if self.keep_rows:
            rows = torch.from_numpy(np.ascontiguousarray(self._row_counts(preds, target), np.int64))
            return rows.sum(0), rows
        return (torch.from_numpy(np.ascontiguousarray(self._counts(preds, target), np.int64)),)

    def _planner(self) -> Planner:
        def step(base: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step | None:
            if kwargs or len(args) != 2:
                return None
            preds, target = as_rows(*args)
            sums, *scores = self._batch(preds, target)
            fields = {"counts": base["counts"] + sums, "rows": base["rows"] + len(preds)}
            return Step(fields, [("row_counts" if self.keep_rows else "scores", each) for each in scores])

        return step

    def _numbers(self, state: CorpusCounts) -> tuple[dict[str, float], int]:
        rows = int(state.rows)
        values = self._values(state.counts.tolist())
        return (values if rows else dict.fromkeys(values, float("nan"))), rows

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the numbers with their signature and the number of rows; NaN, with a reason, where there is none.

        Args:
            intervals: replicates of a bootstrap of rows, or its choices: every number gets an interval. The metric must
                have been made with ``keep_rows=True``.

        Raises:
            InputError: ``intervals`` is given to a metric that keeps no rows.
        """
        with self.synced_state() as state:
            result = self._result_of(state)
        return result if intervals is None else result.with_intervals(intervals)

    def _result_of(self, state: CorpusCounts) -> Result:
        values, rows = self._numbers(state)
        reasons = {name: "its divisor is 0" if rows else NO_ROWS for name, value in values.items() if value != value}
        choices = {name: choice for name, choice in self._choices.items() if name != "keep_rows"}
        signature = Signature({"metric": type(self).__name__, **choices})
        return Result(values, signature, {"rows": rows}, reasons, state=lambda: self._sample(state))

    def _sample(self, state: CorpusCounts) -> RowSample:
        """What the numbers are resampled from.

        Raises:
            InputError: the metric keeps no rows.
        """
        if not isinstance(state, RowCounts):
            made = f"{type(self).__name__}(keep_rows=True)"
            raise InputError(f"intervals and comparisons need the counts of every row: make the metric with {made}")
        return RowSample({}, [Pooled(state.row_counts.cpu().numpy(), self._values)])


class CorpusNumbers(CorpusMetric):
    """Base of several numbers of a corpus."""

    @gives_own_memory
    def compute(self) -> dict[str, Tensor]:
        """Returns the numbers of the corpus by name, float64 ``[]``; NaN without a row."""
        values, _ = self._numbers(self.state())
        return numbers_as_tensors(values, self.error.device)


class CorpusNumber(CorpusMetric):
    """Base of one number of a corpus."""

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the number, float64 ``[]``; NaN without a row or where its divisor is 0."""
        (value,) = self._numbers(self.state())[0].values()
        return number_as_tensor(value, self.error.device)


class ScoredCorpus(CorpusMetric):
    """Base of one number of a corpus, on request with that of every row; a subclass gives what reads counts of rows.

    Args:
        size: M, how many sums are kept.
        config: the choices that counts depend on, by name.
        return_sentence_level_score: keep the score of every row.
        kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`.
    """

    def __init__(
        self,
        size: int,
        config: Mapping[str, Any],
        return_sentence_level_score: bool = False,
        **kwargs: Unpack[CorpusOptions],
    ) -> None:
        check_type("return_sentence_level_score", return_sentence_level_score, bool)
        self.return_sentence_level_score = return_sentence_level_score
        given = {"return_sentence_level_score": True} if return_sentence_level_score else {}
        super().__init__(size, {**config, **given}, **kwargs)

    @abstractmethod
    def _row_scores(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64 ``[N]`` from the counts of rows."""

    def _empty(self, size: int) -> CorpusCounts:
        empty = super()._empty(size)
        if self.keep_rows or not self.return_sentence_level_score:
            return empty
        return ScoredCounts(empty.counts, empty.rows, torch.zeros(0, dtype=torch.float64))

    def _batch(self, preds: Texts, target: References) -> tuple[Tensor, ...]:
        if self.keep_rows or not self.return_sentence_level_score:
            return super()._batch(preds, target)
        counts = self._row_counts(preds, target)
        return torch.from_numpy(counts.sum(0)), torch.from_numpy(self._row_scores(counts))

    @gives_own_memory
    def compute(self) -> Tensor | tuple[Tensor, Tensor]:
        """Returns the number of the corpus, float64 ``[]``; NaN without a row.

        With ``return_sentence_level_score`` a tuple of it and of those of rows, float64 ``[N]``, of one row ``[]``.
        """
        state = self.state()
        (value,) = self._numbers(state)[0].values()
        number = number_as_tensor(value, self.error.device)
        if not self.return_sentence_level_score:
            return number
        if isinstance(state, RowCounts):
            scores = self._row_scores(state.row_counts.cpu().numpy())
            return number, torch.from_numpy(scores).to(self.error.device)
        return number, cast(ScoredCounts, state).scores.clone()
