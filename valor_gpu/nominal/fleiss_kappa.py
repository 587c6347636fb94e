"""Fleiss' kappa: how far several raters agree beyond chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_int
from valor_gpu.errors import InputError
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.metric import Metric
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import (
    NAN_SCORE,
    PREDICTION,
    first_error,
    raise_or_defer,
    value_kind,
    value_place,
    value_row,
)
from valor_gpu.reduce.fleiss import Ints, Kappa, fleiss_kappa, sums_of_rows
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, check_elements, joined
from valor_gpu.stats.row_samples import Pooled, RowSample

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions
    from valor_gpu.stats.intervals import Bootstrap

MODES = ("counts", "probs")
_MOST = 2**31 - 1
_NO_PAIRS = "no row has two raters"
_CERTAIN = "all raters chose one category"


@dataclass(frozen=True)
class Ratings(State):
    """How many raters chose each category of each row.

    Attributes:
        counts: int32 ``[M]``, of the categories of each row, row after row.
        categories: int32 ``[N]``, how many each row has.
    """

    counts: Tensor = joined()
    categories: Tensor = joined()

    def check(self, rule: Any) -> None:
        """Raises :class:`InputError` unless counts are not negative, and those of whole rows of one length."""
        check_elements("counts", self.counts, self.counts >= 0, "be at least 0")
        check_elements("categories", self.categories, self.categories > 0, "be at least 1")
        if len(self.categories):
            same = self.categories == self.categories[0]
            check_elements("categories", self.categories, same, "be the same for all rows")
        if int(self.categories.sum()) != len(self.counts):
            raise InputError(
                f"state field counts must have {int(self.categories.sum())} elements, as categories says, but has"
                f" {len(self.counts)}"
            )


class FleissKappa(Metric[Ratings]):
    """Computes Fleiss' kappa: how far several raters agree about rows beyond chance; 1 is full agreement, 0 chance.

    It is ``(P - Pe) / (1 - Pe)``: P is the mean over rows of the fraction of pairs of raters that agree, Pe the sum of
    the squared shares of the categories. Where rows have different numbers of raters, pairs and shares are fractions of
    those of their row, and every row counts alike; torchmetrics divides those of all rows by the largest number. It
    adds 0.00001 to the denominator, too, so that full agreement stays below 1. Where all raters chose one category, or
    no row has two raters, kappa is NaN; torchmetrics gives 0 for the first.

    Source: Fleiss, Measuring nominal scale agreement among many raters (1971); with different numbers of raters: Gwet,
    Handbook of inter-rater reliability (2014).

    Args:
        mode: ``counts``: ratings are numbers of raters; ``probs``: scores of each rater, who chooses the category of
            the largest, of equal ones the first.
        ignore_index: category whose ratings are left out, such as that of raters who could not tell.

    Raises:
        InputError: ``mode`` is neither, or ``ignore_index`` no category.

    Example:
        >>> metric = FleissKappa()
        >>> metric.update(torch.tensor([[3, 0], [1, 2], [2, 1], [1, 2]]))
        >>> metric.compute()
        tensor(-0.0286)
    """

    higher_is_better = True
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0

    def __init__(
        self, mode: str = "counts", *, ignore_index: int | None = None, **kwargs: Unpack[MetricOptions]
    ) -> None:
        check_choice("mode", mode, MODES)
        if ignore_index is not None:
            check_int("ignore_index", ignore_index)
        self.mode, self.ignore_index = mode, ignore_index
        empty = Ratings(torch.zeros(0, dtype=torch.int32), torch.zeros(0, dtype=torch.int32))
        super().__init__(empty, {"ignore_index": ignore_index}, **kwargs)

    def update(self, ratings: Values) -> None:
        """Adds a batch.

        Args:
            ratings: with ``counts`` integers ``[N, C]``, how many raters chose each of C categories; with ``probs``
                floats ``[N, C, R]``, the scores that each of R raters gave each category.

        Raises:
            InputError: naming the argument and position; another number of categories than before. On CUDA, bad values
                (negative counts, NaN scores) are raised by ``compute`` instead, since ``update`` does not synchronise
                with the device.
        """
        given = as_values("ratings", ratings)
        counts, error = _of_scores(given) if self.mode == "probs" else _of_counts(given)
        deferred = raise_or_defer(error, _describe)
        before = self.metric_state["categories"]
        if before and before[-1].is_cpu and len(before[-1]) and int(before[-1][-1]) != counts.shape[1]:
            raise InputError(_mixed({int(before[-1][-1]), counts.shape[1]}))
        counts = counts.to(torch.int32, copy=True, memory_format=torch.contiguous_format)
        if self.ignore_index is not None:
            if self.ignore_index >= counts.shape[1]:
                raise InputError(f"ratings must have category {self.ignore_index} but have {counts.shape[1]}, from 0")
            counts[:, self.ignore_index] = 0
        categories = torch.full((len(counts),), counts.shape[1], dtype=torch.int32, device=counts.device)
        self._add(Ratings(counts.reshape(-1), categories), deferred)

    def compute(self) -> Tensor:
        """Returns float32 ``[]``."""
        state = self.state()
        return torch.tensor(_kappa_of(*_table(state)).kappa, dtype=torch.float32, device=state.counts.device)

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns kappa in float64, observed and expected agreement, and the share of each category.

        Args:
            intervals: also give the interval of each number, from so many replicates of rows, or by all choices of a
                bootstrap.
        """
        with self.synced_state() as state:
            counts, raters = _table(state)
        found, samples = _kappa_of(counts, raters), len(counts)
        values: dict[str, Any] = {**_named(found), "shares": np.array(found.shares)}
        reason = _CERTAIN if not math.isnan(found.observed) else _NO_PAIRS
        reasons = {name: reason for name, value in values.items() if np.isnan(value).any()}
        held = {"samples": samples, "unrated": int((counts.sum(1) == 0).sum()), "ratings": int(counts.sum())}
        signature = Signature({"metric": "FleissKappa", **self._identity.config})
        result = Result(values, signature, held, reasons, state=partial(_resampled, counts, raters))
        return result if intervals is None else result.with_intervals(intervals)

    def _describe_error(self, code: int) -> str:
        return f"{_describe(code)} (the row is counted within its batch)"


def _describe(code: int) -> str:
    place = f"ratings[{value_row(code)}, {value_place(code)}]"
    return f"{place} must not be NaN" if value_kind(code) == NAN_SCORE else f"{place} must be from 0 to {_MOST}"


def _of_counts(ratings: Tensor) -> tuple[Tensor, Tensor]:
    """Counts of raters ``[N, C]``, and the first error."""
    if ratings.ndim != 2 or ratings.shape[1] < 1 or ratings.dtype not in INT_TYPES or ratings.dtype == torch.bool:
        raise InputError(
            f"ratings must be integers [N, C] with mode='counts' but got {ratings.dtype} {list(ratings.shape)}"
        )
    return ratings, first_error([((ratings < 0) | (ratings > _MOST), PREDICTION)])


def _of_scores(ratings: Tensor) -> tuple[Tensor, Tensor]:
    """Counts of raters ``[N, C]`` whose scores ``[N, C, R]`` are largest, and the first error."""
    if ratings.ndim != 3 or ratings.shape[1] < 1 or ratings.dtype not in FLOAT_TYPES:
        raise InputError(
            f"ratings must be floats [N, C, R] with mode='probs' but got {ratings.dtype} {list(ratings.shape)}"
        )
    chosen = ratings.detach().argmax(1, keepdim=True)
    counts = torch.zeros(ratings.shape, dtype=torch.int32, device=ratings.device).scatter_(1, chosen, 1).sum(2)
    return counts, first_error([(ratings.isnan().any(2), NAN_SCORE)])


def _mixed(sizes: set[int]) -> str:
    return f"ratings must have one number of categories in all updates but have {' and '.join(map(str, sorted(sizes)))}"


def _table(state: Ratings) -> tuple[Ints, list[int]]:
    """Counts ``[N, C]``, and the different numbers of raters above 0.

    Raises:
        InputError: updates had other numbers of categories.
    """
    sizes = set(state.categories.tolist())
    if len(sizes) > 1:
        raise InputError(_mixed(sizes))
    counts = state.counts.cpu().numpy().astype(np.int64).reshape(len(state.categories), max(sizes, default=0))
    return counts, [number for number in np.unique(counts.sum(1)).tolist() if number]


def _kappa_of(counts: Ints, raters: list[int]) -> Kappa:
    return fleiss_kappa(sums_of_rows(counts, raters).sum(0).tolist(), raters, counts.shape[1])


def _named(found: Kappa) -> dict[str, float]:
    return {"FleissKappa": found.kappa, "observed": found.observed, "expected": found.expected}


def _resampled(counts: Ints, raters: list[int]) -> RowSample:
    def numbers(sums: list[int]) -> dict[str, float]:
        found = fleiss_kappa(sums, raters, counts.shape[1])
        return {**_named(found), **{f"shares/{c}": share for c, share in enumerate(found.shares)}}

    ranges = {"FleissKappa": (-1.0, 1.0), "observed": (0.0, 1.0), "expected": (0.0, 1.0)}
    return RowSample({}, [Pooled(sums_of_rows(counts, raters), numbers)], ranges=ranges)
