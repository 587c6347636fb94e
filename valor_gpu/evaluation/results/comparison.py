"""Two runs row by row: differences with intervals, tests over all metrics at once, and the rows behind them.

No torch, no pandas.

Example:
    >>> import tempfile
    >>> from valor_gpu.store import Store, StoredRow, StoredScore
    >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
    ...     runs = [store.create_run(name, {}) for name in ("small", "large")]
    ...     for run, values in zip(runs, ([0.5, 0.25, 0.5], [0.75, 0.25, 1.0])):
    ...         added = run.add_rows([StoredRow(n, f"q{n}", {}) for n in (1, 2, 3)])
    ...         added = run.add_scores([StoredScore(n, "f1_score", 0, value) for n, value in enumerate(values, 1)])
    ...     found = compare_runs(runs[1], runs[0])
    ...     found.metrics["f1_score"].difference, found.rows(limit=1)[0]["key"]
    (0.25, 'q3')
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.results.compared_runs import Comparison
from valor_gpu.evaluation.results.config_difference import metric_warning
from valor_gpu.evaluation.results.joined_rows import Side, join_rows
from valor_gpu.evaluation.results.metric_comparison import Pair
from valor_gpu.evaluation.results.metric_summary import CONFIDENCE
from valor_gpu.evaluation.results.row_values import Floats, Ints
from valor_gpu.evaluation.results.summary import evaluator_infos, pool_of
from valor_gpu.evaluation.results.thresholds import Threshold, read_thresholds
from valor_gpu.stats.comparisons import adjust_holm
from valor_gpu.stats.means import mean_of_sample
from valor_gpu.stats.paired import PairedDifference, compare_paired
from valor_gpu.stats.pooled import compare_pooled
from valor_gpu.store.runs import Run

__all__ = ["Comparison", "compare_group", "compare_runs"]


class RunResult(Protocol):
    """Result of a run, such as an :class:`~valor_gpu.evaluation.EvaluationResult`.

    Attributes:
        run: of a store.
    """

    run: Run


def compare_runs(
    run: Run | RunResult,
    baseline: Run | RunResult,
    *,
    metrics: Collection[str] | None = None,
    cluster_column: str | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compares a run with a baseline, row by row.

    Rows are joined by their keys; repeats are averaged first, then the epochs of a row. Every metric that both runs
    have is compared over the rows with a number in both: mean difference with its BCa bootstrap interval, sign-flip
    p-value (exact for few rows), adjusted over all metrics (Holm). Pooled metrics are compared by their own number:
    rows are drawn, and swapped, with their counts.

    Args:
        run: of any store, or the result of a run.
        baseline: likewise.
        metrics: only these evaluators.
        cluster_column: column of the data of the run, such as a document or a patient: rows with one value are drawn,
            and swapped, as a whole. None: each row stands alone.
        confidence: of the intervals.
        resamples: of bootstrap and permutations.
        seed: of their random numbers.

    Raises:
        InputTypeError: something else than a run.
        InputError: the runs share no row, a metric is not in both, or a row has no value in ``cluster_column``.
    """
    options = {"confidence": confidence, "resamples": resamples, "seed": seed, "clusters": cluster_column}
    joined = _joined(_run_of("run", run), _run_of("baseline", baseline), metrics, options)
    return Comparison(*joined, cluster_column=cluster_column)


@arguments_of(compare_runs)
def compare_group(
    runs: Sequence[Run | RunResult],
    baseline: Run | RunResult | None = None,
    *,
    metrics: Collection[str] | None = None,
    cluster_column: str | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Comparison]:
    """Compares several runs, such as those of a grid of parameters, with one baseline.

    The p-values are adjusted over all metrics of all runs: the more runs are tried, the better the best one looks.

    Args:
        runs: of any store, or the results of runs, such as the list that :func:`~valor_gpu.evaluate` returns.
        baseline: likewise; None for the first of ``runs``, which is then compared with the others.

    Returns:
        A comparison for each run but the baseline, in their order.

    Raises:
        InputTypeError: something else than runs.
        InputError: fewer than one run beside the baseline; a run that shares no row with it; a metric that is not in
            both; a row without a value in ``cluster_column``.
    """
    given = [_run_of("runs", run) for run in runs]
    other = _run_of("baseline", baseline) if baseline is not None else next(iter(given), None)
    compared = [run for run in given if other is None or run.id != other.id]
    if other is None or not compared:
        raise InputError(f"runs must hold at least one run beside the baseline but hold {len(compared)}")
    options = {"confidence": confidence, "resamples": resamples, "seed": seed, "clusters": cluster_column}
    joined = [_joined(run, other, metrics, options) for run in compared]
    adjusted = iter(adjust_holm([each.difference.p_value for _, pairs, _ in joined for each in pairs]))
    return [
        Comparison(sides, pairs, only_in, [next(adjusted) for _ in pairs], cluster_column)
        for sides, pairs, only_in in joined
    ]


def _run_of(name: str, given: Any) -> Run:
    run = getattr(given, "run", given)
    if not isinstance(run, Run):
        raise InputTypeError(f"{name} must be a Run or an EvaluationResult but got {type(given).__name__}")
    return run


def _joined(
    run: Run, baseline: Run, metrics: Collection[str] | None, options: Any
) -> tuple[tuple[Side, Side], list[Pair], dict[str, list[str]]]:
    """Returns the shared rows, the numbers of shared metrics, and the names of the other metrics."""
    sides = join_rows(run, baseline)
    if options["clusters"] is not None:
        options = {**options, "clusters": sides[0].cells(options["clusters"])}
    infos = [{each["name"]: each for each in evaluator_infos(one)} for one in (run, baseline)]
    shared = [name for name in infos[0] if name in infos[1]]
    for name in metrics or ():
        if name not in shared:
            raise InputError(
                f"metrics must be in both runs but {name!r} is not{near_names(name, shared)}; both have {shared}"
            )
    limits = read_thresholds(run.config.get("thresholds"), list(infos[0].values()))
    pairs = [
        _pair(sides, infos[0][name], infos[1][name], limits.get(name), options)
        for name in shared
        if metrics is None or name in metrics
    ]
    only_in = {
        "run": [name for name in infos[0] if name not in infos[1]],
        "baseline": [name for name in infos[1] if name not in infos[0]],
    }
    return sides, pairs, only_in


def _pair(
    sides: tuple[Side, Side], info: dict[str, Any], other: dict[str, Any], threshold: Threshold | None, options: Any
) -> Pair:
    warning = metric_warning(info, other, sides[0].run.config, sides[1].run.config)
    run, baseline = (side.values(info["name"]) for side in sides)
    if info["pooled"]:
        difference, numbers = _pooled(sides, info, options)
    else:
        difference = _paired(run, baseline, options)
        both = ~(np.isnan(run) | np.isnan(baseline))
        numbers = (mean_of_sample(run[both]).mean, mean_of_sample(baseline[both]).mean)
    return Pair(info, warning, threshold, run, baseline, difference, numbers)


def _paired(run: Floats, baseline: Floats, options: Any) -> PairedDifference:
    with np.errstate(over="ignore"):
        overflows = bool(np.isinf(run - baseline).any())
    if not overflows:
        return compare_paired(baseline, run, **options)
    both = int((~(np.isnan(run) | np.isnan(baseline))).sum())
    reason = "a difference is beyond the largest float"  # which must not take the other metrics with it
    none = math.nan
    return PairedDifference(none, none, none, none, both, len(run) - both, options["confidence"], reason)


def _pooled(
    sides: tuple[Side, Side], info: dict[str, Any], options: Any
) -> tuple[PairedDifference, tuple[float, float]]:
    """Computes the difference of a pooled metric, and its numbers in the run and in the baseline."""
    (counts, epochs), (other, other_epochs) = (side.counts(info["name"]) for side in sides)
    both = (epochs > 0) & (other_epochs > 0)
    if not both.any():  # one of them has no counts, nor places for them
        counts = other = np.zeros((len(both), 1))
    tables = _weighted([counts[both], other[both]], [epochs[both], other_epochs[both]])
    pool = pool_of(info)

    def statistic(sums: Sequence[int]) -> float:
        value = pool(sums).value
        return math.nan if value is None else float(value)

    run, baseline = (statistic(each.sum(0).tolist()) if len(each) else math.nan for each in tables)
    if options["clusters"] is not None:
        options = {**options, "clusters": [options["clusters"][place] for place in np.flatnonzero(both)]}
    return compare_pooled(tables[1], tables[0], statistic, **options), (run, baseline)


def _weighted(sums: Sequence[Floats], epochs: Sequence[Ints]) -> list[Ints]:
    """Scales counts so that a row weighs the same in both runs, since the permutation test swaps rows."""
    tables = [each.astype(np.int64) for each in sums]
    if np.array_equal(epochs[0], epochs[1]):
        return tables
    common = math.lcm(*np.unique(np.concatenate(epochs)).tolist())
    return [table * (common // times)[:, None] for table, times in zip(tables, epochs)]
