"""One metric in two runs, row by row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.metric_summary import interval, number
from valor_gpu.evaluation.results.row_values import Floats, Ints, Mask
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.stats.paired import PairedDifference


@dataclass(frozen=True)
class MetricComparison:
    """One metric in two runs, over the rows that have a number in both.

    Attributes:
        name: of the evaluator.
        summary_name: of its number.
        higher_is_better: None where neither is.
        run: the number of the run; None where there is none.
        baseline: that of the baseline.
        difference: run less baseline.
        interval: of the difference, or None.
        p_value: how often so large a difference would come about if both were alike, or None.
        p_adjusted: the same over all metrics of the comparison (Holm).
        n: rows with a number in both.
        n_missing: the other shared rows.
        n_higher: rows whose number is higher in the run; likewise ``n_equal`` and ``n_lower``.
        verdict: ``better``, ``worse``, ``higher``, ``lower`` where ``p_adjusted`` is at most 1 - confidence, else
            ``not shown``; ``not comparable`` where there is a warning.
        threshold: of the run, or None; with it ``run_rate`` and ``baseline_rate``, the fractions of these rows that
            pass, and how many are ``broken`` (pass in the baseline alone) or ``fixed``.
        n_clusters: clusters of these rows, which were drawn as a whole; without clusters ``n``.
        exact: whether ``p_value`` is of all assignments of signs; else it is of random ones.
        standard_error: of the difference, or None.
        pooled: whether counts of rows are added up for the number; else it is a mean of rows.
        reason: why numbers are None.
        warning: why scores are not comparable.
    """

    name: str
    summary_name: str
    higher_is_better: bool | None
    run: float | None
    baseline: float | None
    difference: float | None
    interval: list[float] | None
    p_value: float | None
    p_adjusted: float | None
    n: int
    n_missing: int
    n_higher: int
    n_equal: int
    n_lower: int
    verdict: str
    threshold: float | str | None = None
    run_rate: float | None = None
    baseline_rate: float | None = None
    broken: int | None = None
    fixed: int | None = None
    n_clusters: int = 0
    exact: bool = False
    standard_error: float | None = None
    pooled: bool = False
    reason: str = ""
    warning: str = ""


@dataclass(frozen=True)
class Pair:
    """An evaluator's numbers of the shared rows, in both runs.

    Attributes:
        info: of the evaluator.
        warning: why scores are not comparable.
        threshold: of the run, or None.
        run: ``[n]`` numbers of the rows in the run; NaN where there is none.
        baseline: likewise.
        difference: of both, with interval and p-value.
        numbers: of all these rows, in the run and in the baseline.
    """

    info: Mapping[str, Any]
    warning: str
    threshold: Threshold | None
    run: Floats
    baseline: Floats
    difference: PairedDifference
    numbers: tuple[float, float]

    @property
    def both(self) -> Mask:
        """Which rows have a number in both runs."""
        found: Mask = ~(np.isnan(self.run) | np.isnan(self.baseline))
        return found

    @property
    def different(self) -> Mask:
        """Which rows have another number, or none, in one of the runs."""
        found: Mask = ~((self.run == self.baseline) | (np.isnan(self.run) & np.isnan(self.baseline)))
        return found

    @cached_property
    def scale(self) -> float:
        """Width of the metric's scale; of an unbounded metric the largest change of a row."""
        low, high = self.info["low"], self.info["high"]
        if low is not None and high is not None and math.isfinite(high - low):
            return float(high - low)
        with np.errstate(over="ignore"):
            return float(np.nanmax(np.abs(self.run - self.baseline), initial=0.0))

    def change(self, order: str, places: Ints | slice = slice(None)) -> Floats:
        """Change of rows as a fraction of the scale, so that the first of the order has the largest.

        Args:
            order: ``change``, ``better`` or ``worse``.
            places: of the rows among the shared ones; all by default.
        """
        scale = self.scale
        with np.errstate(over="ignore"):
            change = self.run[places] - self.baseline[places]
        if math.isinf(scale):
            change, scale = np.clip(change, -1e308, 1e308), 1e308
        found: Floats = change / (scale or 1.0)
        if order == "change":
            return np.abs(found)
        if self.info["higher_is_better"] is None:
            raise InputError(f"order must be 'change' for {self.info['name']}: neither higher nor lower is better")
        return found if (order == "better") == self.info["higher_is_better"] else -found

    def compared(self, adjusted: float) -> MetricComparison:
        """The comparison, with the p-value over all metrics."""
        found, both = self.difference, self.both
        run, baseline = self.run[both], self.baseline[both]
        return MetricComparison(
            name=self.info["name"],
            summary_name=self.info["summary_name"],
            higher_is_better=self.info["higher_is_better"],
            run=number(self.numbers[0]),
            baseline=number(self.numbers[1]),
            difference=number(found.difference),
            interval=interval(found.low, found.high),
            p_value=number(found.p_value),
            p_adjusted=number(adjusted),
            n=int(both.sum()),
            n_missing=int((~both).sum()),
            n_higher=int((run > baseline).sum()),
            n_equal=int((run == baseline).sum()),
            n_lower=int((run < baseline).sum()),
            verdict=self._verdict(adjusted),
            n_clusters=found.n_clusters,
            exact=found.exact,
            standard_error=number(found.standard_error),
            pooled=bool(self.info["pooled"]),
            reason=found.reason,
            warning=self.warning,
            **self._rates(),
        )

    def _verdict(self, adjusted: float) -> str:
        if self.warning:
            return "not comparable"
        if not adjusted <= 1 - self.difference.confidence:
            return "not shown"
        higher = self.difference.difference > 0
        if self.info["higher_is_better"] is None:
            return "higher" if higher else "lower"
        return "better" if higher == self.info["higher_is_better"] else "worse"

    def _rates(self) -> dict[str, Any]:
        if self.threshold is None or not self.both.any():
            return {} if self.threshold is None else {"threshold": self.threshold.given}
        run, baseline = (self.threshold.passes(side[self.both]) for side in (self.run, self.baseline))
        return {
            "threshold": self.threshold.given,
            "run_rate": float(run.mean()),
            "baseline_rate": float(baseline.mean()),
            "broken": int((baseline & ~run).sum()),
            "fixed": int((run & ~baseline).sum()),
        }
