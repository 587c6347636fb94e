"""Stored evaluations of texts as models of a comparison: the numbers of ``compare_runs``, in a ComparisonResult."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from valor_gpu.comparison.built import built
from valor_gpu.comparison.choices import Choices
from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.comparison.families import Path, adjust_p_values
from valor_gpu.comparison.pairs import Pairs
from valor_gpu.comparison.sides import Side, text_run
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.result import run_provenance
from valor_gpu.evaluation.results.comparison import Comparison, compare_runs
from valor_gpu.evaluation.results.metric_comparison import MetricComparison
from valor_gpu.exports.signature import Signature
from valor_gpu.result import Result
from valor_gpu.stats.intervals import Interval
from valor_gpu.stats.paired_states import PERMUTATION_NULL, PairedNumber
from valor_gpu.stats.row_samples import RowSample
from valor_gpu.stats.units import Pairing
from valor_gpu.store.runs import Run


def compare_text_runs(
    models: Mapping[str, Any], pairs: Pairs, clusters: Any, choices: Choices, sliced: bool
) -> list[ComparisonResult]:
    """Compares stored evaluations of texts, row by row of the same key.

    Intervals, tests and what is left out are those of :func:`valor_gpu.evaluation.compare_runs`: p-values are of sign
    flips, or of swaps where counts of rows are added up. They are adjusted over the metrics of all pairs, by Holm in
    place of maxima. They are of as many flips as there are replicates, or of all where those are fewer: then a note has
    the smallest p-value.

    Args:
        models: runs, or results of runs, by their names.
        pairs: places of the first and of the second model of each pair.
        clusters: column of the data, or None.
        choices: of the comparison.
        sliced: whether slices are asked for, which runs of texts have none of here.

    Raises:
        InputTypeError: a model is no run of texts, or ``clusters`` is no column.
        InputError: slices are asked for; two runs share no row or no metric; or scores were made in different ways.
    """
    runs = [_run_of(name, model) for name, model in models.items()]
    if clusters is not None and not isinstance(clusters, str):
        raise InputTypeError(
            f"clusters must be the name of a column where runs of texts are compared but is {type(clusters).__name__}"
        )
    if sliced:
        raise InputError("by must be None where runs of texts are compared: give them slice_by for a summary by column")
    if choices.adjust == "max_t":  # sign flips have no replicates that all numbers share
        choices = replace(choices, adjust="holm")
    choices = replace(choices, permutations=choices.bootstrap.replicates if choices.permutations else 0)
    bootstrap, names = choices.bootstrap, list(models)
    made: dict[str, Any] = {
        "confidence": bootstrap.confidence,
        "resamples": bootstrap.replicates,
        "seed": bootstrap.seed,
    }
    found = [compare_runs(runs[two], runs[one], cluster_column=clusters, **made) for one, two in pairs]
    for each in found:
        _check_alike(each)
    numbers: list[dict[Path, PairedNumber]] = [
        {(metric.summary_name,): _number(metric, choices.permutations > 0) for metric in each.metrics.values()}
        for each in found
    ]
    flat = [(place, path) for place, pair in enumerate(numbers) for path in pair]
    p_values = adjust_p_values([numbers[place][path].p_value for place, path in flat], choices.adjust)
    adjusted: list[dict[Path, float]] = [{} for _ in found]
    for (place, path), p_value in zip(flat, p_values):
        adjusted[place][path] = p_value
    return [
        built(_sides(each, (names[one], names[two])), pair, p, _pairing(each), choices, _notes(each, choices), {})
        for each, (one, two), pair, p in zip(found, pairs, numbers, adjusted)
    ]


def _run_of(name: str, model: Any) -> Run:
    run = text_run(model)
    if run is None:
        kind = type(model.result if isinstance(model, Side) else model).__name__
        raise InputTypeError(f"{name} must be a run of texts, as another model is, or its result but is {kind}")
    return run


def _check_alike(found: Comparison) -> None:
    if not found.metrics:
        lists = " and ".join(", ".join(names) or "none" for names in found.only_in.values())
        raise InputError(f"runs must share a metric to be compared but have {lists}")
    for each in found.metrics.values():
        if each.warning:
            raise InputError(f"both sides must be made with the same choices but of {each.name} {each.warning}")


def _number(metric: MetricComparison, has_permutation: bool) -> PairedNumber:
    first, second, difference = (_float(each) for each in (metric.baseline, metric.run, metric.difference))
    p_value, error = _float(metric.p_value), _float(metric.standard_error)
    low, high = (math.nan, math.nan) if metric.interval is None else metric.interval
    reason = metric.reason if math.isnan(low) else ""
    test = ("exact " if metric.exact else "") + ("swap" if metric.pooled else "sign flip")
    return PairedNumber(
        first,
        second,
        difference,
        Interval(low, high, error, reason=reason),
        p_value,
        test,
        PERMUTATION_NULL,
        p_value if has_permutation else math.nan,
        statistic=difference / error if error else math.nan,
        spread=error,
    )


def _float(number: float | None) -> float:
    return math.nan if number is None else float(number)


def _sides(found: Comparison, names: tuple[str, str]) -> tuple[Side, Side]:
    """Both runs; the first is the baseline of the comparison."""
    left = {each.summary_name: each.n_missing for each in found.metrics.values() if each.n_missing}
    sides = []
    for name, run, which in zip(names, (found.baseline, found.run), ("baseline", "run")):
        values = {each.summary_name: _float(getattr(each, which)) for each in found.metrics.values()}
        reasons = {each.summary_name: each.reason for each in found.metrics.values() if each.reason}
        signature = Signature({"metric": "text", "run": run.id})
        result = Result(values, signature, {"rows": found.n}, reasons, provenance=run_provenance(run))
        sides.append(Side(name, result, RowSample({}), left_out=left))
    return sides[0], sides[1]


def _pairing(found: Comparison) -> Pairing:
    if found.cluster_column is None:
        return Pairing((), found.n, "rows", found.n)
    return Pairing((), max(each.n_clusters for each in found.metrics.values()), "clusters", found.n)


def _notes(found: Comparison, choices: Choices) -> Sequence[str]:
    notes = list(found.warnings)
    for count, which in ((found.n_baseline_only, "first"), (found.n_run_only, "second")):
        if count:
            rows = "1 row of the {0} run alone is" if count == 1 else f"{count:,} rows of the {{0}} run alone are"
            notes.append(f"{rows.format(which)} left out")
    for side, names in zip(("second", "first"), found.only_in.values()):
        if names:
            notes.append(f"of the {side} run alone: {', '.join(names)}")
    units = {each.n_clusters for each in found.metrics.values() if each.exact}
    for count in sorted(units):
        unit = "rows" if found.cluster_column is None else "clusters"
        notes.append(f"p of {count:,} {unit} is of all flips, the smallest {min(2 / 2**count, 1):.2g}")
    if len(found.metrics) > 1:
        notes.append(f"p_adjusted is over the metrics, by {choices.adjust}; p is of a metric alone")
    return notes
