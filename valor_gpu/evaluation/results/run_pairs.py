"""A run and its baseline: shared rows and means first, which take seconds of large runs, then the tests. No torch.

:func:`joined_pair` and :func:`with_tests` together are what ``compare_runs`` computes. Pages show the first while the
second goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.compared_runs import Comparison
from valor_gpu.evaluation.results.config_difference import metric_warning
from valor_gpu.evaluation.results.joined_rows import Side, join_rows
from valor_gpu.evaluation.results.metric_comparison import Pair
from valor_gpu.evaluation.results.row_values import Floats, Ints
from valor_gpu.evaluation.results.summary import evaluator_infos, pool_of
from valor_gpu.evaluation.results.thresholds import Threshold, read_thresholds
from valor_gpu.stats.means import mean_of_sample
from valor_gpu.stats.paired import PairedDifference, compare_paired
from valor_gpu.stats.pooled import compare_pooled
from valor_gpu.store.runs import Run

NOT_TESTED = "not tested yet"
"""Reason of a difference whose interval and p-value are still to come."""


@dataclass(frozen=True)
class PairOptions:
    """How differences are tested.

    Attributes:
        confidence: of the intervals.
        resamples: of bootstrap and permutations.
        seed: of their random numbers.
        cluster_column: column of the data of the run, or None.
    """

    confidence: float
    resamples: int
    seed: int
    cluster_column: str | None = None


@dataclass(frozen=True)
class RunPair:
    """A run and its baseline, joined.

    Attributes:
        sides: the run and the baseline.
        pairs: of the metrics that both have.
        only_in: evaluators that one of both lacks: ``run`` and ``baseline`` to their names.
        clusters: value of the cluster column of each shared row, or None.
        options: of the tests.
    """

    sides: tuple[Side, Side]
    pairs: Sequence[Pair]
    only_in: dict[str, list[str]]
    clusters: list[Any] | None
    options: PairOptions

    @property
    def p_values(self) -> list[float]:
        """The p-value of each metric; NaN where there is none."""
        return [each.difference.p_value for each in self.pairs]

    def comparison(self, adjusted: Sequence[float] | None = None) -> Comparison:
        """The comparison.

        Args:
            adjusted: p-value of each metric over all that are compared; None adjusts over these.
        """
        return Comparison(self.sides, self.pairs, self.only_in, adjusted, self.options.cluster_column)


def joined_pair(run: Run, baseline: Run, metrics: Collection[str] | None, options: PairOptions) -> RunPair:
    """Joins the rows of two runs, and computes the means of the metrics that both have; nothing is tested.

    Args:
        run: of a store.
        baseline: likewise.
        metrics: only these evaluators; None for all.
        options: of the tests.

    Raises:
        InputError: the runs share no row, a metric is not in both, or a row has no value in the cluster column.
    """
    sides = join_rows(run, baseline)
    clusters = None if options.cluster_column is None else sides[0].cells(options.cluster_column)
    infos = [{each["name"]: each for each in evaluator_infos(one)} for one in (run, baseline)]
    shared = [name for name in infos[0] if name in infos[1]]
    for name in metrics or ():
        if name not in shared:
            raise InputError(
                f"metrics must be in both runs but {name!r} is not{near_names(name, shared)}; both have {shared}"
            )
    limits = read_thresholds(run.config.get("thresholds"), list(infos[0].values()))
    pairs = [
        _pair(sides, infos[0][name], infos[1][name], limits.get(name), options.confidence)
        for name in shared
        if metrics is None or name in metrics
    ]
    only_in = {
        "run": [name for name in infos[0] if name not in infos[1]],
        "baseline": [name for name in infos[1] if name not in infos[0]],
    }
    return RunPair(sides, pairs, only_in, clusters, options)


def with_tests(joined: RunPair) -> RunPair:
    """Computes interval and p-value of every metric.

    Args:
        joined: as of :func:`joined_pair`.
    """
    return replace(joined, pairs=[_tested(joined, each) for each in joined.pairs])


def _pair(
    sides: tuple[Side, Side],
    info: Mapping[str, Any],
    other: Mapping[str, Any],
    threshold: Threshold | None,
    confidence: float,
) -> Pair:
    """Computes the numbers of a metric in both runs."""
    warning = metric_warning(info, other, sides[0].run.config, sides[1].run.config)
    run, baseline = (side.values(info["name"]) for side in sides)
    if info["pooled"]:
        both, tables = _tables(sides, info)
        statistic = _statistic(info)
        numbers = tuple(statistic(each.sum(0).tolist()) if len(each) else math.nan for each in tables)
    else:
        both = ~(np.isnan(run) | np.isnan(baseline))
        numbers = (mean_of_sample(run[both]).mean, mean_of_sample(baseline[both]).mean)
    n, none = int(both.sum()), math.nan
    change = numbers[0] - numbers[1]
    change = change if math.isfinite(change) else none
    untested = PairedDifference(change, none, none, none, n, len(run) - n, confidence, NOT_TESTED)
    return Pair(info, warning, threshold, run, baseline, untested, (numbers[0], numbers[1]))


def _tested(joined: RunPair, pair: Pair) -> Pair:
    options = {
        "confidence": joined.options.confidence,
        "resamples": joined.options.resamples,
        "seed": joined.options.seed,
        "clusters": joined.clusters,
    }
    if pair.info["pooled"]:
        return replace(pair, difference=_pooled(joined.sides, pair.info, options))
    return replace(pair, difference=_paired(pair.run, pair.baseline, options))


def _paired(run: Floats, baseline: Floats, options: Any) -> PairedDifference:
    with np.errstate(over="ignore"):
        overflows = bool(np.isinf(run - baseline).any())
    if not overflows:
        return compare_paired(baseline, run, **options)
    both = int((~(np.isnan(run) | np.isnan(baseline))).sum())
    reason = "a difference is beyond the largest float"  # which must not take the other metrics with it
    none = math.nan
    return PairedDifference(none, none, none, none, both, len(run) - both, options["confidence"], reason)


def _pooled(sides: tuple[Side, Side], info: Mapping[str, Any], options: Any) -> PairedDifference:
    """Computes the difference of a pooled metric."""
    both, tables = _tables(sides, info)
    if options["clusters"] is not None:
        options = {**options, "clusters": [options["clusters"][place] for place in np.flatnonzero(both)]}
    return compare_pooled(tables[1], tables[0], _statistic(info), **options)


def _tables(sides: tuple[Side, Side], info: Mapping[str, Any]) -> tuple[Any, list[Ints]]:
    """Returns which shared rows have counts in both runs, and these counts in the run and in the baseline."""
    (counts, epochs), (other, other_epochs) = (side.counts(info["name"]) for side in sides)
    both = (epochs > 0) & (other_epochs > 0)
    if not both.any():  # one of them has no counts, nor places for them
        counts = other = np.zeros((len(both), 1))
    return both, _weighted([counts[both], other[both]], [epochs[both], other_epochs[both]])


def _statistic(info: Mapping[str, Any]) -> Callable[[Sequence[int]], float]:
    """Returns the function that makes the number of a pooled metric out of sums of counts."""
    pool = pool_of(info)

    def statistic(sums: Sequence[int]) -> float:
        value = pool(sums).value
        return math.nan if value is None else float(value)

    return statistic


def _weighted(sums: Sequence[Floats], epochs: Sequence[Ints]) -> list[Ints]:
    """Scales counts so that a row weighs the same in both runs, since the permutation test swaps rows."""
    tables = [each.astype(np.int64) for each in sums]
    if np.array_equal(epochs[0], epochs[1]):
        return tables
    common = math.lcm(*np.unique(np.concatenate(epochs)).tolist())
    return [table * (common // times)[:, None] for table, times in zip(tables, epochs)]
