"""What the values of one evaluator amount to: mean, errors, pass and defect rates, levels, spread of the judge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from valor_gpu.evaluation.results.row_values import Ints, RowValues
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.judge.metrics.severity import LEVELS
from valor_gpu.judge.statistics import variance_split
from valor_gpu.stats.means import Mean, interval_on_scale, mean_of_sample
from valor_gpu.stats.pooled import pooled_estimate
from valor_gpu.stats.proportions import Proportion, pass_rate

CONFIDENCE = 0.95
Pool = Callable[[Any], Any]
"""Sums of counts to the outcome of a corpus."""


def metric_summary(
    info: Mapping[str, Any], values: RowValues, clusters: Ints | None, threshold: Threshold | None
) -> dict[str, Any]:
    """Summarises the values of an evaluator.

    Args:
        info: of the evaluator, as in ``run.config["evaluators"]``.
        values: of the rows.
        clusters: of the rows with a value; None where rows are independent.
        threshold: that rows must reach, or None.

    Returns:
        Strict JSON: ``n`` rows with a value, ``n_scores``, ``n_without_score`` rows judged in vain, ``n_failed``
        (scores by status), ``mean``, ``standard_error``, ``interval`` of the mean, ``least``, ``most``; with a
        threshold ``pass_rate`` or, for severities, ``defect_rate`` with their intervals and counts; ``levels``;
        ``repeats``; ``reasons`` why a number is None.
    """
    n = len(values.values)
    found: dict[str, Any] = {
        "n": n,
        "n_scores": int(values.counts.sum()),
        "n_without_score": len(values.judged) - n,
        "n_failed": values.failures(),
        "mean": None,
        "standard_error": None,
        "interval": None,
        "least": float(values.values.min()) if n else None,
        "most": float(values.values.max()) if n else None,
        "reasons": {},
    }
    if not info["pooled"]:
        _add_mean(found, info, values, clusters)
    if threshold is not None:
        _add_rates(found, values, clusters, threshold, info["kind"] == "safety")
    if info["kind"] == "safety":
        edges = [*LEVELS.values(), math.inf]
        found["levels"] = dict(zip(LEVELS, np.histogram(values.values, edges)[0].tolist()))
    if values.repeated is not None and n:
        _add_repeats(found, values)
    return found


def _add_mean(found: dict[str, Any], info: Mapping[str, Any], values: RowValues, clusters: Ints | None) -> None:
    sample = mean_of_sample(values.values, clusters, CONFIDENCE)
    found["mean"] = number(sample.mean)
    found["standard_error"] = number(sample.standard_error)
    ends = _scale(info, found["least"], found["most"])
    _add_interval(found, sample, ends)
    if sample.n == 0:
        found["reasons"]["mean"] = "no row has a score"
    if sample.reason:
        found["reasons"]["standard_error"] = sample.reason if sample.n else "no row has a score"


def _scale(info: Mapping[str, Any], least: float | None, most: float | None) -> tuple[float | None, float | None]:
    """The ends of an evaluator's scale; without those that a value of the user's own evaluator goes beyond."""
    low, high = info["low"], info["high"]
    return (
        None if low is None or (least is not None and least < low) else low,
        None if high is None or (most is not None and most > high) else high,
    )


def _add_interval(found: dict[str, Any], sample: Mean, ends: tuple[float | None, float | None]) -> None:
    found["interval"] = interval(*interval_on_scale(sample, *ends))
    if found["interval"] is None and sample.standard_error == 0:
        found["reasons"]["interval"] = "nothing differs, on a scale without ends"


def _add_rates(
    found: dict[str, Any], values: RowValues, clusters: Ints | None, threshold: Threshold, is_severity: bool
) -> None:
    passed = threshold.passes(values.values)
    found["threshold"] = threshold.given
    found["direction"] = threshold.direction
    rate, what, count = ("defect_rate", ~passed, "n_defects") if is_severity else ("pass_rate", passed, "n_passed")
    proportion = clustered_rate(what, clusters)
    found[rate] = number(proportion.rate)
    found[f"{rate}_interval"] = interval(proportion.low, proportion.high)
    found[count] = proportion.successes
    if not len(what):
        found["reasons"][rate] = "no row has a score"


def clustered_rate(successes: Any, clusters: Ints | None) -> Proportion:
    """The fraction of True with Wilson's interval.

    Rows of one cluster are alike, so that n of them say less than n independent ones: the interval is that of as many
    independent trials as have the standard error of the clusters, at most n and at least 1.

    Args:
        successes: ``[n]`` booleans.
        clusters: ``[n]`` ids; None where rows are independent.
    """
    hits, n = int(np.count_nonzero(successes)), len(successes)
    if clusters is None or n == 0:
        return pass_rate(hits, n, CONFIDENCE)
    sample = mean_of_sample(np.asarray(successes, np.float64), clusters)
    variance = sample.standard_error**2
    effective = sample.mean * (1 - sample.mean) / variance if variance > 0 else float(sample.n_clusters)
    return pass_rate(hits, n, CONFIDENCE, min(max(effective, 1.0), float(n)))


def _add_repeats(found: dict[str, Any], values: RowValues) -> None:
    between, judge = variance_split(values.by_row())
    found["repeats"] = {
        "most": int(values.counts.max()),
        "row_variance": number(between),
        "judge_variance": number(judge),
        "judge_deviation": number(math.sqrt(judge)),
    }
    if math.isnan(between):
        found["reasons"]["row_variance"] = "it takes two rows with a score"


def pooled_summary(
    info: Mapping[str, Any], pool: Pool, counts: Ints, clusters: Ints | None, errors: bool = True
) -> dict[str, Any]:
    """The number of all rows together, of pooled evaluators.

    Args:
        info: of the evaluator.
        pool: gives the outcome of sums of counts.
        counts: of the rows, ``[n, places]``.
        clusters: of the rows; None where rows are independent.
        errors: compute the standard error, which takes a time of its own.

    Returns:
        ``value``, ``standard_error``, ``interval``, and why one is None under ``reasons``.
    """
    found: dict[str, Any] = {"value": None, "standard_error": None, "interval": None, "reasons": {}}
    if not len(counts):
        return {**found, "reasons": {"value": "no row has counts"}}
    outcome = pool([int(each) for each in counts.sum(0)])
    if outcome.value is None:
        return {**found, "reasons": {"value": outcome.reason}}
    found["value"] = outcome.value
    if not errors:
        return {**found, "reasons": {"standard_error": "left out for slices of pooled metrics"}}

    def statistic(sums: Sequence[int]) -> float:
        value = pool(sums).value
        return math.nan if value is None else float(value)

    sample = pooled_estimate(counts, statistic, clusters, CONFIDENCE)
    found["standard_error"] = number(sample.standard_error)
    found["reasons"] = {"standard_error": sample.reason} if sample.reason else {}
    _add_interval(found, sample, _scale(info, outcome.value, outcome.value))
    return found


def number(value: float) -> float | None:
    """A number as JSON: None for NaN and infinities."""
    return float(value) if math.isfinite(value) else None


def interval(low: float, high: float) -> list[float] | None:
    """An interval as JSON: None where it has no ends."""
    return [float(low), float(high)] if math.isfinite(low) and math.isfinite(high) else None
