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
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu._headline import headline
from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_choice, check_int, near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.results.comparison_lines import comparison_lines
from valor_gpu.evaluation.results.config_difference import config_differences, general_warnings, metric_warning
from valor_gpu.evaluation.results.jailbreak import jailbreak_json, jailbreak_rate
from valor_gpu.evaluation.results.joined_rows import Side, join_rows
from valor_gpu.evaluation.results.metric_comparison import Pair
from valor_gpu.evaluation.results.metric_summary import CONFIDENCE, number
from valor_gpu.evaluation.results.row_values import Floats, Ints, Mask
from valor_gpu.evaluation.results.summary import evaluator_infos, pool_of
from valor_gpu.evaluation.results.thresholds import Threshold, read_thresholds
from valor_gpu.stats.comparisons import adjust_holm
from valor_gpu.stats.means import mean_of_sample
from valor_gpu.stats.paired import PairedDifference, compare_paired
from valor_gpu.stats.pooled import compare_pooled
from valor_gpu.stats.proportions import Proportion
from valor_gpu.store.runs import Run

if TYPE_CHECKING:
    from valor_gpu.evaluation.result import EvaluationResult

ORDERS = ("change", "better", "worse")


class Comparison:
    """Two runs row by row; made by :func:`compare_runs`.

    Attributes:
        run: that is looked at.
        baseline: that it is compared with.
        metrics: name of the evaluator to its :class:`MetricComparison`.
        n: shared rows; answers to one question in several epochs are one.
        n_run_only: rows of the run that the baseline lacks; likewise ``n_baseline_only``.
        only_in: evaluators that one of both lacks: ``run`` and ``baseline`` to their names.
        differences: of the configurations: ``name``, ``run``, ``baseline``.
        warnings: what stands against comparing.
        jailbreak: fraction of shared rows that are more severe than in the baseline by any severity that both have,
            or None where there is none.
        confidence: of the intervals.
        cluster_column: column of the data whose rows of one value were drawn as a whole, or None.
    """

    def __init__(
        self,
        sides: tuple[Side, Side],
        pairs: Sequence[Pair],
        only_in: dict[str, list[str]],
        adjusted: Sequence[float] | None = None,
        cluster_column: str | None = None,
    ) -> None:
        self.cluster_column = cluster_column
        self._sides, self._pairs = sides, {each.info["name"]: each for each in pairs}
        run, baseline = sides
        self.run, self.baseline = run.run, baseline.run
        self.n = len(run.questions)
        self.n_run_only, self.n_baseline_only = run.n - self.n, baseline.n - self.n
        self.only_in = only_in
        self.differences = config_differences(self.run.config, self.baseline.config)
        if adjusted is None:
            adjusted = adjust_holm([each.difference.p_value for each in pairs])
        self.metrics = {each.info["name"]: each.compared(p) for each, p in zip(pairs, adjusted)}
        general = general_warnings(self.run.config, self.baseline.config)
        self.warnings = [*general, *(f"{each.name}: {each.warning}" for each in self.metrics.values() if each.warning)]
        severities = [(each.run, each.baseline) for each in pairs if each.info["kind"] == "safety"]
        self.jailbreak: Proportion | None = jailbreak_rate(severities) if severities else None
        self.confidence = pairs[0].difference.confidence if pairs else 0.95

    def rows(
        self, metric: str | None = None, *, limit: int = 20, order: str = "change", only_different: bool = True
    ) -> list[dict[str, Any]]:
        """Returns the shared rows that changed most.

        Args:
            metric: by which they are ordered; without one by the largest change of any, as a fraction of its scale.
            limit: at most so many.
            order: ``change`` (the largest first), ``better`` or ``worse`` (the best, the worst change first).
            only_different: leave out rows that have the same number, or none, in both runs.

        Returns:
            For each row ``key``, ``numbers`` of its rows in the run, ``inputs`` and ``outputs`` (of the first epoch),
            the same of the baseline with ``baseline_`` before it, and ``metrics``: name to ``run``, ``baseline``,
            ``difference``.

        Raises:
            InputError: no such metric or order, or an order that the metric does not have.
        """
        check_int("limit", limit, 1)
        check_choice("order", order, ORDERS)
        pairs = self._chosen(metric)
        if order != "change" and metric is None:
            pairs = [each for each in pairs if each.info["higher_is_better"] is not None]
        change = np.full(self.n, -math.inf)
        for each in pairs:
            change = np.fmax(change, each.change(order))
        kept = self._different(metric) if only_different else np.ones(self.n, bool)
        places = np.argsort(-change, kind="stable")
        return [self._row(int(place)) for place in places[kept[places]][:limit]]

    def n_different(self, metric: str | None = None) -> int:
        """How many shared rows have another number, or none, in one of the runs."""
        return int(self._different(metric).sum())

    def numbers(self) -> dict[str, float | None]:
        """Returns flat names and numbers, for gates.

        Every metric has ``delta_<name>``, the ends of its interval ``delta_<name>_low`` and ``delta_<name>_high``, and
        ``p_<name>``, which is adjusted. The names are those of the summary: ``delta_mean_f1_score``. Severities add
        ``jailbreak_defect_rate``.
        """
        found: dict[str, float | None] = {}
        for each in self.metrics.values():
            found[f"delta_{each.summary_name}"] = each.difference
            low, high = each.interval or (None, None)
            found |= {f"delta_{each.summary_name}_low": low, f"delta_{each.summary_name}_high": high}
            found[f"p_{each.summary_name}"] = each.p_adjusted
        if self.jailbreak is not None:
            found["jailbreak_defect_rate"] = number(self.jailbreak.rate)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows, as strict JSON."""
        return {
            "run": {"run_id": self.run.id, "name": self.run.name},
            "baseline": {"run_id": self.baseline.id, "name": self.baseline.name},
            "n": self.n,
            "n_run_only": self.n_run_only,
            "n_baseline_only": self.n_baseline_only,
            "n_different": self.n_different(),
            "metrics": {name: asdict(each) for name, each in self.metrics.items()},
            "only_in": self.only_in,
            "jailbreak": None if self.jailbreak is None else jailbreak_json(self.jailbreak),
            "differences": self.differences,
            "warnings": self.warnings,
            "confidence": self.confidence,
            "cluster_column": self.cluster_column,
        }

    def __repr__(self) -> str:
        changes = {name: metric.difference for name, metric in self.metrics.items()}
        return headline("Comparison", "differences", changes, {"rows": self.n})

    def __str__(self) -> str:
        return "\n".join(comparison_lines(self))

    def _chosen(self, metric: str | None) -> list[Pair]:
        if metric is None:
            return list(self._pairs.values())
        if metric not in self._pairs:
            raise InputError(
                f"metric must be one that both runs have but {metric!r} is none{near_names(metric, self._pairs)}"
            )
        return [self._pairs[metric]]

    def _different(self, metric: str | None) -> Mask:
        found: Mask = np.zeros(self.n, bool)
        for each in self._chosen(metric):
            found |= each.different
        return found

    def _row(self, place: int) -> dict[str, Any]:
        run, baseline = (side.row_numbers(place) for side in self._sides)
        ours, theirs = (
            next(iter(side.run.rows(numbers=found)), None) for side, found in zip(self._sides, (run, baseline))
        )
        metrics = {}
        for name, each in self._pairs.items():
            values = float(each.run[place]), float(each.baseline[place])
            found = {"run": number(values[0]), "baseline": number(values[1])}
            metrics[name] = {**found, "difference": number(values[0] - values[1])}
        return {
            "key": ours.key if ours else "",
            "numbers": run,
            "baseline_numbers": baseline,
            "inputs": ours.inputs if ours else {},
            "baseline_inputs": theirs.inputs if theirs else {},
            "outputs": ours.outputs if ours else {},
            "baseline_outputs": theirs.outputs if theirs else {},
            "metrics": metrics,
        }


def compare_runs(
    run: Run | EvaluationResult,
    baseline: Run | EvaluationResult,
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
    runs: Sequence[Run | EvaluationResult],
    baseline: Run | EvaluationResult | None = None,
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
    """The shared rows, the numbers of the metrics that both have, and the names of the others."""
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
    """The difference of a pooled metric, and its numbers in the run and in the baseline."""
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
    """Counts in which a row weighs the same in both runs: they are swapped, so that one may not count for two."""
    tables = [each.astype(np.int64) for each in sums]
    if np.array_equal(epochs[0], epochs[1]):
        return tables
    common = math.lcm(*np.unique(np.concatenate(epochs)).tolist())
    return [table * (common // times)[:, None] for table, times in zip(tables, epochs)]
